"""One contract for all allocations of a probe budget, over plans of all shapes."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest

from braided.policies.allocation.question import Allocate, Question
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.flow import predict
from braided.policies.freshness import tightest_bounds
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.overload import ProbeAllocation
from braided.query.plan_tree import Plan, flat
from tests.policies.plans import (
    AB,
    ABC,
    figure_2a,
    figure_4,
    figure_10,
    path_probes,
    reachable_bounds,
    some_models,
)


def at_rest(rates: dict[str, float]) -> PlanModel:
    """Streams that bring nothing, or states that hold nothing."""
    windows = dict.fromkeys("abc", 10.0)
    return plan_model(ABC, rates, windows=windows, selectivity={AB: 0.1, ABC: 0.1})


def empty() -> PlanModel:
    states: list[Plan] = ["a", "b", "c", AB]
    sizes = dict.fromkeys(states, 0.0)
    return plan_model(ABC, dict.fromkeys("abc", 9.0), sizes=sizes, selectivity={AB: 0.1, ABC: 0.1})


MODELS = [
    figure_2a(),
    figure_4(),
    figure_10(),
    at_rest({"a": 0.0, "b": 0.0, "c": 0.0}),
    at_rest({"a": 0.5, "b": 0.0, "c": 3.0}),
    empty(),
    plan_model(
        flat("abcd"),
        dict.fromkeys("abcd", 2.5),
        windows=dict.fromkeys("abcd", 8.0),
        selectivity={flat("abcd"): 0.1},
    ),
    *some_models(20, seed=6),
]
PARTS = (0.0, 0.001, 0.1, 0.37, 0.6, 1.0, 2.0)


def questions() -> list[Question]:
    found = []
    for model in MODELS:
        bounds = reachable_bounds(model, tightest_bounds(model), 2.0)
        for part in PARTS:
            budget = part * predict(model).spent
            found += [Question(model, budget), Question(model, budget, bounds)]
    return found


QUESTIONS = questions()


def test_all_names_of_the_api_are_there() -> None:
    assert set(ALLOCATIONS) == set(get_args(ProbeAllocation))


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_budgets_and_rates_are_respected(name: str) -> None:
    for question in QUESTIONS:
        answer = ALLOCATIONS[name](question)
        model, full = question.model, predict(question.model)
        assert list(answer.allowances) == list(model.half_joins)
        assert answer.spent <= question.budget * (1 + 1e-9) + 1e-9
        for half_join, allowed in answer.allowances.items():
            assert 0 <= allowed <= full.probes[half_join] * (1 + 1e-9)
            assert math.isfinite(allowed)
        assert 0 <= answer.output <= full.output * (1 + 1e-9)


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_answers_are_values_of_their_questions(name: str) -> None:
    for question in QUESTIONS[::5]:
        answer = ALLOCATIONS[name](question)
        assert answer == ALLOCATIONS[name](question)
        assert answer.expected == predict(question.model, answer.allowances)
        assert answer.reason
        assert 0 <= answer.freshness_spent <= answer.spent * (1 + 1e-9) + 1e-9
        if name in ("jaqpot", "greedy-path", "dp-knapsack"):
            assert sum(path_probes(question.model, answer).values()) == pytest.approx(answer.spent)


@pytest.mark.parametrize("name", ["jaqpot", "greedy-path", "best-halfjoin"])
def test_fractions_are_allowed_and_enough_is_enough(name: str) -> None:
    allocate: Allocate = ALLOCATIONS[name]
    assert allocate(Question(figure_10(), 0.3)).spent == pytest.approx(0.3)
    for model in some_models(20, seed=7):
        full = predict(model)
        assert allocate(Question(model, full.spent * 1.001)).output == pytest.approx(full.output)


def test_no_allocation_expects_more_results_than_the_best_paths_first() -> None:
    for question in QUESTIONS:
        best = ALLOCATIONS["greedy-path"](question).output
        for name, allocate in ALLOCATIONS.items():
            assert allocate(question).output <= best * (1 + 1e-9) + 1e-9, name


def test_fewer_than_one_row_is_nothing_to_whole_rows() -> None:
    assert ALLOCATIONS["dp-knapsack"](Question(figure_10(), 0.3)).spent == 0


def test_allocations_need_no_scipy_to_be_imported() -> None:
    code = "import sys, braided.policies.allocation.registry; sys.exit('scipy.optimize' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_plans_are_of_every_kind() -> None:
    widths = {len(operator) for model in MODELS for operator in model.operators}
    assert widths >= {2, 3, 4}
    assert np.mean([len(model.intermediates) == 0 for model in MODELS]) < 0.5
