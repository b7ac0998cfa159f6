"""RPJ: the rows that the next arrival is least likely to meet (Tao et al. 2005).

A stored row of one input is worth as much as rows of the *other* inputs arrive in its group. Single inputs
of groups are flushed, so generations need stamps to tell which rows have met.

| paper | here |
| --- | --- |
| p_B(i) | `met`: the share of all arrivals that are of another input, in this group |

With more than two inputs the others count together (ours); the rule is from the abstract and memory, the
text was not read.

>>> arrived = np.array([[9.0, 1], [6, 4]])
>>> groups = Groups("ab", np.full((2, 2), 5.0), (8.0, 8.0), arrived, *np.ones((3, 2)))
>>> met([groups])[0].tolist()  # of the first input, group 1 waits for 4 of 20
[[0.3, 0.2], [0.45, 0.05]]
>>> choose([groups], 50)
[Flush(operator=0, group=1, side=1), Flush(operator=0, group=1, side=0)]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braided.policies.flush.adaptive_global import arrived_in_all
from braided.policies.flush.lowest_first import lowest_sides_first
from braided.policies.flush.question import Floats, Flush, Groups


def choose(plan: Sequence[Groups], wanted_bytes: float) -> list[Flush]:
    """The inputs of groups that are least likely to be met next."""
    return lowest_sides_first(plan, wanted_bytes, met(plan))


def met(plan: Sequence[Groups]) -> list[Floats]:
    """How likely the next arrival is one that looks up an input of a group, by operator."""
    everything = arrived_in_all(plan)
    if everything <= 0:
        return [np.zeros(groups.rows.shape) for groups in plan]
    return [(groups.arrived.sum(axis=0) - groups.arrived) / everything for groups in plan]
