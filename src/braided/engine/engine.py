"""The engine that owns one join's execution: batches in, result tables out.

A batch is processed in this order, and nothing else changes state:

1. every stream's part is checked and judged (late, null key, accepted) at the watermark of the
   batch's start; a bad batch raises here, before anything has changed;
2. what the watermark has passed is forgotten;
3. operator by operator, producers before consumers: the rows that arrive at its inputs are stored (with
   count windows: those the new watermark has passed), and
4. the new combinations are found: intermediate rows, that arrive at the next operator; at the last one
   results, handed out piece by piece;
5. counters, the watermark and late rows are committed, and what the new watermark has passed is
   forgotten.

If anything fails in 3 or 4, the appended rows are unlinked and the state is as after 2, which differs
from the start by nothing a result can show.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.calibration import machine_costs
from braided.engine.count_windows.waiting import Waiting
from braided.engine.intake import Arrival, Intake, as_batch, plain_schema
from braided.engine.operators.layout import Layout, layout_of, output_of
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.operator import Operator
from braided.engine.operators.results import Made, Results
from braided.engine.operators.tree import Arriving, Found, Tree
from braided.engine.overload.rationing import Rationing
from braided.engine.overload.regulation import WHOLE, Part, Regulation, Share
from braided.engine.promises.closures import Closures
from braided.engine.sides.columns import Allocate
from braided.engine.sides.side import Rows, SideState
from braided.engine.spill.files import Store
from braided.engine.spill.spilling import Spilling, Tasks
from braided.engine.stopwatch import Stopwatch
from braided.engine.watermark import NONE_US, Watermark
from braided.policies.choice import Policies, policies_for
from braided.policies.statistics import (
    HalfJoinStatistics,
    IntermediateStatistics,
    Statistics,
    StreamStatistics,
)
from braided.query.bounds import INFINITE_US
from braided.query.errors import UnknownName, did_you_mean
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan
from braided.query.subplans import Subplan

PIECE_ROWS = 65_536
_ROW_BYTES = 32  # of a stored row, besides its columns


@dataclass
class Counters:
    """What one stream has seen since the start."""

    rows_in: int = 0
    late_rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    shed_rows: int = 0
    expired_rows: int = 0
    purged_rows: int = 0
    punctuations: int = 0
    violations: int = 0


@dataclass
class StreamState:
    """All that the engine keeps of one stream, once its schema is known."""

    layout: Layout
    intake: Intake
    side: SideState
    waiting: Waiting = field(default_factory=Waiting)


class Engine:
    """One join over Arrow batches."""

    def __init__(
        self,
        query: JoinQuery,
        policies: Policies | None = None,
        *,
        rationing: Rationing | None = None,
        state_windows: Mapping[Plan, int] | None = None,
        allocate: Callable[[str], Allocate] | None = None,
        expire_after: bool = True,
        measures: bool = True,
        repeatable: bool = False,
        part: Part = WHOLE,
        subplan: Subplan | None = None,
        clock: Callable[[], float] = time.monotonic,
        store: Store | None = None,
    ) -> None:
        """`allocate` gives each stream's arrays their place; `expire_after` forgets after a batch too.

        Without `expire_after` rows only expire when the next batch begins, so that the last batch can be
        taken back (unless rows were purged), and the caller makes room for the next one. Without `measures`
        the caller says how long batches take. With `repeatable` nothing runs in the background. `part` is
        this engine's part of a join that is spread over several; `subplan` are the operators it runs, if not
        all: `results` are then the rows it hands on. Rows that a memory budget has no room for go to `store`
        (None: files). `policies`, `rationing`, `state_windows` (see `Tree`) and `clock` are for tests and the
        lab.
        """
        self.query = query
        self._expire_after, self._measures, self._part = expire_after, measures, part
        self._repeated = not expire_after  # any attempt at a batch may be the one that counts
        self.watch = Stopwatch()  # of the latest batch
        self.bounds = query.bounds
        self.tree = Tree(
            query,
            lambda node: policies or policies_for(query, machine_costs, node),
            allocate,
            state_windows,
            subplan,
        )
        self.spilling = Spilling(query, self.tree, clock, store) if query.memory is not None else None
        self.rationing = rationing or Rationing(query, self.tree.state_windows, wait=repeatable, part=part)
        self.regulation = Regulation(query, part)
        self.watermark = Watermark([s.lateness_us for s in query.streams])
        self.counters = [Counters() for _ in query.streams]
        self.late: list[list[pa.RecordBatch]] = [[] for _ in query.streams]
        self.streams: list[StreamState | None] = [None] * len(query.streams)
        self.results = self.batches = 0
        self.probes = 0  # of the latest batch
        self._builder: Results | Made | None = None
        self.closures: Closures | None = None  # where streams promise something, once keys are known
        self._unlearn = self._remember()
        self._windowed, self._counting = query.windowed, query.counts

    # what is known

    def learn(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Fix the schemas of streams; a schema that does not fit raises and changes nothing."""
        if all(self.streams[self.number(name)] for name in schemas):
            return
        layouts = [s.layout if s else None for s in self.streams]
        for name, schema in schemas.items():
            i = self.number(name)
            layouts[i] = layouts[i] or layout_of(self.query, self.query.streams[i], plain_schema(schema))
        known = [layout for layout in layouts if layout is not None]
        output = output_of(self.query, known) if len(known) == len(layouts) else None
        self.tree.learn(known)
        root = self.tree.root.combining
        if self._builder is None and output is not None and root is not None:
            last = self.tree.root.root
            self._builder = Results(self.query, known, output, root) if last else Made(root)
        keys = self.tree.root.keys
        if self.query.promises and keys is not None:
            begun = self.closures or Closures(self.query, keys, self._part.of)
            self.closures = begun.known(keys)
            self.closures.on_disk = self.spilling.on_disk if self.spilling is not None else None
        for i, layout in enumerate(layouts):
            if layout is not None and self.streams[i] is None and self._joins(i):
                self.streams[i] = self._stream_state(layout)

    def number(self, name: str) -> int:
        """Which stream a name means."""
        if name not in self.query.names:
            raise UnknownName(f"no stream {name!r}; {did_you_mean(name, self.query.names)}")
        return self.query.names.index(name)

    @property
    def schema(self) -> pa.Schema:
        """The result's schema; without columns until every stream's schema is known."""
        return self._builder.schema if self._builder else pa.schema([])

    # a batch

    def accept(self, batch: Mapping[str, Any], *, borrow: bool = False) -> list[Arrival | None]:
        """Check and judge every part of a batch; only schemas seen for the first time are kept."""
        self.watch = Stopwatch()
        with self.watch.on("accept"):
            return self._accept(batch, borrow=borrow)

    def _accept(self, batch: Mapping[str, Any], *, borrow: bool) -> list[Arrival | None]:
        parts = {}
        for name, data in batch.items():
            i = self.number(name)
            known = self.streams[i]
            parts[name] = as_batch(self.query.streams[i], data, known.layout.schema if known else None)
        self._unlearn = self._remember()
        try:
            self.learn({name: part.schema for name, part in parts.items()})
            return self.regulate(self._judge(parts, borrow=borrow))
        except BaseException:
            self._unlearn()
            raise

    def regulate(
        self, arrivals: Sequence[Arrival | None], share: Share | None = None, cores: int = 1
    ) -> list[Arrival | None]:
        """Only the rows that overload lets in; `share` is this engine's, of a batch that is spread out."""
        if share is None:
            rows = sum(len(a.rows) for a in arrivals if a)
            share = Share(0, rows, rows)
        if self.closures is not None:
            arrivals = self.closures.check(arrivals, [s.intake if s else None for s in self.streams])
        self.rationing.share(share, cores)
        self.regulation.see(self._later(arrivals).clock_us)
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
        handed: Mapping[Plan, Rows] | None = None,
    ) -> Iterator[pa.Table]:
        """Process a judged batch; eager pieces come as driver streams finish, others when full.

        `handed` are intermediate rows that other engines made in this batch; they are never judged.
        """
        later, tasks = self._later(arrivals), None
        if self.spilling is not None and self._repeated:
            tasks = self.spilling.planned(self.watermark.us, idle=all(a is None for a in arrivals))
        run = self._run(arrivals, later, piece_rows, handed, tasks=tasks, batch=True, eager=eager)
        yield from self.watch.each("batch", run)
        if self._measures:
            batch_us = self.watch.us("accept") + self.watch.us("batch")
            self.rationing.measured(batch_us / 1e6, self.watch.us("probing") / 1e6, self.probes)

    def _later(self, arrivals: Sequence[Arrival | None]) -> Watermark:
        """The watermark once these have been processed."""
        return self.watermark.after([a.newest_us if a else None for a in arrivals])

    def make_room(self, arrivals: Sequence[Arrival | None]) -> None:
        """Flush what a memory budget has no room for, if a batch like this one is to be stored."""
        if self.spilling is not None:
            self.spilling.make_room(sum(_room(a.rows) for a in arrivals if a))

    def before(self, *, idle: bool = False, piece_rows: int = PIECE_ROWS) -> Iterator[Iterator[pa.Table]]:
        """Steps that are due before the next batch: each has results of its own, whole or not at all.

        If that batch is `idle`, it brings no rows.
        """
        if self.spilling is not None:
            for tasks in self.spilling.due(self.watermark.us, idle=idle):
                yield self._run(self._nothing, self.watermark, piece_rows, tasks=tasks, eager=False)
            self._count_expired()

    def finish(self, *, piece_rows: int = PIECE_ROWS) -> Iterator[Iterator[pa.Table]]:
        """The results that waited for the end of all streams, in steps like those before a batch."""
        self.regulation.see(self.watermark.clock_us)  # and not that of a batch that failed
        if self.spilling is not None:
            for tasks in self.spilling.finishing():
                yield self._run(self._nothing, self.watermark, piece_rows, tasks=tasks, eager=False)
        yield self._run(self._nothing, self.watermark.at_end(), piece_rows, batch=True, eager=False)

    @property
    def _nothing(self) -> list[Arrival | None]:
        return [None] * len(self.streams)

    def statistics(self) -> Statistics:
        """An immutable picture of now."""
        operators = self.tree.operators
        learned = [operator.join.learned for operator in operators]
        plans = [(o.names, decided.plan) for o in operators for decided in o.join.learned.turns]
        return Statistics(
            results=self.results,
            batches=self.batches,
            watermark_us=self.watermark.event_us,
            streams={name: self._stream_statistics(i) for i, name in enumerate(self.query.names)},
            half_joins={
                (a, b): _half_join(operator, i, j)
                for operator in operators
                for i, a in enumerate(operator.names)
                for j, b in enumerate(operator.names)
                if i != j
            },
            intermediates=self._intermediates(),
            rationing=self.rationing.statistics(),
            exact_again=self.rationing.exact_since,
            spilled_bytes=self.spilling.bytes if self.spilling else 0,
            owed=self.spilling.owed_combinations if self.spilling else 0,
            disk_decision=self.spilling.last_reason if self.spilling else "",
            punctuations_out=self.closures.announcements if self.closures else 0,
            driver_streams=tuple(names[p.driver] for names, p in plans),
            probe_orders={names[p.driver]: tuple(names[s] for s in p.order) for names, p in plans},
            driver_switches=sum(known.switches for known in learned),
            profile_probes=sum(known.profile_probes for known in learned),
            driven_rows=sum(known.driven_rows for known in learned),
        )

    def _intermediates(self) -> dict[str, IntermediateStatistics]:
        found = self.tree.statistics()
        if self.spilling is None:
            return found
        spilled = {source.name: self.spilling.rows(source.node) for source, _ in self.tree.intermediates}
        return {name: dataclasses.replace(s, spilled_rows=spilled[name]) for name, s in found.items()}

    def reasons(self) -> Iterator[str]:
        """The latest batch's decisions in words: driver streams in their order, and how they probed."""
        for operator in self.tree.operators:
            names, policies = operator.names, operator.join.policies
            for decided in operator.join.learned.turns:
                driver, turn = decided.plan.driver, decided.turn
                yield f"{names[driver]} ({policies.driver.reason(turn, driver)})"
                order = decided.plan.order
                found = zip(order, policies.probe_order.fan_outs(driver, turn, order), strict=True)
                said = [
                    names[p] if f is None else f"{names[p]} (about {f:.3g} matches a row)" for p, f in found
                ]
                yield f"  probes {', then '.join(said)}"
        if self.spilling is not None and self.spilling.last_reason:
            yield f"on disk: {self.spilling.bytes:,} bytes; {self.spilling.last_reason}"

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
        self,
        arrivals: Sequence[Arrival | None],
        later: Watermark,
        piece_rows: int,
        handed: Mapping[Plan, Rows] | None = None,
        *,
        tasks: Tasks | None = None,
        batch: bool = False,
        eager: bool,
    ) -> Iterator[pa.Table]:
        self._expire(self.watermark, arrivals)
        if self.spilling is not None:
            if not self._repeated:
                self.make_room(arrivals)
            self.spilling.begin(tasks or {}, self.watermark.us, batch=batch)
        self._count_dead()
        if self.rationing.catch_up(self.tree, self.watermark.us, self.regulation.floors_us):
            self._count_dead()
        before = self.tree.start()
        waiting = [s.waiting if s else None for s in self.streams]
        rationing = self.rationing.kept()
        found = 0
        if isinstance(self._builder, Results):
            self._builder.oldest_us.clear()
        try:
            arriving = {**self._arriving(arrivals, later), **(handed or {})}
            self.rationing.begin(self.batches, self.tree, arriving)
            for table in self.watch.each("probing", self._found(arriving, piece_rows, eager=eager)):
                found += table.num_rows
                yield table
        except BaseException:
            self.tree.undo(before)
            self._wait_again(waiting)
            self.rationing.restore(rationing)
            if self.spilling is not None:
                self.spilling.abort()
            self._unlearn()
            raise
        if self.spilling is not None:
            self.spilling.commit()
        self.probes = self.tree.done(before, arriving)
        self.rationing.end(self.batches, self.probes, later.clock_us)
        complete = self._commit(arrivals, later, found)
        self.batches += batch
        if complete is not None and isinstance(self._builder, Results):
            yield self._builder.punctuations(complete)

    def _remember(self) -> Callable[[], None]:
        """What is known now; calling the answer forgets the schemas that were learned since."""
        streams, builder, forget = list(self.streams), self._builder, self.tree.remember()
        closures = self.closures

        def unlearn() -> None:
            self.streams, self._builder, self.closures = list(streams), builder, closures
            forget()

        return unlearn

    def _arriving(self, arrivals: Sequence[Arrival | None], later: Watermark) -> Arriving:
        """The rows that are to be stored now, by stream."""
        return {
            name: self._ready(stream, arrival, later) if stream else None
            for name, stream, arrival in zip(self.query.names, self.streams, arrivals, strict=True)
        }

    def _ready(self, stream: StreamState, arrival: Arrival | None, later: Watermark) -> Rows:
        """The rows to store now."""
        rows = arrival.rows if arrival else stream.intake.empty().rows
        if not self._counting:
            return rows
        settled, stream.waiting = stream.waiting.add(rows).settle(later.us, stream.intake.empty().rows)
        return settled

    def _found(self, arriving: Arriving, piece_rows: int, *, eager: bool) -> Iterator[pa.Table]:
        floors_us = self.regulation.now_us
        ration = self.rationing.rations if self.rationing.limited else None
        pieces = self.tree.run(arriving, floors_us, piece_rows, ration, self.spilling)
        for sides, piece in pieces if eager else _gathered(pieces, piece_rows):
            assert self._builder is not None
            table = self._builder.table(sides, piece, floors_us)
            if table.num_rows:
                if self.spilling is not None and isinstance(self._builder, Results):
                    self.spilling.found(self.tree.root.number, sides, self._builder.latest)
                yield table

    def _wait_again(self, waiting: Sequence[Waiting | None]) -> None:
        for stream, rows in zip(self.streams, waiting, strict=True):
            if stream is not None and rows is not None:
                stream.waiting = rows

    def _commit(
        self, arrivals: Sequence[Arrival | None], later: Watermark, found: int
    ) -> list[pa.Array] | None:
        """The batch is done; the keys that it made complete, if the output is to be told."""
        for i, arrival in enumerate(arrivals):
            if arrival is None:
                continue
            counters = self.counters[i]
            counters.rows_in += arrival.rows_in
            counters.null_keys += arrival.null_keys
            counters.null_times += arrival.null_times
            counters.shed_rows += arrival.shed_rows
            counters.punctuations += arrival.punctuations
            counters.violations += arrival.violations
            if arrival.late is not None:
                counters.late_rows += arrival.late.num_rows
                self.late[i].append(arrival.late)
        self._count_expired()
        if self.closures is not None:
            self.closures.after(arrivals, later.us)
        complete = self.closures.announce(self.tree) if self.closures is not None else None
        self.results += found
        self.watermark = later
        self._unlearn = self._remember()
        sides = [s.side if s else None for s in self.streams]
        self.regulation.after(arrivals, sides, [self.oldest_us(i) for i in range(len(sides))])
        with contextlib.suppress(pa.ArrowException, MemoryError):  # the batch is done: try at the next
            if self._expire_after:
                self._expire(later, None)
            self._purge(arrivals)
        return complete

    def _expire(self, watermark: Watermark, arrivals: Sequence[Arrival | None] | None) -> None:
        """Forget what the watermark has passed, or memory has no room for; lazily, where room is needed."""
        for stream, floor_us in zip(self.streams, self.regulation.now_us, strict=True):
            if stream is not None:
                stream.side.floor_us = floor_us
        self.tree.trim()
        if not self.regulation.cuts and (not self._windowed or watermark.us == NONE_US):
            return
        keeps = self.spilling.keeps if self.spilling is not None else set()
        lazy = self.query.tuning.expiry == "lazy" and not self.regulation.cuts
        for i, stream in enumerate(self.streams):
            if stream is None or stream.layout.stream.name in keeps:
                continue
            arrival = arrivals[i] if arrivals else None
            if lazy and not (arrival and stream.side.columns.crowded(len(arrival.rows))):
                continue
            self.counters[i].expired_rows += stream.side.expire(self.oldest_us(i, watermark))
        if watermark.us != NONE_US:
            self.tree.expire(watermark.us, keeps)
        if self.regulation.cuts:
            self.tree.purge(self.regulation.floors_us)

    def _count_expired(self) -> None:
        """Count the rows that have died on disk."""
        if self.spilling is not None:
            for i, name in enumerate(self.query.names):
                self.counters[i].expired_rows += self.spilling.expired_rows.pop(name, 0)

    def _purge(self, arrivals: Sequence[Arrival | None]) -> None:
        """Forget what promises allow; inputs without rows are a good moment."""
        if self.closures is None:
            return
        idle = not any(a and (len(a.rows) or a.punctuations) for a in arrivals)
        for counters, purged in zip(self.counters, self.closures.purge(self.tree, idle=idle), strict=True):
            counters.purged_rows += purged

    def _count_dead(self) -> None:
        """Budgets are shared by the rows that count: what is still held depends on when it was tidied up."""
        if not self.rationing.limited:
            return
        for i, stream in enumerate(self.streams):
            if stream is not None:
                stream.side.dead = len(stream.side.ended(self.oldest_us(i)))
        self.tree.tidy(self.watermark.us, self.regulation.floors_us)

    def oldest_us(self, i: int, watermark: Watermark | None = None) -> int:
        """The oldest time of a stream that is still needed."""
        watermark_us = (watermark or self.watermark).us
        retention_us = self.bounds.retention_us(i)
        floor_us = self.regulation.floors_us[i]
        if retention_us >= INFINITE_US or watermark_us == NONE_US or not self._windowed:
            return floor_us
        if self.spilling is not None and self.query.names[i] in self.spilling.keeps:
            return floor_us
        return max(floor_us, watermark_us - retention_us)

    def _joins(self, i: int) -> bool:
        """Whether a stream's rows arrive here, and not at another engine of the same join."""
        return self.query.names[i] in self.tree.subplan.streams

    def _stream_state(self, layout: Layout) -> StreamState:
        name = layout.stream.name
        keys = self.tree.above(name).keys
        assert keys is not None
        intake = Intake(
            layout,
            keys,
            windowed=self._windowed,
            promises=self.query.promises,
            announces=self.query.emit_punctuations,
        )
        return StreamState(layout, intake, self.tree.sides[name])

    def _staleness_us(self, stream: str) -> int | None:
        """How old the latest batch's results were, by its clock; None if there were none, or no overload."""
        oldest = self._builder.oldest_us.get(stream) if isinstance(self._builder, Results) else None
        return None if oldest is None else self.watermark.clock_us - oldest

    def _stream_statistics(self, i: int) -> StreamStatistics:
        stream, counters = self.streams[i], self.counters[i]
        if not self._joins(i):
            return StreamStatistics(newest_us=self.watermark.newest_us[i])
        operator = self.tree.above(self.query.names[i])
        learned, place = operator.join.learned, operator.node.index(self.query.names[i])
        live = (stream.side.live_rows + stream.waiting.rows) if stream else 0
        held = self.regulation.held_rows[i]
        live = live if held is None else min(live, held)
        return StreamStatistics(
            rows_in=counters.rows_in,
            late_rows=counters.late_rows,
            null_keys=counters.null_keys,
            null_times=counters.null_times,
            live_rows=live,
            spilled_rows=self.spilling.rows(self.query.names[i]) if self.spilling is not None else 0,
            live_bytes=stream.side.nbytes + stream.waiting.nbytes if stream else 0,
            shed_rows=counters.shed_rows,
            expired_rows=counters.expired_rows,
            purged_rows=counters.purged_rows,
            punctuations=counters.punctuations,
            violations=counters.violations,
            closed_keys=self.closures.closed[i].count if self.closures else 0,
            cut_rows=self.regulation.cut_rows[i],
            newest_us=self.watermark.newest_us[i],
            staleness_us=self._staleness_us(self.query.names[i]),
            index="scan" if learned.choices[place].scanned else "hash",
            index_changes=int(learned.index_changes[place]),
        )


def _half_join(operator: Operator, i: int, j: int) -> HalfJoinStatistics:
    allowance = None
    learned = operator.join.learned
    for decided in learned.turns:
        plan = decided.plan
        if plan.driver == i:
            allowance = None if plan.allowed is None else round(plan.allowed[plan.order.index(j)])
    counts = (int(t[i, j]) for t in (learned.probes, learned.matches, learned.same_key))
    probes, matches, same_key = counts
    return HalfJoinStatistics(probes, matches, allowance, same_key)


def _gathered(pieces: Iterator[Found], piece_rows: int) -> Iterator[Found]:
    """Small pieces put together, up to `piece_rows` rows, as far as their rows are in the same states."""
    held: list[Positions] = []
    rows = 0
    of: Sequence[SideState] = ()
    for sides, piece in pieces:
        if held and (rows + piece.shape[1] > piece_rows or sides[0] is not of[0]):
            yield of, np.concatenate(held, axis=1)
            held, rows = [], 0
        of = sides
        held.append(piece)
        rows += piece.shape[1]
    if held:
        yield of, np.concatenate(held, axis=1)


def _room(rows: Rows) -> int:
    """About how many bytes rows will take."""
    return int(rows.batch.nbytes) + _ROW_BYTES * len(rows)
