"""State spill: the groups that gave the fewest overall results per row they cost (Liu et al. 2006).

It looks back only: no arrivals, no distinct keys. This is its form with a penalty for intermediates (its text
was read in part).

| paper | here |
| --- | --- |
| Poutput | `overall` results in an interval |
| Psize | rows in memory, all inputs together |
| Pinter | `downstream`: intermediate rows of the group that operators above hold |

>>> import numpy as np
>>> rows, one = np.array([[50.0, 50], [50, 50]]), np.ones(2)
>>> groups = Groups("ab", rows, (8.0, 8.0), rows, one, one, np.array([40.0, 50]),
...     downstream=np.array([0.0, 100]))
>>> productivity(groups).tolist(), choose([groups], 1)
([0.4, 0.25], [Flush(operator=0, group=1, side=None)])
"""

from __future__ import annotations

from collections.abc import Sequence

from braided.policies.flush.lowest_first import known, lowest_first, per
from braided.policies.flush.question import Floats, Flush, Groups


def choose(plan: Sequence[Groups], wanted_bytes: float) -> list[Flush]:
    """The least productive groups of all operators."""
    return lowest_first(plan, wanted_bytes, [productivity(groups) for groups in plan])


def productivity(groups: Groups) -> Floats:
    """Overall results per row, here and downstream."""
    cost = groups.rows.sum(axis=0) + known(groups.downstream, groups.overall)
    return per(groups.overall, cost)
