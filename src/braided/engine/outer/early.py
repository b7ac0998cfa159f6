"""Rows that are final before the watermark says so: closed keys have no more partners to bring.

A batch closes keys, and brings rows of keys that were closed before. Only such rows are looked at: of single
keys by the index, of a range all that wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from braided.engine.features import Host
from braided.engine.operators.finality import Finality
from braided.engine.operators.partners import Asking
from braided.engine.sides.by_key import keys_at, rows_with
from braided.engine.sides.keys import concat_keys
from braided.engine.sides.side import SideState
from braided.policies.arrays import Int64s
from braided.query.plan_tree import Plan

Lowered: TypeAlias = tuple[Int64s, Int64s]  # positions of rows, and when they are final
NOTHING: Lowered = (np.empty(0, np.int64), np.empty(0, np.int64))


class Early:
    """Knows when rows of one input are final, given for which keys the optional streams are closed."""

    def __init__(self, host: Host, node: Plan, core: Sequence[str], optional: Sequence[str]) -> None:
        self._host, self._node = host, node
        self._finality = Finality(host.query, core, optional)
        self._optional = [host.query.names.index(name) for name in optional]

    def lowered(self, side: SideState, since: int | None) -> Lowered:
        """Return which rows are final earlier than their column says, and when.

        Rows from position `since` on are new; others are looked at if the step that runs closes their keys,
        or all without `since`.
        """
        positions = self._touched(side, side.count if since is None else since, every=since is None)
        if not len(positions):
            return NOTHING
        keys = keys_at(side, positions)
        nobody = np.zeros(len(positions), np.bool_)
        closed = [nobody if (c := self._host.closed(k, keys)) is None else c for k in self._optional]
        some = np.logical_or.reduce(closed)
        positions, closed = positions[some], [c[some] for c in closed]
        asking = Asking(self._host.tree.inputs[self._node], side, positions)
        final = np.minimum(self._finality.beside(closed, asking.times), side.columns.at("final", positions))
        return positions, final

    def _touched(self, side: SideState, since: int, *, every: bool) -> Int64s:
        """Return the positions of rows that may be final earlier now; without a key they are at once."""
        c = side.columns
        waits = c.held("final") >= self._host.joined_us
        waits[since - side.first :] = True
        waits &= ~c.held("gone") & side.index.linked()
        parts = [self._host.closing(k) for k in self._optional]
        if not (every or any(part is None for part in parts)):
            single = [keys for part in parts for keys in part or () if len(keys)]
            touched = np.zeros(len(waits), np.bool_)
            touched[since - side.first :] = True
            if single:
                keys = concat_keys(single)
                touched[rows_with(side, keys.pick(keys.first_ones())) - side.first] = True
            waits &= touched
        return np.flatnonzero(waits) + side.first
