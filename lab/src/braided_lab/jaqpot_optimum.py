"""How near to the best GrePP and the greedy cover are, on random plans; and how long an analysis takes.

GrePP thinks in paths, each consumed to its end. A linear program over half-joins need not: it may let any
number of rows probe at each half-join, up to what reaches it. If GrePP is as good, paths lose nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from braided.policies.allocation import greedy_path, jaqpot
from braided.policies.freshness import cover_problem, refresh_rates, tightest_bounds
from braided.policies.plan_model import PlanModel
from braided.policies.set_cover import CoverProblem, greedy
from braided.query.plan_tree import Plan, flat, linear
from braided.testing.samples.plans import random_plan
from braided_lab.jaqpot_settings import Lab, Setting, draw_model

Floats = NDArray[np.float64]


def optimum_rows(lab: Lab) -> Iterator[dict[str, Any]]:
    """For each random plan: results below the linear program's, cost of the greedy cover above it."""
    for number, setting in enumerate(random_settings(lab)):
        rng = lab.rng("optimum", number)
        budget = float(rng.uniform(*lab.given["optimum"]["budgets"]))
        factor = float(rng.uniform(*lab.given["optimum"]["factor"]))
        yield {
            "experiment": "optimum", "streams": len(setting.model.streams), "budget": round(budget, 4),
            "below_optimum": round(below_optimum(setting, budget), 9),
            "cover_above_optimum": _cover_above(setting.model, factor),
        }  # fmt: skip


def random_settings(lab: Lab) -> Iterator[Setting]:
    """Linear, binary, wide and (now and then) flat plans by turns, ranges by turns."""
    ranges = list(lab.given["ranges"].values())
    low, high = lab.given["optimum"]["streams"]
    for number in range(lab.size["optimum_plans"]):
        rng = lab.rng("plan", number)
        size = int(rng.integers(low, high + 1))
        yield Setting(draw_model(rng, _shape(rng, number, size), ranges[number // 3 % len(ranges)]))


def _shape(rng: np.random.Generator, number: int, size: int) -> Plan:
    names = [f"s{i}" for i in range(size)]
    if number % 10 == 0:
        return flat(names)
    return (linear(names), random_plan(rng, size), random_plan(rng, size, width=4))[number % 3]


def below_optimum(setting: Setting, part: float) -> float:
    """How far GrePP's results are below the best of all allowances."""
    found = greedy_path.allocate(setting.question(part)).output
    return 1 - found / best_of_all(setting.model, part * setting.saturation)


def best_of_all(model: PlanModel, budget: float) -> float:
    """The most results of any allowances: probes at each half-join, no more than rows that reach it.

    Rows that reach an operator's input are what the operator below produces, whoever drove it there. Probes
    are counted in parts of the full flow: the program's numbers are then of one order of magnitude.
    """
    full = Setting(model).full
    scale = np.array([full.probes[h] for h in model.half_joins])
    matrix, limits, results = _program(model, budget)
    matrix = matrix * scale
    largest = np.abs(matrix).max(axis=1)
    found = linprog(
        -results * scale / full.output, A_ub=matrix / largest[:, None], b_ub=limits / largest, bounds=(0, 1),
        method="highs",
    )  # fmt: skip
    assert found.status == 0
    return float(-found.fun) * full.output


def _program(model: PlanModel, budget: float) -> tuple[Floats, Floats, Floats]:
    """Flow conservation at each half-join and the budget, and how many results a probe makes at the root."""
    number = {h: i for i, h in enumerate(model.half_joins)}
    rho = np.array([model.productivity(h) for h in model.half_joins])
    rows, limits = [np.ones(len(rho))], [budget]
    for half_join, before in _reached_from(model):
        row = np.zeros(len(rho))
        row[number[half_join]] = 1.0
        for earlier in before:
            row[number[earlier]] -= rho[number[earlier]]
        rows.append(row)
        driver = half_join.driver
        limits.append(model.rates[driver] if not before and isinstance(driver, str) else 0.0)
    results = np.zeros(len(rho))
    for direction in model.directions(model.plan):
        results[number[direction[-1]]] = rho[number[direction[-1]]]
    return np.array(rows), np.array(limits), results


def _reached_from(model: PlanModel) -> Iterator[tuple[Any, list[Any]]]:
    """Each half-join with those whose output probes there: none for a stream's first."""
    for operator in model.operators:
        for direction in model.directions(operator):
            below = [d[-1] for d in model.directions(direction[0].driver)]
            for hop, half_join in enumerate(direction):
                yield half_join, [direction[hop - 1]] if hop else below


def _cover_above(model: PlanModel, factor: float) -> float | None:
    """By how much the greedy cover costs more than the best one; None where there is nothing to cover."""
    bounds = {stream: factor * bound for stream, bound in tightest_bounds(model).items()}
    problem = cover_problem(model, refresh_rates(model, bounds))
    best = _least_cost(problem)
    return round(greedy(problem).cost / best - 1, 6) if best > 0 else None


def _least_cost(problem: CoverProblem) -> float:
    """What the best cover costs, by linear program (HiGHS); some are coverable only up to its tolerance."""
    gains = problem.gains * problem.caps
    scale = np.abs(gains).max(axis=1, initial=0.0)
    scale[scale == 0] = 1.0
    costs, matrix, limits = problem.costs * problem.caps, -gains / scale[:, None], -problem.needs / scale
    best = linprog(costs, A_ub=matrix, b_ub=limits, bounds=(0, 1), method="highs")
    return float(best.fun) if best.status == 0 else greedy(problem).cost


def analysis_ms(lab: Lab) -> Floats:
    """Milliseconds of a full analysis of random plans: a model from numbers, then jaqpot with bounds."""
    streams, within = lab.given["optimum"]["analysis_streams"], lab.given["ranges"]["engine"]
    times = []
    for number in range(lab.size["analyses"] + 1):
        rng = lab.rng("analysis", number)
        plan = random_plan(rng, streams)
        began = time.perf_counter()
        setting = Setting(draw_model(rng, plan, within))
        bounds = {s: 3 * bound for s, bound in tightest_bounds(setting.model).items()}
        jaqpot.allocate(replace(setting.question(0.5), freshness=bounds))
        times.append(1000 * (time.perf_counter() - began))
    return np.array(times[1:])  # the first is cold
