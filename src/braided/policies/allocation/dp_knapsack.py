"""The discrete knapsack: the best combination of paths in whole rows (jaqpot, section 4.1, Problem 1).

If a batch stands alone and rows are whole, the best path first is not always best: what it leaves over may
be too little for any other. Dynamic programming finds the best combination; it takes time with the square of
the budget where units are small.

| paper | here |
| --- | --- |
| X^I, r^I of the table | `Unit.probes`, `Unit.output`: the fewest rows that stay whole all along the path |
| M_I | how many of these units |
| r = M_I x rho_p, as printed | M_I x r^I: the printed formula forgets X^I |

A path without such a number up to 64 rows has single rows as units; what they become is whole only on
average. Probes are dealt out one by one up to 1,000, exactly if all units take whole probes; larger budgets
in 250 parts. What rounding leaves over goes to the best path that it is enough for.

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> from braided.query.plan_tree import HalfJoin
>>> model = plan_model((("a", "b"), "c"), {"a": 100, "b": 100, "c": 100},  # Figure 4
...     sizes={"a": 50, "b": 40, "c": 10, ("a", "b"): 10},
...     selectivity={HalfJoin("a", "b"): 1 / 110, HalfJoin("b", "a"): 1 / 110, HalfJoin(("a", "b"), "c"): 0.1,
...                  HalfJoin("c", ("a", "b")): 0.01})
>>> [(path.stream, whole_unit(path).probes, whole_unit(path).output) for path in model.paths]
[('a', 15.0, 4.0), ('b', 16.0, 5.0), ('c', 10.0, 1.0)]
>>> best = allocate(Question(model, 30))
>>> best.reason, round(best.output, 9)  # the best path first would be 16 + 10 probes and 6 results
('whole units: a 2 x 11 rows', 8.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from braided.policies.allocation.question import Allocation, Question, answer, spread
from braided.policies.arrays import Floats, Int64s
from braided.policies.plan_model import Path

_EXACT = 1000
_CELLS = 250
_LARGEST_UNIT = 64
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Unit:
    """The fewest rows of a path that are dealt out together, and how often they are there."""

    stream: str
    rows: int
    probes: float
    output: float
    times: int


def allocate(question: Question) -> Allocation:
    """The best combination of whole units."""
    paths = question.model.paths
    units = [whole_unit(path) for path in paths]
    times = _top_up(paths, units, _best_times(units, question.budget), question.budget)
    rows = [float(unit.rows * n) for unit, n in zip(units, times, strict=True)]
    chosen = [f"{u.stream} {n} x {u.rows} rows" for u, n in zip(units, times, strict=True) if n]
    reason = f"whole units: {', '.join(chosen) or 'none fits'}"
    return answer(question, spread(question.model, paths, rows), reason)


def whole_unit(path: Path) -> Unit:
    """The fewest rows, at most 64, that make whole rows and whole results all along; else one row."""
    sizes = np.arange(1, _LARGEST_UNIT + 1)
    parts = np.outer(sizes, path.phi)
    fits = (np.abs(parts - np.round(parts)) < _ROUNDING * np.maximum(1.0, parts)).all(axis=1)
    rows = int(sizes[fits][0]) if fits.any() else 1
    times = math.floor(path.rate / rows + _ROUNDING)
    return Unit(path.stream, rows, round(rows * path.cost, 9), round(rows * path.output, 9), times)


def _best_times(units: list[Unit], budget: float) -> list[int]:
    """How often each unit, by dynamic programming over the cells of the budget."""
    cell = 1.0 if budget <= _EXACT else budget / _CELLS
    cells = math.floor(budget / cell + _ROUNDING)
    best, tables, spent = np.zeros(cells + 1), [], []
    for unit in units:
        fits = np.floor(np.arange(cells + 1) * cell / unit.probes + _ROUNDING)  # into 0, 1, 2 ... cells
        tables.append(np.minimum(fits, unit.times).astype(np.int64))
        best, taken = _add(best, tables[-1], unit.output)
        spent.append(taken)
    times, left = [], cells
    for table, taken in zip(reversed(tables), reversed(spent), strict=True):
        times.append(int(table[taken[left]]))
        left -= int(taken[left])
    return times[::-1]


def _add(best: Floats, times: Int64s, output: float) -> tuple[Floats, Int64s]:
    """The best output for each number of cells if some of them go to one more path, and how many do."""
    after, spent = best.copy(), np.zeros(len(best), np.int64)
    for cells in np.flatnonzero(np.diff(times, prepend=0)):  # where one more unit fits
        offered = best[: len(best) - cells] + times[cells] * output
        better = offered > after[cells:]
        after[cells:][better] = offered[better]
        spent[cells:][better] = cells
    return after, spent


def _top_up(paths: Sequence[Path], units: list[Unit], times: list[int], budget: float) -> list[int]:
    """The best path first, in whole units, with what is left."""
    times = list(times)
    left = budget - math.fsum(unit.probes * n for unit, n in zip(units, times, strict=True))
    for i in sorted(range(len(units)), key=lambda i: -paths[i].productivity):
        more = max(0, min(units[i].times - times[i], math.floor(left / units[i].probes + _ROUNDING)))
        times[i] += more
        left -= more * units[i].probes
    return times
