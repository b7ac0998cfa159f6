"""The discrete knapsack: the best combination of paths in whole rows (jaqpot, section 4.1, Problem 1).

If a batch stands alone and rows are whole, the best path first is not always best: what it leaves over may
be too little for any other. Dynamic programming finds the best combination, in O(paths x budget x budget).

| paper | here |
| --- | --- |
| X^I, r^I of the table | `Unit.probes`, `Unit.output`: the fewest rows that stay whole all along the path |
| M_I | how many of these units |
| r = M_I x rho_p, as printed | M_I x r^I: the printed formula forgets X^I |

A path without such a number up to 64 rows has single rows as units; what they become is whole only on
average. Budgets above 1,000 probes are counted in thousandths, so the answer is then up to a thousandth per
path away from the best.

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> from braided.policies.plan_tree import HalfJoin
>>> model = plan_model((("a", "b"), "c"), {"a": 100, "b": 100, "c": 100},  # Figure 4
...     sizes={"a": 50, "b": 40, "c": 10, ("a", "b"): 10},
...     selectivity={HalfJoin("a", "b"): 1 / 110, HalfJoin("b", "a"): 1 / 110, HalfJoin(("a", "b"), "c"): 0.1,
...                  HalfJoin("c", ("a", "b")): 0.01})
>>> [(path.stream, whole_unit(path).probes, whole_unit(path).output) for path in model.paths]
[('a', 15.0, 4.0), ('b', 16.0, 5.0), ('c', 10.0, 1.0)]
>>> answer = allocate(Question(model, 30))
>>> answer.reason, round(answer.output, 9)  # the best path first would be 16 + 10 probes and 6 results
('whole units: a 2 x 11 rows', 8.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from braided.policies.allocation.question import Allocation, Question, along_paths
from braided.policies.plan_model import Path

_CELLS = 1000
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
    units = [whole_unit(path) for path in question.model.paths]
    return _answer("dp-knapsack", question, units, _best_times(units, question.budget))


def discrete_greedy(question: Question) -> Allocation:
    """The best path first in whole units: what the paper shows to fail. For comparison."""
    paths = question.model.paths
    units = [whole_unit(path) for path in paths]
    times, left = [0] * len(units), question.budget
    for i in sorted(range(len(units)), key=lambda i: -paths[i].productivity):
        times[i] = min(units[i].times, math.floor(left / units[i].probes + _ROUNDING))
        left -= times[i] * units[i].probes
    return _answer("discrete-greedy", question, units, times)


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
    cell = max(1.0, budget / _CELLS)
    cells = math.floor(budget / cell + _ROUNDING)
    best = np.zeros(cells + 1)
    tables, taken = [_times(unit, cell, cells) for unit in units], []
    for unit, times in zip(units, tables, strict=True):
        best, spent = _add(best, (times * unit.output).astype(np.float64))
        taken.append(spent)
    found, left = [0] * len(units), cells
    for i in reversed(range(len(units))):
        found[i] = int(tables[i][taken[i][left]])
        left -= int(taken[i][left])
    return found


def _times(unit: Unit, cell: float, cells: int) -> NDArray[np.int64]:
    """How often a unit fits into 0, 1, 2 ... cells."""
    fits = np.floor(np.arange(cells + 1) * cell / unit.probes + _ROUNDING)
    found: NDArray[np.int64] = np.minimum(fits, unit.times).astype(np.int64)
    return found


def _add(
    best: NDArray[np.float64], output: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The best output for each number of cells if some of them go to one more path, and how many do."""
    total = np.arange(len(best))
    left = total[:, None] - total[None, :]
    both = np.where(left >= 0, best[left] + output[None, :], -1.0)
    spent = both.argmax(axis=1)
    return both[total, spent], spent


def _answer(policy: str, question: Question, units: list[Unit], times: list[int]) -> Allocation:
    rows = [float(unit.rows * n) for unit, n in zip(units, times, strict=True)]
    chosen = [f"{u.stream} {n} x {u.rows} rows" for u, n in zip(units, times, strict=True) if n]
    return along_paths(policy, question, rows, f"whole units: {', '.join(chosen) or 'none fits'}")
