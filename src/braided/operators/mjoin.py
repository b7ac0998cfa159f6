"""The n-ary join operator: the new rows of each stream, in turn, probe all others at once.

Why each combination appears exactly once
-----------------------------------------
1. All new rows of a batch are stored and linked first, but a probe sees only the rows of a side
   below its *visible* position: what was stored before the batch, and the buffers of this batch
   whose turn came earlier. So the buffers are totally ordered, whatever the policies choose: by
   batch, and inside a batch by turn.
2. A combination has one row per stream, so its rows lie in different buffers, and exactly one of
   them is last in that order. In that buffer's turn all its other rows are visible, so it is found;
   in the turn of any other of its rows, that last row is not visible, so it is not found.
3. In that turn the search meets it once: the driver row is taken once, and at each level each stored
   row with its key is met once along one chain. The probe order only changes the order of the levels;
   the condition on a set of rows does not depend on it.
4. A row that is not stored any more was forgotten because no row still to come could meet it inside
   the bounds (see `state.side`), so nothing is lost. A hash collision may be found, and is dropped
   by comparing the true keys; nothing else is dropped, so nothing is wrong.

Hence the result is the definition's bag for every batching, driver-stream order and probe order. An
allowance below the number of rows makes it a subset.

With count windows rows are stored only once the watermark has passed them (see `runtime.settling`),
so both sides of "which rows are newer, at `now`" are known when a combination is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from braided.kernels.probe import (
    BLOCK_ROWS,
    MATCHES,
    PROBES,
    SAME_KEY,
    SIDE_COLUMNS,
    TALLY_COLUMNS,
    enumerate_combinations,
    level_rows,
)
from braided.policies.choice import Policies
from braided.policies.decisions import HalfJoinCounts, ProbePlan, Turn
from braided.query.bounds import Bounds
from braided.state.keys import Int64s
from braided.state.side import SideState

_MOST_ROWS = 1 << 20  # no piece is larger, whatever is asked for

Tallies = tuple[Int64s, Int64s, Int64s]
Positions = npt.NDArray[np.int32]  # one row of positions per stream


@dataclass(frozen=True)
class Buffer:
    """The new rows of one stream in a batch: positions start..stop of its side."""

    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many."""
        return self.stop - self.start


class FlatJoin:
    """Enumerates the new combinations of a batch, driver stream by driver stream."""

    def __init__(self, bounds: Bounds, policies: Policies) -> None:
        streams = len(bounds.matrix)
        self.policies = policies
        self.probes = np.zeros((streams, streams), np.int64)
        self.same_key = np.zeros((streams, streams), np.int64)
        self.matches = np.zeros((streams, streams), np.int64)
        self.turns: tuple[ProbePlan, ...] = ()
        self._bounds = np.array(bounds.matrix, np.int64)
        self._sides = np.zeros((streams, SIDE_COLUMNS), np.int64)

    def combinations(
        self, sides: Sequence[SideState], buffers: Sequence[Buffer], most_rows: int
    ) -> Iterator[Positions]:
        """All new combinations, at most `most_rows` at a time; a turn's end ends a piece."""
        visible = [b.start for b in buffers]
        waiting = [b.rows for b in buffers]
        turns: list[ProbePlan] = []
        while any(waiting):
            stored = tuple(v - s.first for s, v in zip(sides, visible, strict=True))
            plan = self._plan(Turn(tuple(waiting), stored))
            turns.append(plan)
            if all(rows for s, rows in enumerate(stored) if s != plan.driver):
                for side, seen, row in zip(sides, visible, self._sides, strict=True):
                    side.describe(row, seen)
                yield from self._turn(plan, buffers[plan.driver], most_rows)
            waiting[plan.driver] = 0
            visible[plan.driver] = buffers[plan.driver].stop
        if turns:
            self.turns = tuple(turns)

    @property
    def tallies(self) -> Tallies:
        """What was counted so far, as it is kept."""
        return self.probes, self.same_key, self.matches

    def set_tallies(self, tallies: Sequence[Any]) -> None:
        """Go on from earlier counts."""
        for mine, given in zip(self.tallies, tallies, strict=True):
            mine[:] = given

    def counts(self) -> HalfJoinCounts:
        """Probes and matches of every half-join so far."""
        return HalfJoinCounts(
            tuple(map(tuple, self.probes.tolist())), tuple(map(tuple, self.matches.tolist()))
        )

    def _plan(self, turn: Turn) -> ProbePlan:
        driver = self.policies.driver.choose(turn)
        order = self.policies.probe_order.order(driver, turn, self.counts())
        return ProbePlan(driver, order, self.policies.allowance.allow(driver, order, turn))

    def _turn(self, plan: ProbePlan, buffer: Buffer, most_rows: int) -> Iterator[Positions]:
        streams = len(self._sides)
        order = np.array((plan.driver, *plan.order), np.int64)
        allowance = np.array((0, *plan.allowance), np.int64)
        block_rows = min(BLOCK_ROWS, most_rows, buffer.rows)
        levels = np.empty((streams, level_rows(streams), block_rows), np.int64)
        walking = np.zeros(streams, np.int64)
        sides = self._sides.copy()
        rows: Int64s = np.array((buffer.start, buffer.stop, 0), np.int64)
        out = np.empty((streams, min(most_rows, _MOST_ROWS)), np.int32)
        while rows[0] < rows[1] or rows[2]:
            tally = np.zeros((streams, TALLY_COLUMNS), np.int64)
            found = enumerate_combinations(
                sides, order, self._bounds, levels, walking, rows, allowance, tally, out
            )
            self.probes[plan.driver, order[1:]] += tally[1:, PROBES]
            self.same_key[plan.driver, order[1:]] += tally[1:, SAME_KEY]
            self.matches[plan.driver, order[1:]] += tally[1:, MATCHES]
            if found:
                yield out[:, :found].copy()
