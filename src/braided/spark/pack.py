"""Before the join: rows of one stream become a few Arrow blobs, one or more per bucket.

Spark hands Python operators with state their input row by row, which is slow; so rows travel packed.
Every task also sends every bucket a *control row*: how many rows it saw, how many of them cannot join
(null key, null time), the newest time, and how many of the rows that can join go to this bucket, to the ones
before it and to all. So all buckets know the whole stream's progress, compute the same watermark, and know
their share of a budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braided.spark import blobs
from braided.spark.labels import labels
from braided.spark.plan import JoinPlan
from braided.state import times
from braided.state.keys import Int64s, valid_keys
from braided.state.storable import to_storable

_FLUSH_BYTES = 64 << 20
_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("stream", pa.int32()),
        ("part", pa.int32()),
        ("seq", pa.int32()),
        ("rows_in", pa.int64()),
        ("null_keys", pa.int64()),
        ("null_times", pa.int64()),
        ("newest_us", pa.int64()),
        ("rows_before", pa.int64()),
        ("rows_upto", pa.int64()),
        ("rows_total", pa.int64()),
        ("blob", pa.binary()),
    ]
)


@dataclass
class _Seen:
    """What a task has seen of its stream; `by_bucket` are the rows that can join."""

    by_bucket: Int64s
    rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    newest_us: int | None = None


class Packer:
    """Packs the rows of one partition of one stream."""

    def __init__(self, plan: JoinPlan, stream: int) -> None:
        self._plan, self._number = plan, stream

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Data blobs, then one control row per bucket."""
        part, seen, seq = _partition(), _Seen(np.zeros(self._plan.buckets, np.int64)), 0
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if batch.num_rows:
                held.append(self._judged(batch, seen))
                size += held[-1].nbytes
            if size >= _FLUSH_BYTES:
                for packed in self._packed(held, part, seq, seen):
                    yield packed
                    seq += 1
                held, size = [], 0
        for packed in self._packed(held, part, seq, seen):
            yield packed
            seq += 1
        if seen.rows:
            yield self._control(part, seq, seen)

    def _judged(self, batch: pa.RecordBatch, seen: _Seen) -> pa.RecordBatch:
        """The stored columns of the rows that can join; the rest is counted."""
        layout = self._plan.layouts[self._number]
        stream = layout.stream
        batch = pa.RecordBatch.from_arrays(
            [_cast(batch.column(f.name), f.type) for f in layout.schema], schema=layout.schema
        )
        seen.rows += batch.num_rows
        keep = valid_keys([batch.column(c) for c in layout.joined])
        nulls = 0
        if stream.time is not None:
            event = times.event_times(stream, batch.column(stream.time))
            if event.valid is not None:
                nulls = int((~event.valid).sum())
                keep = event.valid if keep is None else keep & event.valid
            if event.newest_us is not None:
                newest = event.newest_us if seen.newest_us is None else seen.newest_us
                seen.newest_us = max(event.newest_us, newest)
        seen.null_times += nulls
        stored = pa.RecordBatch.from_arrays(
            [to_storable(batch.column(c)) for c in layout.columns], schema=layout.stored_schema
        )
        if keep is None:
            return stored
        seen.null_keys += int((~keep).sum()) - nulls
        return stored.filter(pa.array(keep))

    def _packed(
        self, held: list[pa.RecordBatch], part: int, seq: int, seen: _Seen
    ) -> Iterator[pa.RecordBatch]:
        if not held:
            return
        rows = held[0] if len(held) == 1 else pa.concat_batches(held)
        columns = [rows.column(k) for k in self._plan.layouts[self._number].keys]
        hashes = self._plan.keys.hashes(columns, rows.num_rows)
        bucket = (hashes & (self._plan.buckets - 1)).astype(np.uint16)
        counts = np.bincount(bucket, minlength=self._plan.buckets)
        seen.by_bucket += counts
        rows = rows.take(pa.array(np.argsort(bucket, kind="stable")))
        start = 0
        for number in np.flatnonzero(counts):
            for piece in blobs.bounded(rows.slice(start, counts[number])):
                yield self._row(int(number), part, seq, blobs.encode(piece))
                seq += 1
            start += int(counts[number])

    def _row(self, bucket: int, part: int, seq: int, blob: bytes) -> pa.RecordBatch:
        label = labels(self._plan.buckets)[bucket]
        values = [label, self._number, part, seq, 0, 0, 0, None, 0, 0, 0, blob]
        return pa.RecordBatch.from_arrays(
            [pa.array([v], f.type) for v, f in zip(values, _SCHEMA, strict=True)], schema=_SCHEMA
        )

    def _control(self, part: int, seq: int, seen: _Seen) -> pa.RecordBatch:
        """Counts go to the first bucket, so that sums over buckets are right; times go to all."""
        n = self._plan.buckets
        first = [1] + [0] * (n - 1)
        upto = np.cumsum(seen.by_bucket)
        columns = [
            labels(n), [self._number] * n, [part] * n, [seq] * n,
            [seen.rows * f for f in first], [seen.null_keys * f for f in first],
            [seen.null_times * f for f in first], [seen.newest_us] * n,
            upto - seen.by_bucket, upto, [upto[-1]] * n, [None] * n,
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
        )


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if column.type == type_ else column.cast(type_)


def _partition() -> int:
    from pyspark import TaskContext  # noqa: PLC0415  (only inside a task)

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
