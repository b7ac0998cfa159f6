"""Plans for tests: the paper's, and seeded random ones with productivities as a real engine has them."""

from __future__ import annotations

import math

import numpy as np

from braided.policies.allocation.question import Allocation
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan, flat, half_joins, intermediates, leaves, linear
from braided.testing.samples.plans import random_plan

AB: Plan = ("a", "b")
ABC: Plan = (AB, "c")


def figure_2a() -> PlanModel:
    """One join whose two half-joins have selectivities of their own."""
    selectivity: dict[Plan | HalfJoin, float] = {HalfJoin("a", "b"): 0.005, HalfJoin("b", "a"): 0.001}
    return plan_model(("a", "b"), {"a": 500, "b": 700}, sizes={"a": 5000, "b": 500}, selectivity=selectivity)


def figure_10() -> PlanModel:
    """Two joins, as reconstructed from Table 4; rates do not matter there."""
    sizes: dict[Plan, float] = {"a": 5000, "b": 500, "c": 1000, AB: 200}
    return plan_model(ABC, {"a": 500, "b": 700, "c": 300}, sizes=sizes, selectivity={AB: 0.001, ABC: 0.005})


def figure_4(rate: float = 100.0) -> PlanModel:
    """Two joins with the paths of Table 2: 11 rows of a become 4, 11 of b become 5, 10 of c give 1 result."""
    sizes: dict[Plan, float] = {"a": 50, "b": 40, "c": 10, AB: 10}
    selectivity: dict[Plan | HalfJoin, float] = {AB: 1 / 110, HalfJoin(AB, "c"): 0.1, HalfJoin("c", AB): 0.01}
    return plan_model(ABC, dict.fromkeys("abc", rate), sizes=sizes, selectivity=selectivity)


def path_probes(model: PlanModel, allocation: Allocation) -> dict[str, float]:
    """The probes of each stream's path, if all that its rows become probe on."""
    return {p.stream: allocation.allowances[p.half_joins[0]] * p.cost for p in model.paths}


def random_model(rng: np.random.Generator, plan: Plan, *, low: float = 0.2, high: float = 5.0) -> PlanModel:
    """Rates and sizes of Table 3; productivities log-uniform between `low` and `high`."""
    rates = {name: float(rng.uniform(300, 1200)) for name in leaves(plan)}
    states: list[Plan] = [*leaves(plan), *intermediates(plan)]
    sizes = {state: float(rng.uniform(200, 5000)) for state in states}
    selectivity: dict[Plan | HalfJoin, float] = {
        h: math.exp(rng.uniform(math.log(low), math.log(high))) / sizes[h.probed] for h in half_joins(plan)
    }
    return plan_model(plan, rates, sizes=sizes, selectivity=selectivity)


def some_models(count: int, *, seed: int = 0, streams: tuple[int, int] = (3, 8)) -> list[PlanModel]:
    """Linear, binary, wide and (now and then) flat plans, by turns."""
    models = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        size = int(rng.integers(streams[0], streams[1] + 1))
        names = [f"s{i}" for i in range(size)]
        shapes = (linear(names), random_plan(rng, size), random_plan(rng, size, width=4), flat(names))
        models.append(random_model(rng, shapes[number % 3 if number % 10 else 3]))
    return models


def relative_bounds(model: PlanModel, factor: float) -> dict[str, float]:
    """So many times the time a row spends in its stream's own window."""
    return {path.stream: factor * model.sizes[path.stream] / path.rate for path in model.paths}


def reachable_bounds(model: PlanModel, tightest: dict[str, float], factor: float) -> dict[str, float]:
    """So many times what the full flow can keep."""
    return {stream: factor * tightest[stream] for stream in model.streams}
