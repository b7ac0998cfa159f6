"""All flush policies and their disk phases, by the names that `Memory(flush=...)` knows.

Three rivals of adaptive-global are no more than a score, and stand here.

*State spill* flushes the groups that gave the fewest overall results per row they cost (Liu et al. 2006). It
looks back only: no arrivals, no distinct keys. This is its form with a penalty for intermediates (its text
was read in part).

*RPJ* flushes the rows that the next arrival is least likely to meet (Tao et al. 2005). A stored row of one
input is worth as much as rows of the *other* inputs arrive in its group. With more than two inputs the others
count together (ours); the rule is from the abstract and memory, the text was not read.

*Largest*, XJoin's flush, takes the input of a group that frees the most at once (Urhan and Franklin 2000):
the plainest of all, it knows nothing of arrivals or results.

RPJ and largest flush single inputs of groups, so generations need stamps to tell which rows have met.

| paper | here |
| --- | --- |
| state spill: Poutput | `overall` results in an interval |
| Psize | rows in memory, all inputs together |
| Pinter | `downstream`: intermediate rows of the group that operators above hold |
| RPJ: p_B(i) | `met`: the share of all arrivals that are of another input, in this group |
| XJoin: largest partition | most bytes of one input of one group, of all operators |

>>> rows, one = np.array([[50.0, 50], [50, 50]]), np.ones(2)
>>> groups = Groups("ab", rows, (8.0, 8.0), rows, one, one, np.array([40.0, 50]),
...     downstream=np.array([0.0, 100]))
>>> productivity(groups).tolist(), state_spill([groups], 1)
([0.4, 0.25], [Flush(operator=0, group=1, side=None)])
>>> arrived = np.array([[9.0, 1], [6, 4]])
>>> groups = Groups("ab", np.full((2, 2), 5.0), (8.0, 8.0), arrived, *np.ones((3, 2)))
>>> met([groups])[0].tolist()  # of the first input, group 1 waits for 4 of 20
[[0.3, 0.2], [0.45, 0.05]]
>>> rpj([groups], 50)
[Flush(operator=0, group=1, side=1), Flush(operator=0, group=1, side=0)]
>>> groups = Groups("ab", np.array([[5.0, 9], [7, 1]]), (8.0, 8.0), np.zeros((2, 2)), *np.ones((3, 2)))
>>> largest([groups], 100)
[Flush(operator=0, group=1, side=0), Flush(operator=0, group=0, side=1)]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braided.policies.arrays import Floats
from braided.policies.flush import adaptive_global, disk_phases, hash_merge, state_manager
from braided.policies.flush.lowest_first import lowest_first, per
from braided.policies.flush.question import ChooseFlush, ChooseMerge, Flush, Groups


def state_spill(plan: Sequence[Groups], wanted_bytes: float) -> list[Flush]:
    """Flush the least productive groups of all operators."""
    return lowest_first(plan, wanted_bytes, [productivity(groups) for groups in plan])


def productivity(groups: Groups) -> Floats:
    """Return the overall results per row, here and downstream."""
    return per(groups.overall, groups.rows.sum(axis=0) + groups.downstream)


def rpj(plan: Sequence[Groups], wanted_bytes: float) -> list[Flush]:
    """Flush the inputs of groups that are least likely to be met next."""
    return lowest_first(plan, wanted_bytes, met(plan))


def met(plan: Sequence[Groups]) -> list[Floats]:
    """Return how likely the next arrival is one that looks up an input of a group, by operator."""
    everything = np.array(adaptive_global.arrived_in_all(plan))
    return [per(groups.arrived.sum(axis=0) - groups.arrived, everything) for groups in plan]


def largest(plan: Sequence[Groups], wanted_bytes: float) -> list[Flush]:
    """Flush the largest inputs of groups."""
    return lowest_first(plan, wanted_bytes, [-groups.side_sizes for groups in plan])


FLUSHES: dict[str, ChooseFlush] = {
    "adaptive-global": adaptive_global.choose,
    "state-spill": state_spill,
    "hash-merge": hash_merge.choose,
    "rpj": rpj,
    "largest": largest,
}

MERGES: dict[str, ChooseMerge] = {
    "adaptive-global": state_manager.decide,
    "state-spill": disk_phases.never,
    "hash-merge": disk_phases.most_owed,
    "rpj": disk_phases.best_task,
    "largest": disk_phases.largest_part,
}
