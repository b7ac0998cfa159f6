"""A burst on Spark: rows double for twenty batches, and a target batch time is to be kept.

Runs over the same files, each in a process of its own: an exact one (how long batches take then, and what
they find), one with `Overload(target_batch=...)`, and two with `Overload(probes=...)`, of which one is killed
again and again. These two have one bucket: which part of the probes each of several gets is decided while a
run goes on, and holds from the next batch that is planned, so two runs may find different results. So may
they if their batches differ: a run that is killed while a batch is planned may get two files of a stream in
it, and is begun again.

Printed are the batch times against the target, how the budget moved, whether what was found is a subset of
what is to be found, since which batch it is all of it again, and whether the killed run found the same as the
other.

    python -m braided_benchmarks.burst --plan linear
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from braided.testing.samples.files import add_file, committed_files
from braided_benchmarks.children import committed, start_child, to_the_end

NAMES = ("a", "b", "c")
SECOND_US = 1_000_000
_TRIES = 4
EPOCH_US = 1_700_000_000 * SECOND_US


@dataclass(frozen=True)
class Load:
    """Rows of each stream in each batch: calm, twice as many, calm again."""

    rows: int = 6_000
    keys: int = 5_000
    window_s: int = 3
    before: int = 12
    burst: int = 20
    after: int = 12
    seed: int = 1

    @property
    def sizes(self) -> list[int]:
        """Batch by batch."""
        return [self.rows] * self.before + [2 * self.rows] * self.burst + [self.rows] * self.after

    def generate(self, root: Path) -> None:
        """One file of each stream for each batch, a second of event time."""
        rng = np.random.default_rng(self.seed)
        for name in NAMES:
            number = 0
            for at, rows in enumerate(self.sizes):
                times = EPOCH_US + at * SECOND_US + np.sort(rng.integers(0, SECOND_US, rows))
                table = pa.table(
                    {
                        "k": rng.integers(0, self.keys, rows),
                        "t": pa.array(times, pa.timestamp("us", tz="UTC")),
                        "v": np.arange(number, number + rows),
                    }
                )
                number += rows
                add_file(root / name, at, table)


@dataclass(frozen=True)
class Run:
    """A run's folder, the seconds of its batches, and what its metrics said after each."""

    root: Path
    seconds: list[float] = field(default_factory=list)
    budgets: list[int | None] = field(default_factory=list)
    exact_again: list[int | None] = field(default_factory=list)


def run(
    root: Path,
    name: str,
    plan: str,
    overload: dict[str, Any],
    *,
    buckets: int = 4,
    kills: int = 0,
    seed: int = 1,
) -> Run:
    """Join all files in a child process, killed so many times."""
    out, rng = root / name, random.Random(seed)
    out.mkdir()
    command = ["-m", "braided_benchmarks.burst", "--child", str(root), "--name", name]
    command += ["--plan", plan, "--buckets", str(buckets), "--overload", json.dumps(overload)]

    def until(child: Popen[bytes], *, kill: bool) -> None:
        target = committed(out) + rng.randint(2, 6)
        while kill and child.poll() is None and committed(out) < target:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 1.5) if kill else 0)

    log = out / "child.log"
    to_the_end(lambda: start_child(command, log), log, kills, until)
    told = json.loads((out / "told.json").read_text())
    return Run(out, *([t[n] for t in told] for n in ("seconds", "budget", "exact_again")))


def child(root: Path, name: str, plan: str, overload: dict[str, Any], buckets: int) -> None:
    """Run a join to its end, and write down what it said of each batch."""
    import braided as bd  # noqa: PLC0415
    from braided.spark.measures import metrics_of  # noqa: PLC0415

    load = Load(**json.loads((root / "load.json").read_text()))
    spark = bd.spark.session(
        "burst",
        **{
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    window = f"{load.window_s} seconds"
    query = bd.JoinQuery(
        [bd.Stream(n, key="k", time="t", window=window, lateness="0 seconds") for n in NAMES],
        plan=plan,
        select={n: f"{n}.v" for n in NAMES},
        overload=bd.Overload(**overload) if overload else None,
    )
    frames = {
        n: spark.readStream.schema("k long, t timestamp, v long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(root / n))
        for n in NAMES
    }
    joined = bd.spark.join(query, frames, buckets=buckets)
    out = root / name
    writer = joined.writeStream.format("parquet").option("path", str(out / "out"))
    writer = writer.option("checkpointLocation", str(out / "checkpoint"))
    streaming = writer.trigger(availableNow=True).start()
    streaming.awaitTermination()
    told = []
    for progress in (json.loads(p.json) for p in streaming.recentProgress):
        seen = metrics_of([progress], query_id="", active=False)
        if seen.batches:
            budget = seen.rationing.budget if seen.rationing else None
            seconds = progress["durationMs"]["triggerExecution"] / 1e3
            told.append({"seconds": seconds, "budget": budget, "exact_again": seen.exact_again})
    (out / "told.json").write_text(json.dumps(told))
    spark.stop()


def planned(run_: Run) -> list[str]:
    """Which files Spark put into which batch."""
    logs = sorted((run_.root / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [line for log in logs for line in log.read_text().splitlines() if "logOffset" in line]


def found(db: duckdb.DuckDBPyConnection, run_: Run, name: str) -> None:
    """A run's committed results as a table."""
    files = [str(p) for p in committed_files(run_.root / "out")]
    db.sql(f"create table {name} as select a, b, c, result_time from read_parquet({files!r})")


def compare(db: duckdb.DuckDBPyConnection, less: str, more: str) -> int:
    """Rows of one table that are not in the other, counted as bags."""
    counted = f"select count(*) from (select * from {less} except all select * from {more})"
    return int(db.sql(counted).fetchall()[0][0])


def by_batch(db: duckdb.DuckDBPyConnection, table: str) -> dict[int, int]:
    """Results by the batch in which their newest row came."""
    batch = f"(epoch_us(result_time) - {EPOCH_US}) // {SECOND_US}"
    return {int(n): int(c) for n, c in db.sql(f"select {batch}, count(*) from {table} group by 1").fetchall()}


def report(load: Load, plan: str, root: Path, kills: int) -> bool:
    """All runs, and what came of them; whether all is as it should be."""
    load.generate(root)
    (root / "load.json").write_text(json.dumps(load.__dict__))
    with duckdb.connect() as db:
        exact = run(root, "exact", plan, {})
        found(db, exact, "exact")
        good = _kept_pace(load, plan, root, exact, db)
        return (not kills or _same_when_killed(load, plan, root, kills, db)) and good


def _kept_pace(load: Load, plan: str, root: Path, exact: Run, db: duckdb.DuckDBPyConnection) -> bool:
    calm, stormy = slice(4, load.before), slice(load.before + 4, load.before + load.burst)
    usual, most = statistics.median(exact.seconds[calm]), statistics.median(exact.seconds[stormy])
    target = round(max(1.3 * usual, 0.5 * most), 1)
    print(f"{plan}: exact batches take {usual:.2f} s, in the burst {most:.2f} s; target {target:.1f} s")
    paced = run(root, "paced", plan, {"target_batch": f"{target} seconds"})
    found(db, paced, "paced")
    wrong, wanted, got = compare(db, "paced", "exact"), by_batch(db, "exact"), by_batch(db, "paced")
    again = paced.exact_again[-1]
    lost_after = sum(wanted[n] - got.get(n, 0) for n in wanted if again is not None and n >= again)
    storm = slice(load.before, load.before + load.burst)
    over = [s / target for s in paced.seconds[storm]]
    budgets = [b for b in paced.budgets[storm] if b is not None]
    shares = [got.get(n, 0) / wanted[n] for n in range(storm.start, storm.stop)]
    inside = sum(o <= 1.5 for o in over)
    print(f"  batch time / target in the burst: median {statistics.median(over):.2f}, worst {max(over):.2f}, "
          f"within 1.5 in {inside} of {len(over)}")  # fmt: skip
    print(f"  budget in the burst: {min(budgets):,} to {max(budgets):,} probes")
    print(f"  found in the burst: {100 * min(shares):.0f} % to {100 * max(shares):.0f} % of the results")
    print(f"  wrong: {wrong}; exact again since batch {again}, missing from there: {lost_after}", flush=True)
    return inside == len(over) and not wrong and again is not None and not lost_after


def _same_when_killed(load: Load, plan: str, root: Path, kills: int, db: duckdb.DuckDBPyConnection) -> bool:
    fixed = {"probes": 4 * load.rows}
    steady = run(root, "steady", plan, fixed, buckets=1)
    for seed in range(_TRIES):
        killed = run(root, f"killed-{seed}", plan, fixed, buckets=1, kills=kills, seed=seed)
        if planned(killed) == planned(steady):
            break
    else:
        print(f"  killed {kills} times, {_TRIES} times over: Spark planned other batches each time")
        return False
    found(db, steady, "steady")
    found(db, killed, "killed")
    wrong = compare(db, "steady", "exact")
    differ = compare(db, "steady", "killed") + compare(db, "killed", "steady")
    share = db.sql("select (select count(*) from steady) / (select count(*) from exact)").fetchall()[0][0]
    print(f"  probes={fixed['probes']:,}: {100 * share:.0f} % found, wrong: {wrong}; "
          f"killed {kills} times: differs by {differ} rows")  # fmt: skip
    return not wrong and not differ


def main() -> None:
    """From the command line."""
    options = argparse.ArgumentParser(description="Rows double; does a batch still end in time?")
    options.add_argument("--plan", default="mjoin", choices=("mjoin", "linear"))
    options.add_argument("--kills", type=int, default=4)
    options.add_argument("--rows", type=int, default=Load.rows)
    options.add_argument("--keys", type=int, default=Load.keys)
    options.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--name", help=argparse.SUPPRESS)
    options.add_argument("--buckets", type=int, help=argparse.SUPPRESS)
    options.add_argument("--overload", type=json.loads, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child is not None:
        child(given.child, given.name, given.plan, given.overload, given.buckets)
        return
    with tempfile.TemporaryDirectory(prefix="braided-burst-") as folder:
        good = report(Load(given.rows, given.keys), given.plan, Path(folder), given.kills)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
