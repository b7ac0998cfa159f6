"""One Spark job of the demo, in a process of its own; one line of JSON per batch on standard output.

python -m braided.cli.demo_job braided|chain FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import braided as bd
from braided.testing.samples import shop
from braided.view.follow import each_new, follow
from braided.view.records import JOURNAL, Journal, Record

SCHEMAS = {
    "orders": "order_id long, amount double, placed_at timestamp",
    "payments": "order_id long, method string, paid_at timestamp",
    "shipments": "order_id long, carrier string, sent_at timestamp",
}
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def main(job: str, folder: Path) -> None:
    """Run a job to its end, saying what it does."""
    spark: SparkSession = bd.spark.session("braided-demo", **_SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    frames = {name: _read(spark, folder / name) for name in SCHEMAS}
    end: dict[str, Any] = {"end": job}
    if job == "chain":
        follow(_started(_chain(frames), folder, job), show=each_new(_say_batch), every=0.1)
    else:
        journal = Journal(folder / JOURNAL)
        journal.describe(shop.query().explain())
        joined = bd.spark.join(shop.query(), frames)
        follow(_started(joined, folder, job), journal=journal.path, show=each_new(_say_batch), every=0.1)
        end["why"] = _why_stalled(spark, folder)
    _say(end | {"bytes": _size(folder / f"checkpoint-{job}" / "state")})
    spark.stop()


def _started(joined: DataFrame, folder: Path, job: str) -> StreamingQuery:
    writer = joined.writeStream.format("parquet").option("path", str(folder / f"result-{job}"))
    writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{job}"))
    return writer.trigger(availableNow=True).start()


def _why_stalled(spark: SparkSession, folder: Path) -> str:
    """What `why` says while one of the streams brings nothing."""
    (folder / "nothing").mkdir(exist_ok=True)
    frames = {name: _read(spark, folder / name, files=4) for name in SCHEMAS}
    frames["shipments"] = _read(spark, folder / "nothing", "shipments")
    streaming = _started(bd.spark.join(shop.query(), frames), folder, "stalled")
    streaming.awaitTermination()
    return str(bd.spark.why(streaming))


def _say_batch(record: Record) -> None:
    """Print a line for a batch with rows."""
    if record.rows:
        _say({"batch": record.batch, "rows": record.rows, "seconds": record.seconds})


def _read(spark: SparkSession, folder: Path, name: str = "", files: int = 1) -> DataFrame:
    rows = spark.readStream.schema(SCHEMAS[name or folder.name]).option("maxFilesPerTrigger", files)
    return rows.parquet(str(folder))


def _chain(frames: dict[str, DataFrame]) -> DataFrame:
    """The same join as Spark does it: two binary joins, one after the other."""
    orders = frames["orders"].withWatermark("placed_at", "1 minute")
    payments = frames["payments"].withColumnRenamed("order_id", "p_id").withWatermark("paid_at", "1 minute")
    shipments = frames["shipments"].withColumnRenamed("order_id", "s_id").withWatermark("sent_at", "1 minute")
    paid = orders.join(
        payments,
        F.expr(
            "order_id = p_id and paid_at between placed_at - interval 1 hour and placed_at + interval 1 hour"
        ),
    ).withColumn("paid_at", F.expr("timestamp_micros(unix_micros(paid_at))"))
    return paid.join(
        shipments,
        F.expr(
            "order_id = s_id "
            "and sent_at between placed_at - interval 10 minutes and placed_at + interval 2 hours "
            "and sent_at between paid_at - interval 10 minutes and paid_at + interval 2 hours"
        ),
    )


def _size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
