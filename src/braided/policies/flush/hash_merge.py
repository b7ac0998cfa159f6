"""Hash-merge join's adaptive flush: large groups that keep the inputs balanced (Mokbel et al. 2004).

Inputs should hold about as many rows, and generations should be large. It looks at one operator at a
time; of several, the one that holds the most bytes gives a group, until enough is free (ours).

| paper | here |
| --- | --- |
| a | `least_rows` of every input that a group should have |
| b | `balance`: inputs are balanced if they differ by less than this share of all rows |
| abs(A - B) / T | the largest input less the smallest, by all rows of the operator (ours for n inputs) |
| larger source | the input with the most rows; a group leans to it if that input is its largest |

Where no group is left by a rule, the rule does not count. The paper was not read (the rule is that of a
public implementation); the values of a and b are ours.

>>> rows = np.array([[4.0, 11, 13, 6, 25], [12, 13, 10, 4, 2]])
>>> [adaptive(rows, least_rows=a, balance=b) for a, b in ((10, 0.25), (10, 0.1), (1, 0.1))]
[1, 2, 4]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braided.policies.arrays import Bools, Floats, Int64s
from braided.policies.flush.question import Flush, Groups


def choose(plan: Sequence[Groups], wanted_bytes: float, **rule: float) -> list[Flush]:
    """Flush a group of the operator that holds the most, again and again; `rule` is a and b."""
    rows = [np.array(groups.rows, dtype=np.float64) for groups in plan]
    sizes = [np.array(groups.sizes, dtype=np.float64) for groups in plan]
    freed, chosen = 0.0, []
    while freed < wanted_bytes and any(left.any() for left in rows):
        operator = max(range(len(plan)), key=lambda o: (sizes[o].sum(), rows[o].sum(), -o))
        group = adaptive(rows[operator], **rule)
        chosen.append(Flush(operator, group))
        freed += sizes[operator][group]
        rows[operator][:, group] = sizes[operator][group] = 0.0
    return chosen


def adaptive(rows: Floats, *, least_rows: float = 10.0, balance: float = 0.25) -> int:
    """The group of one operator to flush; there must be one with rows."""
    held = rows.sum(axis=0)
    totals = rows.sum(axis=1, keepdims=True)
    limit = balance * totals.sum()
    groups = np.flatnonzero(held > 0)
    large = np.asarray((rows >= least_rows).all(axis=0))
    if np.ptp(totals) < limit:
        still = np.asarray(np.ptp(totals - rows, axis=0) < limit)
        groups = _if_any(_if_any(groups, large), still)
    else:
        groups = _if_any(_if_any(groups, _leaning(rows, int(totals.argmax()))), large)
    return int(groups[held[groups].argmax()])


def _leaning(rows: Floats, side: int) -> Bools:
    """The groups that have more rows of this input than of any other."""
    return np.asarray(rows[side] > np.delete(rows, side, axis=0).max(axis=0, initial=0.0))


def _if_any(groups: Int64s, rule: Bools) -> Int64s:
    """Those that keep the rule, or all if none does."""
    ruled = groups[rule[groups]]
    return ruled if ruled.size else groups
