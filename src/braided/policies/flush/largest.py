"""XJoin's flush: the input of a group that frees the most at once (Urhan and Franklin 2000).

The plainest of all: it knows nothing of arrivals or results. Single inputs of groups are flushed, so
generations need stamps to tell which rows have met.

| paper | here |
| --- | --- |
| largest partition | most bytes of one input of one group, of all operators |

>>> import numpy as np
>>> groups = Groups("ab", np.array([[5.0, 9], [7, 1]]), (8.0, 8.0), np.zeros((2, 2)), *np.ones((3, 2)))
>>> choose([groups], 100)
[Flush(operator=0, group=1, side=0), Flush(operator=0, group=0, side=1)]
"""

from __future__ import annotations

from collections.abc import Sequence

from braided.policies.flush.lowest_first import lowest_sides_first, side_sizes
from braided.policies.flush.question import Flush, Groups


def choose(plan: Sequence[Groups], wanted_bytes: float) -> list[Flush]:
    """The largest inputs of groups."""
    return lowest_sides_first(plan, wanted_bytes, [-side_sizes(groups) for groups in plan])
