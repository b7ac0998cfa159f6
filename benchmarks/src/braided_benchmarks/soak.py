"""Many small batches: the memory of Python workers must stay flat.

A join of three streams runs on Spark over hundreds of small files; after every batch the workers' memory is
read (proportional set size: pages that processes share count once), and the bytes of their arenas.

    python -m braided_benchmarks.soak --batches 300
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

import braided as bd
from braided.spark.storage.folders import root as arenas
from braided_benchmarks.memory import pss
from braided_lab.files import add_file

NAMES = ("a", "b", "c")
ROWS = 2_000
FLAT = 1.1


@dataclass
class Seen:
    """What was read after each batch."""

    workers: list[int] = field(default_factory=list)
    pss: list[int] = field(default_factory=list)
    arena: list[int] = field(default_factory=list)

    def growth(self, values: list[int]) -> float:
        """The last sixth against the second sixth (the first is left out: state still fills)."""
        sixth = len(values) // 6
        return statistics.median(values[-sixth:]) / statistics.median(values[sixth : 2 * sixth])


def run(batches: int) -> Seen:
    """Join so many small files a stream."""
    seen = Seen()
    with tempfile.TemporaryDirectory(prefix="braided-soak-") as folder:
        root = Path(folder)
        _generate(root, batches)
        spark = bd.spark.session("soak", **{"spark.ui.enabled": "false"})
        spark.sparkContext.setLogLevel("OFF")
        frames = {
            n: spark.readStream.schema("k long, t timestamp, v long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(root / n))
            for n in NAMES
        }
        streams = [bd.Stream(n, key="k", time="t", window="20 seconds", lateness="0 seconds") for n in NAMES]
        joined: DataFrame = bd.spark.join(bd.JoinQuery(streams), frames)

        def look(df: DataFrame, _: int) -> None:
            df.count()
            sizes = [size for size in map(pss, _workers()) if size]
            seen.workers.append(len(sizes))
            seen.pss.append(sum(sizes))
            seen.arena.append(sum(p.stat().st_size for p in arenas().rglob("*") if p.is_file()))

        writer = joined.writeStream.foreachBatch(look).option("checkpointLocation", str(root / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        spark.stop()
    return seen


def _generate(root: Path, batches: int) -> None:
    rng = np.random.default_rng(11)
    for name in NAMES:
        for n in range(batches):
            times = np.sort(rng.integers(0, 1_000_000, ROWS)) + n * 1_000_000 + 1_700_000_000_000_000
            table = {
                "k": rng.integers(0, 20_000, ROWS),
                "t": pa.array(times, pa.timestamp("us", tz="UTC")),
                "v": rng.integers(0, 1_000, ROWS),
            }
            add_file(root / name, n, pa.table(table))


def _workers() -> list[int]:
    """The processes of the daemon and the workers forked from it."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if process.name.isdigit() and b"braided.spark.sessions.daemon" in arguments:
            found.append(int(process.name))
    return found


def main() -> None:
    """Run, and say whether memory stayed flat."""
    options = argparse.ArgumentParser(description="Memory of Python workers over many small batches.")
    options.add_argument("--batches", type=int, default=300)
    batches = options.parse_args().batches
    seen = run(batches)
    for n in range(0, len(seen.pss), max(1, batches // 10)):
        print(
            f"batch {n:4}: {seen.workers[n]} processes, {seen.pss[n] / 1e6:7.1f} MB, "
            f"arenas {seen.arena[n] / 1e6:6.1f} MB"
        )
    growth = seen.growth(seen.pss)
    print(f"{len(seen.pss)} batches: memory of the last sixth / second sixth {growth:.3f} (bar {FLAT})")
    print(f"arenas: {seen.growth(seen.arena):.3f}")
    sys.exit(0 if growth <= FLAT else 1)


if __name__ == "__main__":
    main()
