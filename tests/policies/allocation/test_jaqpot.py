"""JAQPOT: freshness first, results with the rest, and a whole analysis in good time."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from braided.policies.allocation import greedy_path, jaqpot
from braided.policies.allocation.question import Question
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.flow import predict
from braided.policies.freshness import staleness, tightest_bounds
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import linear
from braided.testing.samples.plans import random_plan
from tests.policies.plans import (
    AB,
    figure_10,
    path_probes,
    random_model,
    reachable_bounds,
    relative_bounds,
    some_models,
)

HEURISTICS = ("best-halfjoin", "equal-halfjoin", "global-productivity", "equal-best", "selectivity-best")


def test_without_bounds_it_is_the_best_path_first() -> None:
    for model in some_models(20):
        question = Question(model, 0.3 * predict(model).spent)
        assert jaqpot.allocate(question).allowances == greedy_path.allocate(question).allowances


def test_refresh_rates_are_reached_and_no_row_is_too_old() -> None:
    kept = 0
    for model in some_models(60, seed=10):
        bounds = reachable_bounds(model, tightest_bounds(model), 2.0)
        answer = jaqpot.allocate(Question(model, 0.6 * predict(model).spent, bounds))
        assert answer.freshness is not None
        if not answer.freshness.feasible:
            continue
        kept += 1
        flow = answer.expected
        assert all(flow.arrivals[s] >= r * (1 - 1e-5) for s, r in answer.freshness.refresh.items())
        assert all(age <= bounds[s] * (1 + 1e-5) for s, age in staleness(model, flow).items())
    assert kept > 30


def test_the_rest_goes_on_top_and_is_capped_by_what_freshness_left() -> None:
    model = figure_10()  # path b is best and also the cheapest to refresh S_ab: all on one path
    answer = jaqpot.allocate(Question(model, 4500, {"a": 10.5}))
    assert answer.freshness_spent == pytest.approx(400 / 5 * 6)
    assert path_probes(model, answer) == pytest.approx({"a": 300, "b": 700 * 6, "c": 0})
    assert answer.expected.arrivals[AB] >= 400


def test_freshness_costs_results_but_not_more_than_its_probes_could_bring() -> None:
    for model in some_models(40, seed=11):
        bounds = reachable_bounds(model, tightest_bounds(model), 3.0)
        question = Question(model, 0.5 * predict(model).spent, bounds)
        fresh, best = jaqpot.allocate(question), greedy_path.allocate(question)
        rest = greedy_path.allocate(Question(model, question.budget - fresh.freshness_spent))
        assert rest.output * (1 - 1e-6) <= fresh.output <= best.output * (1 + 1e-9)


def test_bounds_out_of_reach_are_given_up_and_reported() -> None:
    question = Question(figure_10(), 300, {"a": 9.0})
    answer = jaqpot.allocate(question)
    assert answer.reason.startswith("not all fresh: no budget keeps rows of a fresher than 10.05")
    best = max(ALLOCATIONS[name](question).output for name in HEURISTICS)
    assert answer.output >= best > 0
    assert answer.freshness is not None
    assert math.isinf(answer.freshness.cost)


def ten_streams(seed: int) -> PlanModel:
    rng = np.random.default_rng(seed)
    names = [f"s{i}" for i in range(10)]
    return random_model(rng, linear(names) if seed % 2 else random_plan(rng, 10, width=3))


def analysis_seconds(seed: int) -> float:
    """One analysis from raw numbers: path table, cover, allocation."""
    known = ten_streams(seed)
    rates, sizes, selectivity = dict(known.rates), dict(known.sizes), dict(known.selectivities)
    bounds = relative_bounds(known, 5.0)
    budget = 0.4 * predict(known).spent
    start = time.process_time()
    model = plan_model(known.plan, rates, sizes=sizes, selectivity=selectivity)  # type: ignore[arg-type]
    jaqpot.allocate(Question(model, budget, bounds))
    return time.process_time() - start


def test_a_full_analysis_of_ten_streams_takes_less_than_50_ms() -> None:
    fastest = [min(analysis_seconds(seed) for _ in range(3)) for seed in range(6)]
    assert max(fastest) < 0.050
