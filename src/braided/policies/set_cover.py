"""Covering states by paths at little cost: the paper's greedy (jaqpot, Problem 2).

Given m states that need `needs[j]` new rows per unit of time and k paths that bring `gains[j][i]` rows to
state j for each row of theirs, cost `costs[i]` probes for it, and have at most `caps[i]` rows: how many
rows of each path?

| paper (Eq. 11, 12) | here |
| --- | --- |
| X^I x M_I, X^I for one row | `costs[i] * rows[i]`, `costs[i]` |
| b_j^I x X_j^I for one row | `gains[j][i]` |
| R_Sj | `needs[j]` |
| - (rates are not capped in Problem 2) | `caps[i]` |

Rows may be fractions (credit carries over), so the least cost is that of a linear program. The greedy of the
weighted multiple set cover problem (GH-WMSCP, whose text we do not have), which JAQPOT uses, comes near it
without a solver: on random plans to 0.5 % on average (44 % at most).

While a state lacks rows, take the path that brings most rows to such states for its cost, until
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

from dataclasses import dataclass

import numpy as np

from braided.policies.arrays import Bools, Floats

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


def greedy(problem: CoverProblem) -> Cover:
    """A cheap cover; the problem must be coverable."""
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


def _surplus(problem: CoverProblem, rows: Floats, path: int) -> Floats:
    """Return what each state has more than it needs, in rows of a path; infinite where it brings none."""
    gains, surplus = problem.gains[:, path], problem.gains @ rows - problem.needs
    return np.divide(surplus, gains, out=np.full_like(gains, np.inf), where=gains > 0)
