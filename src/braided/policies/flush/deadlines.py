"""Which merges cannot wait any longer, if every owed result is to be out within a given time.

The earliest deadline comes first. A merge must begin early enough for itself and for all that are due before
it; what would have to begin before the next chance to do so is done now.

>>> since, seconds = np.array([10.0, 0, 20]), np.array([4.0, 1, 2])
>>> due(since, seconds, within_s=30, next_s=20).tolist()  # they must begin by 29, 35 and 43
[]
>>> due(since, seconds, within_s=30, next_s=36).tolist()
[1, 0]
>>> due(since, np.array([4.0, 1, 30]), within_s=30, next_s=20).tolist()  # the last one by 15: all of them
[1, 0, 2]
"""

from __future__ import annotations

import numpy as np

from braided.policies.arrays import Floats, Int64s


def due(since_s: Floats, seconds: Floats, *, within_s: float, next_s: float) -> Int64s:
    """The merges to do now, by number, the most urgent first.

    They wait since `since_s` (infinity: there is nothing to do) and take `seconds`; the next chance is at
    `next_s`.
    """
    order = np.argsort(since_s, kind="stable")[: int(np.isfinite(since_s).sum())]
    begin_s = since_s[order] + within_s - np.cumsum(seconds[order])
    late = np.flatnonzero(begin_s <= next_s)
    return order[: late[-1] + 1 if len(late) else 0].astype(np.int64)
