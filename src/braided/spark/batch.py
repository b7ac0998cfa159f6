"""The join of batch DataFrames: each bucket's packed rows are joined in one go, without state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from braided.spark.bucket import Bucket, Packed
from braided.spark.plan import JoinPlan


def batch_join(plan: JoinPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that joins all rows of one bucket and yields blobs of results."""

    def join_bucket(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packed = []
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in Packed._fields]
            packed += [Packed(*row) for row in zip(*columns, strict=True)]
        for blob, _ in Bucket(plan, 0, Nowhere()).run(packed, finish=True):
            row = {"blob": blob, "leaves_us": None}
            yield pa.RecordBatch.from_pylist([row], _schema(plan))

    return join_bucket


def whole_batch_join(plan: JoinPlan) -> Callable[[pa.Table], pa.Table]:
    """The same from table to table: Spark 4.0 knows no other way."""
    pieces = batch_join(plan)

    def join_bucket(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches(pieces(iter(table.to_batches())), _schema(plan))

    return join_bucket


def _schema(plan: JoinPlan) -> pa.Schema:
    handed = [] if plan.stage.last else [("leaves_us", pa.list_(pa.int64()))]
    return pa.schema([("blob", pa.binary()), *handed])


class Nowhere:
    """A state that is empty and forgets everything."""

    def get_meta(self) -> bytes | None:
        """Nothing."""
        return None

    def put_meta(self, data: bytes) -> None:
        """Forget it."""

    def get_chunk(self, number: int) -> bytes | None:
        """Nothing."""
        return None

    def put_chunk(self, number: int, data: bytes) -> None:
        """Forget it."""

    def remove_chunk(self, number: int) -> None:
        """Nothing to remove."""
