"""Spark's runs of a comparison: Braided, and Spark's own chain of joins with state in the heap or in RocksDB.

A line of JSON for each batch of files whose results a micro-batch holds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import braided as bd
from braided_benchmarks.spark_run import chain, session


def run(spec: dict[str, Any]) -> None:
    """Join what is there and what comes, until killed."""
    contender = spec["contender"].removeprefix("spark-")
    spark = session(contender)
    spark.sparkContext.setLogLevel("OFF")
    frames = {f"s{i}": _read(spark, spec, i) for i in range(spec["streams"])}
    window = f"{spec['window_us'] // 1_000_000} seconds"
    joined = chain(frames, window) if contender != "braided" else _braided(frames, window)
    found = joined.select(
        F.greatest(*(f"{name}_n" for name in frames)).alias("batch"),
        F.expr(" + ".join(f"{name}_v" for name in frames)).alias("v"),
    )
    out = Path(spec["out"])
    (out / "started").write_text(str(time.time()))
    with (out / "emissions.jsonl").open("a") as lines:

        def note(df: DataFrame, _: int) -> None:
            results = df.groupBy("batch").agg(F.count("*"), F.sum("v")).collect()
            for batch, rows, checksum in results:
                line = {"batch": batch, "at": time.time(), "rows": rows, "checksum": checksum}
                lines.write(json.dumps(line) + "\n")
            lines.flush()

        writer = found.writeStream.foreachBatch(note).option("checkpointLocation", spec["state"])
        writer.start().awaitTermination()


def _read(spark: SparkSession, spec: dict[str, Any], i: int) -> DataFrame:
    rows = spark.readStream.schema("k long, t long, v long, n int")
    if spec["a_file_a_batch"]:
        rows = rows.option("maxFilesPerTrigger", 1)
    return rows.csv(f"{spec['data']}/s{i}").withColumn("ts", F.timestamp_micros("t")).drop("t")


def _braided(frames: dict[str, DataFrame], window: str) -> DataFrame:
    streams = [bd.Stream(n, key="k", time="ts", window=window, lateness="0 seconds") for n in frames]
    joined: DataFrame = bd.spark.join(bd.JoinQuery(streams), frames, buckets=2)  # as many as cores
    return joined


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
