"""Allowances for one batch, whose rows are known: the budget is met, whatever the rates have become."""

from __future__ import annotations

import dataclasses
import math
import time

import numpy as np
import pytest

from braided.policies.allocation.guard import guard
from braided.policies.allocation.question import Question
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.flow import predict
from braided.policies.plan_model import PlanModel, frozen
from braided.query.plan_tree import HalfJoin, flat, linear
from tests.policies.plans import AB, figure_10, random_model, some_models

MODELS = some_models(40, seed=11)
POLICIES = ("jaqpot", "greedy-path", "equal-halfjoin", "best-halfjoin", "selectivity-best")


def with_rates(model: PlanModel, rng: np.random.Generator) -> PlanModel:
    """The same plan in a batch with other rates, some of them zero."""
    factors = np.exp(rng.uniform(-2, 2, len(model.rates))) * (rng.uniform(size=len(model.rates)) > 0.1)
    rates = {s: r * float(f) for (s, r), f in zip(model.rates.items(), factors, strict=True)}
    return dataclasses.replace(model, rates=frozen(rates))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("number", range(len(MODELS)))
def test_the_budget_is_met_whatever_the_rates_have_become(number: int, policy: str) -> None:
    rng = np.random.default_rng([12, number])
    for part in (0.01, 0.2, 0.6, 0.95, 1.5):
        question = Question(MODELS[number], part * predict(MODELS[number]).spent)
        answer = ALLOCATIONS[policy](question)
        for _ in range(4):
            model = with_rates(question.model, rng)
            budget = question.budget * float(np.exp(rng.uniform(-1, 1)))
            allowances = guard(model, answer, budget)
            flow, full = predict(model, allowances), predict(model)
            assert list(allowances) == list(model.half_joins)
            assert flow.spent <= budget * 1.01
            if full.spent <= budget:
                assert set(allowances.values()) == {math.inf}
            else:
                assert flow.spent >= 0.95 * budget


def test_what_was_free_stays_free_and_the_rest_is_scaled_by_one_factor() -> None:
    model = random_model(np.random.default_rng(2), linear(["s0", "s1", "s2", "s3"]))
    full = predict(model)
    answer = ALLOCATIONS["greedy-path"](Question(model, 0.5 * full.spent))
    more = dataclasses.replace(model, rates=frozen({s: 1.2 * r for s, r in model.rates.items()}))
    allowances = guard(more, answer, 0.5 * full.spent)
    held = [h for h, rows in answer.expected.skipped.items() if rows > 1e-6 and answer.allowances[h]]
    free = [h for h, rows in answer.expected.skipped.items() if rows <= 1e-6]
    assert held
    assert {allowances[h] for h in free} == {math.inf}
    assert all(allowances[h] < answer.allowances[h] for h in held)
    factors = [allowances[h] / answer.allowances[h] for h in held]
    assert factors == pytest.approx([factors[0]] * len(held))


def test_unchanged_rates_keep_the_allocation() -> None:
    answer = ALLOCATIONS["greedy-path"](Question(figure_10(), 300.0))
    allowances = guard(figure_10(), answer, 300.0)
    assert allowances[HalfJoin("b", "a")] == pytest.approx(50, rel=0.02)
    assert allowances[HalfJoin(AB, "c")] == math.inf
    assert allowances[HalfJoin("a", "b")] == 0


def test_no_budget_lets_nobody_probe() -> None:
    answer = ALLOCATIONS["greedy-path"](Question(figure_10(), 300.0))
    assert predict(figure_10(), guard(figure_10(), answer, 0.0)).spent == 0


def test_it_takes_well_under_a_millisecond() -> None:
    """The best of several, because others use the machine too."""
    model = random_model(np.random.default_rng(4), flat([f"s{i}" for i in range(5)]))
    full = predict(model).spent
    answer = ALLOCATIONS["greedy-path"](Question(model, 0.4 * full))
    now = dataclasses.replace(model, rates=frozen({s: 1.7 * r for s, r in model.rates.items()}))
    times = []
    for _ in range(50):
        began = time.process_time()
        guard(now, answer, 0.4 * full)
        times.append(time.process_time() - began)
    assert min(times) < 0.5e-3
