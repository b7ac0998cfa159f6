"""The join of batch DataFrames: each bucket's packed rows are joined in one go, without state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from braided.spark.bucket import Bucket
from braided.spark.plan import JoinPlan
from braided.spark.wire.packed import Found, packed_rows, schema, to_arrow


def batch_join(plan: JoinPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that joins all rows of one bucket and yields blobs of results."""

    def join_bucket(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in Bucket(plan, 0, None).run(packed_rows(batches)):
            yield to_arrow([row])

    return join_bucket


def whole_batch_join(plan: JoinPlan) -> Callable[[pa.Table], pa.Table]:
    """The same from table to table: Spark 4.0 knows no other way."""
    pieces = batch_join(plan)

    def join_bucket(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches(pieces(iter(table.to_batches())), schema(Found))

    return join_bucket
