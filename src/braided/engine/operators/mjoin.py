"""The n-ary join operator: the new rows of each stream, in turn, probe all others at once.

Why each combination appears exactly once
-----------------------------------------
1. All new rows of a batch are stored and linked first, but a probe sees only the rows of a side
   below its *visible* position: what was stored before the batch, and the rows of this batch
   whose turn came earlier. So all rows are totally ordered, whatever the policies choose: by
   batch, and inside a batch by turn; a buffer's rows have one turn together, or one each.
2. A combination has one row per stream, so its rows have different turns, and exactly one of
   them is last in that order. In that row's turn all its other rows are visible, so it is found;
   in the turn of any other of its rows, that last row is not visible, so it is not found.
3. In that turn the search meets it once: the driver row is taken once, and at each level each stored
   row with its key is met once along one chain. The probe order only changes the order of the levels;
   the condition on a set of rows does not depend on it.
4. A row that is not stored any more was forgotten because no row still to come could meet it inside
   the bounds (see `sides.side`), so nothing is lost. A hash collision may be found, and is dropped
   by comparing the true keys; nothing else is dropped, so nothing is wrong.

Hence the result is the definition's bag for every batching, driver-stream order and probe order. Where only a
share of the rows may probe, it is a subset: who may is drawn by lot, a seeded hash of batch, key and times,
so it depends on the rows and not on their order.

With count windows rows are stored only once the watermark has passed them (see `count_windows.waiting`),
so both sides of "which rows are newer, at `now`" are known when a combination is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from braided.engine.kernels.alternate import alternate
from braided.engine.kernels.hashing import first_lot, lots
from braided.engine.kernels.probe import count_matches
from braided.engine.kernels.tables import DRIVER, EVERYONE, MATCHES, PROBES, SEEN, START, STOP, VISIBLE
from braided.engine.operators.learned import Decided, Learned
from braided.engine.operators.search import Search
from braided.engine.sides.side import SideState
from braided.policies.arrays import Int32s, Int64s
from braided.policies.choice import Policies
from braided.policies.decisions import BufferPolicy, ProbePlan, Rations, RowPolicy, Turn, next_buffer
from braided.policies.rationing import Known
from braided.query.bounds import Bounds

_MOST_ROWS = 1 << 20  # no piece is larger, whatever is asked for
_SEGMENTS = 4096  # how many are made at a time when streams alternate
_PROFILE_EVERY = 64
_FRACTION = (1 << 53) - 1
_PROFILED_ROWS = 256  # how many profiled rows of a stream are remembered

Positions = Int32s  # one row of positions per stream
Buffers = Sequence[range]  # the new rows of each stream in a batch, as positions of its side
Ration = Callable[[Turn], Rations | None]


@dataclass(frozen=True)
class _Batch:
    """The arguments of `combinations`."""

    sides: Sequence[SideState]
    buffers: Buffers
    most_rows: int

    @property
    def rows(self) -> list[int]:
        """New rows by stream."""
        return [len(b) for b in self.buffers]

    @property
    def stored(self) -> list[int]:
        """Rows by stream that a probe may find of those stored before."""
        return [s.seen(b.start) for s, b in zip(self.sides, self.buffers, strict=True)]


class FlatJoin:
    """Enumerates the new combinations of a batch, driver stream by driver stream or row by row."""

    def __init__(self, bounds: Bounds, policies: Policies, number: int = 0) -> None:
        """`number` tells the operators of a plan apart, so that they draw different lots."""
        streams = len(bounds.matrix)
        self.policies, self.bounds, self._number = policies, bounds, number
        self.learned = Learned(streams, policies)
        self._kernel = Search(bounds.matrix)
        self._sides = self._kernel.sides
        self._out: Positions = np.empty((streams, 0), np.int32)
        self._rations: Rations | None = None

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from saved numbers; an index that is fixed now is not taken from them."""
        indexes = [self.policies.index(i) for i in range(len(self.learned.choices))]
        self.learned.load(saved)
        choices = zip(indexes, self.learned.choices, strict=True)
        self.learned.choices = [i.start if i.costs is None else choice for i, choice in choices]

    def pass_over(self, buffers: Buffers) -> None:
        """Count new rows that cannot meet anything yet, because a stream has brought nothing so far."""
        rows = [len(b) for b in buffers]
        self.learned.arrive(rows)
        self.learned.driven_rows += sum(rows)

    def combinations(
        self, sides: Sequence[SideState], buffers: Buffers, most_rows: int, ration: Ration | None = None
    ) -> Iterator[Positions]:
        """Find all new combinations, at most `most_rows` at a time; a turn's end ends a piece.

        With `ration` only some rows may probe: it is asked once, for the whole batch.
        """
        batch = _Batch(sides, buffers, most_rows)
        if not any(batch.rows):
            return
        self.learned.arrive(batch.rows)
        self.learned.batches += 1
        for side, buffer, row in zip(sides, buffers, self._sides, strict=True):
            side.describe(row, buffer.start)
        driver = self.policies.driver
        self._rations = ration(self._average_turn(batch.rows, batch.stored)) if ration else None
        if isinstance(driver, RowPolicy):
            yield from self._row_by_row(driver, batch)
        else:
            yield from self._buffer_by_buffer(driver, batch)

    def known(self, waiting: Sequence[int], stored: Sequence[int]) -> Known:
        """Return what is known before a batch is stored, and in which order each input's rows would probe."""
        turn, last = self._average_turn(waiting, stored), self.learned.orders
        order = self.policies.probe_order.order
        return Known(turn, {i: order(i, replace(turn, order=last.get(i, ()))) for i in range(len(waiting))})

    def _buffer_by_buffer(self, driver: BufferPolicy, batch: _Batch) -> Iterator[Positions]:
        sides, buffers = batch.sides, batch.buffers
        visible, waiting = [b.start for b in buffers], batch.rows
        decided: list[Decided] = []
        while any(waiting):
            turn = self._turn(waiting, [s.seen(v) for s, v in zip(sides, visible, strict=True)])
            chosen = next_buffer(driver, turn)
            buffer = buffers[chosen]
            decided.append(self._decide(chosen, turn, buffer, visible))
            self.learned.switches += 1
            if all(v > s.first for i, (s, v) in enumerate(zip(sides, visible, strict=True)) if i != chosen):
                segments = np.array([[chosen, buffer.start, buffer.stop, *visible]], np.int64)
                before = self.learned.tallies.copy()
                yield from self._search(segments, *self._orders(decided[-1:], batch), batch.most_rows)
                self._learn(chosen, before, turn)
            else:
                self.learned.driven_rows += len(buffer)  # a partner is empty: nothing to find
            waiting[chosen] = 0
            visible[chosen] = buffer.stop
        self.learned.turns = tuple(decided)

    def _row_by_row(self, driver: RowPolicy, batch: _Batch) -> Iterator[Positions]:
        sides, buffers = batch.sides, batch.buffers
        times = (s.columns.between("time", b.start, b.stop) for s, b in zip(sides, buffers, strict=True))
        keys = [driver.keys(of_buffer) for of_buffer in times]
        limits = np.cumsum([len(k) for k in keys])
        taken, stops = np.array([(b.start, b.stop) for b in buffers], np.int64).T.copy()
        turn = self._average_turn(batch.rows, batch.stored)
        waiting = [i for i, b in enumerate(buffers) if b]
        waiting.sort(key=lambda i: (keys[i][0], i))
        decided = [self._decide(i, turn, buffers[i], stops.tolist()) for i in waiting]
        segments = np.empty((_SEGMENTS, SEEN + len(sides)), np.int64)
        flat = np.concatenate(keys)
        before = self.learned.tallies.copy()
        orders, rations = self._orders(decided, batch)
        while made := alternate(flat, limits, taken, stops, segments):
            self.learned.switches += made
            yield from self._search(segments[:made], orders, rations, batch.most_rows)
        for i in waiting:
            self._learn(i, before, turn)
        self.learned.turns = tuple(decided)

    def _turn(self, waiting: Sequence[int], stored: Iterable[int]) -> Turn:
        recent = tuple(self.learned.recent_rows.tolist())
        return Turn(tuple(waiting), tuple(stored), recent, self.learned.estimates.selectivity())

    def _average_turn(self, waiting: Sequence[int], stored: Sequence[int]) -> Turn:
        """A turn in which rows meet all that was stored, and on average half of what the batch brings."""
        return self._turn(waiting, (s + w // 2 for s, w in zip(stored, waiting, strict=True)))

    def _decide(self, driver: int, turn: Turn, buffer: range, visible: Sequence[int]) -> Decided:
        """The driver stream's probe order and shares, with all that is known."""
        profile = self._profile(driver, buffer, visible)
        turn = replace(turn, order=self.learned.orders.get(driver, ()), profile=profile)
        if self._rations:
            plan = self._rations[driver]
        else:
            order = self.policies.probe_order.order(driver, turn)
            plan = ProbePlan(driver, order, (1.0,) * len(order))
        self.learned.orders[driver] = plan.order
        return Decided(turn, plan)

    def _profile(self, driver: int, buffer: range, visible: Sequence[int]) -> Int64s | None:
        """Count the matches of every 64th row (or fewer) in each partner, with those of earlier buffers."""
        most = self.policies.probe_order.profile_rows
        if not most:
            return None
        step = max(-(-len(buffer) // most), _PROFILE_EVERY)
        before = int(self.learned.seen_rows[driver]) - len(buffer)
        rows = np.arange(buffer.start + -before % step, buffer.stop, step, dtype=np.int64)
        self._sides[:, VISIBLE] = visible
        matches = np.zeros((len(self._sides), len(rows)), np.int64)
        for partner in range(len(self._sides)):
            if partner != driver:
                count_matches(self._sides, driver, partner, self._kernel.bounds, rows, matches[partner])
                self.learned.profile_probes += len(rows)
        earlier = self.learned.profiles.get(driver, matches.T[:0])
        self.learned.profiles[driver] = profile = np.concatenate([earlier, matches.T])[-_PROFILED_ROWS:]
        return profile

    def _learn(self, driver: int, before: Int64s, turn: Turn) -> None:
        """Learn from a turn how selective its half-joins are, given the tallies before it."""
        fresh = self.learned.tallies[:, driver] - before[:, driver]
        self.learned.estimates.add(driver, fresh[PROBES], fresh[MATCHES], turn.stored_rows)

    def _orders(self, decided: Sequence[Decided], batch: _Batch) -> tuple[Int64s, Int64s]:
        """The plans of driver streams as the kernel takes them: orders, and who may probe."""
        orders, rations = self._kernel.plans()
        for plan in (d.plan for d in decided):
            orders[plan.driver] = plan.driver, *plan.order
            if min(plan.shares) < 1:
                number = (self.learned.batches * 8 + self._number) * 8 + plan.driver
                start = first_lot(self.policies.seed, number)
                side, buffer = batch.sides[plan.driver], batch.buffers[plan.driver]
                first, *later = plan.shares
                most = _lot_of_share(side, buffer, first, start)
                rations[plan.driver] = start, most, *map(_largest_lot, later)
        return orders, rations

    def _search(
        self, segments: Int64s, orders: Int64s, rations: Int64s, most_rows: int
    ) -> Iterator[Positions]:
        """The combinations that the rows of some segments complete."""
        rows = min(most_rows, _MOST_ROWS)
        if self._out.shape[1] != rows:  # new pages cost more than a small turn's work
            self._out = np.empty((len(self._sides), rows), np.int32)
        out = self._out
        drivers = np.unique(segments[:, DRIVER])
        done = self.learned.driven_rows
        before = np.concatenate([[0], np.cumsum(segments[:, STOP] - segments[:, START])])
        for count, tally, cursor in self._kernel.run(segments, orders, rations, out):
            for driver in drivers:
                self.learned.tallies[:, driver, orders[driver, 1:]] += tally[driver, 1:].T
            here = cursor[0]
            begun = cursor[1] - segments[here, START] if here < len(segments) and cursor[1] else 0
            self.learned.driven_rows = done + int(before[here] + begun)
            if count:
                yield out[:, :count].copy()


def _lot_of_share(side: SideState, buffer: range, share: float, start: int) -> int:
    """The largest lot that may probe, so that this share of a buffer's rows do, on average over batches.

    Half a row is one row every other time, by lot: rounded down, a budget of few rows would be left unused.
    """
    rows = int(share * len(buffer) + (int(start) & _FRACTION) / (_FRACTION + 1))
    if rows >= len(buffer):
        return EVERYONE
    drawn = lots(*(side.columns.between(c, buffer.start, buffer.stop) for c in ("hash", "time")), start)
    return int(np.partition(drawn, rows)[rows]) - 1  # rows with an equal lot share their fate


def _largest_lot(share: float) -> int:
    """The largest lot of about this share of all lots."""
    return EVERYONE if share >= 1 else -(1 << 63) + int(max(0.0, share) * 2.0**64)
