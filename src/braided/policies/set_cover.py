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
least cost; the paper's ln(m) cannot be one, it is below 1 for two states.

>>> gains = np.array([[5.0, 0.5, 0.0], [0.0, 0.0, 1.0]])
>>> problem = CoverProblem(np.array([6.0, 1.5, 3]), gains, needs=np.array([50.0, 20]), caps=np.full(3, 100.0))
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

    costs: Floats
    gains: Floats
    needs: Floats
    caps: Floats

    def lacking(self, rows: Floats) -> Bools:
        """Which states these rows do not satisfy, rounding aside."""
        return self.needs - self.gains @ rows > _ROUNDING * self.needs

    def cover(self, rows: Floats) -> Cover:
        """Return the cover by these rows."""
        return Cover(tuple(rows.tolist()), float(self.costs @ rows))


@dataclass(frozen=True)
class Cover:
    """Rows of each path per unit of time, and the probes they cost."""

    rows: tuple[float, ...]
    cost: float


def solve(problem: CoverProblem, solver: Solver = "auto") -> Cover:
    """The cheapest cover found; the problem must be coverable. "auto" takes the program if SciPy is there."""
    exact = solver == "lp" or (solver == "auto" and has_scipy())
    return lp(problem) if exact and problem.needs.any() else greedy(problem)  # no needs, no import of SciPy


@cache
def has_scipy() -> bool:
    """Return whether SciPy is installed."""
    return importlib.util.find_spec("scipy") is not None


def lp(problem: CoverProblem) -> Cover:
    """The least cost, by linear program (HiGHS)."""
    shares = _program(problem.costs * problem.caps, -problem.gains * problem.caps, -problem.needs)
    if shares is None:  # coverable only up to the solver's tolerance
        return greedy(problem)
    return problem.cover(shares * problem.caps)


def greedy(problem: CoverProblem) -> Cover:
    """A cheap cover without SciPy."""
    rows = np.zeros(len(problem.costs))
    taken: list[int] = []
    while (lacking := problem.lacking(rows)).any():
        score = np.where(rows < problem.caps, problem.gains[lacking].sum(axis=0) / problem.costs, 0.0)
        best = int(score.argmax())
        if score[best] <= 0:
            break
        enough = np.abs(_surplus(problem, rows, best)[lacking]).min()  # for the first of them
        rows[best] += min(enough, problem.caps[best] - rows[best])
        taken.append(best)
    for path in reversed(taken):  # rows that all its states can do without
        rows[path] -= np.clip(_surplus(problem, rows, path).min(), 0.0, rows[path])
    return problem.cover(rows)


def affordable(problem: CoverProblem, budget: float, cost: float) -> float:
    """The largest part of all needs (0 to 1) that the budget covers; `cost` is what all of them cost.

    Without SciPy, a part that is surely covered: costs are convex in it, so budget / cost is.
    """
    if cost <= budget:
        return 1.0
    if not has_scipy() or budget <= 0:
        return max(0.0, budget / cost)
    of_states = np.column_stack([-problem.gains * problem.caps, problem.needs])
    matrix = np.vstack([np.append(problem.costs * problem.caps, 0.0), of_states])
    limits = np.append(budget, np.zeros(len(problem.needs)))
    shares = _program(np.append(np.zeros(len(problem.costs)), -1.0), matrix, limits)
    return budget / cost if shares is None else float(shares[-1])


def _program(costs: Floats, matrix: Floats, limits: Floats) -> Floats | None:
    """Shares between 0 and 1 that minimise the costs within the limits."""
    from scipy.optimize import linprog  # noqa: PLC0415  (SciPy is optional, and slow to import)

    scale = np.abs(matrix).max(axis=1, initial=0.0)
    scale[scale == 0] = 1.0
    best = linprog(costs, A_ub=matrix / scale[:, None], b_ub=limits / scale, bounds=(0, 1), method="highs")
    return np.clip(best.x, 0.0, 1.0) if best.status == 0 else None


def _surplus(problem: CoverProblem, rows: Floats, path: int) -> Floats:
    """Return what each state has more than it needs, in rows of a path; infinite where it brings none."""
    gains, surplus = problem.gains[:, path], problem.gains @ rows - problem.needs
    return np.divide(surplus, gains, out=np.full_like(gains, np.inf), where=gains > 0)
