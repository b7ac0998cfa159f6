"""Before the join: rows of one stream become a few Arrow blobs, one or more per bucket.

Every task also sends every bucket a *control row*: how many rows it saw, how many of them cannot join
(null key, null time), the newest time, and how many of the rows that can join go to this bucket, to the ones
before it and to all. So all buckets know the whole stream's progress, compute the same watermark, and know
their share of a budget.

A punctuation that closes a key goes to that key's bucket, one that closes a range to all of them. One with a
null closes nothing; it is counted all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from braided.engine.intake import split
from braided.engine.sides import times
from braided.engine.sides.keys import valid_keys
from braided.engine.sides.storable import to_storable
from braided.spark.plan import JoinPlan
from braided.spark.wire.bucketing import Bucketing, Seen, target


class Packer:
    """Packs the rows of one partition of one stream, for the stage that joins it."""

    def __init__(self, plan: JoinPlan, stream: int) -> None:
        self._plan, self._number = plan, stream

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Data blobs, then one control row per bucket."""
        bucketing, seen = Bucketing(target(self._plan, self._number)), Seen()
        punctuated = 0
        for batch in batches:
            batch = batch.rename_columns(self._plan.schemas[self._number].names)  # they may go by number
            layout = self._plan.layouts[self._number]
            batch, closing = split(layout.stream, batch.select(layout.schema.names).cast(layout.schema))
            punctuated += closing.num_rows
            if closing.num_rows:
                yield from self._closing(closing, bucketing, seen)
            if batch.num_rows:
                yield from bucketing.add(self._judged(batch, seen))
        yield from bucketing.flush()
        if seen.rows_in or punctuated:  # every bucket runs, and reports
            yield bucketing.control(seen)

    def _closing(self, batch: pa.RecordBatch, bucketing: Bucketing, seen: Seen) -> Iterator[pa.RecordBatch]:
        """Punctuations, for the buckets of their keys or for all."""
        layout, keys = self._plan.layouts[self._number], self._plan.keys
        seen.punctuations += batch.num_rows
        upto = layout.stream.upto
        if upto is None:
            stored = self._stored(batch)
            valid = valid_keys([stored.column(k) for k in layout.keys])
            stored = stored if valid is None else stored.filter(pa.array(valid))
            seen.punctuations -= stored.num_rows
            yield from bucketing.punctuations(stored)
        elif len(column := to_storable(batch.column(upto)).drop_null()):
            largest = int(np.argmax(keys.ranks(keys.hashes([column], len(column)))))
            yield from bucketing.to_all(pa.record_batch({upto: column.slice(largest, 1)}))

    def _stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        layout = self._plan.layouts[self._number]
        return pa.RecordBatch.from_arrays(
            [to_storable(batch.column(c)) for c in layout.columns], schema=layout.stored_schema
        )

    def _judged(self, batch: pa.RecordBatch, seen: Seen) -> pa.RecordBatch:
        """The stored columns of the rows that can join; the rest is counted."""
        layout = self._plan.layouts[self._number]
        stream = layout.stream
        seen.rows_in += batch.num_rows
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
