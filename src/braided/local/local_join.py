"""A join in this process, fed batch by batch."""

from __future__ import annotations

import datetime as dt
import inspect
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from braided.engine import saving, snapshot
from braided.engine.engine import PIECE_ROWS, Engine
from braided.engine.sides.storable import no_results
from braided.engine.watermark import Clock
from braided.local.turns import check_turns, in_turns
from braided.policies.statistics import Statistics
from braided.query.errors import BraidedError, InvalidType, InvalidValue, UnknownName, require_stream
from braided.query.join_query import JoinQuery
from braided.query.kinds import whole
from braided.query.scheduling import Scheduling

MOST_ROWS = (1 << 31) - 1
check_rows = whole(1, MOST_ROWS, f"at least 1 and at most {MOST_ROWS:,}")  # of (call, option, rows)


class LocalJoin:
    """A join of streams in this process.

    `push` takes a batch (any of the streams, as Arrow tables) and returns the new results; `stream`
    does the same piece by piece; `end` returns what waited for the end. A push that raises leaves
    the state as it was. Not for use by several threads at once, except `stats`.

    `schemas` may give the streams' schemas in advance; else each is learned from its first batch,
    and results have no columns until all are known.

    With `scheduling` the rows of a push are read in turns, by its streams' priority and the worth of their
    keys. No row waits for another push, and the result is the same; rows that promises let go within a push
    are gone before the next turn, so a large push holds less at a time.
    """

    def __init__(
        self,
        query: JoinQuery,
        *,
        schemas: Mapping[str, pa.Schema] | None = None,
        scheduling: Scheduling | None = None,
    ) -> None:
        if not isinstance(query, JoinQuery):
            raise InvalidType(f"LocalJoin needs a bd.JoinQuery; got {query!r}")
        if scheduling is not None:
            check_turns(query, scheduling)
        self.query, self.scheduling = query, scheduling
        self._engine = Engine(query)
        self._schemas = check_schemas(schemas or {})
        self._engine.core.learn(self._schemas)
        self._unread: Iterator[pa.Table] | None = None
        self._held: list[pa.Table] = []
        self._ending = self._ended = False

    @property
    def schema(self) -> pa.Schema:
        """The result's schema; it has no columns until every stream's schema is known."""
        return self._engine.core.schema

    def push(self, batch: Mapping[str, Any], *, now: float | dt.datetime | None = None) -> pa.Table:
        """Process a batch and return the new results as one table.

        `now` (seconds, or a datetime) is the clock by which streams are idle (`Stream(idle_after=...)`);
        without it none is. With `Overload(clock="wall")` rows are old by it (None: the time now).
        """
        return self._table(self._work("push", batch, now, eager=False))

    def stream(
        self,
        batch: Mapping[str, Any],
        *,
        chunk_rows: int = PIECE_ROWS,
        now: float | dt.datetime | None = None,
    ) -> Iterator[pa.Table]:
        """Process a batch, as `push` does, and yield results in tables of at most `chunk_rows` rows.

        Memory stays bounded however many results there are. What is not read is not lost: the next
        `push`, `stream` or `end` hands it out first. If reading raises, the state is as before the
        batch, and the tables already read of it are void.
        """
        check_rows("stream", "chunk_rows", chunk_rows)
        self._unread = self._work("stream", batch, now, piece_rows=chunk_rows, eager=True)
        return self._read(self._unread, chunk_rows)

    def end(self) -> pa.Table:
        """Declare all streams ended and return the results that waited for that."""
        results: list[pa.Table] = []
        try:
            results.extend(self.stream_end())
        finally:  # if a later step fails, the next call hands these out
            self._held = results + self._held
        return self._table(iter(()))

    def stream_end(self, *, chunk_rows: int = PIECE_ROWS) -> Iterator[pa.Table]:
        """Do the same as `end` in tables of at most `chunk_rows` rows, for large results.

        Once it is being read nothing more may be pushed under a memory budget; what was not read is handed
        out by the next `stream_end` or `end`.
        """
        check_rows("stream_end", "chunk_rows", chunk_rows)
        self._check_open("end")
        self._hold_unread()
        steps = self._engine.finish(piece_rows=min(chunk_rows, PIECE_ROWS))
        return self._end(steps, chunk_rows)

    def _end(self, steps: Iterator[Iterator[pa.Table]], chunk_rows: int) -> Iterator[pa.Table]:
        """Yield held results, then step by step the rest; a step that fails can be repeated."""
        self._ending = self.query.memory is not None  # state is given up step by step
        yield from self._held_results(chunk_rows)
        for step in steps:
            self._held += list(step)
            yield from self._held_results(chunk_rows)
        self._ended = True

    def _held_results(self, chunk_rows: int) -> Iterator[pa.Table]:
        """Yield held results, in tables of at most `chunk_rows` rows."""
        while self._held:
            table = self._held.pop(0)
            if table.num_rows > chunk_rows:
                self._held.insert(0, table.slice(chunk_rows))
            yield table.slice(0, chunk_rows)

    def late(self) -> dict[str, pa.Table]:
        """Return the late rows since the last call, by stream, with all of a stream's columns.

        They are held until this call.
        """
        handed = {}
        for i, stream in enumerate(self._engine.core.streams):
            if stream is not None:
                batches, self._engine.core.late[i] = self._engine.core.late[i], []
                handed[stream.layout.stream.name] = pa.Table.from_batches(batches, stream.layout.schema)
        return handed

    def stats(self) -> Statistics:
        """Return immutable statistics of the join; call it at any time, from any thread."""
        return self._engine.statistics()

    def explain(self, **options: Any) -> str:
        """Describe the plan and the latest decisions; `options` are those of `JoinQuery.explain`."""
        reasons = list(self._engine.reasons())
        title = f"latest batch with rows, driver streams by {self.query.tuning.driver_stream}:"
        return "\n".join([self.query.explain(**options), *([title] if reasons else []), *reasons])

    def snapshot(self) -> bytes:
        """Return the whole state as bytes (Arrow IPC, versioned); between batches only."""
        self._check_ending("snapshot")
        if self._unread is not None or self._held:
            raise InvalidValue("snapshot: a stream() is not read to its end, or a call failed; read the rest")
        return snapshot.save(self._engine)

    def restore(self, data: bytes) -> LocalJoin:
        """Restore a saved state of the same query and return this join."""
        engine = Engine(self.query)
        snapshot.load(engine, data)
        engine.core.learn(self._schemas)
        self._engine, self._unread, self._held, self._ending = engine, None, [], False
        self._ended = engine.core.watermark.ended
        return self

    def _work(
        self, call: str, batch: Mapping[str, Any], now: float | dt.datetime | None, **how: Any
    ) -> Iterator[pa.Table]:
        """Check a batch and return what is to be done for it."""
        self._check_open(call)
        self._check_ending(call)
        if not isinstance(batch, Mapping):
            raise InvalidType(f"a batch must map stream names to tables; got {type(batch).__name__}")
        if now is None and self.query.overload is not None and self.query.overload.clock == "wall":
            now = time.time()
        clock = None if now is None else _clock(call, now)
        self._hold_unread()
        idle = all(getattr(part, "num_rows", None) == 0 for part in batch.values())
        for step in self._engine.before(idle=idle):
            self._held += list(step)
        if self.scheduling is None:
            return self._engine.step(self._engine.accept(batch, clock=clock), **how)
        parts = {name: self._engine.read(name, data) for name, data in batch.items()}
        return self._in_turns(self.scheduling, parts, clock, **how)

    def _in_turns(
        self, scheduling: Scheduling, batch: Mapping[str, pa.RecordBatch], clock: Clock | None, **how: Any
    ) -> Iterator[pa.Table]:
        """Process a batch in turns, or none of it."""
        before = saving.remembered(self._engine)
        try:
            yield from in_turns(self._engine, batch, scheduling, clock, **how)
        except (Exception, KeyboardInterrupt, SystemExit):  # not GeneratorExit: nobody reads on
            engine = Engine(self.query)
            saving.load(engine, before)
            engine.core.learn(self._schemas)
            self._engine = engine
            raise

    def _hold_unread(self) -> None:
        """Finish a batch whose reader stopped early, and hold its results behind those held already."""
        if self._unread is not None:
            unread, self._unread = self._unread, None
            try:
                self._held += list(unread)
            except BraidedError as wrong:
                undone = f"an earlier stream() not read to its end failed, and its batch is undone: {wrong}"
                raise InvalidValue(undone) from wrong

    def _read(self, work: Iterator[pa.Table], chunk_rows: int) -> Iterator[pa.Table]:
        """Yield held results of earlier batches, then the results of this one."""
        held = self._held_results(chunk_rows)
        while self._unread is work and (table := next(held, None)) is not None:
            yield table
        try:
            for table in work:
                yield table
        except GeneratorExit:
            return
        finally:
            over = inspect.getgeneratorstate(work) == inspect.GEN_CLOSED  # type: ignore[arg-type]
            if self._unread is work and over:
                self._unread = None

    def _table(self, work: Iterator[pa.Table]) -> pa.Table:
        new = list(work)  # a batch that fails leaves what is held
        tables, self._held = self._held + new, []
        return pa.concat_tables(tables) if tables else no_results(self.schema)

    def _check_ending(self, call: str) -> None:
        if self._ending and not self._ended:
            raise InvalidValue(f"{call}: this join is ending; read the rest with end() or stream_end()")

    def _check_open(self, call: str) -> None:
        if self._ended:
            raise InvalidValue(f"{call}: this join has ended; make a new LocalJoin to join more rows")


def check_inputs(call: str, kind: str, query: object, given: object) -> None:
    """Raise unless `query` is one, and `given` maps the names of its streams to tables or the like."""
    if not isinstance(query, JoinQuery):
        raise InvalidType(f"{call} needs a bd.JoinQuery; got {query!r}")
    if not isinstance(given, Mapping):
        raise InvalidType(f"{call} needs a mapping of stream names to {kind}s; got {given!r}")
    for name in given:
        require_stream(name, query.names, call)
    for name in query.names:
        if name not in given:
            raise UnknownName(f"{call}: no {kind} for stream {name!r}; give one per stream")


def check_schemas(schemas: object) -> dict[str, pa.Schema]:
    """Raise unless `schemas` maps names to Arrow schemas without duplicate columns."""
    if not isinstance(schemas, Mapping):
        raise InvalidType(f"schemas must map stream names to pyarrow schemas; got {schemas!r}")
    for name, schema in schemas.items():
        if not isinstance(schema, pa.Schema) or len(set(schema.names)) < len(schema.names):
            wanted = "a pyarrow Schema with different column names"
            raise InvalidType(f"schemas: stream {name!r} needs {wanted}; got {schema!r}")
    return dict(schemas)


def _clock(call: str, now: Any) -> Clock:
    """The clock at a time that a caller gives."""
    if isinstance(now, dt.datetime):
        return Clock(now.timestamp())
    if isinstance(now, bool) or not isinstance(now, int | float) or not math.isfinite(now):
        raise InvalidType.must("now", "seconds, or a datetime", now, owner=call)
    return Clock(float(now))
