"""The engine that owns one join's execution: batches in, result tables out.

A batch is processed in this order, and nothing else changes state:

1. every stream's part is checked and judged (late, null key, accepted) at the watermark of the
   batch's start; a bad batch raises here, before anything has changed;
2. what the watermark has passed is forgotten;
3. operator by operator, producers before consumers: the rows that arrive at its inputs are stored, and
4. the new combinations are found: intermediate rows, that arrive at the next operator; at the last one
   results, handed out piece by piece;
5. counters, the watermark and late rows are committed, and what the new watermark has passed is
   forgotten.

If anything fails in 1, 3 or 4, all that was done since is taken back, newest first, by one list of undo
steps; the state is then as after 2, which differs from the start by nothing a result can show. What a query
may do without (count windows, promises, budgets) takes part through the hooks of `features`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine import report
from braided.engine.calibration import machine_costs
from braided.engine.features import Arrivals, Make, Step, Undo, features_of, outlasting
from braided.engine.intake import Arrival, Incoming, Intake, as_batch, joined_elsewhere, plain_schema
from braided.engine.operators.layout import layout_of, output_of
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.results import Made, Results
from braided.engine.operators.tree import Found, Tree
from braided.engine.sides.side import BOTTOMLESS_US, Rows, SideState
from braided.engine.site import Share, Site
from braided.engine.state import EngineState
from braided.engine.stopwatch import Stopwatch
from braided.engine.streams import Counters, StreamState
from braided.engine.watermark import NONE_US, Watermark
from braided.policies.arrays import Bools, Int64s
from braided.policies.choice import policies_for
from braided.policies.statistics import Statistics
from braided.query.bounds import INFINITE_US
from braided.query.errors import UnknownName, did_you_mean
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan

PIECE_ROWS = 65_536
_ROW_BYTES = 32  # of a stored row, besides its columns


class Engine:
    """One join over Arrow batches."""

    def __init__(
        self, query: JoinQuery, site: Site | None = None, features: Mapping[str, Make] | None = None
    ) -> None:
        """`features` makes some features in another way than the query asks for."""
        self.query, self.site = query, site or Site()
        policies = self.site.policies or functools.partial(policies_for, query, machine_costs)
        self.tree = Tree(query, policies, self.site.allocate, self.site.subplan)
        self.watch = Stopwatch()  # of the latest batch
        self.watermark = Watermark([s.lateness_us for s in query.streams])
        self.floors_us = [BOTTOMLESS_US] * len(query.streams)
        self.now_us = self.floors_us
        self.counters = [Counters() for _ in query.streams]
        self.late: list[list[pa.RecordBatch]] = [[] for _ in query.streams]
        self.streams: list[StreamState | None] = [None] * len(query.streams)
        self.results = self.batches = 0
        self.probes = 0  # of the latest batch
        self.builder: Results | Made | None = None
        self._undoing: list[Undo] = []
        self.features = features_of(self, features or {})

    # what is known

    def learn(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Fix the schemas of streams for good."""
        self._learn(schemas)
        self._undoing = []

    def _learn(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Fix the schemas of streams; if the step fails, they are forgotten."""
        if all(self.streams[self.number(name)] for name in schemas):
            return
        layouts = [s.layout if s else None for s in self.streams]
        for name, schema in schemas.items():
            i = self.number(name)
            layouts[i] = layouts[i] or layout_of(self.query, self.query.streams[i], plain_schema(schema))
        known = [layout for layout in layouts if layout is not None]
        output = output_of(self.query, known) if len(known) == len(layouts) else None
        self.tree.learn(known)
        root = self.tree.root
        if self.builder is None and output is not None and root.combining is not None:
            whole = root.root
            self.builder = (
                Results(self.query, known, output, root.combining) if whole else Made(root.combining)
            )
        self._undoing += [undo for learn in self.features.learn if (undo := learn()) is not None]
        for i, layout in enumerate(layouts):
            if layout is not None and self.streams[i] is None and self.joins(i):
                self.streams[i] = self._stream_state(layout)

    def number(self, name: str) -> int:
        """Which stream a name means."""
        if name not in self.query.names:
            raise UnknownName(f"no stream {name!r}; {did_you_mean(name, self.query.names)}")
        return self.query.names.index(name)

    @property
    def schema(self) -> pa.Schema:
        """The result's schema; without columns until every stream's schema is known."""
        return self.builder.schema if self.builder else pa.schema([])

    def joins(self, stream: int) -> bool:
        """Whether a stream's rows arrive here, and not at another engine of the same join."""
        return self.query.names[stream] in self.tree.subplan.streams

    # what features ask

    def side(self, stream: int) -> SideState | None:
        """A stream's stored rows, once its schema is known."""
        state = self.streams[stream]
        return state.side if state else None

    def intake(self, stream: int) -> Intake | None:
        """What reads a stream's batches, once its schema is known."""
        state = self.streams[stream]
        return state.intake if state else None

    def hidden(self, hashes: Int64s) -> Bools | None:
        """Of which keys rows may be held where sides do not see them; None: of none."""
        several = [found for hidden in self.features.hidden if (found := hidden(hashes)) is not None]
        return functools.reduce(np.logical_or, several) if several else None

    def later(self, arrivals: Arrivals) -> Watermark:
        """The watermark once these have been processed."""
        return self.watermark.after([a.newest_us if a else None for a in arrivals])

    def oldest_us(self, stream: int) -> int:
        """The oldest time of a stream that is still needed."""
        watermark_us, floor_us = self.watermark.us, self.floors_us[stream]
        retention_us = self.query.bounds.retention_us(stream)
        if retention_us >= INFINITE_US or watermark_us == NONE_US or not self.query.windowed:
            return floor_us
        if self.query.names[stream] in self.retained():
            return floor_us
        return max(floor_us, watermark_us - retention_us)

    def retained(self) -> set[Plan]:
        """The inputs whose rows must not expire."""
        return {node for retains in self.features.retains for node in retains()}

    # a batch

    def accept(
        self, batch: Mapping[str, Any], *, borrow: bool = False, share: Share | None = None, cores: int = 1
    ) -> Arrivals:
        """Check and judge every part of a batch; only schemas seen for the first time are kept.

        A part is a table, or `Incoming` if a sender has counted its rows already. `share` is this engine's
        of a batch that is spread over several, of which `cores` run at a time.
        """
        self.watch = Stopwatch()
        with self.watch.on("accept"):
            parts = {name: self._read(name, data) for name, data in batch.items()}
            self._undoing = [self._remember()]
            try:
                self._learn({n: p.schema for n, p in parts.items() if not isinstance(p, Incoming)})
                return self._admit(self._judge(parts, borrow=borrow), share, cores)
            except BaseException:
                self._undo()
                raise

    def step(
        self,
        arrivals: Arrivals,
        *,
        piece_rows: int = PIECE_ROWS,
        eager: bool = True,
        handed: Mapping[Plan, Rows] | None = None,
    ) -> Iterator[pa.Table]:
        """Process a judged batch; eager pieces come as driver streams finish, others when full.

        `handed` are intermediate rows that other engines made in this batch; they are never judged.
        """
        step = Step(arrivals, self.later(arrivals), handed=handed or {})
        yield from self.watch.each("batch", self._run(step, piece_rows, eager=eager))
        if not self.site.retried:
            self.measured((self.watch.us("accept") + self.watch.us("batch")) / 1e6)

    def measured(self, seconds: float, ahead: float = 0.0) -> None:
        """The latest batch took this long; `ahead` is what others probed before it."""
        for measured in self.features.measured:
            measured(seconds, self.watch.us("probing") / 1e6, self.probes, ahead)

    def make_room(self, arrivals: Arrivals) -> None:
        """Make room in memory, if a batch like this one is to be stored."""
        for make_room in self.features.make_room:
            make_room(sum(_room(a.rows) for a in arrivals if a))

    def before(self, *, idle: bool = False, piece_rows: int = PIECE_ROWS) -> Iterator[Iterator[pa.Table]]:
        """Steps that are due before the next batch: each has results of its own, whole or not at all.

        If that batch is `idle`, it brings no rows.
        """
        for work in self.features.work:
            for task in work(idle=idle):
                yield self._run(self._nothing(work=task), piece_rows, eager=False)

    def finish(self, *, piece_rows: int = PIECE_ROWS) -> Iterator[Iterator[pa.Table]]:
        """The results that waited for the end of all streams, in steps like those before a batch."""
        for finish in self.features.finish:
            for task in finish():
                yield self._run(self._nothing(work=task), piece_rows, eager=False)
        last = Step([None] * len(self.streams), self.watermark.at_end())
        yield self._run(last, piece_rows, eager=False)

    def put(self, stream: int, pieces: Sequence[Rows]) -> None:
        """Put saved rows back into a stream's side, once the newest times are set."""
        side = self.side(stream)
        assert side is not None
        for refill in self.features.refill:
            pieces = refill(stream, pieces)
        for rows in pieces:
            side.append(rows)

    def keep_features(self, state: EngineState) -> None:
        """Keep the features that a saved state needs, though the query does without."""
        self.features = outlasting(self, self.features, state)

    # what is shown

    def statistics(self) -> Statistics:
        """An immutable picture of now."""
        return report.statistics(self)

    def reasons(self) -> Iterator[str]:
        """The latest batch's decisions in words."""
        return report.reasons(self)

    # parts of the above

    def _nothing(self, work: Any) -> Step:
        """A step between batches."""
        return Step([None] * len(self.streams), self.watermark, batch=False, work=work)

    def _read(self, name: str, data: Any) -> pa.RecordBatch | Incoming:
        i = self.number(name)
        if isinstance(data, Incoming):
            return data
        known = self.streams[i]
        return as_batch(self.query.streams[i], data, known.layout.schema if known else None)

    def _judge(self, parts: Mapping[str, pa.RecordBatch | Incoming], *, borrow: bool) -> Arrivals:
        arrivals: list[Arrival | None] = [None] * len(self.streams)
        for name, part in parts.items():
            i = self.number(name)
            intake = self.intake(i)
            if intake is None:
                assert isinstance(part, Incoming)
                arrivals[i] = joined_elsewhere(part)
            else:
                arrivals[i] = intake.read(part, self.watermark.us, borrow=borrow)
        return arrivals

    def _admit(self, arrivals: Arrivals, share: Share | None, cores: int) -> Arrivals:
        """Only the rows that features let in."""
        if share is None:
            rows = sum(len(a.rows) for a in arrivals if a)
            share = Share(0, rows, rows)
        for admit in self.features.admit:
            arrivals = admit(arrivals, share, cores)
        return arrivals

    def _run(self, step: Step, piece_rows: int, *, eager: bool) -> Iterator[pa.Table]:
        self.now_us = self.floors_us
        for floors in self.features.floors:
            self.now_us = floors(step.later.clock_us)
        self._expire(step.arrivals)
        if not self.site.retried:
            self.make_room(step.arrivals)
        for begin in self.features.begin:
            begin(step)
        before = self.tree.start()
        self._undoing += [*self.features.undo, functools.partial(self.tree.undo, before)]
        if isinstance(self.builder, Results):
            self.builder.oldest_us.clear()
        try:
            step.arriving = {**self._arriving(step.arrivals), **step.handed}
            for enter in self.features.enter:
                enter(step)
            for table in self.watch.each("probing", self._found(step, piece_rows, eager=eager)):
                step.found += table.num_rows
                yield table
        except BaseException:
            self._undo()
            raise
        step.probes = self.probes = self.tree.done(before, step.arriving)
        self._commit(step)
        for announce in self.features.announce:
            if (keys := announce()) is not None and isinstance(self.builder, Results):
                yield self.builder.punctuations(keys)

    def _arriving(self, arrivals: Arrivals) -> dict[Plan, Rows | None]:
        """The rows that came, by stream."""
        return {
            name: (arrival.rows if arrival else stream.intake.empty().rows) if stream else None
            for name, stream, arrival in zip(self.query.names, self.streams, arrivals, strict=True)
        }

    def _found(self, step: Step, piece_rows: int, *, eager: bool) -> Iterator[pa.Table]:
        hooks = self.features.hooks
        pieces = self.tree.run(step.arriving, self.now_us, piece_rows, hooks)
        for sides, piece in pieces if eager else _gathered(pieces, piece_rows):
            assert self.builder is not None
            table = self.builder.table(sides, piece, self.now_us)
            if table.num_rows:
                if isinstance(self.builder, Results):
                    for found in hooks.found:
                        found(self.tree.root.number, sides, self.builder.latest)
                yield table

    def _commit(self, step: Step) -> None:
        for counters, late, arrival in zip(self.counters, self.late, step.arrivals, strict=True):
            if arrival is not None:
                counters.count(arrival)
                if arrival.late is not None:
                    late.append(arrival.late)
        self.results += step.found
        self.watermark = step.later
        self._undoing = []
        for commit in self.features.commit:
            commit(step)
        self.batches += step.batch
        with contextlib.suppress(pa.ArrowException, MemoryError):  # the batch is done: try at the next
            if not self.site.retried:
                self._expire(None)
            for purge in self.features.purge:
                purge(step)

    def _undo(self) -> None:
        while self._undoing:
            self._undoing.pop()()

    def _remember(self) -> Undo:
        """What is known now; calling the answer forgets the schemas that were learned since."""
        streams, builder, forget = list(self.streams), self.builder, self.tree.remember()

        def unlearn() -> None:
            self.streams, self.builder = list(streams), builder
            forget()

        return unlearn

    def _expire(self, arrivals: Arrivals | None) -> None:
        """Forget what the watermark has passed; lazily, where the rows to come need room."""
        for stream, floor_us in zip(self.streams, self.now_us, strict=True):
            if stream is not None:
                stream.side.floor_us = floor_us
        cut = any(floor_us > BOTTOMLESS_US for floor_us in self.floors_us)
        if cut or (self.query.windowed and self.watermark.us != NONE_US):
            retained = self.retained()
            lazy = self.query.tuning.expiry == "lazy" and not cut
            for i, stream in enumerate(self.streams):
                if stream is None or stream.layout.stream.name in retained:
                    continue
                arrival = arrivals[i] if arrivals else None
                if not lazy or (arrival and stream.side.columns.crowded(len(arrival.rows))):
                    self.counters[i].expired_rows += stream.side.expire(self.oldest_us(i))
            if self.watermark.us != NONE_US:
                self.tree.expire(self.watermark.us, retained)
        for expire in self.features.expire:
            expire()

    def _stream_state(self, layout: Any) -> StreamState:
        keys = self.tree.above(layout.stream.name).keys
        assert keys is not None
        intake = Intake(
            layout,
            keys,
            windowed=self.query.windowed,
            promises=self.query.promises,
            announces=self.query.emit_punctuations,
        )
        return StreamState(layout, intake, self.tree.sides[layout.stream.name])


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
