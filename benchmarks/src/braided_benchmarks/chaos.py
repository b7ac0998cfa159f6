"""Kill a running join again and again; at the end nothing may be missing or doubled.

A child process runs a streaming join of three streams into Parquet files. It is killed (with its JVM) at
random moments and started again on the same checkpoint, until all input is joined. Workers may also kill
themselves in mid-task, executors of a cluster may be killed, and tasks may dawdle until Spark starts a second
attempt beside them. Then the files the sink has committed are compared with DuckDB's join of all
input. With two keys (a and b by one, b and c by another) the join runs in two stages; workers of both die.
With promises there are no windows; at the end the state must also hold just the rows that may still join.
With a limit memory has no room for all rows; with `--defer` merges wait, and what is owed at the end is asked
for. With `--optional` it is a left and an anti join, and what waits at the end is asked for. With
`--overload` results may be missing, and still none may be wrong or doubled.

    python -m braided_benchmarks.chaos --kills 20 --seed 1
    python -m braided_benchmarks.chaos --kills 5 --seed 1 --suicide --keys 2
    python -m braided_benchmarks.chaos --kills 10 --seed 1 --suicide --promises
    python -m braided_benchmarks.chaos --kills 10 --seed 1 --suicide --limit 100000 --defer
    python -m braided_benchmarks.chaos --kills 10 --seed 1 --suicide --optional --keys 2
    python -m braided_benchmarks.chaos --kills 10 --seed 1 --suicide --promises --optional
    python -m braided_benchmarks.chaos --kills 10 --seed 1 --suicide --as-of --keys 2
    python -m braided_benchmarks.chaos --keys 2 --overload '{"probes": 2000}' --freshness "9 seconds"
    python -m braided_benchmarks.chaos --kills 0 --executor-kills 3 --dawdle --master cluster
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import duckdb
import pyarrow.parquet as pq

from braided.testing.samples.files import committed_files
from braided_benchmarks.chaos_child import NO_TROUBLE, Pass, Trouble, session, streams, troubled
from braided_benchmarks.chaos_work import LAST_KEY, AsOfs, Ended, Optional, Promised, Windowed, Work
from braided_benchmarks.children import after_some_batches, start_child, to_the_end
from braided_benchmarks.cluster import cluster


@dataclass(frozen=True)
class Live:
    """Rows in the state at the end: how many there are, how many should be, and of how many."""

    rows: int
    wanted: int
    seen: int

    def __str__(self) -> str:
        share = self.rows / self.seen
        return f"live {self.rows:,} of {self.seen:,} rows ({share:.1%}), {self.wanted:,} expected"


@dataclass(frozen=True)
class Report:
    """What came out of a campaign."""

    kills: int
    starts: int
    expected: int
    missing: int
    doubled: int
    seconds: float
    executor_kills: int = 0
    second_attempts: int = 0
    live: Live | None = None
    spilled: int | None = None  # most rows in cold groups, where there is a budget
    owed: int = 0  # results that were asked for at the end
    lossy: bool = False  # whether results may be missing

    @property
    def right(self) -> bool:
        """Whether the sink, and the state if it was looked at, hold what they should."""
        found = self.missing < self.expected if self.lossy else self.missing == 0
        return found and self.doubled == 0 and (self.live is None or self.live.rows == self.live.wanted)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.starts} starts, {self.executor_kills} executors killed, "
            f"{self.second_attempts} batches with two attempts at once, {self.seconds:.0f} s: "
            f"{self.expected:,} results expected, missing {self.missing}, doubled {self.doubled}"
            + (f"; {self.live}" if self.live else "")
            + (f"; cold {self.spilled:,} rows, owed at the end {self.owed:,}" if self.spilled else "")
        )


ONE_KEY = Windowed()


def campaign(
    root: Path,
    *,
    kills: int,
    seed: int,
    batches: int,
    trouble: Trouble = NO_TROUBLE,
    executor_kills: int = 0,
    master: str = "local[2,4]",
    work: Work = ONE_KEY,
) -> Report:
    """Generate input, run and kill until everything is joined, compare.

    The master "cluster" is a cluster of real processes, made for this campaign.
    """
    if master == "cluster":
        options: dict[str, Any] = {"trouble": trouble, "executor_kills": executor_kills, "work": work}
        with cluster(2, root / "cluster.log") as address:
            return campaign(root, kills=kills, seed=seed, batches=batches, master=address, **options)
    rng = random.Random(seed)
    began = time.perf_counter()
    work.generate(root, batches, seed)
    executors = 0

    def until(child: Popen[bytes], *, kill: bool) -> None:
        nonlocal executors
        while executors < executor_kills and after_some_batches(child, root, batches, rng):
            executors += _kill_executor(rng)
        if kill:
            after_some_batches(child, root, batches, rng)

    log = root / "child.log"
    done = to_the_end(lambda: start(root, master, trouble, work), log, kills, until)
    missing, doubled, expected = compare(root, work)
    seconds, seconds_begun = time.perf_counter() - began, len(list(root.glob("second-attempt-*")))
    spilled = int((root / "spilled").read_text()) if (root / "spilled").exists() else None
    owed = sum(pq.read_metadata(path).num_rows for path in (root / "owed").glob("*.parquet"))
    return Report(
        done, done + 1, expected, missing, doubled, seconds, executors, seconds_begun, live(root, work),
        spilled, owed, work.lossy,
    )  # fmt: skip


def start(root: Path, master: str, trouble: Trouble, work: Work) -> Popen[bytes]:
    """A child that joins all files and ends."""
    command = ["-m", "braided_benchmarks.chaos", "--child", str(root), "--master", master]
    return start_child([*command, *trouble.flags, *work.flags], root / "child.log")


def _kill_executor(rng: random.Random) -> int:
    """Kill an executor that this campaign's cluster started; how many were found to kill."""
    executors = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            grandparent = int(Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        mine = os.getpid() in (parent, grandparent)  # campaign -> worker -> executor
        if mine and b"CoarseGrainedExecutorBackend" in command:
            executors.append(int(process.name))
    if not executors:
        return 0
    os.kill(rng.choice(executors), signal.SIGKILL)
    return 1


def compare(root: Path, work: Work) -> tuple[int, int, int]:
    """Missing and doubled rows against DuckDB, and how many there should be."""
    got: Counter[Any] = Counter()
    for path in [*committed_files(root / "out"), *(root / "owed").glob("*.parquet")]:
        table = pq.read_table(path, columns=list(work.columns))
        got.update(zip(*(table[c].to_pylist() for c in work.columns), strict=True))
    wanted = Counter(_asked(root, work, work.wanted))
    return (wanted - got).total(), (got - wanted).total(), wanted.total()


def live(root: Path, work: Work) -> Live | None:
    """What the state holds at the end, if that can be told from the input."""
    if work.live is None:
        return None
    (wanted, seen), *_ = _asked(root, work, work.live)
    return Live(int((root / "live").read_text()), int(wanted), int(seen))


def _asked(root: Path, work: Work, question: str) -> list[tuple[Any, ...]]:
    """DuckDB's answer, over all input."""
    with duckdb.connect() as db:
        for name in work.schemas:
            db.register(name, pq.read_table(root / name))
        found: list[tuple[Any, ...]] = db.sql(question).fetchall()
        return found


def child(root: Path, master: str, trouble: Trouble, work: Work) -> None:
    """Run the join to its end."""
    from pyspark.sql import DataFrame  # noqa: PLC0415

    import braided as bd  # noqa: PLC0415
    from braided.spark import pipeline  # noqa: PLC0415

    spark = session(master)
    frames = streams(spark, root, work.schemas)
    if trouble.flags:  # in a first stage, too: what it hands on is packed in the same task
        plain = pipeline._sent
        pipeline._sent = lambda df, packer: plain(df, _behind(packer, troubled(root, trouble), packer))
    joined: DataFrame = bd.spark.join(work.query(), frames, buckets=4)
    if trouble.flags:
        joined = joined.mapInArrow(troubled(root, trouble), joined.schema)
    writer = joined.writeStream.format("parquet").option("path", str(root / "out"))
    streaming = (
        writer.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    )
    streaming.awaitTermination()
    if work.query().memory is not None:
        cold = [_spilled(json.loads(p.json)) for p in streaming.recentProgress]
        (root / "spilled").write_text(str(max(cold, default=0)))
    if work.defer:
        bd.spark.finish(str(root / "checkpoint")).write.mode("overwrite").parquet(str(root / "owed"))
    if work.live is not None:
        rows = bd.spark.inspect_state(str(root / "checkpoint")).rows
        (root / "live").write_text(str(sum(rows.values())))
    spark.stop()


def _spilled(progress: dict[str, Any]) -> int:
    """Rows in cold groups after a batch."""
    from braided.spark.measures import metrics_of  # noqa: PLC0415

    seen = metrics_of([progress], query_id="", active=False)
    spilled = [s.spilled_rows for s in seen.streams.values()]
    return sum(spilled + [i.spilled_rows for i in seen.intermediates.values()])


def _behind(pack: Pass, trouble: Pass, packer: Any) -> Pass:
    """What packs rows between two stages, with trouble behind it; other packing as it is."""
    return (lambda batches: trouble(pack(batches))) if packer.func.__name__ == "repack" else pack


def _work(given: argparse.Namespace) -> Work:
    """What is joined, as the options say."""
    if given.as_of:
        return AsOfs(given.keys)
    if given.promises:
        return Ended() if given.optional else Promised()
    if given.optional:
        return Optional(given.keys)
    return Windowed(given.keys, given.limit, given.defer, given.overload, given.freshness)


def main() -> None:
    """The campaign, from the command line."""
    options = argparse.ArgumentParser(description="Kill a running join; nothing may be missing or doubled.")
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--batches", type=int, default=60)
    options.add_argument("--executor-kills", type=int, default=0, help="needs the master cluster")
    options.add_argument("--suicide", action="store_true", help="workers kill themselves, too")
    options.add_argument("--dawdle", action="store_true", help="tasks wait until a second attempt runs")
    options.add_argument("--master", default="local[2,4]", help='Spark\'s master, or "cluster"')
    options.add_argument("--keys", type=int, choices=LAST_KEY, default=1, help="two make two stages")
    options.add_argument("--promises", action="store_true", help="punctuated streams without windows")
    options.add_argument("--optional", action="store_true", help="a left and an anti join")
    options.add_argument("--as-of", action="store_true", help="two as-of streams")
    options.add_argument("--limit", type=int, default=0, help="bytes of memory")
    options.add_argument("--defer", action="store_true", help="with a limit: merges wait")
    options.add_argument("--overload", default="", help="options of `Overload`, as JSON")
    options.add_argument("--freshness", default="", help="of all streams")
    options.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    trouble = Trouble(given.suicide, given.dawdle)
    work = _work(given)
    if given.child is not None:
        child(given.child, given.master, trouble, work)
        return
    with tempfile.TemporaryDirectory(prefix="braided-chaos-") as folder:
        report = campaign(
            Path(folder), kills=given.kills, seed=given.seed, batches=given.batches, trouble=trouble,
            executor_kills=given.executor_kills, master=given.master, work=work,
        )  # fmt: skip
    print(report)
    sys.exit(0 if report.right else 1)


if __name__ == "__main__":
    main()
