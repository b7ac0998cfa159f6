"""Intermediates that hold only their newest rows (`Overload(intermediate_rows=...)`); lossy, as in jaqpot.

What is newest is told by the newest time of a row, then by a lot drawn from its key and all its times, so
that the order in which rows came decides nothing. A *cut* is the newest row that was left out: whatever is at
or below it stays out, also when rows come back from a saved state, and it never falls. Rows that have ended,
or hold a row below its stream's floor or outside its count window, do not count.

Cuts are chosen when a batch is done, and saved with it; rows go when the next one begins, by cuts that were
saved. So an attempt that is repeated, on a side from which rows have gone already, knows that they were cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braided.engine.features import Host
from braided.engine.kernels.hashing import first_lot, lots
from braided.engine.operators.inputs import Input
from braided.engine.sides.side import BOTTOMLESS_US, Reason, SideState
from braided.engine.site import Share
from braided.policies.arrays import Bools, Int64s
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan, intermediates, label

_LEAST = (BOTTOMLESS_US, -(1 << 63))


class StateWindows:
    """How many rows each intermediate holds, and what was cut."""

    def __init__(self, host: Host) -> None:
        self._host, self.rows = host, limits(host.query, host.site.part)
        self._cuts: dict[Plan, tuple[int, int]] = {}

    def choose(self) -> dict[Plan, int]:
        """Cut what is too much; return, by node, until when rows that go might have been found."""
        gone = {}
        for source, side in self._host.tree.intermediates:
            rows = self.rows.get(source.node)
            if rows is not None and (until_us := self._cut(source, side, rows)) is not None:
                gone[source.node] = until_us
        return gone

    def expire(self) -> None:
        """Forget what was cut, and what has ended."""
        for source, side in self._host.tree.intermediates:
            if source.node not in self.rows:
                continue
            if self._host.tree.counted is not None:
                self._host.tree.counted.forget_left(source, side, entirely=True)
            side.forget(side.ended(self._host.settled_us), Reason.EXPIRE, entirely=True)
            below = self._below(source, side, self._alive(source, side))
            if len(below):
                side.forget(below + side.first, Reason.SHED, entirely=True)

    def save(self) -> dict[str, Any]:
        """The cuts, by node, and how many rows were to be held."""
        cuts = {label(node): list(cut) for node, cut in self._cuts.items()}
        return {"cuts": cuts, "rows": by_label(self.rows)}

    def load(self, saved: Mapping[str, Any]) -> dict[Plan, int]:
        """Go on; what another plan had is left. If fewer rows are to be held, cut as `choose` does."""
        cuts = saved.get("cuts", {})
        self._cuts = {node: tuple(cuts[label(node)]) for node in self.rows if label(node) in cuts}
        return {} if saved.get("rows") == by_label(self.rows) else self.choose()

    def _cut(self, source: Input, side: SideState, rows: int) -> int | None:
        """Choose the cut of an intermediate, and return when the last row ends that is newly below it."""
        alive = self._alive(source, side)
        alive[self._below(source, side, alive)] = False
        if self._host.tree.counted is not None:
            alive &= ~self._host.tree.counted.left(source, side)
        at = np.flatnonzero(alive)
        excess = len(at) - rows
        if excess <= 0:
            return None
        times = side.columns.held("time")[at]
        last_us = int(np.partition(times, excess - 1)[excess - 1])
        older, tied = at[times < last_us], at[times == last_us]
        draws = _draws(source, side, tied)
        last = int(np.partition(draws, excess - len(older) - 1)[excess - len(older) - 1])
        self._cuts[source.node] = (last_us, last)
        dropped = np.concatenate([older, tied[draws <= last]])
        return int(side.columns.held("ends")[dropped].max())

    def _below(self, source: Input, side: SideState, alive: Bools) -> Int64s:
        """The places of rows that count, at or below the cut."""
        cut, times = self._cuts.get(source.node, _LEAST), side.columns.held("time")
        below, tied = np.flatnonzero(alive & (times < cut[0])), np.flatnonzero(alive & (times == cut[0]))
        tied = tied[_draws(source, side, tied) <= cut[1]] if len(tied) else tied
        return np.sort(np.concatenate([below, tied]))

    def _alive(self, source: Input, side: SideState) -> Bools:
        """Which rows count: those that may still be found."""
        host = self._host
        alive: Bools = side.columns.held("ends") >= host.past_us(source.node)
        if side.purges:
            alive &= ~side.columns.held("gone")
        for stream, place in source.times.items():
            floor_us = host.floors_us[host.query.names.index(stream)]
            if floor_us > BOTTOMLESS_US:
                alive &= side.payload.words(side.first, place) >= floor_us
        return alive


def limits(query: JoinQuery, part: Share) -> dict[Plan, int]:
    """Return how many rows an engine with a part of all holds of each intermediate that has a window."""
    overload = query.overload
    asked = {n: overload.rows_of(n) for n in intermediates(query.tree)} if overload else {}
    return {n: max(1, part.of_budget(rows)) for n, rows in asked.items() if rows is not None}


def by_label(rows: Mapping[Plan, int]) -> dict[str, int]:
    """Return limits as they are saved."""
    return {label(node): n for node, n in rows.items()}


def _draws(source: Input, side: SideState, which: Int64s) -> Int64s:
    """A number for each of some rows, by its key and times."""
    drawn = np.asarray(side.columns.held("hash")[which])
    for place in source.times.values():
        words = np.ascontiguousarray(side.payload.words(side.first, place)[which])
        drawn = np.asarray(lots(drawn, words, first_lot(0, 0)))
    return drawn
