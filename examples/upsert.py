"""Results as rows of a table that are inserted or updated, once each, whatever Spark repeats.

`foreachBatch` is called at least once for each batch: after a failure Spark gives the last batch again, with
the same rows and the same number. So the table's database also remembers, for each query, the last batch it
has taken, in the same transaction as the rows: a batch that comes again is left out. That makes even counting
safe, which a plain upsert would not be. The number belongs to a checkpoint: with a new checkpoint take a new
name, because its batches begin at 0 again.

A batch that is left out must be read all the same: the join's state is written while its rows are, and Spark
stops a query whose batch was not read to its end (STATE_STORE_COMMIT_VALIDATION_FAILED); `show()` and
`limit()` do not read it all.

The table is in SQLite here; any database with transactions does. The batch is fetched by the driver, in one
action; a batch that is too large for it must be written to a staging table by the executors first.

    python examples/upsert.py
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import braided as bd
from braided.testing.samples.files import add_file

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUERY = bd.JoinQuery(
    [
        bd.Stream("orders", key="id", time="at", window="1 hour", lateness="10 seconds"),
        bd.Stream("payments", key="id", time="at", window="1 hour", lateness="10 seconds"),
    ],
    select={"id": "orders.id", "amount": "payments.amount"},
)
SCHEMAS = {"orders": "id long, at timestamp", "payments": "id long, at timestamp, amount long"}
TABLES = """
    create table if not exists paid (id integer primary key, amount integer, payments integer);
    create table if not exists taken (query text primary key, batch integer);
"""
UPSERT = """
    insert into paid values (?, ?, 1)
    on conflict (id) do update set amount = amount + excluded.amount, payments = payments + 1
"""
REMEMBER = "insert into taken values (?, ?) on conflict (query) do update set batch = excluded.batch"


def upsert(database: Path, query: str) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` is given: each batch changes the table once."""

    def take(rows: DataFrame, batch: int) -> None:
        found = [(row.id, row.amount) for row in rows.select("id", "amount").collect()]  # always, and all
        with contextlib.closing(sqlite3.connect(database)) as db:
            db.executescript(TABLES)
            last = db.execute("select batch from taken where query = ?", (query,)).fetchone()
            if last is not None and batch <= last[0]:
                return  # it came again
            with db:  # one transaction: the rows, and that they are there
                db.executemany(UPSERT, found)
                db.execute(REMEMBER, (query, batch))

    return take


def table(*rows: tuple[int, ...]) -> pa.Table:
    """Rows from ids, seconds after noon, and perhaps amounts."""
    ids, after, *amounts = zip(*rows, strict=True)
    at = pa.array([NOON + timedelta(seconds=s) for s in after], pa.timestamp("us", tz="UTC"))
    columns = {"id": pa.array(ids, pa.int64()), "at": at}
    return pa.table(columns | ({"amount": pa.array(amounts[0], pa.int64())} if amounts else {}))


def generate(folder: Path) -> None:
    """Two batches; order 1 is paid in three parts."""
    batches = {
        "orders": [table((1, 0), (2, 1)), table((3, 60))],
        "payments": [table((1, 5, 10), (1, 6, 20), (2, 7, 5)), table((1, 61, 30), (3, 62, 7))],
    }
    for name, tables in batches.items():
        for n, rows in enumerate(tables):
            add_file(folder / name, n, rows)


def run(spark: SparkSession, folder: Path) -> None:
    """Join all there is, into the database."""
    frames = {
        name: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        for name, schema in SCHEMAS.items()
    }
    joined = bd.spark.join(QUERY, frames, buckets=2)
    writer = joined.writeStream.foreachBatch(upsert(folder / "paid.db", "payments-1"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def paid(folder: Path) -> list[tuple[int, int, int]]:
    """Id, amount and number of payments of each order."""
    with contextlib.closing(sqlite3.connect(folder / "paid.db")) as db:
        return db.execute("select id, amount, payments from paid order by id").fetchall()


def main() -> None:
    """Show the table."""
    spark = bd.spark.session("upsert")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder)
        run(spark, folder)
        for order, amount, payments in paid(folder):
            print(f"order {order}: {amount} in {payments} payments")
    spark.stop()


if __name__ == "__main__":
    main()
