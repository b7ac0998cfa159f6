"""Orders with their payment and their shipment, batch by batch in this process.

    python examples/ecommerce/join.py [--spark]    # in this process; with --spark on Spark, too

It writes the rows into the folder `data` beside it, where job.yaml finds them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import braided as bd
from braided.testing.samples import shop
from braided.testing.samples.files import by_period, write_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS, BATCHES = 3000, 6
TIMES = {"orders": "placed_at", "payments": "paid_at", "shipments": "sent_at"}


def query() -> bd.JoinQuery:
    """Paid within an hour of the order, sent within an hour and a half of the payment."""
    return bd.JoinQuery(
        [
            bd.Stream("orders", "order_id", time="placed_at", window="150 minutes", lateness="1 minute"),
            bd.Stream("payments", "order_id", time="paid_at", window="90 minutes", lateness="1 minute"),
            bd.Stream("shipments", "order_id", time="sent_at", window="1 minute", lateness="1 minute"),
        ],
        within={
            ("orders", "payments"): ("0 seconds", "1 hour"),
            ("payments", "shipments"): ("0 seconds", "90 minutes"),
        },
        where="orders.amount >= 20",
        select={
            "order": "orders.order_id",
            "amount": "orders.amount",
            "method": "payments.method",
            "carrier": "shipments.carrier",
            "placed_at": "orders.placed_at",
            "sent_at": "shipments.sent_at",
        },
    )


def tables(orders: int = ORDERS) -> dict[str, pa.Table]:
    """The shop's streams; the very first payment is told once more at the end, a day too late."""
    made = shop.tables(orders)
    payments = made["payments"]
    return {**made, "payments": pa.concat_tables([payments, payments.slice(0, 1)])}


def main(folder: Path, orders: int = ORDERS) -> pa.Table:
    """Write the streams into a folder, join them, and return the results."""
    batches = by_period(tables(orders), TIMES, BATCHES)
    write_batches(folder, batches)
    live, found = bd.LocalJoin(query()), []
    for number, batch in enumerate(batches):
        found.append(live.push(batch))
        stored = {name: stream.live_rows for name, stream in live.stats().streams.items()}
        print(f"batch {number}: {found[-1].num_rows} new results, stored: {stored}")
    results = pa.concat_tables([*found, live.end()])
    print(f"{results.num_rows} results, {live.late()['payments'].num_rows} payment came too late")
    print(results.sort_by("sent_at").slice(0, 3).select(["order", "amount", "method", "carrier"]).to_pylist())
    return results


def on_spark(spark: SparkSession, data: Path, out: Path) -> None:
    """The same join of the same files on Spark, one of each stream a batch; results are Parquet files."""
    frames = {}
    for name in TIMES:
        path = str(data / name)
        rows = spark.readStream.schema(spark.read.parquet(path).schema)
        frames[name] = rows.option("maxFilesPerTrigger", 1).parquet(path)
    joined = bd.spark.join(query(), frames, buckets=2)
    writer = joined.writeStream.option("checkpointLocation", str(out / "checkpoint"))
    streaming = writer.trigger(availableNow=True).start(str(out / "results"))
    streaming.awaitTermination()
    print(bd.spark.why(streaming))


if __name__ == "__main__":
    here = Path(__file__).parent
    main(here / "data")
    if "--spark" in sys.argv:
        on_spark(bd.spark.session("ecommerce"), here / "data", here / "out" / "python")
