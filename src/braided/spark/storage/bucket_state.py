"""A bucket's engine, made of what its state holds, and its state, written once a batch is done.

A batch writes only what is new: chunks of the rows that arrived, and the small value that lists all chunks.
The engine comes from the arena if that can be trusted, else from the chunks; both hold the same rows. Nothing
is touched before `check_same_query` has found that the state belongs to this query.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from braided.engine.engine import Counters, Engine
from braided.engine.intake import Arrival
from braided.engine.overload.regulation import Part
from braided.engine.promises.closures import Closures
from braided.engine.sides.side import BOTTOMLESS_US, SideState
from braided.engine.spill import checkpoint as spill_checkpoint
from braided.policies.arrays import Int64s
from braided.query.values import plain
from braided.spark.batch_clock import BatchClock
from braided.spark.plan import JoinPlan
from braided.spark.storage.arena import Arena
from braided.spark.storage.chunks import Chunks, as_arrays, as_batch
from braided.spark.storage.cold import ColdGroups, ColdPiece
from braided.spark.storage.same_query import check_cold, check_same_query, same_plan, stage_of, stored_types
from braided.spark.storage.store import Meta, State, StreamMeta
from braided.spark.wire import blobs


class BucketState:
    """Reads and writes one bucket's state in one micro-batch."""

    def __init__(self, plan: JoinPlan, number: int, state: State, *, keeps_state: bool = True) -> None:
        """Without `keeps_state` nothing is written, and rows that memory has no room for go to files."""
        self._plan, self._number, self._state = plan, number, state
        self._keeps_state = keeps_state
        self._closed_before: bytes | None = None  # the closed keys, as the state has them
        self.rebuilds = self.hits = 0

    def meta(self) -> Meta:
        """The bucket's small value; a checkpoint of another meaning raises before anything is touched."""
        plan, data = self._plan, self._state.get_meta()
        if data is None:
            empty = [StreamMeta() for _ in plan.query.streams]
            meta = Meta(
                plan.query.fingerprint(), plan.query.meaning(), stored_types(plan), plan.buckets, empty
            )
            meta.stage = stage_of(plan)
            return meta
        meta = Meta.decode(data)
        check_same_query(meta, plan)
        meta.schema = stored_types(plan)
        return meta

    def engine(self, meta: Meta, arena: Arena) -> Engine:
        """An engine in the state that `meta` describes: from the arena if it can be trusted, else rebuilt."""
        engine = self._empty_engine(meta, arena)
        if not meta.batches:
            arena.clear()
            return engine
        # an arena of another plan lacks what is made anew, and its last batch cannot be taken back
        check_cold(meta, self._plan)
        memory = self._plan.query.memory
        same_budget = meta.spilled.get("lineage") == (None if memory is None else memory.lineage)
        if same_plan(meta, self._plan) and same_budget and arena.load(engine, meta.token):
            self.hits += 1
        else:
            arena.clear()
            engine = self._empty_engine(meta, arena)
            self.rebuilds += 1
            self._rebuild(engine, meta)
        engine.counters = [Counters(**said.counters) for said in meta.streams]
        engine.results, engine.batches = meta.results, meta.batches
        if same_plan(meta, self._plan):
            engine.tree.restore(meta.learned)
        engine.rationing.restore(meta.rationing, same_plan=same_plan(meta, self._plan))
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
        for name, said, stream in zip(self._plan.query.names, meta.streams, engine.streams, strict=True):
            if stream is None:  # joined by another stage
                continue
            if not stream.side.purges:
                chunks.without_gone(said.chunks)
            batches = [chunks.read(name, c, stream.layout.stored_schema) for c in said.chunks]
            engine.put(stream, [stream.intake.stored(batch) for batch in batches])
            if stream.side.purges:
                chunks.gone_again(said.chunks, stream.side)
                self._hide_gone(stream.side)
        if not same_plan(meta, self._plan):
            engine.tree.rebuild(engine.regulation.floors_us)
            return
        for source, side in engine.tree.intermediates:
            kept = meta.intermediates[source.name]
            if not side.purges:
                chunks.without_gone(kept)
            engine.tree.put(source, [chunks.read(source.name, c, source.schema) for c in kept])
            if side.purges:
                chunks.gone_again(kept, side)
                self._hide_gone(side)

    def _hide_gone(self, side: SideState) -> None:
        """Rows that went to a cold group must not be found here, too; those that were purged cannot match."""
        if self._plan.query.memory is not None and side.gone_rows:
            side.unlink_gone()

    def _chunks(self, meta: Meta) -> Chunks:
        return Chunks(self._state, meta, f"bucket {self._number}")

    def _closed_keys(self, meta: Meta) -> dict[str, Int64s]:
        self._closed_before, batch = self._chunks(meta).load(meta.closures["chunk"], "closed keys")
        return as_arrays(batch)

    def write(self, meta: Meta, engine: Engine, arrivals: Sequence[Arrival | None]) -> None:
        """Write what the batch changed."""
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
        if not same_plan(meta, self._plan):
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
