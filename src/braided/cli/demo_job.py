"""One Spark job of the demo, in a process of its own; one line of JSON per batch on standard output.

python -m braided.cli.demo_job braided|chain|stalled FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import braided as bd
from braided.lab import shop
from braided.view.follow import Newcomers, Show, follow
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
    if job == "stalled":
        (folder / "nothing").mkdir(exist_ok=True)
        frames["shipments"] = _read(spark, folder / "nothing", "shipments")
    joined = _chain(frames) if job == "chain" else bd.spark.join(shop.query(), frames)
    out = folder / ("result" if job == "braided" else f"result-{job}")
    checkpoint = folder / f"checkpoint-{job}"
    writer = joined.writeStream.format("parquet").option("path", str(out))
    streaming = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    journal = folder / JOURNAL if job == "braided" else None
    if journal:
        Journal(journal).describe(shop.query().explain())
    follow(streaming, journal=journal, show=_saying(), every=0.1)
    end: dict[str, Any] = {"end": job, "bytes": _size(checkpoint / "state")}
    if job != "chain":
        seen = bd.spark.metrics(streaming)
        end |= {"results": seen.results, "why": bd.spark.why(streaming)}
    _say(end)
    spark.stop()


def _saying() -> Show:
    """A line per batch with rows, as they are done."""
    newcomers = Newcomers()

    def show(records: Sequence[Record], _: str) -> None:
        for r in newcomers.among(records):
            if r.rows:
                _say({"batch": r.batch, "rows": r.rows, "seconds": r.seconds})

    return show


def _read(spark: SparkSession, folder: Path, name: str = "") -> DataFrame:
    rows = spark.readStream.schema(SCHEMAS[name or folder.name]).option("maxFilesPerTrigger", 1)
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
