"""How the window-join paper's joins are measured: taking turns over the same rows, and where curves cross."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from braided_lab.paper_join import Layout, PaperJoin, arriving
from braided_lab.window_cost import Index, Invalidation, Side, Weights, direction_cost, join_cost

UNIT = Weights(scan=1.0, hash=1.0)
INDEX: dict[str, Index] = {"H": "hash", "N": "scan"}


@dataclass(frozen=True)
class Timing:
    """A join at some rate: CPU seconds and touches for the measured seconds, and what it held at most."""

    seconds: float
    touched: dict[str, float]
    results: float
    peak: int
    join: PaperJoin


@dataclass(frozen=True)
class Lab:
    """Parameters, and how a join is measured under them."""

    given: Mapping[str, Any]
    size: Mapping[str, Any]
    seed: int

    @property
    def base(self) -> Layout:
        """The layout whose figures are drawn."""
        return Layout(**self.given["layouts"]["base"])

    @property
    def longer(self) -> Lab:
        """The same with long windows."""
        return replace(self, given={**self.given, "window": self.size["long_window"]})

    def side(self, rate: float, keys: int) -> Side:
        """A stream under the captions' window."""
        return Side(rate=rate, window=self.given["window"], keys=keys)

    def cost(self, name: str, rate: float, keys: int, weights: Weights) -> float:
        """What the model says a join costs per second."""
        a, b = self.side(self.given["rate_a"], keys), self.side(rate, keys)
        if len(name) == 1:
            return direction_cost(INDEX[name], a.rate, b, weights)
        return join_cost(INDEX[name[0]], INDEX[name[1]], a, b, weights)

    def timed(
        self,
        names: Sequence[str],
        rate: int,
        keys: int,
        layout: Layout | None = None,
        invalidations: Sequence[Invalidation] = ("active",),
    ) -> dict[tuple[str, Invalidation], Timing]:
        """Joins over the same rows, taking turns; a turn is so many times the measured seconds as to last."""
        turn = self._turn(names, rate, keys)
        window, seconds = self.given["window"], self.given["measured_seconds"]
        length = window + turn * seconds * self.size["repetitions"]
        rows = arriving(
            rate_a=self.given["rate_a"], rate_b=rate, keys=(keys, keys), seconds=length, seed=self.seed
        )
        joins = {
            (n, i): PaperJoin(rows, n, window_seconds=window, layout=layout or self.base, invalidation=i)
            for n in names
            for i in invalidations
        }
        for join in joins.values():
            join.advance(window)
        took: dict[tuple[str, Invalidation], list[float]] = {which: [] for which in joins}
        for _ in range(self.size["repetitions"]):
            for which, join in joins.items():
                took[which].append(join.advance(turn * seconds))
        per = turn * self.size["repetitions"]
        return {which: _timing(join, min(took[which]) / turn, per) for which, join in joins.items()}

    def _turn(self, names: Sequence[str], rate: int, keys: int) -> int:
        """How many times the measured seconds: enough touches for the cheapest, not too many for all."""
        seconds: int = self.given["measured_seconds"]
        touches = [self.cost(n, rate, keys, UNIT) * seconds for n in names]
        least: int = self.size["least_touches"]
        return max(1, min(math.ceil(least / min(touches)), int(4 * least / max(touches))))


def _timing(join: PaperJoin, seconds: float, per: int) -> Timing:
    touched = {kind: n / per for kind, n in join.touched().items()}
    return Timing(seconds, touched, join.results / per, join.peak("B"), join)


def crossing(lab: Lab, measure: Callable[[int], float], low: float, high: float) -> float:
    """The rate from which on a noisy quantity is above zero; 0 if it always is, infinity if it never is.

    Looked for from the top: where windows are small, fixed costs decide, and the sign may change more than
    once. Between the last two points of a grid it is bracketed, then a line is laid through points nearby.
    """
    how = lab.given["crossing"]
    grid = [float(r) for r in np.geomspace(high, low, lab.size["grid"])]
    above = 0
    while above < len(grid) and measure(round(grid[above])) > 0:
        above += 1
    if above in (0, len(grid)):
        return 0.0 if above else math.inf
    low, high = grid[above], grid[above - 1]
    for _ in range(lab.size["bisections"]):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if measure(round(middle)) > 0 else (middle, high)
    middle, near = math.sqrt(low * high), 1 + how["near"]
    points = sorted({round(r) for r in np.geomspace(middle / near, middle * near, how["points"])})
    slope, start = np.polyfit(np.log(points), [measure(r) for r in points], 1)
    return float(np.clip(math.exp(-start / slope), low / near, high * near)) if slope > 0 else middle
