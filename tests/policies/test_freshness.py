"""Freshness: which states go stale, how fast they must be refilled, and what is said if they cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from braided.policies.flow import predict
from braided.policies.freshness import (
    plan_freshness,
    refresh_rates,
    staleness,
    tightest_bounds,
)
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan, flat, linear
from braided.testing.samples.plans import random_plan
from tests.policies.plans import (
    AB,
    ABC,
    figure_10,
    random_model,
    reachable_bounds,
    relative_bounds,
    some_models,
)


@pytest.mark.parametrize("streams", [3, 4, 5, 6])
def test_any_binary_tree_has_k_minus_2_susceptible_states(streams: int) -> None:
    for seed in range(10):  # J16
        rng = np.random.default_rng(seed)
        assert len(random_model(rng, random_plan(rng, streams)).intermediates) == streams - 2
    names = [f"s{i}" for i in range(streams)]
    assert len(random_model(rng, linear(names)).intermediates) == streams - 2
    assert random_model(rng, flat(names)).intermediates == ()


def test_lemma_1_counts_every_own_state() -> None:
    flow = predict(figure_10(), dict.fromkeys(figure_10().half_joins, 75.0))
    assert staleness(figure_10(), flow)["a"] == pytest.approx(5000 / 500 + 200 / 412.5)
    assert staleness(figure_10(), flow)["c"] == pytest.approx(1000 / 300)
    assert staleness(figure_10(), predict(figure_10(), {}))["a"] == math.inf


def four_streams() -> PlanModel:
    """((a b) c) d with states of 100 and 300 rows; every row of a spends 2 in its own window."""
    sizes: dict[Plan, float] = dict.fromkeys("abcd", 200.0) | {AB: 100.0, ABC: 300.0}
    plan: Plan = (ABC, "d")
    selectivity: dict[Plan | HalfJoin, float] = {AB: 0.0025, ABC: 0.005, plan: 0.005}
    return plan_model(plan, dict.fromkeys("abcd", 100.0), sizes=sizes, selectivity=selectivity)


def test_how_slack_is_split() -> None:
    model = four_streams()  # full flow: 100 rows into ab (0.5 + 0.5 each), 150 into abc (100 x 1 + 100 x 0.5)
    bounds = {"a": 8.0}  # slack 6
    assert refresh_rates(model, bounds) == pytest.approx({AB: 100 / 2, ABC: 300 / 4})


def test_the_most_demanding_stream_counts() -> None:
    assert refresh_rates(four_streams(), {"c": 3.0})[ABC] == pytest.approx(300)
    assert refresh_rates(four_streams(), {"c": 3.0, "a": 8.0})[ABC] == pytest.approx(300)
    assert refresh_rates(four_streams(), {}) == {AB: 0.0, ABC: 0.0}


def test_bounds_hold_in_every_feasible_plan() -> None:
    for model in some_models(40, seed=3):
        bounds = reachable_bounds(model, tightest_bounds(model), 1.5)
        found = plan_freshness(model, bounds, math.inf)
        assert found.feasible
        probes = dict.fromkeys(model.half_joins, 0.0)
        for path in model.paths:
            for half_join, phi in zip(path.half_joins, path.phi[:-1], strict=True):
                probes[half_join] += found.rows[path.stream] * phi
        flow = predict(model, {h: n * (1 + 1e-6) for h, n in probes.items()})
        assert all(flow.arrivals[s] >= rate * (1 - 1e-5) for s, rate in found.refresh.items())
        assert all(age <= bounds[s] * (1 + 1e-5) for s, age in staleness(model, flow).items())


def test_the_rule_by_flow_keeps_every_bound_that_the_full_flow_keeps() -> None:
    for model in some_models(40, seed=4):
        best = staleness(model, predict(model))
        assert tightest_bounds(model) == pytest.approx(best)
        exactly = plan_freshness(model, best, math.inf)
        assert exactly.feasible
        assert exactly.cost <= predict(model).spent * (1 + 1e-6)


def test_bounds_that_would_do_do() -> None:
    kinds = set()
    for model in some_models(60, seed=5):
        budget = 0.1 * predict(model).spent
        asked = relative_bounds(model, 1.5)
        found = plan_freshness(model, asked, budget)
        if found.feasible:
            continue
        kinds.add(math.isinf(found.cost))
        assert not found.rows
        assert all(found.bounds_that_do[s] >= asked[s] * (1 - 1e-9) for s in asked)
        enough = math.inf if math.isinf(found.cost) else budget * (1 + 1e-6)
        assert plan_freshness(model, found.bounds_that_do, enough).feasible
        if not math.isinf(found.cost):
            assert plan_freshness(model, asked, found.cost).feasible
    assert kinds == {True, False}


def test_a_flat_plan_needs_nothing() -> None:
    model = random_model(np.random.default_rng(0), flat("abc"))
    found = plan_freshness(model, relative_bounds(model, 1.0), 0.0)
    assert found.feasible
    assert found.cost == 0


def test_bounds_of_100_percent_freshness_are_out_of_reach_of_intermediates() -> None:
    found = plan_freshness(figure_10(), {"a": 10.0, "c": 3.4}, 1e9)
    assert "no budget keeps rows of a fresher than 10.05; asked for 10" in found.problem
    assert found.bounds_that_do["c"] == 3.4


def test_a_state_that_nothing_feeds_meets_no_bound() -> None:
    rates = {"a": 0.0, "b": 0.0, "c": 5.0}
    sizes: dict[Plan, float] = {"a": 5, "b": 5, "c": 5, AB: 20}
    model = plan_model(ABC, rates, sizes=sizes, selectivity={AB: 0.1, ABC: 0.1})
    found = plan_freshness(model, {"a": 100.0}, 1e9)
    assert "fed by nothing" in found.problem
    assert found.bounds_that_do["a"] == math.inf
