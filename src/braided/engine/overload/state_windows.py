"""Intermediates that hold only their newest rows (`Overload(intermediate_rows=...)`); lossy, as in jaqpot.

What is newest is told by the newest time of a row, then by a lot drawn from its key and all its times, so
that the order in which rows came decides nothing. A *cut* is the newest row that was left out: whatever is at
or below it stays out, also when rows come back from a saved state, and it never falls. Rows that have ended,
or hold a row below its stream's floor or outside its count window, do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braided.engine.features import Host
from braided.engine.kernels.hashing import first_lot, lots
from braided.engine.operators.inputs import Input
from braided.engine.sides.side import BOTTOMLESS_US, Reason, SideState
from braided.policies.arrays import Bools, Int64s
from braided.query.plan_tree import Plan, intermediates, label

_LEAST = (BOTTOMLESS_US, -(1 << 63))


class StateWindows:
    """How many rows each intermediate holds, and what was cut."""

    def __init__(self, host: Host) -> None:
        self._host, overload = host, host.query.overload
        asked = {n: overload.rows_of(n) for n in intermediates(host.query.tree)} if overload else {}
        parts = {n: host.site.part.of_budget(rows) for n, rows in asked.items() if rows is not None}
        self.rows: dict[Plan, int] = {node: max(1, rows) for node, rows in parts.items()}
        self._cuts: dict[Plan, tuple[int, int]] = {}

    def expire(self) -> dict[Plan, int]:
        """Forget what is too much; return, by node, until when rows that went might have been found."""
        gone = {}
        for source, side in self._host.tree.intermediates:
            rows = self.rows.get(source.node)
            if rows is not None and (until_us := self._trim(source, side, rows)) is not None:
                gone[source.node] = until_us
        return gone

    def save(self) -> dict[str, Any]:
        """The cuts, by node."""
        return {label(node): list(cut) for node, cut in self._cuts.items()}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on; what another plan had is left."""
        self._cuts = {node: tuple(saved[label(node)]) for node in self.rows if label(node) in saved}

    def _trim(self, source: Input, side: SideState, rows: int) -> int | None:
        """Forget all but the newest rows of an intermediate."""
        if self._host.tree.counted is not None:
            self._host.tree.counted.forget_left(source, side, entirely=True)
        side.forget(side.ended(self._host.settled_us), Reason.EXPIRE, entirely=True)
        cut = self._cuts.get(source.node, _LEAST)
        times, alive = side.columns.held("time"), self._alive(source, side)
        below = np.flatnonzero(alive & (times < cut[0]))
        tied = np.flatnonzero(alive & (times == cut[0]))
        tied = tied[_draws(source, side, tied) <= cut[1]] if len(tied) else tied
        again = np.concatenate([below, tied])  # from a saved state
        alive[again] = False
        excess, dropped = int(np.count_nonzero(alive)) - rows, np.zeros(0, np.int64)
        if excess > 0:
            at = np.flatnonzero(alive)
            last_us = int(np.partition(times[at], excess - 1)[excess - 1])
            older, tied = at[times[at] < last_us], at[times[at] == last_us]
            draws = _draws(source, side, tied)
            last = int(np.partition(draws, excess - len(older) - 1)[excess - len(older) - 1])
            dropped = np.concatenate([older, tied[draws <= last]])
            self._cuts[source.node] = (last_us, last)
        positions = np.sort(np.concatenate([again, dropped])) + side.first
        until_us = int(side.columns.held("ends")[dropped].max()) if len(dropped) else None
        if len(positions):
            side.forget(positions, Reason.SHED, entirely=True)
        return until_us

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


def _draws(source: Input, side: SideState, which: Int64s) -> Int64s:
    """A number for each of some rows, by its key and times."""
    drawn = np.asarray(side.columns.held("hash")[which])
    for place in source.times.values():
        words = np.ascontiguousarray(side.payload.words(side.first, place)[which])
        drawn = np.asarray(lots(drawn, words, first_lot(0, 0)))
    return drawn
