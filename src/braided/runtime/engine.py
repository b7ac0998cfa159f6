"""The engine that owns one join's execution: batches in, result tables out.

A batch is processed in this order, and nothing else changes state:

1. every stream's part is checked and judged (late, null key, accepted) at the watermark of the
   batch's start; a bad batch raises here, before anything has changed;
2. what the watermark has passed is forgotten;
3. accepted rows are stored (with count windows: those the new watermark has passed);
4. the new combinations are found and handed out, piece by piece;
5. counters, the watermark and late rows are committed, and what the new watermark has passed is
   forgotten.

If anything fails in 3 or 4, the appended rows are unlinked and the state is as after 2, which differs
from the start by nothing a result can show.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from braided.operators import indexing
from braided.operators.layout import Layout, layout_of, output_of
from braided.operators.mjoin import Buffer, FlatJoin, Positions
from braided.operators.results import Results
from braided.policies.choice import Policies, policies_for
from braided.policies.statistics import HalfJoinStatistics, Statistics, StreamStatistics
from braided.query.bounds import INFINITE_US
from braided.query.errors import UnknownName, did_you_mean
from braided.query.join_query import JoinQuery
from braided.runtime.calibration import machine_costs
from braided.runtime.intake import Arrival, Intake, as_batch, plain_schema
from braided.runtime.regulation import WHOLE, Part, Regulation, Share
from braided.runtime.settling import Waiting
from braided.runtime.watermark import NONE_US, Watermark
from braided.state.keys import KeyFormat, key_format
from braided.state.side import Allocate, Mark, Rows, SideState, in_memory

PIECE_ROWS = 65_536


@dataclass
class Counters:
    """What one stream has seen since the start."""

    rows_in: int = 0
    late_rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    shed_rows: int = 0
    expired_rows: int = 0


@dataclass
class StreamState:
    """All that the engine keeps of one stream, once its schema is known."""

    layout: Layout
    intake: Intake
    side: SideState
    waiting: Waiting = field(default_factory=Waiting)


class Engine:
    """One flat join over Arrow batches."""

    def __init__(
        self,
        query: JoinQuery,
        policies: Policies | None = None,
        *,
        allocate: Callable[[str], Allocate] | None = None,
        expire_after: bool = True,
        part: Part = WHOLE,
    ) -> None:
        """`allocate` gives each stream's arrays their place; `expire_after` forgets after a batch too.

        Without `expire_after` rows are only forgotten when the next batch begins, so that the last batch
        can be taken back by `marks`. `part` is this engine's part of a join that is spread over several.
        """
        self.query = query
        self.marks: list[Mark | None] = [None] * len(query.streams)
        self._allocate, self._expire_after = allocate, expire_after
        self.bounds = query.bounds
        self.join = FlatJoin(self.bounds, policies or policies_for(query, machine_costs))
        self.regulation = Regulation(query, part)
        self.watermark = Watermark([s.lateness_us for s in query.streams])
        self.counters = [Counters() for _ in query.streams]
        self.late: list[list[pa.RecordBatch]] = [[] for _ in query.streams]
        self.streams: list[StreamState | None] = [None] * len(query.streams)
        self.results = self.batches = 0
        self._builder: Results | None = None
        self._known: tuple[list[StreamState | None], Results | None] = (self.streams, None)
        self._windowed, self._counting = query.windowed, query.counts

    # what is known

    def learn(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Fix the schemas of streams; a schema that does not fit raises and changes nothing."""
        layouts = [s.layout if s else None for s in self.streams]
        for name, schema in schemas.items():
            i = self.number(name)
            layouts[i] = layouts[i] or layout_of(self.query, self.query.streams[i], plain_schema(schema))
        known = [layout for layout in layouts if layout is not None]
        keys = key_format([k.stream for k in known], [k.schema for k in known]) if known else None
        builder = self._builder
        if builder is None and keys is not None and len(known) == len(layouts):
            builder = Results(self.query, known, output_of(self.query, known), keys)
        for i, layout in enumerate(layouts):
            if layout is not None and self.streams[i] is None and keys is not None:
                self.streams[i] = self._stream_state(i, layout, keys)
        self._builder = builder

    def number(self, name: str) -> int:
        """Which stream a name means."""
        if name not in self.query.names:
            raise UnknownName(f"no stream {name!r}; {did_you_mean(name, self.query.names)}")
        return self.query.names.index(name)

    @property
    def schema(self) -> pa.Schema:
        """The result's schema; without columns until every stream's schema is known."""
        return self._builder.output.schema if self._builder else pa.schema([])

    # a batch

    def accept(self, batch: Mapping[str, Any], *, borrow: bool = False) -> list[Arrival | None]:
        """Check and judge every part of a batch; only schemas seen for the first time are kept."""
        parts = {}
        for name, data in batch.items():
            i = self.number(name)
            known = self.streams[i]
            parts[name] = as_batch(self.query.streams[i], data, known.layout.schema if known else None)
        self._known = list(self.streams), self._builder
        try:
            self.learn({name: part.schema for name, part in parts.items()})
            return self.regulate(self._judge(parts, borrow=borrow))
        except BaseException:
            self._unlearn()
            raise

    def regulate(
        self, arrivals: Sequence[Arrival | None], share: Share | None = None
    ) -> list[Arrival | None]:
        """Only the rows that overload lets in; `share` is this engine's, of a batch that is spread out."""
        budget = self.join.policies.allowance.budget
        self.join.budget = budget if budget is None or share is None else share.of_budget(budget)
        return self.regulation.let_in(arrivals, self.batches, share)

    def _judge(self, parts: Mapping[str, pa.RecordBatch], *, borrow: bool) -> list[Arrival | None]:
        arrivals: list[Arrival | None] = [None] * len(self.streams)
        for name, part in parts.items():
            i = self.number(name)
            stream = self.streams[i]
            assert stream is not None
            arrivals[i] = stream.intake.read(part, self.watermark.us, borrow=borrow)
        return arrivals

    def step(
        self,
        arrivals: Sequence[Arrival | None],
        *,
        piece_rows: int = PIECE_ROWS,
        eager: bool = True,
    ) -> Iterator[pa.Table]:
        """Process a judged batch; eager pieces come as driver streams finish, others when full."""
        later = self.watermark.after([a.newest_us if a else None for a in arrivals])
        yield from self._run(arrivals, later, piece_rows, eager=eager)

    def finish(self, *, piece_rows: int = PIECE_ROWS) -> Iterator[pa.Table]:
        """The results that waited for the end of all streams."""
        arrivals = [None] * len(self.streams)
        yield from self._run(arrivals, self.watermark.at_end(), piece_rows, eager=False)

    def statistics(self) -> Statistics:
        """An immutable picture of now."""
        names = self.query.names
        learned = self.join.learned
        plans = [decided.plan for decided in learned.turns]
        pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
        return Statistics(
            results=self.results,
            batches=self.batches,
            watermark_us=self.watermark.event_us,
            streams={name: self._stream_statistics(i) for i, name in enumerate(names)},
            half_joins={(names[i], names[j]): self._half_join(i, j) for i, j in pairs},
            driver_streams=tuple(names[p.driver] for p in plans),
            probe_orders={names[p.driver]: tuple(names[s] for s in p.order) for p in plans},
            driver_switches=learned.switches,
            profile_probes=learned.profile_probes,
            driven_rows=learned.driven_rows,
        )

    def reasons(self) -> Iterator[str]:
        """The latest batch's decisions in words: driver streams in their order, and how they probed."""
        names, policies = self.query.names, self.join.policies
        for decided in self.join.learned.turns:
            driver, turn = decided.plan.driver, decided.turn
            yield f"{names[driver]} ({policies.driver.reason(turn, driver)})"
            order = decided.plan.order
            found = zip(order, policies.probe_order.fan_outs(driver, turn, order), strict=True)
            said = [names[p] if f is None else f"{names[p]} (about {f:.3g} matches a row)" for p, f in found]
            yield f"  probes {', then '.join(said)}"

    def put(self, stream: StreamState, pieces: Sequence[Rows]) -> None:
        """Put saved rows back into a stream's state, once the newest times are set."""
        for rows in pieces:
            if self._counting:
                stream.waiting = stream.waiting.add(rows)
            else:
                stream.side.append(rows)
        if self._counting:
            nothing = stream.intake.empty().rows
            settled, stream.waiting = stream.waiting.settle(self.watermark.us, nothing)
            stream.side.append(settled)

    # parts of the above

    def _run(
        self, arrivals: Sequence[Arrival | None], later: Watermark, piece_rows: int, *, eager: bool
    ) -> Iterator[pa.Table]:
        self._expire(self.watermark, arrivals)
        arriving = [a.rows if a else None for a in arrivals]
        sides = [s.side if s else None for s in self.streams]
        before = self.join.learned.copy()
        indexing.choose(self.join.policies, self.join.learned, sides, arriving, self.bounds.matrix)
        waiting = [s.waiting if s else None for s in self.streams]
        marks: list[Mark | None] = [None] * len(self.streams)
        found = 0
        try:
            buffers = self._store(arrivals, later, marks)
            for table in self._found(buffers, piece_rows, eager=eager):
                found += table.num_rows
                yield table
        except BaseException:
            self._undo(marks, waiting)
            self.join.learned = before
            self._unlearn()
            raise
        self.marks = marks
        indexing.learn(
            self.join.policies, self.join.learned, before, sides, [len(r) if r else 0 for r in arriving]
        )
        self._commit(arrivals, later, found)

    def _unlearn(self) -> None:
        """Forget the schemas that a failed batch brought for the first time."""
        self.streams, self._builder = self._known

    def _store(
        self, arrivals: Sequence[Arrival | None], later: Watermark, marks: list[Mark | None]
    ) -> list[Buffer]:
        buffers = []
        for i, (stream, arrival) in enumerate(zip(self.streams, arrivals, strict=True)):
            if stream is None:
                buffers.append(Buffer(0, 0))
                continue
            rows = self._ready(stream, arrival, later)
            marks[i] = mark = stream.side.reserve(len(rows))
            stream.side.append(rows)
            buffers.append(Buffer(mark.count, stream.side.count))
        return buffers

    def _ready(self, stream: StreamState, arrival: Arrival | None, later: Watermark) -> Rows:
        """The rows to store now."""
        rows = arrival.rows if arrival else stream.intake.empty().rows
        if not self._counting:
            return rows
        settled, stream.waiting = stream.waiting.add(rows).settle(later.us, stream.intake.empty().rows)
        return settled

    def _found(self, buffers: Sequence[Buffer], piece_rows: int, *, eager: bool) -> Iterator[pa.Table]:
        if self._builder is None:  # a stream has brought nothing yet, so nothing can match
            self.join.pass_over(buffers)
            return
        sides = [s.side for s in self.streams if s is not None]
        pieces = self.join.combinations(sides, buffers, piece_rows)
        for piece in pieces if eager else _gathered(pieces, piece_rows):
            table = self._builder.table(sides, piece)
            if table.num_rows:
                yield table

    def _undo(self, marks: Sequence[Mark | None], waiting: Sequence[Waiting | None]) -> None:
        for stream, mark, rows in zip(self.streams, marks, waiting, strict=True):
            if stream is not None and rows is not None:
                stream.waiting = rows
            if stream is not None and mark is not None:
                stream.side.undo(mark)

    def _commit(self, arrivals: Sequence[Arrival | None], later: Watermark, found: int) -> None:
        for i, arrival in enumerate(arrivals):
            if arrival is None:
                continue
            counters = self.counters[i]
            counters.rows_in += arrival.rows_in
            counters.null_keys += arrival.null_keys
            counters.null_times += arrival.null_times
            counters.shed_rows += arrival.shed_rows
            if arrival.late is not None:
                counters.late_rows += arrival.late.num_rows
                self.late[i].append(arrival.late)
        self.results += found
        self.batches += 1
        self.watermark = later
        self._known = self.streams, self._builder
        sides = [s.side if s else None for s in self.streams]
        self.regulation.after(arrivals, sides, [self.oldest_us(i) for i in range(len(sides))])
        if self._expire_after:
            with contextlib.suppress(pa.ArrowException, MemoryError):  # the batch is done: try at the next
                self._expire(later, None)

    def _expire(self, watermark: Watermark, arrivals: Sequence[Arrival | None] | None) -> None:
        """Forget what the watermark has passed, or memory has no room for; lazily, where room is needed."""
        for stream, floor_us in zip(self.streams, self.regulation.floors_us, strict=True):
            if stream is not None:
                stream.side.floor_us = floor_us
        if not self.regulation.cuts and (not self._windowed or watermark.us == NONE_US):
            return
        lazy = self.query.tuning.expiry == "lazy" and not self.regulation.cuts
        for i, stream in enumerate(self.streams):
            if stream is None:
                continue
            arrival = arrivals[i] if arrivals else None
            if lazy and not (arrival and stream.side.crowded(len(arrival.rows))):
                continue
            self.counters[i].expired_rows += stream.side.expire(self.oldest_us(i, watermark))

    def oldest_us(self, i: int, watermark: Watermark | None = None) -> int:
        """The oldest time of a stream that is still needed."""
        watermark = watermark or self.watermark
        retention_us = self.bounds.retention_us(i)
        floor_us = self.regulation.floors_us[i]
        if retention_us >= INFINITE_US or watermark.us == NONE_US or not self._windowed:
            return floor_us
        return max(floor_us, watermark.us - retention_us)

    def _stream_state(self, i: int, layout: Layout, keys: KeyFormat) -> StreamState:
        stream = self.query.streams[i]
        allocate = self._allocate(stream.name) if self._allocate else in_memory
        return StreamState(
            layout,
            Intake(layout, keys, windowed=self._windowed),
            SideState(stream.name, layout.stored_schema, stream.count_window, allocate),
        )

    def _stream_statistics(self, i: int) -> StreamStatistics:
        stream, counters = self.streams[i], self.counters[i]
        live = (stream.side.rows + stream.waiting.rows) if stream else 0
        held = self.regulation.held_rows[i]
        live = live if held is None else min(live, held)
        return StreamStatistics(
            rows_in=counters.rows_in,
            late_rows=counters.late_rows,
            null_keys=counters.null_keys,
            null_times=counters.null_times,
            live_rows=live,
            live_bytes=stream.side.nbytes + stream.waiting.nbytes if stream else 0,
            shed_rows=counters.shed_rows,
            expired_rows=counters.expired_rows,
            cut_rows=self.regulation.cut_rows[i],
            newest_us=self.watermark.newest_us[i],
            index="scan" if self.join.learned.choices[i].scanned else "hash",
            index_changes=int(self.join.learned.index_changes[i]),
        )

    def _half_join(self, i: int, j: int) -> HalfJoinStatistics:
        allowance = None
        learned = self.join.learned
        for decided in learned.turns:
            plan = decided.plan
            if plan.driver == i:
                allowance = None if plan.allowed is None else round(plan.allowed[plan.order.index(j)])
        counts = (int(t[i, j]) for t in (learned.probes, learned.matches, learned.same_key))
        probes, matches, same_key = counts
        return HalfJoinStatistics(probes, matches, allowance, same_key)


def _gathered(pieces: Iterator[Positions], piece_rows: int) -> Iterator[Positions]:
    """Small pieces put together, up to `piece_rows` rows."""
    held: list[Positions] = []
    rows = 0
    for piece in pieces:
        if rows + piece.shape[1] > piece_rows and held:
            yield np.concatenate(held, axis=1)
            held, rows = [], 0
        held.append(piece)
        rows += piece.shape[1]
    if held:
        yield np.concatenate(held, axis=1)
