"""Late rows in a table of their own, beside the results, from one streaming query.

`late="flag"` hands late rows out with the name of their stream in `late_stream`. Two queries, one for each
table, would run the join twice; so `foreachBatch` writes both. Each of its writes is an action, and without
`persist()` each would run the batch's join again: the same rows, at twice the price. Every batch has a folder
of its own that is overwritten, so a batch that Spark repeats after a failure changes nothing.

    python examples/late_rows.py
"""

from __future__ import annotations

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
        bd.Stream("orders", key="id", time="at", window="1 minute", lateness="10 seconds"),
        bd.Stream("payments", key="id", time="at", window="1 minute", lateness="10 seconds"),
    ]
)
SCHEMA = "id long, at timestamp"


def write_both(folder: Path) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` is given: results go to one table, late rows to another."""

    def write(rows: DataFrame, batch: int) -> None:
        rows.persist()  # two actions follow
        try:
            for table, which in (("results", "late_stream is null"), ("late", "late_stream is not null")):
                target = folder / table / f"batch={batch}"
                rows.where(which).write.mode("overwrite").parquet(str(target))
        finally:
            rows.unpersist()

    return write


def seconds(*pairs: tuple[int, int]) -> pa.Table:
    """Rows from ids and seconds after noon."""
    ids, after = zip(*pairs, strict=True)
    at = pa.array([NOON + timedelta(seconds=s) for s in after], pa.timestamp("us", tz="UTC"))
    return pa.table({"id": pa.array(ids, pa.int64()), "at": at})


def generate(folder: Path) -> None:
    """Three batches; in the last the payment of order 2 is an hour behind, though it was made in time."""
    batches = {
        "orders": [seconds((1, 0), (2, 1)), seconds((3, 3600)), seconds((4, 3601))],
        "payments": [seconds((1, 5)), seconds((3, 3602)), seconds((2, 6), (4, 3603))],
    }
    for name, tables in batches.items():
        for n, table in enumerate(tables):
            add_file(folder / name, n, table)


def run(spark: SparkSession, folder: Path) -> None:
    """Join all there is."""
    frames = {
        name: spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        for name in QUERY.names
    }
    joined = bd.spark.join(QUERY, frames, buckets=2, late="flag")
    writer = joined.writeStream.foreachBatch(write_both(folder))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Show both tables."""
    spark = bd.spark.session("late-rows")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder)
        run(spark, folder)
        for table in ("results", "late"):
            print(table)
            spark.read.parquet(str(folder / table)).orderBy("batch").show(truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
