"""One contender's run of the Spark benchmark, in a process of its own; prints one line of JSON.

python -m braided_benchmarks.spark_run braided|heap|rocksdb|where DATA CHECKPOINT STREAMS

`where` is `braided` with Spark's event log, to say where the time of a batch goes.
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
from braided.spark.sessions.builder import conf
from braided_benchmarks.spark_times import where

WINDOW = "100 seconds"
_PLAIN = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "6g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def run(contender: str, data: Path, checkpoint: Path, streams: int) -> dict[str, Any]:
    """Join the files of all streams, a file a batch; times of all batches, and what was found."""
    log = checkpoint.with_name(f"{checkpoint.name}-events")
    spark = session(contender, log)
    spark.sparkContext.setLogLevel("OFF")
    names = [f"s{i}" for i in range(streams)]
    frames = {n: _read(spark, data / n) for n in names}
    joined = chain(frames, WINDOW) if contender in ("heap", "rocksdb") else _braided(frames)
    found = [0]

    def count(df: DataFrame, _: int) -> None:
        found[0] += df.count()

    began = time.perf_counter()
    writer = joined.writeStream.foreachBatch(count).option("checkpointLocation", str(checkpoint))
    streaming = writer.trigger(availableNow=True).start()
    streaming.awaitTermination()
    progress = [json.loads(p.json) for p in streaming.recentProgress if p.numInputRows]
    sizes = sum(f.stat().st_size for f in (checkpoint / "state").rglob("*") if f.is_file())
    result = {
        "contender": contender,
        "rows": found[0],
        "seconds": time.perf_counter() - began,
        "batches": [p["durationMs"]["triggerExecution"] / 1e3 for p in progress],
        "add_batch": [p["durationMs"]["addBatch"] / 1e3 for p in progress],
        "state_bytes": sizes,
    }
    spark.stop()
    if contender == "where":
        result["where"] = where(next(p for p in log.iterdir() if p.is_file()), progress)
    return result


def session(contender: str, log: Path | None = None) -> SparkSession:
    """A session on two cores, with the state store the contender wants."""
    settings = dict(_PLAIN)
    if log is not None and contender == "where":
        log.mkdir()
        settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": log.absolute().as_uri()}
        settings |= {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}
    if contender in ("braided", "where"):
        ours: SparkSession = bd.spark.session("bench", **settings)
        return ours
    builder = SparkSession.builder.appName("bench")
    if contender == "rocksdb":
        settings |= {k: v for k, v in conf().items() if "stateStore" in k}
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _read(spark: SparkSession, folder: Path) -> DataFrame:
    rows = spark.readStream.schema("k long, ts timestamp, v double").option("maxFilesPerTrigger", 1)
    return rows.parquet(str(folder))


def _braided(frames: dict[str, DataFrame]) -> DataFrame:
    streams = [bd.Stream(n, key="k", time="ts", window=WINDOW, lateness="0 seconds") for n in frames]
    joined: DataFrame = bd.spark.join(bd.JoinQuery(streams), frames, buckets=2)  # as many as cores
    return joined


def chain(frames: dict[str, DataFrame], window: str, how: str = "inner") -> DataFrame:
    """Spark's own way: binary joins one after the other, each bounded in time.

    What is not inner is bounded by the first stream alone: the others' times may be null.
    """
    joined: DataFrame | None = None
    done: list[str] = []
    for name, frame in frames.items():
        right = frame.select(*(F.col(c).alias(f"{name}_{c}") for c in frame.columns))
        right = right.withWatermark(f"{name}_ts", "0 seconds")
        if joined is not None:
            near = [
                f"{d}_ts between {name}_ts - interval {window} and {name}_ts + interval {window}"
                for d in (done if how == "inner" else done[:1])
            ]
            joined = joined.join(right, F.expr(" and ".join([f"{done[0]}_k = {name}_k", *near])), how)
            # Spark refuses a second event-time column from one side, so only the first stays one
            joined = joined.select(
                *(
                    F.expr(f"timestamp_micros(unix_micros({c}))").alias(c)
                    if c.endswith("_ts") and c != f"{done[0]}_ts"
                    else F.col(c)
                    for c in joined.columns
                )
            )
        else:
            joined = right
        done.append(name)
    assert joined is not None
    return joined


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))))
