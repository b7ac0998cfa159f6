"""Settings of the jaqpot lab: the paper's plans, and rates, sizes and selectivities drawn from ranges.

| paper | here |
| --- | --- |
| Figure 5.b, c, d | `PLANS["linear"]`, `["bushy"]`, `["five"]` |
| Table 3 | the range "table-3": one selectivity for each operator, a count window for each state |
| - | the range "engine": productivities of half-joins as a real engine can bear them |
| saturation resources, saturation throughput (footnote 9) | `Setting.saturation`, `Setting.full.output` |
| f^I = 1.5x of the window predicate | `Setting.bounds(1.5)`, in seconds |

A window of a stream in seconds is the time that its rows stay in its own state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from braided.policies.allocation.question import Question
from braided.policies.flow import Flow, predict
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan, intermediates, leaves, operators
from braided_lab.report import Claim

PLANS: dict[str, Plan] = {
    "linear": ((("a", "b"), "c"), "d"),
    "bushy": (("a", "b"), ("c", "d")),
    "five": ((("a", "b"), ("c", "d")), "e"),
}


@dataclass(frozen=True)
class Setting:
    """A plan in numbers, and what follows for budgets and bounds."""

    model: PlanModel

    @cached_property
    def full(self) -> Flow:
        """What flows if all rows may probe."""
        return predict(self.model)

    @property
    def saturation(self) -> float:
        """Probes per second if all rows may probe."""
        return self.full.spent

    def bounds(self, factor: float) -> dict[str, float]:
        """So many times each stream's window."""
        return {s: factor * self.model.sizes[s] / self.model.rates[s] for s in self.model.streams}

    def question(self, part: float, factor: float | None = None, *, settle: bool = False) -> Question:
        """What to do with a part of the saturation; with a factor, under bounds on age."""
        bounds = {} if factor is None else self.bounds(factor)
        return Question(self.model, part * self.saturation, bounds, settle)


@dataclass(frozen=True)
class Outcome:
    """What an experiment adds to the report."""

    rows: list[dict[str, Any]]
    claims: list[Claim]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Lab:
    """The parameters, at which size, and the seed of all that is drawn."""

    given: Mapping[str, Any]
    quick: bool
    seed: int

    @property
    def size(self) -> Mapping[str, int]:
        """How many of each thing."""
        found: Mapping[str, int] = self.given["quick" if self.quick else "full"]
        return found

    def rng(self, *what: int | str) -> np.random.Generator:
        """Random numbers of their own for each purpose."""
        words = [list(w.encode()) if isinstance(w, str) else [w] for w in what]
        return np.random.default_rng([self.seed, *(n for word in words for n in word)])

    def settings(self, range_: str, plan: str) -> Iterator[Setting]:
        """Settings of one of the paper's plans."""
        for number in range(self.size["settings"]):
            rng = self.rng("setting", range_, plan, number)
            yield Setting(draw_model(rng, PLANS[plan], self.given["ranges"][range_]))


def draw_model(rng: np.random.Generator, plan: Plan, within: Mapping[str, Any]) -> PlanModel:
    """Rates, sizes and selectivities for a plan; all its states have count windows."""
    rates = {name: float(rng.uniform(*within["rates"])) for name in leaves(plan)}
    literal = "selectivities" in within
    draw = rng.uniform if literal else (lambda low, high: log_uniform(rng, low, high))
    states: tuple[Plan, ...] = (*leaves(plan), *intermediates(plan))
    sizes = {state: float(draw(*within["sizes"])) for state in states}
    selectivity: dict[Plan | HalfJoin, float] = {}
    for operator in operators(plan):
        held = [sizes[child] for child in operator]
        limits = within["selectivities"] if literal else bearable(within["productivities"], held)
        selectivity[operator] = float(draw(*limits))
    return plan_model(plan, rates, sizes=sizes, selectivity=selectivity)


def bearable(productivities: tuple[float, float], sizes: list[float]) -> tuple[float, float]:
    """Selectivities at which probing any of these states is as productive as wanted."""
    low, high = productivities
    return low / min(sizes), high / max(sizes)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Each order of magnitude alike."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))
