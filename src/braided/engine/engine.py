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
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine import report
from braided.engine.core import Core
from braided.engine.features import Arrivals, Feature, Make, Step, Undo
from braided.engine.intake import Arrival, Incoming, as_batch, joined_elsewhere
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.tree import Found
from braided.engine.sides.side import Rows, SideState
from braided.engine.site import Share, Site
from braided.engine.stopwatch import Stopwatch
from braided.engine.watermark import Clock
from braided.policies.statistics import Statistics
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
        self.core = Core(query, self.site, features or {})
        self.tree = self.core.tree
        self.watch = Stopwatch()  # of the latest batch
        self.probes = 0  # of the latest batch
        self._undoing: list[Undo] = []

    # a batch

    def accept(
        self,
        batch: Mapping[str, Any],
        *,
        borrow: bool = False,
        share: Share | None = None,
        cores: int = 1,
        clock: Clock | None = None,
    ) -> Arrivals:
        """Check and judge every part of a batch; only schemas seen for the first time change anything.

        A part is a table, or `Incoming` if a sender has counted its rows already. `share` is this engine's
        of a batch that is spread over several, of which `cores` run at a time; `clock` is when it came.
        """
        self.watch, self.core.clock = Stopwatch(), clock
        wall_us = self.core.wall_us
        self.core.read_us = time.time_ns() // 1000 if wall_us is None else wall_us
        with self.watch.on("accept"):
            parts = {name: self.read(name, data) for name, data in batch.items()}
            self._undoing = self.core.remember()
            with self._whole_or_undone():
                schemas = {n: p.schema for n, p in parts.items() if not isinstance(p, Incoming)}
                self.core.learn(schemas, self._undoing)
                arrivals = self._judge(parts, borrow=borrow)
                rows = sum(len(a.rows) for a in arrivals if a)
                for admit in self.core.features.of(Feature.admit):
                    arrivals = admit(arrivals, share or Share(0, rows, rows), cores)
            return arrivals

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
        step = Step(arrivals, self.core.later(arrivals), handed=handed or {})
        yield from self.watch.each("batch", self._run(step, piece_rows, eager=eager))
        if not self.site.retried:
            self.measured((self.watch.us("accept") + self.watch.us("batch")) / 1e6)

    def measured(self, seconds: float, ahead: float = 0.0, out: float = 0.0) -> None:
        """The latest batch took this long, `out` of it to hand out results.

        `ahead` is what others did before it that budgets explain.
        """
        for measured in self.core.features.of(Feature.measured):
            measured(seconds, self.paced_seconds + out, self.probes, ahead)

    @property
    def paced_seconds(self) -> float:
        """What a budget bought in the latest batch: probing, or all work on rows where others are dropped."""
        overload = self.query.overload
        return self.watch.us("batch" if overload and overload.drops_input else "probing") / 1e6

    def make_room(self, arrivals: Arrivals) -> None:
        """Make room in memory, if a batch like this one is to be stored."""
        for make_room in self.core.features.of(Feature.make_room):
            make_room(sum(a.rows.batch.nbytes + _ROW_BYTES * len(a.rows) for a in arrivals if a))

    def before(self, *, idle: bool = False) -> Iterator[Iterator[pa.Table]]:
        """Steps that are due before the next batch: each has results of its own, whole or not at all.

        If that batch is `idle`, it brings no rows.
        """
        works = self.core.features.of(Feature.work)
        yield from self._steps((task for work in works for task in work(idle=idle, ended=False)), PIECE_ROWS)

    def finish(self, *, piece_rows: int = PIECE_ROWS) -> Iterator[Iterator[pa.Table]]:
        """The results that waited for the end of all streams, in steps like those before a batch."""
        works = self.core.features.of(Feature.work)
        yield from self._steps((task for work in works for task in work(idle=True, ended=True)), piece_rows)
        last = Step([None] * len(self.core.streams), self.core.watermark.at_end())
        yield self._run(last, piece_rows, eager=False)

    # what is shown

    def statistics(self) -> Statistics:
        """An immutable picture of now."""
        return report.statistics(self)

    def reasons(self) -> Iterator[str]:
        """The latest batch's decisions in words."""
        return report.reasons(self)

    # parts of the above

    def _steps(self, tasks: Iterable[Any], piece_rows: int) -> Iterator[Iterator[pa.Table]]:
        """Steps between batches, one for each task of a feature."""
        for task in tasks:
            step = Step([None] * len(self.core.streams), self.core.watermark, batch=False, work=task)
            yield self._run(step, piece_rows, eager=False)

    def read(self, name: str, data: Any) -> pa.RecordBatch | Incoming:
        """One part of a batch, with the columns that its stream is known to have."""
        i = self.core.number(name)
        if isinstance(data, Incoming):
            return data
        known = self.core.streams[i]
        return as_batch(self.query.streams[i], data, known.layout.schema if known else None)

    def _judge(self, parts: Mapping[str, pa.RecordBatch | Incoming], *, borrow: bool) -> Arrivals:
        arrivals: list[Arrival | None] = [None] * len(self.core.streams)
        for name, part in parts.items():
            if (intake := self.core.streams[i := self.core.number(name)]) is not None:
                arrivals[i] = intake.read(part, self.core.watermark.us, borrow=borrow)
            else:
                arrivals[i] = joined_elsewhere(part)
        return arrivals

    def _run(self, step: Step, piece_rows: int, *, eager: bool) -> Iterator[pa.Table]:
        core, features = self.core, self.core.features
        core.now_us = core.floors_us
        for floors in features.of(Feature.floors):
            core.now_us = floors(step.later.clock_us)
        core.expire(step.arrivals)
        if not self.site.retried:
            self.make_room(step.arrivals)
        for begin in features.of(Feature.begin):
            begin(step)
        before = self.tree.start()
        self._undoing += [*features.of(Feature.undo), functools.partial(self.tree.undo, before)]
        if core.builder is not None:
            core.builder.oldest_us.clear()
        with self._whole_or_undone():
            for name, intake, arrival in zip(self.query.names, core.streams, step.arrivals, strict=True):
                if intake is not None:
                    step.arriving[name] = arrival.rows if arrival else intake.empty().rows
            step.arriving |= step.handed
            for enter in features.of(Feature.enter):
                enter(step)
            for table in self.watch.each("probing", self._find(step, piece_rows, eager=eager)):
                step.results += table.num_rows
                yield table
        step.probes = self.probes = self.tree.done(before, step.arriving)
        self._commit(step)
        if step.complete is not None and core.builder is not None and core.builder.output is not None:
            yield core.builder.punctuations(step.complete)

    def _find(self, step: Step, piece_rows: int, *, eager: bool) -> Iterator[pa.Table]:
        core, hooks = self.core, self.core.features.hooks
        pieces = self.tree.run(step.arriving, core.now_us, piece_rows, hooks)
        for sides, piece in pieces if eager else _gathered(pieces, piece_rows):
            assert core.builder is not None
            table = core.builder.table(sides, piece, core.now_us)
            if table.num_rows:
                for found in hooks.found:
                    found(self.tree.root.number, sides, core.builder.latest)
                yield table
        for settling in core.features.of(Feature.settling):
            for table in settling(step):
                for start in range(0, table.num_rows, piece_rows):
                    yield table.slice(start, piece_rows)

    def _commit(self, step: Step) -> None:
        core = self.core
        for counters, late, arrival in zip(core.counters, core.late, step.arrivals, strict=True):
            if arrival is not None:
                counters.count(arrival)
                if arrival.late is not None:
                    late.append(arrival.late)
        core.results += step.results
        core.watermark = step.later
        self._undoing = []
        for commit in core.features.of(Feature.commit):
            commit(step)
        core.batches += step.batch
        with contextlib.suppress(pa.ArrowException, MemoryError):  # the batch is done: try at the next
            if not self.site.retried:
                core.expire(None)
            for purge in core.features.of(Feature.purge):
                purge(step)

    @contextlib.contextmanager
    def _whole_or_undone(self) -> Iterator[None]:
        """Take back all that was done, newest first, if the block fails."""
        try:
            yield
        except BaseException:
            while self._undoing:
                self._undoing.pop()()
            raise


def _gathered(pieces: Iterator[Found], piece_rows: int) -> Iterator[Found]:
    """Small pieces put together, up to `piece_rows` rows, as far as their rows are in the same states."""
    held: list[Positions] = []
    rows = 0
    of: Sequence[SideState] = ()
    for sides, piece in pieces:
        same = all(a is b for a, b in zip(sides, of, strict=False))
        if held and (rows + piece.shape[1] > piece_rows or not same):
            yield of, np.concatenate(held, axis=1)
            held, rows = [], 0
        of = sides
        held.append(piece)
        rows += piece.shape[1]
    if held:
        yield of, np.concatenate(held, axis=1)
