"""Kill a running join again and again; at the end nothing may be missing or doubled.

A child process runs a streaming join of three streams into Parquet files. It is killed (with its JVM) at
random moments and started again on the same checkpoint, until all input is joined; workers may also kill
themselves in mid-task. Then the files the sink has committed are compared with DuckDB's join of all input.

    python -m braided.bench.chaos --kills 20 --seed 1
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from braided.lab.files import add_file, committed_files

NAMES = ("a", "b", "c")
WINDOW_S = 5


@dataclass(frozen=True)
class Report:
    """What came out of a campaign."""

    kills: int
    starts: int
    expected: int
    missing: int
    doubled: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.starts} starts, {self.seconds:.0f} s: {self.expected:,} results "
            f"expected, missing {self.missing}, doubled {self.doubled}"
        )


def campaign(
    root: Path, *, kills: int, seed: int, batches: int, suicide: bool = False, master: str = "local[2,4]"
) -> Report:
    """Generate input, run and kill until everything is joined, compare."""
    rng = random.Random(seed)
    began = time.perf_counter()
    generate(root, batches, seed)
    done = starts = 0
    while True:
        child = start(root, master, suicide=suicide)
        starts += 1
        if done < kills:
            target = min(batches - 1, committed(root) + rng.randint(1, 3))
            _wait(child, lambda goal=target: committed(root) >= goal)
            time.sleep(rng.uniform(0, 1.5))
        code = _end(child, kill=done < kills)
        if code == 0:
            break
        if code > 0:
            raise RuntimeError(f"the join failed:\n{(root / 'child.log').read_text()[-3000:]}")
        done += 1
    missing, doubled, expected = compare(root)
    return Report(done, starts, expected, missing, doubled, time.perf_counter() - began)


def generate(root: Path, batches: int, seed: int) -> None:
    """Three streams as files of random size, in order of time."""
    rng = np.random.default_rng(seed)
    for name in NAMES:
        sizes = rng.integers(50, 2_000, batches)
        times = np.sort(rng.integers(0, batches * 4_000_000, sizes.sum())) + 1_700_000_000_000_000
        table = pa.table(
            {
                "k": rng.integers(0, 300, len(times)),
                "t": pa.array(times, pa.timestamp("us", tz="UTC")),
                "v": np.arange(len(times)),
            }
        )
        for n, (start_, size) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, strict=True)):
            add_file(root / name, n, table.slice(start_, size))


def start(root: Path, master: str, *, suicide: bool) -> subprocess.Popen[bytes]:
    """A child that joins all files and ends."""
    command = [sys.executable, "-m", "braided.bench.chaos", "--child", str(root), "--master", master]
    with (root / "child.log").open("ab") as log:
        return subprocess.Popen(
            [*command, *(["--suicide"] if suicide else [])],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )


def _wait(child: subprocess.Popen[bytes], reached: Any) -> None:
    while child.poll() is None and not reached():
        time.sleep(0.05)


def _end(child: subprocess.Popen[bytes], *, kill: bool) -> int:
    """The child's exit code; a killed one's is negative."""
    if kill and child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)  # the driver, its JVM, and what else it started
    return child.wait()


def committed(root: Path) -> int:
    """How many batches are committed."""
    folder = root / "checkpoint" / "commits"
    return len([p for p in folder.glob("*") if p.name.isdigit()]) if folder.is_dir() else 0


def compare(root: Path) -> tuple[int, int, int]:
    """Missing and doubled rows against DuckDB, and how many there should be."""
    columns = [f"{n}_v" for n in NAMES]
    got: Counter[Any] = Counter()
    for path in committed_files(root / "out"):
        table = pq.read_table(path, columns=columns)
        got.update(zip(*(table[c].to_pylist() for c in columns), strict=True))
    newest = "greatest(a.t, b.t, c.t)"
    near = " and ".join(f"epoch_us({newest}) - epoch_us({n}.t) <= {WINDOW_S * 1_000_000}" for n in NAMES)
    with duckdb.connect() as db:
        for name in NAMES:
            db.register(name, pq.read_table(root / name))
        rows = db.sql(
            f"select a.v, b.v, c.v from a join b on a.k = b.k join c on a.k = c.k where {near}"
        ).fetchall()
    wanted = Counter(rows)
    return (wanted - got).total(), (got - wanted).total(), wanted.total()


def child(root: Path, master: str, *, suicide: bool) -> None:
    """Run the join to its end."""
    from pyspark.sql import DataFrame  # noqa: PLC0415

    import braided as bd  # noqa: PLC0415

    settings = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = bd.spark.session("chaos", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    streams = [
        bd.Stream(n, key="k", time="t", window=f"{WINDOW_S} seconds", lateness="0 seconds") for n in NAMES
    ]
    frames = {
        n: spark.readStream.schema("k long, t timestamp, v long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(root / n))
        for n in NAMES
    }
    joined: DataFrame = bd.spark.join(bd.JoinQuery(streams), frames, buckets=4)
    if suicide:
        joined = joined.mapInArrow(_suicidal, joined.schema)
    writer = joined.writeStream.format("parquet").option("path", str(root / "out"))
    streaming = (
        writer.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    )
    streaming.awaitTermination()
    spark.stop()


def _suicidal(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on; in every third batch, the first attempt of a task is killed behind its work."""
    from pyspark import TaskContext  # noqa: PLC0415

    yield from batches
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        if batch % 3 == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """The campaign, from the command line."""
    options = argparse.ArgumentParser(description="Kill a running join; nothing may be missing or doubled.")
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--batches", type=int, default=60)
    options.add_argument("--suicide", action="store_true", help="workers kill themselves, too")
    options.add_argument("--master", default="local[2,4]", help="for example local-cluster[2,1,2048]")
    options.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child is not None:
        child(given.child, given.master, suicide=given.suicide)
        return
    with tempfile.TemporaryDirectory(prefix="braided-chaos-") as folder:
        report = campaign(
            Path(folder), kills=given.kills, seed=given.seed, batches=given.batches, suicide=given.suicide,
            master=given.master,
        )  # fmt: skip
    print(report)
    sys.exit(0 if report.missing == report.doubled == 0 else 1)


if __name__ == "__main__":
    main()
