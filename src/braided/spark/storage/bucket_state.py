"""A bucket's engine, made of what its state holds, and its state, written once a batch is done.

What is written is the engine's one saved form (`engine.state`): its numbers in the small value, its parts as
chunks. A batch writes only what is new. The engine comes from the arena if that can be trusted, else from the
chunks; both hold the same rows. Nothing is touched before `check_same_query` has found that the state
belongs to this query.
"""

from __future__ import annotations

from braided.engine import saving
from braided.engine.engine import Engine
from braided.engine.features import Arrivals
from braided.engine.site import Share, Site
from braided.engine.state import EngineState
from braided.spark.batch_clock import BatchClock
from braided.spark.plan import JoinPlan
from braided.spark.storage.arena import Arena
from braided.spark.storage.chunks import Chunks
from braided.spark.storage.cold import ColdGroups
from braided.spark.storage.parts import read_parts, write_parts
from braided.spark.storage.same_query import check_cold, check_same_query, same_plan, stage_of, stored_types
from braided.spark.storage.store import Meta, State


class BucketState:
    """Reads and writes one bucket's state in one micro-batch."""

    def __init__(self, plan: JoinPlan, number: int, state: State | None) -> None:
        """Without a state nothing is written, and rows that memory has no room for go to files."""
        self._plan, self._number, self._state = plan, number, state
        self.meta = self._read_meta()
        self._chunks = None if state is None else Chunks(state, self.meta, f"bucket {number}")
        self.rebuilds = self.hits = 0

    def _read_meta(self) -> Meta:
        """The bucket's small value; a checkpoint of another meaning raises before anything is touched."""
        plan, data = self._plan, None if self._state is None else self._state.get_meta()
        if data is None:
            query, types = plan.query, stored_types(plan)
            return Meta(query.fingerprint(), query.meaning(), types, plan.buckets, stage_of(plan))
        meta = Meta.decode(data)
        check_same_query(meta, plan)
        meta.schema = stored_types(plan)
        return meta

    def engine(self, arena: Arena | None) -> Engine:
        """An engine in the stored state: from the arena if it can be trusted, else rebuilt."""
        meta, engine = self.meta, self._empty_engine(arena)
        if not meta.batches or self._chunks is None:
            if arena is not None:
                arena.clear()
            return engine
        check_cold(meta, self._plan)
        state = EngineState(meta.numbers, read_parts(self._chunks, meta))
        if arena is not None:
            if self._mapped() and arena.load(engine, meta.token):
                self.hits += 1
                saving.load(engine, state, rows=False)
                return engine
            arena.clear()
            engine = self._empty_engine(arena)
        self.rebuilds += 1
        saving.load(engine, state)
        self._place_chunks(engine)
        return engine

    def write(self, engine: Engine, arrivals: Arrivals) -> None:
        """Write what the batch changed."""
        assert self._state is not None
        assert self._chunks is not None
        for late in engine.core.late:  # the output has them
            late.clear()
        state = saving.save(engine, arrivals)
        write_parts(self._chunks, self.meta, state)
        self.meta.numbers = state.numbers
        self.meta.finishing = self._plan.to_dict() if self.meta.spilled.get("defers") else {}
        self._state.put_meta(self.meta.encode())

    def _mapped(self) -> bool:
        """Whether an arena can hold what is stored now: one of another plan lacks what is made again."""
        memory = self._plan.query.memory
        lineage = None if memory is None else memory.lineage
        return same_plan(self.meta, self._plan) and self.meta.spilled.get("lineage") == lineage

    def _empty_engine(self, arena: Arena | None) -> Engine:
        query = self._plan.query
        ended_us = BatchClock(**self.meta.clock).ended_us or 0
        site = Site(
            allocate=None if arena is None else arena.allocate,
            part=Share(self._number, self._number + 1, self._plan.buckets),
            subplan=self._plan.subplan,
            store=None if self._chunks is None else ColdGroups(self._chunks),
            clock=lambda: ended_us / 1e6,  # no clock that is read in a batch decides anything in it
            repeatable=True,  # each batch may run in another process, and a repeated run gives the same bag
            retried=True,
        )
        engine = Engine(query, site)
        engine.core.learn(dict(zip(query.names, self._plan.schemas, strict=True)))
        return engine

    def _place_chunks(self, engine: Engine) -> None:
        """Say where the rows of chunks lie in the sides that were filled from them."""
        stored = self.meta.by_input()
        for side in engine.tree.sides.values():
            first = side.first
            for chunk in stored.get(side.name, ()):
                chunk.start = first
                first += chunk.rows
