"""Least loss first where states shrink with what feeds them, against a general optimiser and all rivals."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.optimize import minimize

from braided.policies.allocation import greedy_path, jaqpot
from braided.policies.allocation.least_loss import allocate, least_loss
from braided.policies.allocation.question import Question
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.flow import predict
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan, flat, leaves, linear, operators
from braided.testing.samples.plans import random_plan
from tests.policies.plans import some_models

BUSHY: Plan = (("a", "b"), ("c", "d"))
SHAPES = {"linear": linear("abcd"), "bushy": BUSHY, "five": (BUSHY, "e"), "wide": (("a", "b", "c"), "d")}


def windowed(plan: Plan, seed: int) -> PlanModel:
    """Time windows, all sizes derived, one key for all: any two rows match with the same chance."""
    rng = np.random.default_rng(seed)
    names = leaves(plan)
    rates = {name: float(rng.uniform(300, 1200)) for name in names}
    windows = {name: float(rng.uniform(1, 10)) for name in names}
    chance = 1 / float(rng.uniform(1000, 6000))
    return plan_model(plan, rates, windows=windows, selectivity=dict.fromkeys(operators(plan), chance))


def flow_of(model: PlanModel, shares: np.ndarray) -> tuple[float, float]:
    """Output and cost if these shares of rows probe at each input: independent of the policy's own pass."""
    share = dict(zip(model.orders, shares, strict=True))
    allowances: dict[HalfJoin, float] = {}
    for _ in model.operators:  # allowances of an operator follow from the flow of those below it
        flow = predict(model, allowances, settle=True)
        rows = {h: flow.probes[h] + flow.skipped[h] for h in model.half_joins}
        first = {h for node in model.operators for direction in model.directions(node) for h in direction[:1]}
        allowances = {h: rows[h] * (share[h.driver] if h in first else 1.0) for h in rows}
        for _ in model.half_joins:  # and inside a wide operator from the half-join before
            flow = predict(model, allowances, settle=True)
            rows = {h: flow.probes[h] + flow.skipped[h] for h in model.half_joins}
            allowances = {h: rows[h] * (share[h.driver] if h in first else 1.0) for h in rows}
    flow = predict(model, allowances, settle=True)
    return flow.output, flow.spent


def best_found(model: PlanModel, budget: float, starts: int = 4) -> float:
    """What a general optimiser finds from some random starts."""
    full = predict(model).output
    rng = np.random.default_rng(0)
    best = 0.0
    for _ in range(starts):
        found = minimize(
            lambda x: -flow_of(model, np.clip(x, 0, 1))[0] / full,
            rng.uniform(0, 1, len(model.orders)),
            bounds=[(0, 1)] * len(model.orders),
            constraints=[{"type": "ineq", "fun": lambda x: 1 - flow_of(model, np.clip(x, 0, 1))[1] / budget}],
            method="SLSQP",
            options={"maxiter": 60},
        )
        output, cost = flow_of(model, np.clip(found.x, 0, 1))
        best = max(best, output * min(1.0, budget / cost))
    return best


@pytest.mark.parametrize("shape", ["linear", "bushy"])
def test_close_to_what_a_general_optimiser_finds(shape: str) -> None:
    model = windowed(SHAPES[shape], 1)
    for part in (0.15, 0.5):
        budget = part * predict(model).spent
        assert allocate(Question(model, budget, settle=True)).output >= 0.95 * best_found(model, budget, 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_better_than_every_rival_where_states_shrink(shape: str) -> None:
    for seed in range(8):
        model = windowed(SHAPES[shape], seed)
        for part in (0.1, 0.3, 0.6, 0.9):
            question = Question(model, part * predict(model).spent, settle=True)
            output = allocate(question).output
            for name in set(ALLOCATIONS) - {"jaqpot"}:
                assert output >= 0.97 * ALLOCATIONS[name](question).output, name


@pytest.mark.parametrize("shape", SHAPES)
def test_budgets_and_rates_are_respected(shape: str) -> None:
    for seed in range(3):
        model = windowed(SHAPES[shape], seed)
        full = predict(model)
        for part in (0.0, 0.001, 0.37, 0.99, 1.0, 2.0):
            answer = allocate(Question(model, part * full.spent, settle=True))
            assert list(answer.allowances) == list(model.half_joins)
            assert answer.spent <= part * full.spent * (1 + 1e-9)
            assert all(0 <= n <= full.probes[h] * (1 + 1e-9) for h, n in answer.allowances.items())
            assert answer.spent - answer.expected.spent == pytest.approx(0, abs=1e-6)
            if part < 1:
                assert answer.spent >= part * full.spent * 0.99


def test_where_nothing_shrinks_it_is_the_best_path_first() -> None:
    for seed in range(5):
        model = windowed(flat("abcd"), seed)
        question = Question(model, 0.3 * predict(model).spent)
        assert allocate(question).output == pytest.approx(greedy_path.allocate(question).output, rel=1e-3)


def test_jaqpot_uses_it_if_all_intermediates_settle() -> None:
    model = windowed(BUSHY, 0)
    question = Question(model, 0.3 * predict(model).spent, dict.fromkeys("abcd", 20.0), settle=True)
    answer = jaqpot.allocate(question)
    assert answer.allowances == allocate(question).allowances
    assert answer.freshness_spent == 0
    given = some_models(1)[0]  # sizes were given: the paper's way
    assert "best paths first" in jaqpot.allocate(Question(given, 500, settle=True)).reason


def test_a_budget_for_all_lets_all_probe() -> None:
    model = windowed(random_plan(np.random.default_rng(0), 6), 0)
    assert least_loss(model, 1.001 * predict(model).spent).tolist() == [1.0] * len(model.orders)
    assert allocate(Question(model, 1e99, settle=True)).reason == "least loss first: all rows probe"


def test_ten_streams_take_less_than_50_ms() -> None:
    for plan in (linear([f"s{i}" for i in range(10)]), random_plan(np.random.default_rng(0), 10)):
        known = windowed(plan, 0)
        budget = 0.2 * predict(known).spent
        assert min(_seconds(known, budget) for _ in range(5)) < 0.050


def _seconds(model: PlanModel, budget: float) -> float:
    """Of the processor: others use the machine, too."""
    start = time.process_time()
    jaqpot.allocate(Question(model, budget, settle=True))
    return time.process_time() - start
