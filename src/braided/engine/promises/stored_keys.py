"""Rows of a side by key: which keys it holds, and how those of closed keys are purged."""

from __future__ import annotations

from typing import Any

import numpy as np

from braided.engine.kernels import closing
from braided.engine.sides.keys import Keys
from braided.engine.sides.side import Reason, SideState
from braided.policies.arrays import Bools


def holds(side: SideState, keys: Keys) -> Bools:
    """Of which keys there is a row that has not been purged."""
    out = np.empty(len(keys), np.bool_)
    closing.held(*_by_key(side), *keys.words, out)
    return out


def purge(side: SideState, keys: Keys) -> int:
    """Forget all rows of some keys, each given once; how many."""
    out = np.empty(side.live_rows, np.int64)
    purged = side.forget(out[: closing.rows_of(*_by_key(side), *keys.words, out)], Reason.PURGE)
    if 2 * side.gone_rows > side.rows:
        side.leave_out_gone(entirely=False)
        side.give_back()
    return purged


def stored_keys(side: SideState) -> Keys:
    """The keys of the rows that have not been purged, row by row."""
    c = side.columns
    alive = np.flatnonzero(~c.held("gone") & side.index.linked()) + (c.first - c.base)
    return Keys(c["hash"][alive], c.brought("check", alive))


def _by_key(side: SideState) -> tuple[Any, ...]:
    """Arrays and numbers by which the kernels find rows of a key."""
    c = side.columns
    return c["hash"], c["check"], c["gone"], *side.index.by_key(), c.base, c.first
