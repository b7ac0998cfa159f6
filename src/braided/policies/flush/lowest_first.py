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
import numpy.typing as npt

from braided.policies.flush.question import Floats, Flush, Groups


def lowest_first(plan: Sequence[Groups], wanted_bytes: float, scores: Sequence[Floats]) -> list[Flush]:
    """Groups of all operators, lowest score first, until at least this number of bytes is free."""
    rows = [groups.rows.sum(axis=0, keepdims=True) for groups in plan]
    sizes = [groups.sizes[None, :] for groups in plan]
    found = _first(wanted_bytes, [score[None, :] for score in scores], rows, sizes)
    return [Flush(operator, group) for operator, _, group in found]


def lowest_sides_first(plan: Sequence[Groups], wanted_bytes: float, scores: Sequence[Floats]) -> list[Flush]:
    """Single inputs of groups, lowest score first; scores are by input and group."""
    rows = [groups.rows for groups in plan]
    found = _first(wanted_bytes, scores, rows, [side_sizes(groups) for groups in plan])
    return [Flush(operator, group, side) for operator, side, group in found]


def side_sizes(groups: Groups) -> Floats:
    """Bytes in memory by input and group."""
    return np.asarray(groups.row_bytes, dtype=np.float64)[:, None] * groups.rows


def known(values: Floats, like: Floats) -> Floats:
    """The values, or zeros if they were not given."""
    return values if values.size else np.zeros_like(like, dtype=np.float64)


def per(values: Floats, size: Floats) -> Floats:
    """Values by size; zero where there is none."""
    found: Floats = np.divide(values, size, out=np.zeros(size.shape), where=size > 0)
    return found


def _first(
    wanted_bytes: float, scores: Sequence[Floats], rows: Sequence[Floats], sizes: Sequence[Floats]
) -> list[tuple[int, int, int]]:
    """Operator, input and group of the lowest scores that are enough together."""
    if wanted_bytes <= 0 or not scores:
        return []
    places = _places(rows)
    held = np.concatenate([np.ravel(values) for values in rows]) > 0
    places = places[:, held]
    score, size = (np.concatenate([np.ravel(v) for v in values])[held] for values in (scores, sizes))
    order = np.lexsort((*places[::-1], -size, score))
    enough = int(np.searchsorted(np.cumsum(size[order]), wanted_bytes)) + 1
    return [(int(o), int(s), int(g)) for o, s, g in places[:, order[:enough]].T]


def _places(rows: Sequence[Floats]) -> npt.NDArray[np.intp]:
    """Operator, input and group of every value, one column each."""
    inside = [np.indices(values.shape).reshape(2, -1) for values in rows]
    return np.hstack([np.vstack([np.full(at.shape[1], o), at]) for o, at in enumerate(inside)])
