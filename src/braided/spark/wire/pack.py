"""Before the join: rows of one stream become a few Arrow blobs, one or more per bucket.

Spark hands Python operators with state their input row by row, which is slow; so rows travel packed.
Every task also sends every bucket a *control row*: how many rows it saw, how many of them cannot join
(null key, null time), the newest time, and how many of the rows that can join go to this bucket, to the ones
before it and to all. So all buckets know the whole stream's progress, compute the same watermark, and know
their share of a budget.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from braided.engine.intake import split
from braided.engine.sides import times
from braided.engine.sides.keys import valid_keys
from braided.engine.sides.storable import to_storable
from braided.spark.plan import JoinPlan
from braided.spark.wire import punctuations
from braided.spark.wire.bucketing import Bucketing, Seen, Target, partition, target

_FLUSH_BYTES = 64 << 20


class Packer:
    """Packs the rows of one partition of one stream, for the stage that joins it."""

    def __init__(self, plan: JoinPlan, stream: int) -> None:
        self._plan, self._number = plan, stream

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Data blobs, then one control row per bucket."""
        bucketing, seen = Bucketing(self._target(), partition()), Seen()
        held: list[pa.RecordBatch] = []
        size = punctuated = 0
        for batch in batches:
            batch, closing = split(self._plan.layouts[self._number].stream, batch)
            punctuated += closing.num_rows
            if closing.num_rows:
                yield from self._closing(closing, bucketing)
            if batch.num_rows:
                held.append(self._judged(batch, seen))
                size += held[-1].nbytes
            if size >= _FLUSH_BYTES:
                yield from bucketing.packed(held)
                held, size = [], 0
        yield from bucketing.packed(held)
        if seen.rows or punctuated:  # every bucket runs, and reports
            yield bucketing.control(seen)

    def _target(self) -> Target:
        return target(self._plan, self._number)

    def _closing(self, batch: pa.RecordBatch, bucketing: Bucketing) -> Iterator[pa.RecordBatch]:
        """Punctuations, for the buckets of their keys or for all; those with nulls are only counted."""
        layout, keys = self._plan.layouts[self._number], self._plan.keys
        batch = self._cast(batch)
        upto, count = layout.stream.upto, batch.num_rows
        largest: int | None = None
        if upto is None:
            stored = self._stored(batch)
            valid = valid_keys([stored.column(k) for k in layout.keys])
            stored = stored if valid is None else stored.filter(pa.array(valid))
            yield from bucketing.punctuations(punctuations.keys(stored))
            count -= stored.num_rows
        elif len(column := to_storable(batch.column(upto)).drop_null()):
            largest = keys.largest(keys.hashes([column], len(column)))
        if count:
            yield from bucketing.to_all(lambda first: punctuations.upto(largest, count if first else 0))

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        schema = self._plan.layouts[self._number].schema
        return pa.RecordBatch.from_arrays(
            [_cast(batch.column(f.name), f.type) for f in schema], schema=schema
        )

    def _stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        layout = self._plan.layouts[self._number]
        return pa.RecordBatch.from_arrays(
            [to_storable(batch.column(c)) for c in layout.columns], schema=layout.stored_schema
        )

    def _judged(self, batch: pa.RecordBatch, seen: Seen) -> pa.RecordBatch:
        """The stored columns of the rows that can join; the rest is counted."""
        layout = self._plan.layouts[self._number]
        stream = layout.stream
        batch = self._cast(batch)
        seen.rows += batch.num_rows
        keep = valid_keys([batch.column(c) for c in layout.joined])
        nulls = 0
        if stream.time is not None:
            event = times.event_times(stream, batch.column(stream.time))
            if event.valid is not None:
                nulls = int((~event.valid).sum())
                keep = event.valid if keep is None else keep & event.valid
            seen.at(event.newest_us)
        seen.null_times += nulls
        stored = self._stored(batch)
        if keep is None:
            return stored
        seen.null_keys += int((~keep).sum()) - nulls
        return stored.filter(pa.array(keep))


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if column.type == type_ else column.cast(type_)
