"""A bucket's engine, made of what its state holds, and its state, written once a batch is done.

What is written is the engine's one saved form (`engine.state`): its numbers in the small value, its parts as
chunks. A batch writes only what is new. The engine comes from the arena if that can be trusted, else from the
chunks; both hold the same rows. Nothing is touched before `check_same_query` has agreed that the state
belongs to this query: a restart may change the plan, tuning and budgets; the meaning, the number of buckets
and the types of stored columns must stay. The driver asks the same where it knows the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braided.engine import saving
from braided.engine.engine import Engine
from braided.engine.features import Arrivals
from braided.engine.overload.state_windows import by_label, limits
from braided.engine.site import Site
from braided.engine.spill.disk import check_saved as check_on_disk
from braided.engine.state import EngineState
from braided.query.errors import InvalidValue
from braided.query.values import plain
from braided.spark.plan import JoinPlan
from braided.spark.storage.arena import Arena
from braided.spark.storage.chunks import Chunks
from braided.spark.storage.cold import ColdGroups
from braided.spark.storage.store import META, Meta, State


class BucketState:
    """Reads and writes one bucket's state in one micro-batch."""

    def __init__(self, plan: JoinPlan, number: int, state: State | None) -> None:
        """Without a state nothing is written, and rows that memory has no room for go to files."""
        self._plan, self._number, self._state = plan, number, state
        self._moved = False  # whether other columns are stored from now on
        self.meta = self._read_meta()
        self._chunks = None if state is None else Chunks(state, self.meta, f"bucket {number}")
        self.rebuilds = self.hits = 0

    def _read_meta(self) -> Meta:
        """The bucket's small value; a checkpoint of another meaning raises before anything is touched."""
        data = None if self._state is None else self._state.get(META)
        if data is None:
            return _first_meta(self._plan)
        meta = Meta.decode(data)
        check_same_query(meta, self._plan)
        self._moved = meta.schema != self._plan.stored_types
        meta.schema = self._plan.stored_types
        return meta

    def engine(self, arena: Arena | None) -> Engine:
        """An engine in the stored state: from the arena if it can be trusted, else rebuilt."""
        meta, engine = self.meta, self._empty_engine(arena)
        if not meta.numbers or self._chunks is None:
            if arena is not None:
                arena.clear()
            self._inherit(engine)
            return engine
        state = EngineState(meta.numbers, self._chunks.read())
        if arena is not None:
            if self._mapped() and arena.load(engine, meta.token):
                self.hits += 1
                saving.load(engine, state, rows=False)
                self._carry(engine)
                return engine
            arena.clear()
            engine = self._empty_engine(arena)
        self.rebuilds += 1
        saving.load(engine, state)
        self._place_chunks(engine)
        self._carry(engine)
        return engine

    def _inherit(self, engine: Engine) -> None:
        """Begin where the other buckets are, if this one is of an epoch that has just begun."""
        if self._plan.resumed is not None:
            resumed, core = self._plan.resumed, engine.core
            core.watermark = core.watermark.load(resumed.newest_us, resumed.watermark)
            core.batches = resumed.batches
            self._carry(engine)

    def _carry(self, engine: Engine) -> None:
        """Take over what epochs that have gone had counted: once, in the newest epoch's first bucket."""
        plan, resumed = self._plan, self._plan.resumed
        if resumed is None or not resumed.carried or self._number or plan.epoch.until_us is not None:
            return
        if self.meta.epochs == resumed.epochs:
            return
        engine.core.results += resumed.carried["results"]
        for name, counters in zip(plan.query.names, engine.core.counters, strict=True):
            for what, count in resumed.carried["streams"].get(name, {}).items():
                setattr(counters, what, getattr(counters, what) + count)

    def write(self, engine: Engine, arrivals: Arrivals) -> None:
        """Write what the batch changed."""
        assert self._state is not None
        assert self._chunks is not None
        for late in engine.core.late:  # the output has them
            late.clear()
        state = saving.save(engine, arrivals)
        self._chunks.write(state)
        self.meta.numbers = state.numbers
        self.meta.epoch, self.meta.epochs = self._plan.epoch.number, list(self._plan.epochs)
        if self.meta.fingerprint != self._plan.fingerprint:
            self.meta.meaning, self.meta.fingerprint = self._plan.query.meaning(), self._plan.fingerprint
        query = self._plan.query
        waits = self.meta.spilled.get("defers") or query.counts or query.kinds.settles
        self.meta.finishing = self._plan.to_dict() if waits else {}
        self._state.put(META, self.meta.encode())

    def _mapped(self) -> bool:
        """Whether an arena can hold what is stored now: one of another plan lacks what is made again.

        And one of other windows of intermediates may lack rows of which it is not saved that they were cut.
        """
        memory = self._plan.query.memory
        lineage = None if memory is None else memory.lineage
        same = _same_plan(self.meta, self._plan) and not self._moved
        held = EngineState(self.meta.numbers).feature("overload").get("rationing", {}).get("windows", {})
        windows = by_label(limits(self._plan.query, self._plan.part(self._number)))
        return same and self.meta.spilled.get("lineage") == lineage and held.get("rows", {}) == windows

    def _empty_engine(self, arena: Arena | None) -> Engine:
        query = self._plan.query
        ended_us = self.meta.clock.ended_us or 0
        site = Site(
            allocate=None if arena is None else arena.allocate,
            part=self._plan.part(self._number),
            owns=self._plan.owns,
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
        """Say where the rows of chunks lie in the sides that were filled from them.

        The first of them may have gone since; what was renumbered is written anew.
        """
        stored = self.meta.by_input(waiting=False)
        for side in engine.tree.sides.values():
            first = side.count - sum(chunk.rows for chunk in stored.get(side.name, ()))
            for chunk in stored.get(side.name, ()):
                chunk.start = first
                first += chunk.rows


def _first_meta(plan: JoinPlan) -> Meta:
    """The small value of a bucket that has no state yet."""
    return Meta(
        plan.fingerprint,
        plan.query.meaning(),
        plan.stored_types,
        plan.buckets,
        stage=_stage(plan),
        checkpoint=plan.resumed.checkpoint if plan.resumed else plan.checkpoint,
    )


def _stage(plan: JoinPlan) -> list[int]:
    """How a bucket's state names its stage; the only one has no name."""
    return [plan.stage, len(plan.subplans)] if len(plan.subplans) > 1 else []


def check_same_query(meta: Meta, plan: JoinPlan) -> None:
    """Raise if a checkpoint belongs to a query of another meaning, with the difference and the remedy.

    A plan that was resumed has been compared with all of its checkpoint on the driver.
    """
    if plan.resumed is not None and meta.checkpoint != plan.resumed.checkpoint:
        raise InvalidValue(
            "the query was started with another checkpoint than resume= names; start it with that one"
        )
    if plan.resumed is None and (meta.epoch != plan.epoch.number or len(meta.epochs) > 1):
        raise InvalidValue(
            "the query of this checkpoint was changed while it ran; continue it with "
            "bd.spark.join(..., resume=checkpoint)"
        )
    if plan.resumed is None and (different := _difference(meta, plan)):
        change = "" if meta.stage else " change it with bd.spark.join(..., resume=checkpoint),"
        raise InvalidValue(f"this checkpoint {different}; go back to it,{change} or start a new checkpoint")
    if plan.resumed is not None and (different := type_difference(meta, plan)):
        raise InvalidValue(f"this checkpoint {different}; cast it back, or start a new checkpoint")
    check_on_disk(meta.spilled, plan.query.memory, same_plan=_same_plan(meta, plan))


def _difference(meta: Meta, plan: JoinPlan) -> str:
    """What differs between a checkpoint and the query, in words; nothing if they agree."""
    if meta.buckets != plan.buckets:
        return f"was made with buckets={meta.buckets}, and the join asks for buckets={plan.buckets}"
    if different := plan.query.difference(meta.meaning):
        return f"belongs to another query: {different}"
    tree = plain(plan.query.tree)
    written = meta.numbers.get("plan", tree)
    if meta.stage != _stage(plan) or (meta.stage and written != tree):
        fixed = "with several stages every one holds rows of its own, so the plan is fixed"
        return f"was made with plan={written!r}, and the join has plan={tree!r}; {fixed}"
    was, now = meta.epochs[-1], plan.describe()
    if (was["shares"], was["hot_keys"]) != (now["shares"], now["hot_keys"]):
        return f"spreads rows over cells by {_spread(was)}, and the join by {_spread(now)}"
    return type_difference(meta, plan)


def type_difference(meta: Meta, plan: JoinPlan) -> str:
    """Which stored column has another type now, in words."""
    for stream, columns in meta.schema.items():
        for column, type_ in columns.items():
            new = plan.stored_types[stream].get(column, type_)
            if new != type_:
                return f"holds column {column!r} of stream {stream!r} as {type_}, and it is now {new}"
    return ""


def _spread(epoch: Mapping[str, Any]) -> str:
    hot = f" with {len(epoch['hot_keys'])} hot keys" if epoch["hot_keys"] else ""
    return (" x ".join(map(str, epoch["shares"])) or "stages") + hot


def _same_plan(meta: Meta, plan: JoinPlan) -> bool:
    """Whether the state was written by the plan that is run now; else intermediates are made again."""
    return bool(meta.numbers["plan"] == plain(plan.query.tree))
