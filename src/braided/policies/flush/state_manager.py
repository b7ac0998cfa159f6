"""The state manager: merge from disk what promises more results than memory does (early-throughput, V).

Operators are asked from the root down: what an operator finds must pass those above, so the first that gains
by merging is the best one. It merges one group; rows that arrive meanwhile for it, or for those below, wait
in a buffer. A merge must be over before the buffer is full; of those that are, the best is taken (the paper
looks at the best of all only).

| paper (Algorithm 2) | here |
| --- | --- |
| dskLocRslt | `owed`; a flush adds `owed_after_flush` |
| obsGlo / obsLoc | `overall_share` |
| dskThroughput(j) | `results_per_row` on disk now (the example's 6.33 is by those before the flush) |
| dskConst | `Setting.disk_rate` |
| memThroughput | `memory_rate`: memConst is 1 / interval here, times `Setting.memory_weight` |
| DskTime, BufTime | `merge_seconds`, `buffer_seconds` |
| next operator in pipeline | `top_down`: level by level, better siblings first (ours: paths only) |

>>> disk, flushed = np.array([[300.0], [60]]), np.array([[140.0], [10]])
>>> owed = owed_after_flush(disk, flushed, np.array([5.0]))
>>> owed.tolist()
[2280.0]
>>> groups = Groups("abcd", flushed * 0, (8.0, 8.0), np.array([[300.0], [100]]), *np.full((3, 1), 60.0),
...     disk_rows=disk + flushed, owed=owed)
>>> decide([groups], Setting(interval_s=5, disk_rate=100, buffer_rows=1000)).reason
'abcd merges group 0: 447.1 results a second from disk, 12 from memory; 5.1 s, the buffer lasts 12.5 s'
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from braided.policies.arrays import Floats
from braided.policies.flush.adaptive_global import per, same_key
from braided.policies.flush.question import Decision, Groups, Merge, Setting


def decide(plan: Sequence[Groups], setting: Setting) -> Decision:
    """The group to merge, if that gains anything."""
    reasons = []
    for operator in top_down(plan):
        room_s = buffer_seconds([plan[i] for i in at_or_below(plan, operator)], setting)
        group, reason = _offer(plan[operator], setting, room_s)
        if group is not None:
            return Decision(Merge(operator, group), reason)
        reasons.append(reason)
    return Decision(None, "; ".join(reasons) or "there are no operators")


def _offer(groups: Groups, setting: Setting, room_s: float) -> tuple[int | None, str]:
    """Return an operator's best group on disk if merging it gains anything, and why or why not."""
    memory, rates = memory_rate(groups, setting), results_per_row(groups) * setting.disk_rate
    if not rates.any():
        return None, f"{groups.operator}: nothing is expected from disk"
    takes = merge_seconds(groups, setting)
    short = np.where(takes < room_s, rates, 0.0)
    best = int((short if short.any() else rates).argmax())
    gains = short[best] > memory
    lasts = f"the buffer lasts {room_s:.4g} s" if room_s < math.inf else "nothing arrives"
    return best if gains else None, (
        f"{groups.operator} {'merges' if gains else 'would merge'} group {best}: {rates[best]:.4g} results a "
        f"second from disk, {memory:.4g} from memory; {takes[best]:.4g} s, {lasts}"
    )


def memory_rate(groups: Groups, setting: Setting) -> float:
    """Overall results a second that rows of this operator become in memory, as they count."""
    return float(setting.memory_weight * groups.overall.sum() / setting.interval_s)


def results_per_row(groups: Groups) -> Floats:
    """Overall results that a merge of each group is expected to give, per row that it reads."""
    return per(groups.owed * overall_share(groups), rows_on_disk(groups))


def overall_share(groups: Groups) -> Floats:
    """Overall results per local one; without any, those of the whole operator, or one for the root.

    Less than one local result in an interval is none: averages that forget leave a little of what is long
    past, and results that old rows still give, by that little, would be any number.
    """
    local, overall = groups.local.sum(), groups.overall.sum()
    usual = overall / local if groups.parent is not None and local >= 1 else 1.0
    return np.where(groups.local >= 1, per(groups.overall, groups.local), usual)


def owed_after_flush(disk_rows: Floats, flushed_rows: Floats, unique: Floats) -> Floats:
    """The results that groups owe in addition, after rows of all inputs join others on disk.

    Combinations with a row of both; those within either have met, or are owed already.
    """
    states = (disk_rows + flushed_rows, disk_rows, flushed_rows)
    both, disk, flushed = (np.prod(rows, axis=0, dtype=np.float64) for rows in states)
    return np.asarray(np.maximum(both - disk - flushed, 0.0) / same_key(unique, len(disk_rows)))


def merge_seconds(groups: Groups, setting: Setting) -> Floats:
    """How long it takes to read each group from disk."""
    read = rows_on_disk(groups)
    return read / setting.disk_rate if setting.disk_rate > 0 else np.full(read.shape, math.inf)


def buffer_seconds(waiting: Sequence[Groups], setting: Setting) -> float:
    """How long the buffer lasts if rows for these operators wait."""
    arrived = sum(float(groups.arrived.sum()) for groups in waiting)
    return setting.interval_s * setting.buffer_rows / arrived if arrived > 0 else math.inf


def top_down(plan: Sequence[Groups]) -> Iterator[int]:
    """Operators from the root on, level by level; of siblings the one that promises more from disk first."""
    best = [results_per_row(groups).max(initial=0.0) for groups in plan]
    best_first = sorted(range(len(plan)), key=lambda i: (-best[i], i))
    level: Sequence[int | None] = [None]
    while level:
        level = below = [i for parent in level for i in best_first if plan[i].parent == parent]
        yield from below


def at_or_below(plan: Sequence[Groups], operator: int) -> set[int]:
    """An operator and all whose rows reach it."""
    below = {operator}
    for i in reversed(range(operator)):  # producers have lower numbers
        if plan[i].parent in below:
            below.add(i)
    return below


def rows_on_disk(groups: Groups) -> Floats:
    """Rows of each group on disk, all inputs together."""
    return np.asarray(groups.disk_rows.sum(axis=0))
