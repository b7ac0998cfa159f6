"""All flush policies and their disk phases, by the names that `Memory(flush=...)` knows.

Rivals of adaptive-global that are no more than a score, or a moment to merge, stand here.

*State spill* flushes the groups that gave the fewest overall results per row they cost (Liu et al. 2006). It
looks back only: no arrivals, no distinct keys. This is its form with a penalty for intermediates (its text
was read in part).

*RPJ* flushes the rows that the next arrival is least likely to meet (Tao et al. 2005). A stored row of one
input is worth as much as rows of the *other* inputs arrive in its group. With more than two inputs the others
count together (ours); the rule is from the abstract and memory, the text was not read.

*Largest*, XJoin's flush, takes the input of a group that frees the most at once (Urhan and Franklin 2000):
the plainest of all, it knows nothing of arrivals or results.

RPJ and largest flush single inputs of groups, so generations need stamps to tell which rows have met.

*Merges from disk.* Rivals see one operator at a time: it merges while nothing arrives at *any* of its inputs,
and all others go on in memory, whatever becomes of the results. In a plan of several joins that
happens mostly at the bottom. Of several silent operators the one with the best group goes first, then the
lower one. A group that owes nothing, or has nothing on disk, is never merged.

| policy | when | which group |
| --- | --- | --- |
| state spill | never: only when all streams have ended | - |
| hash-merge join | inputs silent | owes the most results |
| RPJ | inputs silent | owes the most results per row read |
| XJoin | inputs silent | has the most rows on disk |

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
>>> rows = np.array([[20.0, 30], [10, 50]])
>>> groups = Groups("ab", rows, (8.0, 8.0), rows, *np.ones((3, 2)), disk_rows=rows,
...     owed=np.array([90.0, 100]), silent=(True, True))
>>> setting = Setting(interval_s=5, disk_rate=100, buffer_rows=1000)
>>> [phase([groups], setting).merge for phase in (never, most_owed, best_task)]
[None, Merge(operator=0, group=1), Merge(operator=0, group=0)]
>>> most_owed([groups], setting).reason
'ab is silent and merges group 1: 100 results are owed, 80 rows are read in 0.8 s'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from braided.policies.arrays import Floats
from braided.policies.flush import adaptive_global, hash_merge, state_manager
from braided.policies.flush.adaptive_global import lowest_first, per
from braided.policies.flush.question import ChooseFlush, ChooseMerge, Decision, Flush, Groups, Merge, Setting
from braided.policies.flush.state_manager import merge_seconds, rows_on_disk


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


def never(plan: Sequence[Groups], setting: Setting) -> Decision:
    """What is on disk waits for the end."""
    return Decision(None, "groups on disk wait for the end of all streams")


def when_silent(
    plan: Sequence[Groups], setting: Setting, *, worth: Callable[[Floats, Floats], Floats]
) -> Decision:
    """Of silent operators, merge the group that is worth most, by the results it owes and the rows read."""
    best, decision = 0.0, Decision(None, "no operator with silent inputs owes results")
    for operator, groups in enumerate(plan):
        owed, read = groups.owed, rows_on_disk(groups)
        values = np.where((owed > 0) & (read > 0), worth(owed, read), 0.0)
        if groups.silent and all(groups.silent) and values.max(initial=0.0) > best:
            best, group = values.max(), int(values.argmax())
            reason = (
                f"{groups.operator} is silent and merges group {group}: {owed[group]:.4g} results are owed, "
                f"{read[group]:.4g} rows are read in {merge_seconds(groups, setting)[group]:.4g} s"
            )
            decision = Decision(Merge(operator, group), reason)
    return decision


most_owed = partial(when_silent, worth=lambda owed, read: owed)
best_task = partial(when_silent, worth=lambda owed, read: owed / np.maximum(read, 1.0))
largest_part = partial(when_silent, worth=lambda owed, read: read)


FLUSHES: dict[str, ChooseFlush] = {
    "adaptive-global": adaptive_global.choose,
    "state-spill": state_spill,
    "hash-merge": hash_merge.choose,
    "rpj": rpj,
    "largest": largest,
}

MERGES: dict[str, ChooseMerge] = {
    "adaptive-global": state_manager.decide,
    "state-spill": never,
    "hash-merge": most_owed,
    "rpj": best_task,
    "largest": largest_part,
}
