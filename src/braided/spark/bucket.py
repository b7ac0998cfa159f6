"""One bucket's share of a micro-batch: its packed rows in, blobs of results out, state written.

What a bucket emits, and the rows its state holds afterwards, depend only on the committed state and the
rows of the batch. No clock, no task number and no order of arrival decides anything, so any attempt's
output may be paired with any attempt's state, and a retried batch gives the same bag.

In a query of several stages a bucket belongs to one of them. It stores the newest times of all streams, so it
judges by the same watermark as the others; what it is told of them in a batch counts from the next one on.
Rows that a lower stage made are never judged: their last component was accepted in this very batch.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from braided.engine.engine import Counters, Engine
from braided.engine.intake import Arrival
from braided.engine.overload.regulation import Part, Share
from braided.engine.promises.closures import Closures
from braided.engine.sides.side import BOTTOMLESS_US, Reason, Rows
from braided.engine.sides.storable import no_rows
from braided.engine.spill import checkpoint as spill_checkpoint
from braided.engine.stopwatch import Stopwatch
from braided.policies.arrays import Int64s
from braided.query.errors import InvalidValue
from braided.query.plan_tree import Plan
from braided.query.values import plain
from braided.spark import measures
from braided.spark.batch_clock import BatchClock
from braided.spark.plan import LATE_COLUMN, ArenaPlan, JoinPlan
from braided.spark.skew import hottest_rows
from braided.spark.storage.arena import Arena, new_token, open_arena
from braided.spark.storage.chunks import Chunks, as_arrays, as_batch
from braided.spark.storage.cold import ColdGroups, ColdPiece
from braided.spark.storage.store import Meta, State, StreamMeta
from braided.spark.wire import blobs, punctuations
from braided.spark.wire.bucketing import NO_STREAM, Newest, newer
from braided.spark.wire.repack import late_blob

_NO_ROWS = Rows(pa.RecordBatch.from_pylist([], pa.schema([])), np.zeros(0, np.int64), np.zeros(0, np.int64))


class Packed(NamedTuple):
    """A packed row, as `pack` made it."""

    stream: int
    part: int
    seq: int
    rows_in: int
    null_keys: int
    null_times: int
    newest_us: int | None
    rows_before: int
    rows_upto: int
    rows_total: int
    dropped: int
    began_us: int | None
    blob: bytes | None
    leaves_us: Sequence[int | None] | None = None


class Bucket:
    """Processes one bucket's part of one micro-batch."""

    def __init__(
        self, plan: JoinPlan, number: int, state: State, query_id: str = "", ahead_seconds: float = 0.0
    ) -> None:
        """`ahead_seconds` is what buckets before this one probed, in this batch and task."""
        self._plan, self._number, self._state, self._query_id = plan, number, state, query_id
        self._ahead_seconds = ahead_seconds
        self._rebuilds = self._hits = 0
        self._keeps_state = True
        self._closed_before: bytes | None = None  # the closed keys, as the state has them
        self.said: str | None = None  # what goes with the row of metrics, in words
        self.probing_seconds = 0.0
        self.leaves_us: list[int | None] | None = None  # the newest times of all streams, once it has run

    def run(
        self, packed: Sequence[Packed], *, finish: bool = False
    ) -> Iterator[tuple[bytes | None, list[int | None] | None]]:
        """Blobs of results, and at the end one row of metrics; the state is written in between.

        With `finish` there is nothing to come: results that wait are handed out, and no state is kept.
        """
        fingerprint, stage = self._plan.query.fingerprint(), self._plan.stage.number
        arena = open_arena(self._arena_plan(), self._query_id, fingerprint, self._number, stage)
        try:
            yield from self._run(packed, arena, finish=finish)
        finally:
            arena.close()

    def owed(self) -> Iterator[bytes]:
        """Blobs of all results that wait, if nothing more arrives; the state is as good as gone then."""
        meta = self._meta()
        engine = self._engine(meta, Arena(None, meta.fingerprint))
        for table in itertools.chain.from_iterable(engine.finish()):
            yield from self._blobs(table)

    def _run(
        self, packed: Sequence[Packed], arena: Arena, *, finish: bool
    ) -> Iterator[tuple[bytes | None, list[int | None] | None]]:
        watch = Stopwatch()
        self._keeps_state = not finish
        with watch.on("state"):
            meta = self._meta()
            engine = self._engine(meta, arena)
        with watch.on("engine"):
            judged = self._arrivals(engine, sorted(packed, key=lambda p: (p.stream, p.part, p.seq)))
            arrivals = engine.regulate(judged, _share(packed), self._plan.cores)
        handed = self._handed(engine, packed)
        for table in watch.each("engine", engine.step(arrivals, eager=False, handed=handed)):
            yield from ((blob, None) for blob in self._blobs(table))
        yield from ((blob, None) for blob in self._late(arrivals))
        yield from ((p.blob, None) for p in packed if p.stream == NO_STREAM and p.blob is not None)
        if finish:
            for table in itertools.chain.from_iterable(engine.finish()):
                yield from ((blob, None) for blob in self._blobs(table))
            return
        self._measure(meta, engine, packed)
        if engine.spilling is not None:  # any attempt may, as it likes: the results of this batch are out
            engine.make_room(arrivals)
            engine.spilling.decide_next()
        previous, meta.token = meta.token, new_token()
        if self._rebuilds and (self._plan.query.promises or self._plan.query.memory is not None):
            previous = ""  # chunks that are not committed say where rows lie now
        with watch.on("state"):
            self._write(meta, engine, arrivals)
            arena.save(engine, meta.token, previous)
        seen = engine.statistics()
        self.said = measures.said(seen)
        self.leaves_us = list(engine.watermark.newest_us)
        yield (
            None,
            measures.vector(
                seen,
                meta,
                self._plan.query.tree,
                engine_us=watch.us("engine"),
                state_us=watch.us("state"),
                rebuilds=self._rebuilds,
                arena_hits=self._hits,
                batch_rows=sum(len(a.rows) for a in judged if a is not None),
                hottest_key_rows=0 if self._plan.query.keyless else hottest_rows(judged),
            ),
        )

    def _measure(self, meta: Meta, engine: Engine, packed: Sequence[Packed]) -> None:
        """How long the batch takes, for the budget of the next; no result of this one depends on it."""
        began = [int(p.began_us) for p in packed if p.began_us is not None]
        self.probing_seconds = engine.watch.us("probing") / 1e6
        if began:
            clock = BatchClock(**meta.clock)
            seconds = clock.seconds(min(began), time.time_ns() // 1000)
            meta.clock = dataclasses.asdict(clock)
        if began and not self._idle(packed):
            engine.rationing.measured(seconds, self.probing_seconds, engine.probes, self._ahead_seconds)

    def _idle(self, packed: Sequence[Packed]) -> bool:
        """Whether only time has passed."""
        return all(p.stream == NO_STREAM for p in packed)

    def _arena_plan(self) -> ArenaPlan:
        """Engines with count windows are rebuilt: their state is small, and they wait with rows."""
        return ArenaPlan() if self._plan.query.counts else self._plan.arena

    def _meta(self) -> Meta:
        """The bucket's small value; a checkpoint of another meaning raises before anything is touched."""
        plan, data = self._plan, self._state.get_meta()
        if data is None:
            empty = [StreamMeta() for _ in plan.query.streams]
            meta = Meta(plan.query.fingerprint(), plan.query.meaning(), _said(plan), plan.buckets, empty)
            meta.stage = _stage(plan)
            return meta
        meta = Meta.decode(data)
        check_same_query(meta, plan)
        meta.schema = _said(plan)
        return meta

    def _engine(self, meta: Meta, arena: Arena) -> Engine:
        """An engine in the state that `meta` describes: from the arena if it can be trusted, else rebuilt."""
        engine = self._empty_engine(meta, arena)
        if not meta.batches:
            arena.clear()
            return engine
        # an arena of another plan lacks what is made anew, and its last batch cannot be taken back
        self._check_cold(meta)
        memory = self._plan.query.memory
        same_budget = meta.spilled.get("lineage") == (None if memory is None else memory.lineage)
        if self._same_plan(meta) and same_budget and arena.load(engine, meta.token):
            self._hits += 1
        else:
            arena.clear()
            engine = self._empty_engine(meta, arena)
            self._rebuilds += 1
            self._rebuild(engine, meta)
        engine.counters = [Counters(**said.counters) for said in meta.streams]
        engine.results, engine.batches = meta.results, meta.batches
        if self._same_plan(meta):
            engine.tree.restore(meta.learned)
        engine.rationing.restore(meta.rationing, same_plan=self._same_plan(meta))
        if engine.spilling is not None and meta.spilled:
            spill_checkpoint.restore_numbers(engine.spilling, meta.spilled, ColdPiece.of)
        if engine.closures is not None and meta.closures:
            engine.closures.restore(meta.closures["said"], self._closed_keys(meta))
        return engine

    def _empty_engine(self, meta: Meta, arena: Arena) -> Engine:
        query = self._plan.query
        part = Part(self._number, self._plan.buckets)
        ended_us = BatchClock(**meta.clock).ended_us or 0
        engine = Engine(
            query,
            allocate=arena.allocate,
            expire_after=False,
            measures=False,
            repeatable=True,  # each batch may run in another process, and a repeated run gives the same bag
            part=part,
            subplan=self._plan.subplan,
            clock=lambda: ended_us / 1e6,  # no clock that is read in a batch decides anything in it
            store=ColdGroups(self._chunks(meta)) if self._keeps_state else None,
        )
        engine.learn(dict(zip(query.names, self._plan.schemas, strict=True)))
        engine.watermark.newest_us = [said.newest_us for said in meta.streams]
        engine.regulation.restore(meta.regulation)
        return engine

    def _rebuild(self, engine: Engine, meta: Meta) -> None:
        chunks = self._chunks(meta)
        # rows that went to a cold group must not be found here, too; those that were purged cannot match
        gone = Reason.PURGE if self._plan.query.memory is None else Reason.FLUSH
        for name, said, stream in zip(self._plan.query.names, meta.streams, engine.streams, strict=True):
            if stream is None:  # joined by another stage
                continue
            if not stream.side.purges:
                chunks.without_gone(said.chunks)
            batches = [chunks.read(name, c, stream.layout.stored_schema) for c in said.chunks]
            engine.put(stream, [stream.intake.stored(batch) for batch in batches])
            if stream.side.purges:
                chunks.gone_again(said.chunks, stream.side, gone)
        if not self._same_plan(meta):
            engine.tree.rebuild(engine.regulation.floors_us)
            return
        for source, side in engine.tree.intermediates:
            kept = meta.intermediates[source.name]
            if not side.purges:
                chunks.without_gone(kept)
            engine.tree.put(source, [chunks.read(source.name, c, source.schema) for c in kept])
            if side.purges:
                chunks.gone_again(kept, side, gone)

    def _chunks(self, meta: Meta) -> Chunks:
        return Chunks(self._state, meta, f"bucket {self._number}")

    def _check_cold(self, meta: Meta) -> None:
        """Raise if cold groups of the checkpoint cannot be used as the join is asked for now."""
        query = self._plan.query
        if not any(meta.spilled.get("pieces", ())):
            return
        if query.memory is None or not self._same_plan(meta):
            raise InvalidValue(
                "this checkpoint has groups of keys that are not in memory: go on with the plan and a memory "
                "budget as before (the limit may differ), or start a new checkpoint"
            )
        if len(meta.spilled["counts"][0]["counts"][0]) != 1 << query.memory.group_bits:
            raise InvalidValue(
                "this checkpoint was made with another number of groups; go on with bd.Memory(groups="
                f"{len(meta.spilled['counts'][0]['counts'][0])}), or start a new checkpoint"
            )

    def _closed_keys(self, meta: Meta) -> dict[str, Int64s]:
        self._closed_before, batch = self._chunks(meta).load(meta.closures["chunk"], "closed keys")
        return as_arrays(batch)

    def _same_plan(self, meta: Meta) -> bool:
        """Whether the state was written by the plan that is run now; intermediates are made anew else."""
        return bool((meta.plan or plain(self._plan.query.names)) == plain(self._plan.query.tree))

    def _arrivals(self, engine: Engine, packed: Sequence[Packed]) -> list[Arrival | None]:
        arrivals: list[Arrival | None] = [None] * len(engine.streams)
        told = self._told(packed)
        self._check_told(engine, packed, told)
        for i, stream in enumerate(engine.streams):
            mine = [p for p in packed if p.stream == i]
            if not mine and told[i] is None:
                continue
            if stream is None:  # joined by another stage
                arrivals[i] = Arrival(_NO_ROWS, newest_us=told[i])
                continue
            parts = [blobs.decode(p.blob) for p in mine if p.blob is not None]
            closing = punctuations.read([p for p in parts if punctuations.is_one(p)], stream.intake)
            parts = [part for part in parts if not punctuations.is_one(part)]
            judged = stream.intake.empty()
            if parts:
                rows = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
                judged = stream.intake.judge(rows, engine.watermark.us, borrow=True)
            arrivals[i] = dataclasses.replace(
                judged,
                **closing,
                brought=any(p.rows_total for p in mine) and not any(p.dropped for p in mine),
                rows_in=int(sum(p.rows_in for p in mine)),
                null_keys=int(sum(p.null_keys for p in mine)),
                null_times=int(sum(p.null_times for p in mine)),
                newest_us=told[i],
            )
        return arrivals

    def _told(self, packed: Sequence[Packed]) -> Newest:
        """The newest times of the streams, as far as this batch tells.

        Only the first stages believe those who pack rows; what these found is handed on, so that no two
        stages can differ.
        """
        told: Newest = [None] * len(self._plan.query.streams)
        for p in packed:
            if p.leaves_us is not None:
                told = newer(told, _times(p.leaves_us))
            if p.newest_us is not None and self._plan.first:
                told = newer(told, [int(p.newest_us) if i == p.stream else None for i in range(len(told))])
        return told

    def _check_told(self, engine: Engine, packed: Sequence[Packed], told: Newest) -> None:
        """Raise if the first stages know of rows that this stage has not got: they would be too late here.

        A stream that a later stage joins is read twice in a batch; Spark reads the same rows then.
        """
        for name in () if self._plan.first else self._plan.subplan.streams:
            i = self._plan.query.names.index(name)
            seen = [engine.watermark.newest_us[i], *(p.newest_us for p in packed if p.stream == i)]
            newest, said = max((at for at in seen if at is not None), default=None), told[i]
            if said is not None and (newest is None or said > newest):
                raise InvalidValue(
                    f"stream {name!r}: two reads of one micro-batch gave different rows; a join with several "
                    "keys needs sources that give the same rows again"
                )

    def _handed(self, engine: Engine, packed: Sequence[Packed]) -> dict[Plan, Rows]:
        """What lower stages made in this batch."""
        handed: dict[Plan, Rows] = {}
        inputs = self._plan.inputs
        for number in range(len(engine.streams), len(inputs)):
            source = engine.tree.inputs[inputs[number]]
            mine = sorted((p for p in packed if p.stream == number), key=lambda p: (p.part, p.seq))
            parts = [blobs.decode(p.blob) for p in mine if p.blob is not None]
            rows = pa.concat_batches(parts) if parts else no_rows(source.schema)
            handed[source.node] = engine.tree.entering(source, rows)
        return handed

    def _blobs(self, table: pa.Table) -> Iterator[bytes]:
        if self._plan.late == "flag" and self._plan.stage.last:
            table = table.append_column(LATE_COLUMN, pa.nulls(table.num_rows, pa.string()))
        for batch in table.to_batches():
            for piece in blobs.bounded(batch):
                yield blobs.encode(piece)

    def _late(self, arrivals: Sequence[Arrival | None]) -> Iterator[bytes]:
        """Late rows in the result's columns: those of the other streams are null."""
        if self._plan.late != "flag":
            return
        columns = {c.name: c for c in self._plan.output.columns}
        for i, arrival in enumerate(arrivals):
            if arrival is None or arrival.late is None:
                continue
            rows = arrival.late.num_rows
            arrays: list[Any] = []
            for field in self._plan.schema:
                column = columns.get(field.name)
                if column is not None and column.stream == i:
                    arrays.append(arrival.late.column(column.column).cast(field.type))
                elif field.name == LATE_COLUMN:
                    arrays.append(pa.array([self._plan.query.names[i]] * rows))
                else:
                    arrays.append(pa.nulls(rows, field.type))
            for piece in blobs.bounded(pa.RecordBatch.from_arrays(arrays, schema=self._plan.schema)):
                yield blobs.encode(piece) if self._plan.stage.last else late_blob(piece)

    def _write(self, meta: Meta, engine: Engine, arrivals: Sequence[Arrival | None]) -> None:
        chunks = self._chunks(meta)
        for i, (said, stream) in enumerate(zip(meta.streams, engine.streams, strict=True)):
            said.newest_us = engine.watermark.newest_us[i]
            if stream is None:  # joined by another stage
                continue
            arrival = arrivals[i]
            entered = [arrival.rows] if arrival is not None else []
            mark = engine.tree.marks[self._plan.query.names[i]]
            chunks.keep(said.chunks, entered, stream.side, stream.waiting.pieces, engine.oldest_us(i), mark)
            counted = dataclasses.asdict(engine.counters[i])
            said.counters = {name: n for name, n in counted.items() if n or name == "rows_in"}
        self._write_intermediates(meta, engine, chunks)
        if engine.closures is not None:
            self._write_closures(meta, engine.closures, chunks)
        meta.spilled = {}
        if engine.spilling is not None:
            meta.spilled = spill_checkpoint.numbers(engine.spilling)
            if engine.spilling.defers:
                meta.spilled["plan"] = self._plan.kept()
        meta.results, meta.batches = engine.results, engine.batches
        meta.learned = engine.tree.kept()
        meta.regulation, meta.rationing = engine.regulation.kept(), engine.rationing.kept()
        self._state.put_meta(meta.encode())

    def _write_closures(self, meta: Meta, closures: Closures, chunks: Chunks) -> None:
        """What streams are closed for: numbers in the small value, keys in a chunk of their own."""
        said, arrays = closures.kept()
        data, number = blobs.encode(as_batch(arrays), compressed=True), meta.closures.get("chunk")
        if number is None or data != self._closed_before:
            if number is not None:
                self._state.remove_chunk(number)
            number = chunks.put(data)
        meta.closures = {"said": said, "chunk": number}

    def _write_intermediates(self, meta: Meta, engine: Engine, chunks: Chunks) -> None:
        tree = engine.tree
        if not self._same_plan(meta):
            for kept in meta.intermediates.values():
                chunks.remove(kept, list(kept))
            meta.intermediates = {}
        meta.plan = plain(self._plan.query.tree)
        owed = engine.spilling.keeps if engine.spilling is not None else set()
        for source, side in tree.intermediates:
            kept = meta.intermediates.setdefault(source.name, [])
            mark = tree.marks.get(source.node)
            if source.node in tree.rebuilt or mark is None:
                chunks.remove(kept, list(kept))
                mark = None
            entered = side.contents(mark.count if mark else 0)
            oldest_us = BOTTOMLESS_US if source.node in owed else engine.watermark.us
            chunks.keep(kept, entered, side, (), oldest_us, mark)


def _share(packed: Sequence[Packed]) -> Share:
    """Which rows of the whole batch are this bucket's, over all streams."""
    return Share(*(int(sum(getattr(p, f"rows_{n}") for p in packed)) for n in ("before", "upto", "total")))


def _times(leaves_us: Sequence[Any]) -> list[int | None]:
    """Newest times as they come out of pandas, which knows no null among whole numbers."""
    return [None if at is None or math.isnan(at) else int(at) for at in leaves_us]


def _stage(plan: JoinPlan) -> list[int]:
    """How a bucket's state names its stage; the only one has no name."""
    return [plan.stage.number, plan.stage.of] if plan.stage.of > 1 else []


def check_same_query(meta: Meta, plan: JoinPlan) -> None:
    """Raise if a checkpoint belongs to a query of another meaning, with the difference and the remedy."""
    remedy = "go back to it, or start a new checkpoint"
    if meta.buckets != plan.buckets:
        raise InvalidValue(
            f"this checkpoint was made with buckets={meta.buckets}, and the join asks for "
            f"buckets={plan.buckets}; {remedy}"
        )
    different = plan.query.difference(meta.meaning)
    if different:
        raise InvalidValue(f"this checkpoint belongs to another query: {different}; {remedy}")
    tree = plain(plan.query.tree)
    if meta.stage != _stage(plan) or (meta.stage and meta.plan != tree):
        raise InvalidValue(
            f"this checkpoint was made with plan={meta.plan!r}, and the join has plan={tree!r}; with several "
            f"keys every stage of a plan keeps rows of its own, so the plan is fixed; {remedy}"
        )
    for line in meta.schema:
        stream, column, type_ = line.split("\t")
        layout = plan.layouts[plan.query.names.index(stream)]
        if column not in layout.columns:
            continue
        new = str(layout.stored_schema.field(column).type)
        if new != type_:
            raise InvalidValue(
                f"this checkpoint holds column {column!r} of stream {stream!r} as {type_}, and it is now "
                f"{new}; cast it back, or start a new checkpoint"
            )


def _said(plan: JoinPlan) -> list[str]:
    return [
        f"{layout.stream.name}\t{field.name}\t{field.type}"
        for layout in plan.layouts
        for field in layout.stored_schema
    ]
