"""Before a stage: rows become a few Arrow blobs, one or more per bucket.

Every task also sends every bucket a *control row*: how many rows it saw, how many of them cannot join
(null key, null time), the newest time, and how many of the rows that can join go to this bucket, to the ones
before it and to all. So all buckets know the whole stream's progress, compute the same watermark, and know
their share of a budget.

A punctuation that closes a key goes to that key's bucket, one that closes a range to all of them. One with a
null closes nothing; it is counted all the same.

Between two stages
------------------
A stage's task hands on blobs of rows and, from every bucket, the newest time of each leaf stream. All of it
belongs to the micro-batch at hand: the next stage runs in the same Spark job. Every task tells every bucket
of the next stage these times and its row counts, even if it has no row; a bucket of a stage has input in
every batch in which any leaf stream brings a row, so no bucket of the next stage misses a batch either.

The watermark is over all leaf streams, so the first stages must know the newest times of streams that only
a later stage joins: `tell` sends them, from a scan of the time column alone.

Late rows that are to come out flagged travel through all later stages as they are: a stage's output is used
once, because Spark would run it again for a second use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.intake import split
from braided.engine.operators.layout import Layout
from braided.engine.sides import times
from braided.engine.sides.keys import KeyFormat, valid_keys
from braided.engine.sides.storable import to_storable
from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs
from braided.spark.wire.bucketing import Bucketing
from braided.spark.wire.packed import Newest, latest

Batches: TypeAlias = Iterator[pa.RecordBatch]


def pack(plan: JoinPlan, number: int, batches: Batches) -> Batches:
    """Pack one task's rows of a stream: data blobs, then one control row per bucket."""
    layout, bucketing, punctuated = plan.layouts[number], Bucketing(plan, number), 0
    for batch in batches:
        batch = batch.rename_columns(plan.schemas[number].names)  # they may go by number
        batch, closing = split(layout.stream, batch.select(layout.schema.names).cast(layout.schema))
        punctuated += closing.num_rows
        if closing.num_rows:
            yield from _closing(layout, plan.keys, closing, bucketing)
        if batch.num_rows:
            yield from bucketing.add(_joinable(layout, batch, bucketing))
    yield from bucketing.flush()
    if bucketing.counts["rows_in"] or punctuated:  # every bucket runs, and reports
        yield bucketing.control()


def repack(plan: JoinPlan, number: int, batches: Batches) -> Batches:
    """Pack what one task of a lower stage made for this one: data blobs, then one control row per bucket."""
    bucketing = Bucketing(plan, number)
    newest: Newest | None = None
    for batch in batches:
        columns = (batch.column(name) for name in ("blob", "late", "leaves_us"))
        for blob, late, leaves_us in zip(*columns, strict=True):
            if leaves_us.is_valid:
                heard = leaves_us.as_py()
                newest = heard if newest is None else list(map(latest, zip(newest, heard, strict=True)))
            if blob.is_valid and late.as_py():
                yield bucketing.passing(blob.as_py())
            elif blob.is_valid:
                rows = blobs.decode(blob.as_buffer())
                bucketing.counts["rows_in"] += rows.num_rows
                yield from bucketing.add(rows)
    yield from bucketing.flush()
    if newest is not None:
        yield bucketing.control(newest)


def tell(plan: JoinPlan, number: int, batches: Batches) -> Batches:
    """Tell every bucket the newest time of a leaf stream that another stage joins, if it has one."""
    stream, bucketing = plan.query.streams[number], Bucketing(plan, number)
    for batch in batches:
        if batch.num_rows and stream.time is not None:
            bucketing.saw(times.event_times(stream, batch.column(0)).newest_us)
    if bucketing.newest_us is not None:
        yield bucketing.control()


def beat(plan: JoinPlan, batches: Batches) -> Batches:
    """Tell every bucket that time has passed, if it has."""
    if sum(batch.num_rows for batch in batches):
        yield Bucketing(plan).control()


def _closing(layout: Layout, keys: KeyFormat, batch: pa.RecordBatch, bucketing: Bucketing) -> Batches:
    """Punctuations, for the buckets of their keys or for all."""
    upto, uncounted = layout.stream.upto, batch.num_rows
    if upto is None:
        stored = _stored(layout, batch)
        valid = valid_keys([stored.column(k) for k in layout.keys])
        stored = stored if valid is None else stored.filter(pa.array(valid))
        uncounted -= stored.num_rows
        yield from bucketing.punctuations(stored)
    elif len(column := to_storable(batch.column(upto)).drop_null()):
        largest = int(np.argmax(keys.ranks(keys.hashes([column], len(column)))))
        yield from bucketing.to_all(pa.record_batch({upto: column.slice(largest, 1)}))
    bucketing.counts["punctuations"] += uncounted


def _stored(layout: Layout, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [to_storable(batch.column(c)) for c in layout.columns]
    return pa.RecordBatch.from_arrays(columns, schema=layout.stored_schema)


def _joinable(layout: Layout, batch: pa.RecordBatch, bucketing: Bucketing) -> pa.RecordBatch:
    """The stored columns of the rows that can join; the rest is counted."""
    stream, stored = layout.stream, _stored(layout, batch)
    valid, nulls = valid_keys([batch.column(c) for c in layout.joined]), 0
    if stream.time is not None:
        event = times.event_times(stream, batch.column(stream.time))
        if event.valid is not None:
            nulls = int((~event.valid).sum())
            valid = event.valid if valid is None else valid & event.valid
        bucketing.saw(event.newest_us)
    dropped = 0 if valid is None else int((~valid).sum())
    bucketing.counts.update(rows_in=batch.num_rows, null_times=nulls, null_keys=dropped - nulls)
    return stored.filter(pa.array(valid)) if dropped else stored
