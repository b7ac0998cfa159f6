"""A bucket's engine, made of what its state holds, and its state, written once a batch is done.

What is written is the engine's one saved form (`engine.state`): its numbers in the small value, its parts as
chunks. A batch writes only what is new. The engine comes from the arena if that can be trusted, else from the
chunks; both hold the same rows. Nothing is touched before `check_same_query` has found that the state
belongs to this query.
"""

from __future__ import annotations

from collections.abc import Sequence

from braided.engine import saving
from braided.engine.engine import Engine
from braided.engine.features import Arrivals
from braided.engine.site import Part, Site
from braided.engine.state import EngineState, rows_of_intermediate
from braided.spark.batch_clock import BatchClock
from braided.spark.plan import JoinPlan
from braided.spark.storage.arena import Arena
from braided.spark.storage.chunks import Chunks
from braided.spark.storage.cold import ColdGroups
from braided.spark.storage.parts import read_parts, write_parts
from braided.spark.storage.same_query import check_cold, check_same_query, same_plan, stage_of, stored_types
from braided.spark.storage.store import Chunk, Meta, State


class BucketState:
    """Reads and writes one bucket's state in one micro-batch."""

    def __init__(self, plan: JoinPlan, number: int, state: State, *, keeps_state: bool = True) -> None:
        """Without `keeps_state` nothing is written, and rows that memory has no room for go to files."""
        self._plan, self._number, self._state = plan, number, state
        self._keeps_state = keeps_state
        self._stored: Chunks | None = None
        self.rebuilds = self.hits = 0

    def meta(self) -> Meta:
        """The bucket's small value; a checkpoint of another meaning raises before anything is touched."""
        plan, data = self._plan, self._state.get_meta()
        if data is None:
            query, types = plan.query, stored_types(plan)
            return Meta(query.fingerprint(), query.meaning(), types, plan.buckets, stage_of(plan))
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
        check_cold(meta, self._plan)
        state = EngineState(meta.numbers, read_parts(self._chunks(meta), meta))
        if self._mapped(meta) and arena.load(engine, meta.token):
            self.hits += 1
            saving.load(engine, state, rows=False)
            return engine
        arena.clear()
        engine = self._empty_engine(meta, arena)
        self.rebuilds += 1
        saving.load(engine, state)
        self._place_chunks(engine, meta)
        return engine

    def write(self, meta: Meta, engine: Engine, arrivals: Arrivals) -> None:
        """Write what the batch changed."""
        for late in engine.core.late:  # the output has them
            late.clear()
        state = saving.save(engine, arrivals)
        write_parts(self._chunks(meta), meta, state)
        meta.numbers = state.numbers
        waits = state.feature("spill").get("defers", False)
        meta.finishing = self._plan.kept() if waits else {}
        self._state.put_meta(meta.encode())

    def _mapped(self, meta: Meta) -> bool:
        """Whether an arena can hold what is stored now: one of another plan lacks what is made again."""
        memory = self._plan.query.memory
        lineage = meta.numbers.get("features", {}).get("spill", {}).get("lineage")
        return same_plan(meta, self._plan) and lineage == (None if memory is None else memory.lineage)

    def _empty_engine(self, meta: Meta, arena: Arena) -> Engine:
        query = self._plan.query
        ended_us = BatchClock(**meta.clock).ended_us or 0
        site = Site(
            allocate=arena.allocate,
            part=Part(self._number, self._plan.buckets),
            subplan=self._plan.subplan,
            store=ColdGroups(self._chunks(meta)) if self._keeps_state else None,
            clock=lambda: ended_us / 1e6,  # no clock that is read in a batch decides anything in it
            repeatable=True,  # each batch may run in another process, and a repeated run gives the same bag
            retried=True,
        )
        engine = Engine(query, site)
        engine.core.learn(dict(zip(query.names, self._plan.schemas, strict=True)))
        return engine

    def _place_chunks(self, engine: Engine, meta: Meta) -> None:
        """Say where the rows of chunks lie in the sides that were filled from them."""
        for name, stream in zip(self._plan.query.names, engine.core.streams, strict=True):
            if stream is not None:
                _place(meta.chunks_of(name), stream.side.first)
        for source, side in engine.tree.intermediates:
            _place(meta.parts.get(rows_of_intermediate(source.name), ()), side.first)

    def _chunks(self, meta: Meta) -> Chunks:
        if self._stored is None:
            self._stored = Chunks(self._state, meta, f"bucket {self._number}")
        return self._stored


def _place(chunks: Sequence[Chunk], first: int) -> None:
    for chunk in chunks:
        chunk.start = first
        first += chunk.rows
