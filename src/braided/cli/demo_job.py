"""One Spark job of the demo, in a process of its own; its journal says how far it is.

python -m braided.cli.demo_job braided|chain FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import braided as bd
from braided.cli.demo import journal_of
from braided.testing.samples import shop
from braided.view.follow import follow

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
    """Run a job to its end."""
    spark: SparkSession = bd.spark.session("braided-demo", **_SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    frames = {name: _read(spark, folder / name) for name in SCHEMAS}
    joined = _chain(frames) if job == "chain" else bd.spark.join(shop.query(), frames)
    journal = journal_of(folder, job)
    journal.describe(shop.query().explain())
    follow(_started(joined, folder, job), journal=journal.path, show=lambda *_: None, every=0.1)
    if job != "chain":
        (folder / "stalled.txt").write_text(_why_stalled(spark, folder))
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


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
