"""AdaptiveGlobalFlush: the groups that promise the fewest overall results per row (early-throughput, IV-A).

All groups of all operators are compared. What arrives until the next flush is as much as is freed now, spread
as in the latest intervals; it joins what is stored and itself; of these local results a share goes all the
way. A policy that looks at one operator only would starve those above.

| paper (Algorithm 1) | here |
| --- | --- |
| N | `wanted_bytes` |
| input_tot | `arrived_in_all`: of all inputs of the plan, as N fills with intermediates, too |
| expPrtInput | `expected_rows`; `choose` has one size for all rows, as shares are of rows (ours) |
| expLocRslt | `expected_results`: combinations with a new row, by distinct keys, for any number of inputs |
| expLocRslt obsGlo / obsLoc | `expected_overall`; the text has the ratio upside down (130 would be 520) |
| grpScore | `score`; the intermediate rows that a group has made count with its own (ours, as state spill) |
| SizeFlushed <= N | `lowest_first`: at least N, stops once it is reached, counts the bytes of all inputs |

The loop that flushes what scores lowest serves all policies that score. Ties go to what frees more, then to
the lower operator, input and group, so that answers never depend on chance. What holds no rows is never
flushed.

>>> none = np.zeros(3)
>>> plan = [Groups("ab", np.array([[5.0, 0, 2], [5, 0, 4]]), (10.0, 8.0), np.zeros((2, 3)), none, none, none)]
>>> lowest_first(plan, 60, [np.array([2.0, 0, 1])])  # 52 bytes of group 2 are not enough
[Flush(operator=0, group=2, side=None), Flush(operator=0, group=0, side=None)]
>>> rows, unique = np.array([[100.0], [15]]), np.array([5.0])
>>> new = expected_rows(np.array([[6.0], [4]]), 100, (10, 8), 2000)
>>> new.ravel().tolist(), expected_results(rows, new, unique).tolist()
([12.0, 10.0], [260.0])
>>> score(expected_results(rows, new, unique) * 0.5, rows).round(4).tolist()
[1.1304]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braided.policies.arrays import Floats
from braided.policies.flush.question import Flush, Groups

_BELIEF = 4.0  # times as many, or as few: by more, observed results are not corrected


def choose(plan: Sequence[Groups], wanted_bytes: float) -> list[Flush]:
    """The groups with the fewest expected overall results per row."""
    everything = arrived_in_all(plan)
    wanted_bytes = min(wanted_bytes, float(sum(groups.sizes.sum() for groups in plan)))
    size = sum(float(np.asarray(groups.row_bytes) @ groups.arrived.sum(axis=1)) for groups in plan)
    row_bytes = size / everything if everything > 0 else 1.0
    found = [scores(g, everything, (row_bytes,) * len(g.rows), wanted_bytes) for g in plan]
    return lowest_first(plan, wanted_bytes, found)


def scores(groups: Groups, everything: float, row_bytes: Sequence[float], wanted_bytes: float) -> Floats:
    """The score of each group of an operator."""
    new = expected_rows(groups.arrived, everything, row_bytes, wanted_bytes)
    return score(expected_overall(groups, new), groups.rows, groups.downstream)


def arrived_in_all(plan: Sequence[Groups]) -> float:
    """Rows that arrived at all inputs of all operators."""
    return float(sum(groups.arrived.sum() for groups in plan))


def expected_rows(
    arrived: Floats, everything: float, row_bytes: Sequence[float], wanted_bytes: float
) -> Floats:
    """Return the rows that arrive, by input and group, until they fill this number of bytes again."""
    share = per(arrived, np.array(everything))
    return per(wanted_bytes * share, np.asarray(row_bytes, dtype=np.float64)[:, None])


def expected_results(rows: Floats, new: Floats, unique: Floats) -> Floats:
    """Local results of each group that have a new row; a key is one of `unique`, all alike."""
    combinations = np.prod(rows + new, axis=0) - np.prod(rows, axis=0, dtype=np.float64)
    return np.asarray(combinations / same_key(unique, len(rows)))


def expected_overall(groups: Groups, new: Floats) -> Floats:
    """Overall results of each group: those observed, times the local results expected by those observed.

    Results of today come of rows of long ago, so of bursts the ratio may be anything: it is believed within
    `_BELIEF` times that of rows, both ways. So nothing is divided by what an average has all but forgotten.
    """
    local = expected_results(groups.rows, new, groups.unique)
    rows = np.asarray(new.sum() / max(float(groups.arrived.sum()), 1.0))
    growth = np.divide(local, groups.local, out=np.full(local.shape, np.inf), where=groups.local > 0)
    return np.asarray(groups.overall * np.clip(growth, rows / _BELIEF, rows * _BELIEF))


def same_key(unique: Floats, inputs: int) -> Floats:
    """One in how many combinations of rows of a group has one key throughout."""
    return np.asarray(np.maximum(unique, 1.0) ** (inputs - 1))


def score(overall: Floats, rows: Floats, downstream: Floats | float = 0.0) -> Floats:
    """Expected overall results per row in memory, here and downstream; nothing for an empty group."""
    return per(overall, np.asarray(rows.sum(axis=0) + downstream))


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
