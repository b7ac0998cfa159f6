"""What a checkpoint still owes, when nothing more will arrive."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from braided.query.errors import InvalidValue
from braided.spark.bucket import Bucket
from braided.spark.plan import JoinPlan
from braided.spark.storage.store import Meta
from braided.spark.storage.stored import chunk_rows, meta_rows, operators_of, some_session
from braided.spark.wire.blobs import unpack
from braided.spark.wire.labels import labels

_META = -1  # the number of the small value among the chunks


def finish(checkpoint: str, *, spark: SparkSession | None = None) -> DataFrame:
    """The results that a checkpoint of a join with `Memory(defer=True)` owes, as a batch DataFrame.

    It reads what was last committed and changes nothing, so it can be repeated; stop the query first. A query
    that goes on with the checkpoint afterwards hands the same results out again: go on with
    `Memory(defer=False)` instead of calling this, and the first batch brings them.
    """
    spark = some_session("finish", spark)
    try:
        (operator,) = operators_of(spark, checkpoint)
        metas = meta_rows(spark, checkpoint, operator)
        first = metas.first()
        meta = None if first is None else Meta.decode(bytes(first["data"]))
    except Exception as wrong:
        reason = str(wrong).splitlines()[0]
        raise InvalidValue(f"no state of one Braided join can be read at {checkpoint!r}: {reason}") from None
    if meta is None or not meta.finishing:
        raise InvalidValue(
            f"the checkpoint at {checkpoint!r} owes nothing: only joins with bd.Memory(..., defer=True) let "
            "results wait"
        )
    plan = JoinPlan.from_dict(meta.finishing, meta.buckets)
    stored = metas.withColumn("number", F.lit(_META).cast("long")).unionByName(
        chunk_rows(spark, checkpoint, operator)
    )
    blobs = stored.groupBy("bucket").applyInArrow(_owed(plan), "blob binary")
    return blobs.mapInArrow(unpack, from_arrow_schema(plan.schema))


def _owed(plan: JoinPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function from all that is stored of a bucket to blobs of what it owes."""

    def blobs_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = plan.query.memory.directory if plan.query.memory else None
        with tempfile.TemporaryDirectory(prefix="braided-finish-", dir=directory) as folder:
            state, bucket = Folder(Path(folder)), 0
            for batch in batches:
                columns = (batch.column(name) for name in ("bucket", "number", "data"))
                for label, number, data in zip(*columns, strict=True):
                    bucket = labels(plan.buckets).index(label.as_py())
                    state.put_chunk(number.as_py(), data.as_buffer())
            for blob in Bucket(plan, bucket, state).owed():
                yield pa.RecordBatch.from_pylist([{"blob": blob}], pa.schema([("blob", pa.binary())]))

    return blobs_of


class Folder:
    """A bucket's state in files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_meta(self) -> bytes | None:
        """The small value."""
        return self.get_chunk(_META)

    def put_meta(self, data: bytes) -> None:
        """Write the small value."""
        self.put_chunk(_META, data)

    def get_chunk(self, number: int) -> bytes | None:
        """A chunk's bytes."""
        path = self._folder / str(number)
        return path.read_bytes() if path.exists() else None

    def put_chunk(self, number: int, data: bytes) -> None:
        """Store a chunk."""
        (self._folder / str(number)).write_bytes(data)

    def remove_chunk(self, number: int) -> None:
        """Forget a chunk."""
        (self._folder / str(number)).unlink(missing_ok=True)
