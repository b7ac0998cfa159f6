"""Left joins on Spark: `a LEFT b LEFT c` by Braided, the same as an inner join, and by Spark's chain.

Each runs over the same files in a process of its own, by turns; printed are medians of batch times. A third
of the rows of b and c are lacking, so that nulls come.

    python -m braided_benchmarks.outer --rows 400000
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import braided as bd
from braided.testing.samples.files import add_file
from braided_benchmarks.spark_run import chain, session

NAMES = ("s0", "s1", "s2")
WAYS = ("inner", "left", "rocksdb", "heap")
WINDOW_S = 20
_WARM = 3  # batches that do not count


def generate(folder: Path, rows: int, batches: int) -> None:
    """Ten seconds of every stream in each file: unique keys, of which s1 and s2 lack a third."""
    rng = np.random.default_rng(1)
    for number in range(batches):
        keys = np.arange(rows, dtype=np.int64) + number * rows
        for name in NAMES:
            own = rng.permutation(keys if name == "s0" else keys[rng.random(rows) < 2 / 3])
            times = (
                1_700_000_000_000_000 + number * 10_000_000 + np.sort(rng.integers(0, 10_000_000, len(own)))
            )
            columns = {
                "k": own,
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                "v": rng.random(len(own)),
            }
            add_file(folder / name, number, pa.table(columns))


def joined(way: str, frames: dict[str, DataFrame]) -> DataFrame:
    """One of the ways."""
    if way in ("inner", "left"):
        streams = [
            bd.Stream(n, "k", time="ts", window=f"{WINDOW_S} seconds", lateness="0 seconds", how=how)
            for n, how in zip(NAMES, ("inner", way, way), strict=True)
        ]
        found: DataFrame = bd.spark.join(bd.JoinQuery(streams), frames, buckets=2)
        return found
    return chain(frames, f"{WINDOW_S} seconds", how="left_outer")


def run(way: str, data: Path, checkpoint: Path) -> dict[str, Any]:
    """All files, one a batch."""
    spark = session("rocksdb" if way == "rocksdb" else "heap" if way == "heap" else "braided")
    spark.sparkContext.setLogLevel("OFF")
    frames = {
        n: spark.readStream.schema("k long, ts timestamp, v double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(data / n))
        for n in NAMES
    }
    counted = [0, 0]

    def count(df: DataFrame, _: int) -> None:
        row = df.agg(F.count("*"), F.count("s2_v")).collect()[0]
        counted[0] += row[0]
        counted[1] += row[1]

    writer = joined(way, frames).writeStream.foreachBatch(count).option("checkpointLocation", str(checkpoint))
    streaming = writer.trigger(availableNow=True).start()
    streaming.awaitTermination()
    progress = [json.loads(p.json) for p in streaming.recentProgress if p.numInputRows]
    seconds = [p["durationMs"]["triggerExecution"] / 1e3 for p in progress]
    spark.stop()
    return {
        "seconds": statistics.median(seconds[_WARM:]),
        "rows": counted[0],
        "nulls": counted[0] - counted[1],
    }


def main() -> None:
    """From the command line."""
    options = argparse.ArgumentParser(description="Left joins: Braided, its inner join, and Spark's chain.")
    options.add_argument("--rows", type=int, default=400_000)
    options.add_argument("--batches", type=int, default=8)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    options.add_argument("--child", help=argparse.SUPPRESS)
    options.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        with tempfile.TemporaryDirectory(prefix="braided-outer-") as folder:
            print(json.dumps(run(given.child, given.data, Path(folder) / "checkpoint")))
        return
    with tempfile.TemporaryDirectory(prefix="braided-outer-") as name:
        generate(Path(name), given.rows, given.batches)
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in given.ways}
        for _ in range(given.rounds):
            for way in given.ways:
                command = [sys.executable, "-m", "braided_benchmarks.outer", "--child", way, "--data", name]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[way].append(json.loads(done.stdout.splitlines()[-1]))
        ours = statistics.median(one["seconds"] for one in found["left"]) if "left" in found else 1.0
        for way, rounds in found.items():
            seconds = statistics.median(one["seconds"] for one in rounds)
            last = rounds[-1]
            print(f"{way:>8}: {seconds:7.2f} s a batch, {seconds / ours:5.2f} of ours; "
                  f"{last['rows']:,} results, {last['nulls']:,} without s2", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
