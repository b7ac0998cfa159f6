"""Before a stage: rows become a few Arrow blobs, one or more per bucket.

Every task also sends every bucket a *control row*: how many rows it saw, how many of them cannot join
(null key, null time), the newest time, and how many of the rows that can join go to this bucket, to the ones
before it and to all. So all buckets know the whole stream's progress, compute the same watermark, and know
their share of a budget.

A punctuation that closes a key goes to all buckets that may have rows with it, one that closes a range to all
there are. One with a null, or with a value of another column, closes nothing; it is counted all the same.
Where a stream's rows are spread by more than the key that it promises something about, these buckets are also
told the keys of its rows (`_tell`).

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
from braided.engine.operators.layout import Layout, key_format_of
from braided.engine.sides import times
from braided.engine.sides.keys import keys_in, valid_keys
from braided.engine.sides.storable import to_storable
from braided.policies.recorded import Decision
from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs
from braided.spark.wire.bucketing import Bucketing
from braided.spark.wire.early import Read, budget_of, early, may_drop
from braided.spark.wire.packed import NO_STREAM, Newest, Packed, emitted_rows, latest, to_arrow

Batches: TypeAlias = Iterator[pa.RecordBatch]


def pack(plan: JoinPlan, number: int, batches: Batches, read: Read | None = None) -> Batches:
    """Pack one task's rows of a stream: data blobs, then one control row per bucket.

    What it can `read` may say that not all rows are sent.
    """
    layout, bucketing, punctuated = plan.layouts[number], Bucketing(plan, number), 0
    recorded = read() if read is not None and may_drop(plan, number) else None
    sending, bucketing.reads = early(plan, number, recorded), recorded is not None
    for batch in batches:
        batch = batch.rename_columns(plan.schemas[number].names)  # they may go by number
        batch = batch.select(layout.schema.names).cast(layout.schema)
        batch, closing, partial = split(layout.stream, batch)
        punctuated += closing.num_rows + partial
        bucketing.counts.update(punctuations=partial, partial_punctuations=partial)
        if closing.num_rows:
            yield from _closing(plan, number, closing, bucketing)
        if batch.num_rows:
            batch = _joinable(layout, batch, bucketing)
            if sending is None:
                yield from _by_epoch(plan, number, batch, bucketing)
            else:
                sending.add(batch)
            yield from _tell(plan, number, batch, bucketing)
    if sending is not None:
        bucketing.early = sending.seen
        for batch in sending.rows():
            bucketing.early -= batch.num_rows
            yield from _by_epoch(plan, number, batch, bucketing)
    yield from bucketing.flush()
    if bucketing.counts["rows_in"] or punctuated:  # every bucket runs, and reports
        yield bucketing.control()


def repack(plan: JoinPlan, number: int, batches: Batches) -> Batches:
    """Pack what one task of a lower stage made for this one: data blobs, then one control row per bucket."""
    bucketing = Bucketing(plan, number)
    newest: Newest | None = None
    for made in emitted_rows(batches):
        if made.leaves_us is not None:
            heard = made.leaves_us
            newest = heard if newest is None else list(map(latest, zip(newest, heard, strict=True)))
        if made.blob is not None and made.late:
            yield bucketing.passing(made.blob)
        elif made.blob is not None:
            rows = blobs.decode(made.blob)
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
    """Tell every bucket the recorded time, if it has moved; clear those of epochs that have gone."""
    for batch in batches:
        columns = [batch.column(i).to_pylist() for i in range(batch.num_columns)]
        for beat, run, changed, *decided in zip(*columns, strict=True):
            yield Bucketing(plan).control(clock_s=beat, run=run)
            if decided and decided[0]:
                yield Bucketing(plan).decided(_decided(plan, Decision.read(decided[0])))
            if changed and plan.resumed is not None and plan.resumed.ended:
                yield to_arrow([Packed(label, NO_STREAM, 0, 0) for label in plan.resumed.ended])


def _decided(plan: JoinPlan, decision: Decision) -> dict[int, tuple[float, int]]:
    """Each bucket's part of a budget, and the rows that all let in; -1: it goes by what it knows itself.

    So do all if another budget was shared out, or among others: they would not add up.
    """
    holds = decision.of == budget_of(plan.query.overload)
    parts = decision.parts if holds and decision.parts.keys() >= set(plan.labels) else {}
    rows = decision.rows if holds and decision.rows is not None else -1
    return {label: (parts.get(label, -1.0), rows) for label in plan.labels}


def _by_epoch(plan: JoinPlan, number: int, batch: pa.RecordBatch, bucketing: Bucketing) -> Batches:
    """Rows that can join, for the epochs that they may join in; the newest of these counts them.

    What a stream promises of its keys holds for all epochs, so they all see its rows.
    """
    if not plan.earlier:
        yield from bucketing.add(_stored(plan.layouts[number], batch))
        return
    stream = plan.query.streams[number]
    event_us = times.event_times(stream, batch.column(stream.time)).us
    counted = np.zeros(batch.num_rows, np.bool_)
    for at, live in enumerate(plan.live):
        inside = live.reached(event_us)
        if live is plan.live[-1]:
            inside |= ~counted  # older than all: they are late, and counted here
        own = inside & ~counted
        for copied, chosen in ((False, own), (True, ~own if stream.promises else inside & counted)):
            if chosen.any():
                rows = _stored(live.layouts[number], batch.filter(pa.array(chosen)))
                yield from bucketing.add(rows, at, copied=copied)
        counted |= inside


def _closing(plan: JoinPlan, number: int, batch: pa.RecordBatch, bucketing: Bucketing) -> Batches:
    """Punctuations, for the buckets of their keys in all epochs, or for all buckets."""
    layout, uncounted = plan.layouts[number], batch.num_rows
    upto = layout.stream.upto
    if upto is None:
        valid = valid_keys([to_storable(batch.column(c)) for c in layout.promised])
        batch = batch if valid is None else batch.filter(pa.array(valid))
        uncounted -= batch.num_rows
        for at, live in enumerate(plan.live):
            yield from bucketing.punctuations(_stored(live.layouts[number], batch), at)
    elif len(column := to_storable(batch.column(upto)).drop_null()):
        keys = key_format_of(plan.query.promised(layout.stream), plan.layouts)
        largest = int(np.argmax(keys.ranks(keys.hashes([column], len(column)))))
        yield from bucketing.to_all(pa.record_batch({upto: column.slice(largest, 1)}))
    bucketing.counts["punctuations"] += uncounted


def _tell(plan: JoinPlan, number: int, batch: pa.RecordBatch, bucketing: Bucketing) -> Batches:
    """Each key of some rows once, for the buckets that must know of it and may get none of them."""
    stream, query = plan.layouts[number].stream, plan.query
    if plan.staged or not query.promises or not (stream.unique or stream.arrival != "any"):
        return
    promised = query.promised(stream)
    for at, live in enumerate(plan.live):
        if live.grid.tells(stream.name, promised) and batch.num_rows:
            layout = live.layouts[number]
            rows = _stored(layout, batch)
            keys = keys_in(key_format_of(promised, live.layouts), [rows.column(c) for c in layout.promised])
            yield from bucketing.tell(rows.filter(pa.array(keys.first_ones())), layout.promised, at)


def _stored(layout: Layout, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [to_storable(batch.column(c)) for c in layout.columns]
    return pa.RecordBatch.from_arrays(columns, schema=layout.stored_schema)


def _joinable(layout: Layout, batch: pa.RecordBatch, bucketing: Bucketing) -> pa.RecordBatch:
    """The rows that can join; the rest is counted."""
    stream = layout.stream
    valid, nulls = valid_keys([batch.column(c) for c in layout.needed]), 0
    if stream.time is not None:
        event = times.event_times(stream, batch.column(stream.time))
        if event.valid is not None:
            nulls = int((~event.valid).sum())
            valid = event.valid if valid is None else valid & event.valid
        bucketing.saw(event.newest_us)
    dropped = 0 if valid is None else int((~valid).sum())
    bucketing.counts.update(rows_in=batch.num_rows, null_times=nulls, null_keys=dropped - nulls)
    kept = batch.filter(pa.array(valid)) if dropped else batch
    if layout.needed != layout.joined and stream.promises:
        keyed = valid_keys([kept.column(c) for c in layout.joined])
        bucketing.keyless += 0 if keyed is None else int((~keyed).sum())
    return kept
