"""What dropped rows save on Spark: three ways to run a join on the same rows, batch for batch by turns.

    python -m braided_benchmarks.shedding --rows 400000

All rows are let in, or a tenth of them: dropped by the buckets, which know how many there are, or before the
shuffle, by what was decided after the batch before. Times are medians of all batches with all
rows but the first four.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import braided as bd
from braided.testing.samples.files import add_file
from braided_benchmarks.spark_run import session

NAMES = ("a", "b", "c")
WAYS = ("all", "in buckets", "early")
_WARM = 4  # batches that do not count


def query(way: str, rows: int) -> bd.JoinQuery:
    """Three streams by one key, a few matches a row."""
    streams = [bd.Stream(n, key="k", time="t", window="30 seconds", lateness="0 seconds") for n in NAMES]
    shed = bd.Overload(probes=len(NAMES) * rows // 10, shed="input")
    return bd.JoinQuery(streams, overload=None if way == "all" else shed)


def table(rng: np.random.Generator, rows: int, batch: int) -> pa.Table:
    """Ten seconds of a stream."""
    times = np.sort(rng.integers(batch * 10_000_000, (batch + 1) * 10_000_000, rows))
    timed = pa.array(times, pa.timestamp("us", tz="UTC"))
    return pa.table({"k": rng.integers(0, 4 * rows, rows), "t": timed, "v": rng.random(rows)})


def start(spark: SparkSession, way: str, rows: int, folder: Path) -> StreamingQuery:
    """A join whose results are counted."""
    frames = {
        n: spark.readStream.schema("k long, t timestamp, v double").parquet(str(folder / n)) for n in NAMES
    }
    known = str(folder / "checkpoint") if way == "early" else None
    joined = bd.spark.join(query(way, rows), frames, buckets=2, checkpoint=known)
    writer = joined.writeStream.foreachBatch(_count)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _count(df: DataFrame, _: int) -> None:
    df.count()


def main() -> None:
    """Print how long batches take each way, and how many rows were dropped."""
    options = argparse.ArgumentParser(description="What dropped rows save on Spark.")
    options.add_argument("--rows", type=int, default=400_000, help="of each stream in a batch")
    options.add_argument("--batches", type=int, default=12)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="braided-shedding-") as name:
        folder, rng = Path(name), np.random.default_rng(1)
        spark = session("braided")
        spark.sparkContext.setLogLevel("OFF")
        for way, stream in itertools.product(WAYS, NAMES):
            (folder / way / stream).mkdir(parents=True)
        running = {way: start(spark, way, given.rows, folder / way) for way in WAYS}
        for batch in range(given.batches):
            tables = {n: table(rng, given.rows, batch) for n in NAMES}
            for way in WAYS:
                _come(folder / way, tables, batch)
                running[way].processAllAvailable()
        _report(running, len(NAMES) * given.rows)
        for streaming in running.values():
            streaming.stop()
        spark.stop()


def _come(folder: Path, tables: dict[str, pa.Table], batch: int) -> None:
    """All files appear at once: one that Spark sees before the others would be a batch of its own."""
    for name, rows in tables.items():
        add_file(folder / f"{name}-to-come", batch, rows)
    for name in tables:
        for path in (folder / f"{name}-to-come").glob("*.parquet"):
            path.rename(folder / name / path.name)


def _report(running: dict[str, StreamingQuery], rows: int) -> None:
    seconds = {way: _seconds(streaming, rows) for way, streaming in running.items()}
    for way, streaming in running.items():
        seen = bd.spark.metrics(streaming)
        shed = sum(s.shed_rows for s in seen.streams.values()) / sum(s.rows_in for s in seen.streams.values())
        part = seconds[way] / seconds["all"]
        print(f"{way:>10}: {seconds[way]:.2f} s a batch, {part:.2f} of all; {shed:.1%} of rows dropped, "
              f"{seen.results:,} results", flush=True)  # fmt: skip


def _seconds(streaming: StreamingQuery, rows: int) -> float:
    """The median of the batches that had all rows."""
    reports = [p.json for p in streaming.recentProgress if p.numInputRows >= rows]
    progress: list[dict[str, Any]] = list(map(json.loads, reports))
    return float(statistics.median(p["durationMs"]["triggerExecution"] / 1e3 for p in progress[_WARM:]))


if __name__ == "__main__":
    main()
