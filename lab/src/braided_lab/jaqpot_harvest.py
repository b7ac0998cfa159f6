"""Parts of windows, in the manner of GrubJoin: a baseline from outside for the flat plan.

A probe looks at a part h of the window, the most promising basic windows first. That costs h of a probe (it
scans; with a hash index it would save only what follows) and finds m(h) of the matches. Windows are cut one
basic window at a time, where a saved probe costs least results, until the budget is met.

Without correlation in time m(h) = h, and this chooses among half-joins like any other allocation; with it
m(h) = h ** c with c < 1. No other policy of the lab knows of correlation: with it, this shows what it would
be worth, and is no fair race. GrubJoin's text was not at hand; the greedy is described in its abstract only.

| words | here |
| --- | --- |
| basic windows that rows of one stream look at, for each hop | `Parts` |
| m(h) = h ** c | `correlation` is c; 1 means none |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from braided.policies.plan_model import Path, PlanModel

Parts = tuple[int, ...]


@dataclass(frozen=True)
class _Direction:
    """One stream's rows on their way, and which parts of windows they look at."""

    path: Path
    basic_windows: int
    correlation: float
    parts: Parts

    def outcome(self, parts: Parts) -> tuple[float, float]:
        """Probes and results per unit of time."""
        rows, cost = self.path.rate, 0.0
        for part, before, after in zip(parts, self.path.phi, self.path.phi[1:], strict=False):
            looked_at = part / self.basic_windows
            cost += rows * looked_at
            rows *= after / before * looked_at**self.correlation
        return cost, rows

    def cuts(self) -> Iterator[tuple[float, Parts]]:
        """One basic window less at one hop, with the results that each saved probe costs."""
        cost, output = self.outcome(self.parts)
        for hop, part in enumerate(self.parts):
            if part:
                less = (*self.parts[:hop], part - 1, *self.parts[hop + 1 :])
                then_cost, then_output = self.outcome(less)
                yield (output - then_output) / (cost - then_cost) if cost > then_cost else 0.0, less


def harvest(
    model: PlanModel, budgets: Sequence[float], *, basic_windows: int, correlation: float
) -> list[float]:
    """Results of a flat plan whose probes look at parts of windows, for each budget."""
    directions = [
        _Direction(path, basic_windows, correlation, (basic_windows,) * len(path.half_joins))
        for path in model.paths
    ]
    course = [_total(directions)]
    while any(any(direction.parts) for direction in directions):
        _, number, parts = min((loss, i, less) for i, d in enumerate(directions) for loss, less in d.cuts())
        d = directions[number]
        directions[number] = _Direction(d.path, basic_windows, correlation, parts)
        course.append(_total(directions))
    costs, outputs = np.array(course[::-1]).T
    return [float(np.interp(budget, costs, outputs)) for budget in budgets]


def _total(directions: Sequence[_Direction]) -> tuple[float, float]:
    outcomes = [direction.outcome(direction.parts) for direction in directions]
    return math.fsum(cost for cost, _ in outcomes), math.fsum(output for _, output in outcomes)
