"""Flush what scores lowest until enough bytes are free: the loop that scoring policies share.

Ties go to what frees more, then to the lower operator, input and group, so that answers never depend on
chance. What holds no rows is never flushed.

>>> from braided.policies.flush.question import Groups
>>> none = np.zeros(3)
>>> plan = [Groups("ab", np.array([[5.0, 0, 2], [5, 0, 4]]), (10.0, 8.0), np.zeros((2, 3)), none, none, none)]
>>> lowest_first(plan, 60, [np.array([2.0, 0, 1])])  # 52 bytes of group 2 are not enough
[Flush(operator=0, group=2, side=None), Flush(operator=0, group=0, side=None)]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braided.policies.arrays import Floats
from braided.policies.flush.question import Flush, Groups


def lowest_first(plan: Sequence[Groups], wanted_bytes: float, scores: Sequence[Floats]) -> list[Flush]:
    """Return groups of all operators, lowest score first, until at least this number of bytes is free.

    Scores are by group, or by input and group: then single inputs of groups are flushed.
    """
    if wanted_bytes <= 0 or not plan:
        return []
    by_side = scores[0].ndim == 2
    rows = [groups.rows if by_side else groups.rows.sum(axis=0, keepdims=True) for groups in plan]
    sizes = [groups.side_sizes if by_side else groups.sizes for groups in plan]
    inside = [np.indices(values.shape).reshape(2, -1) for values in rows]
    places = np.hstack([np.vstack([np.full(at.shape[1], o), at]) for o, at in enumerate(inside)])
    held, score, size = (np.concatenate([np.ravel(v) for v in values]) for values in (rows, scores, sizes))
    order = np.lexsort((*places[::-1], -size, score))
    order = order[held[order] > 0]
    enough = int(np.searchsorted(np.cumsum(size[order]), wanted_bytes)) + 1
    chosen = places[:, order[:enough]].T.tolist()
    return [Flush(operator, group, side if by_side else None) for operator, side, group in chosen]


def per(values: Floats, size: Floats) -> Floats:
    """Return the values by size; zero where there is none."""
    return np.asarray(np.divide(values, size, out=np.zeros(np.shape(values)), where=size > 0))
