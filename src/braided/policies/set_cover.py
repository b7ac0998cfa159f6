"""Covering states by paths at the least cost: a linear program, and the paper's greedy (jaqpot, Problem 2).

Given m states that need `needs[j]` new rows per unit of time and k paths that bring `gains[j][i]` rows to
state j for each row of theirs, cost `costs[i]` probes for it, and have at most `caps[i]` rows: how many
rows of each path?

| paper (Eq. 11, 12) | here |
| --- | --- |
| X^I x M_I, X^I for one row | `costs[i] * rows[i]`, `costs[i]` |
| b_j^I x X_j^I for one row | `gains[j][i]` |
| R_Sj | `needs[j]` |
| - (rates are not capped in Problem 2) | `caps[i]` |

Rows may be fractions (credit carries over), so the problem is a linear program and no harder than that:
`lp` is exact. It needs SciPy. `greedy` does not: it is the greedy of the weighted multiple set cover
problem (GH-WMSCP, whose text we do not have; see below), which JAQPOT uses.

*Greedy.* While a state lacks rows, take the path that brings most rows to such states for its cost, until
the first of them is satisfied or the path's rows are used up. At the end paths are cut back where later
ones made them superfluous (ours; without it covers cost about 3 % more). Each round finishes a state or a
path, so there are at most m + k rounds.

With whole sets and one unit per state the classical bound is H(m) = 1 + 1/2 + ... + 1/m <= 1 + ln m times the
least cost (`bound`); the paper's ln(m) cannot be one, it is below 1 for two states.

>>> problem = CoverProblem(costs=(6.0, 1.5, 3.0), gains=((5.0, 0.5, 0.0), (0.0, 0.0, 1.0)),
...     needs=(50.0, 20.0), caps=(100.0, 100.0, 100.0))
>>> greedy(problem).rows, greedy(problem).cost
((10.0, 0.0, 20.0), 120.0)
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from braided.policies.arrays import Bools, Floats

Solver = Literal["auto", "lp", "greedy"]
_ROUNDING = 1e-9


@dataclass(frozen=True)
class CoverProblem:
    """Costs and caps for each path, needs for each state, and gains for each state and path."""

    costs: tuple[float, ...]
    gains: tuple[tuple[float, ...], ...]
    needs: tuple[float, ...]
    caps: tuple[float, ...]

    def arrays(self) -> _Arrays:
        """Return the same as arrays; states that need nothing are left out."""
        needs = np.asarray(self.needs, np.float64)
        gains = np.asarray(self.gains, np.float64).reshape(len(needs), len(self.costs))
        return _Arrays(np.asarray(self.costs), gains[needs > 0], needs[needs > 0], np.asarray(self.caps))


@dataclass(frozen=True)
class _Arrays:
    costs: Floats
    gains: Floats
    needs: Floats
    caps: Floats

    def lacking(self, rows: Floats) -> Bools:
        """Which states these rows do not satisfy, rounding aside."""
        return self.needs - self.gains @ rows > _ROUNDING * self.needs


@dataclass(frozen=True)
class Cover:
    """Rows of each path per unit of time, and the probes they cost."""

    rows: tuple[float, ...]
    cost: float
    solver: Literal["lp", "greedy"]


def solve(problem: CoverProblem, solver: Solver = "auto") -> Cover:
    """The cheapest cover found; the problem must be coverable. "auto" takes the program if SciPy is there."""
    if not any(problem.needs):  # nothing to cover: no reason to import SciPy
        return greedy(problem)
    if solver == "lp" or (solver == "auto" and has_scipy()):
        return lp(problem)
    return greedy(problem)


@cache
def has_scipy() -> bool:
    """Return whether SciPy is installed."""
    return importlib.util.find_spec("scipy") is not None


def lp(problem: CoverProblem) -> Cover:
    """The least cost, by linear program (HiGHS)."""
    given = problem.arrays()
    found = _program(given.costs * given.caps, -given.gains * given.caps, -given.needs)
    if found is None:  # coverable only up to the solver's tolerance
        return greedy(problem)
    return _cover(given, found * given.caps, "lp")


def greedy(problem: CoverProblem) -> Cover:
    """A cheap cover without SciPy."""
    given = problem.arrays()
    rows = np.zeros(len(given.costs))
    taken: list[int] = []
    while (lacking := given.lacking(rows)).any():
        open_ = rows < given.caps
        score = np.where(open_, given.gains[lacking].sum(axis=0) / given.costs, 0.0)
        best = int(score.argmax())
        if score[best] <= 0:
            break
        rows[best] += _as_far(given, rows, best, lacking)
        taken.append(best)
    for path in reversed(taken):
        rows[path] -= _superfluous(given, rows, path)
    return _cover(given, rows, "greedy")


def affordable(problem: CoverProblem, budget: float, cost: float) -> float:
    """The largest part of all needs (0 to 1) that the budget covers; `cost` is what all of them cost.

    Without SciPy, a part that is surely covered: costs are convex in it, so budget / cost is.
    """
    if cost <= budget:
        return 1.0
    given = problem.arrays()
    if not has_scipy() or budget <= 0:
        return max(0.0, budget / cost)
    paths = len(given.costs)
    of_states = np.column_stack([-given.gains * given.caps, given.needs])
    matrix = np.vstack([np.append(given.costs * given.caps, 0.0), of_states])
    limits = np.append(budget, np.zeros(len(given.needs)))
    found = _program(np.append(np.zeros(paths), -1.0), matrix, limits)
    return budget / cost if found is None else float(found[-1])


def _program(costs: Floats, matrix: Floats, limits: Floats) -> Floats | None:
    """Shares between 0 and 1 that minimise the costs within the limits."""
    from scipy.optimize import linprog  # noqa: PLC0415  (SciPy is optional, and slow to import)

    scale = np.abs(matrix).max(axis=1, initial=0.0)
    scale[scale == 0] = 1.0
    found = linprog(costs, A_ub=matrix / scale[:, None], b_ub=limits / scale, bounds=(0, 1), method="highs")
    return np.clip(found.x, 0.0, 1.0) if found.status == 0 else None


def _as_far(given: _Arrays, rows: Floats, path: int, lacking: Bools) -> float:
    """Rows until the first state is satisfied or the path has no more."""
    gains = given.gains[lacking, path]
    missing = (given.needs - given.gains @ rows)[lacking]
    enough = (missing[gains > 0] / gains[gains > 0]).min()
    return float(min(enough, given.caps[path] - rows[path]))


def _superfluous(given: _Arrays, rows: Floats, path: int) -> float:
    """Rows of a path that all its states can do without."""
    gains = given.gains[:, path]
    surplus = (given.gains @ rows - given.needs)[gains > 0] / gains[gains > 0]
    return float(np.clip(surplus.min(initial=np.inf), 0.0, rows[path]))


def _cover(given: _Arrays, rows: Floats, solver: Literal["lp", "greedy"]) -> Cover:
    return Cover(tuple(map(float, rows)), float(given.costs @ rows), solver)
