"""The rows of a side by their keys: which keys it holds, and what is forgotten of some."""

from __future__ import annotations

from typing import Any

import numpy as np

from braided.engine.kernels import closing
from braided.engine.sides.keys import Keys
from braided.engine.sides.side import Reason, SideState
from braided.policies.arrays import Bools, Int64s


def holds(side: SideState, keys: Keys, *, out_of: Bools | None = None) -> Bools:
    """Of which keys there is a row that has not been purged; or, of the rows held, one of these."""
    out, by_key = np.empty(len(keys), np.bool_), _by_key(side)
    if out_of is not None:
        hashes, checks, gone, *places = by_key
        others, held = gone.copy(), slice(side.first - side.columns.base, side.count - side.columns.base)
        others[held] |= ~out_of
        by_key = hashes, checks, others, *places
    closing.held(*by_key, *keys.words, out)
    return out


def rows_with(side: SideState, keys: Keys) -> Int64s:
    """The positions of all rows of some keys, each given once, that have not been purged."""
    out = np.empty(side.live_rows, np.int64)
    return out[: closing.rows_of(*_by_key(side), *keys.words, out)]


def purge(side: SideState, keys: Keys) -> int:
    """Forget all rows of some keys, each given once; how many."""
    return forget(side, rows_with(side, keys))


def forget(side: SideState, positions: Int64s) -> int:
    """Forget rows, each given once; how many."""
    purged = side.forget(positions, Reason.PURGE)
    if 2 * side.gone_rows > side.rows:
        side.leave_out_gone(entirely=False)
        side.give_back()
    return purged


def stored_keys(side: SideState) -> Keys:
    """The keys of the rows that have not been purged, row by row."""
    c = side.columns
    return keys_at(side, np.flatnonzero(~c.held("gone") & side.index.linked()) + c.first)


def keys_at(side: SideState, positions: Int64s) -> Keys:
    """The keys of the rows at some positions."""
    c = side.columns
    return Keys(c.at("hash", positions), c.brought("check", positions - c.base))


def _by_key(side: SideState) -> tuple[Any, ...]:
    """Arrays and numbers by which the kernels find rows of a key."""
    c = side.columns
    return c["hash"], c["check"], c["gone"], *side.index.by_key(), c.base, c.first
