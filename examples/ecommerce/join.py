"""Orders with their payment and their shipment, and orders without payment, batch by batch in this process.

    python examples/ecommerce/join.py [--spark]    # in this process; with --spark on Spark, too

It writes the rows into the folder `data` beside it, where job.yaml and unpaid.yaml find them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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


def shipped() -> bd.JoinQuery:
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


def unpaid() -> bd.JoinQuery:
    """An hour after the order nobody has paid."""
    return bd.JoinQuery(
        [
            bd.Stream("orders", "order_id", time="placed_at", window="1 hour", lateness="1 minute"),
            bd.Stream(
                "payments", "order_id", time="paid_at", window="0 seconds", lateness="1 minute", how="anti"
            ),
        ],
        where="orders.amount >= 20",
        select={
            "order": "orders.order_id",
            "amount": "orders.amount",
            "placed_at": "orders.placed_at",
        },
    )


QUERIES: dict[str, Callable[[], bd.JoinQuery]] = {"shipped": shipped, "unpaid": unpaid}


def tables(orders: int = ORDERS) -> dict[str, pa.Table]:
    """The shop's streams; the very first payment is told once more at the end, a day too late."""
    made = shop.tables(orders)
    payments = made["payments"]
    return {**made, "payments": pa.concat_tables([payments, payments.slice(0, 1)])}


def main(folder: Path, orders: int = ORDERS) -> dict[str, pa.Table]:
    """Write the streams into a folder, join them batch by batch, and return the results of both queries."""
    batches = by_period(tables(orders), TIMES, BATCHES)
    write_batches(folder, batches)
    return {"shipped": _shipped(batches), "unpaid": _unpaid(batches)}


def _shipped(batches: list[dict[str, pa.Table]]) -> pa.Table:
    live, found = bd.LocalJoin(shipped()), []
    for number, batch in enumerate(batches):
        found.append(live.push(batch))
        stored = {name: stream.live_rows for name, stream in live.stats().streams.items()}
        print(f"batch {number}: {found[-1].num_rows} new results, stored: {stored}")
    results = pa.concat_tables([*found, live.end()])
    print(f"{results.num_rows} results, {live.late()['payments'].num_rows} payment came too late")
    print(results.sort_by("sent_at").slice(0, 3).select(["order", "amount", "method", "carrier"]).to_pylist())
    return results


def _unpaid(batches: list[dict[str, pa.Table]]) -> pa.Table:
    """The orders of the last hour still wait for their payment, so the join is not ended."""
    live, query = bd.LocalJoin(unpaid()), unpaid()
    results = pa.concat_tables([live.push({name: batch[name] for name in query.names}) for batch in batches])
    waiting = live.stats().unsettled_rows
    said = f"{results.num_rows} orders of 20 or more were not paid within an hour"
    print(f"{said}; {waiting} orders still wait")
    return results


def on_spark(spark: SparkSession, data: Path, out: Path, name: str) -> None:
    """One of the queries on Spark, a file of each stream a batch; results are Parquet files."""
    query, frames = QUERIES[name](), {}
    for stream in query.names:
        path = str(data / stream)
        rows = spark.readStream.schema(spark.read.parquet(path).schema)
        frames[stream] = rows.option("maxFilesPerTrigger", 1).parquet(path)
    joined = bd.spark.join(query, frames, buckets=2)
    writer = joined.writeStream.option("checkpointLocation", str(out / "checkpoint"))
    streaming = writer.trigger(availableNow=True).start(str(out / "results"))
    streaming.awaitTermination()
    print(bd.spark.why(streaming))


if __name__ == "__main__":
    here = Path(__file__).parent
    main(here / "data")
    for asked in QUERIES if "--spark" in sys.argv else ():
        on_spark(bd.spark.session("ecommerce"), here / "data", here / "out" / "python" / asked, asked)
