"""When the state manager's rivals merge from disk: at the end, or while an operator's inputs are silent.

They see one operator at a time: it merges while nothing arrives at *any* of its inputs, and all others go
on in memory, whatever becomes of the results. In a plan of several joins that happens mostly at the bottom.

| policy | when | which group |
| --- | --- | --- |
| state spill | never: only when all streams have ended | - |
| hash-merge join | inputs silent | owes the most results |
| RPJ | inputs silent | owes the most results per row read |
| XJoin | inputs silent | has the most rows on disk |

Of several silent operators the one with the best group goes first, then the lower one. A group that owes
nothing, or has nothing on disk, is never merged.

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
from braided.policies.flush.question import Decision, Groups, Merge, Setting
from braided.policies.flush.state_manager import merge_seconds, rows_on_disk


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
