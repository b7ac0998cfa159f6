"""GrePP (golden J9, J14), and how close it is to the best of all allocations: a linear program."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from braided.policies.allocation.greedy_path import allocate
from braided.policies.allocation.question import Question
from braided.policies.flow import predict
from braided.policies.plan_model import PlanModel
from braided.query.plan_tree import HalfJoin
from tests.policies.plans import AB, figure_4, figure_10, some_models


def test_the_papers_examples() -> None:
    answer = allocate(Question(figure_10(), 300))
    assert answer.allowances[HalfJoin("b", "a")] == pytest.approx(50)  # J9
    assert answer.allowances[HalfJoin(AB, "c")] == pytest.approx(250)
    assert answer.output == pytest.approx(1250)
    answer = allocate(Question(figure_4(), 30))
    assert answer.allowances[HalfJoin("b", "a")] == pytest.approx(20.625)  # J14
    assert answer.allowances[HalfJoin(AB, "c")] == pytest.approx(9.375)
    assert answer.output == pytest.approx(9.375)


def test_the_next_path_gets_what_the_best_cannot_use() -> None:
    answer = allocate(Question(figure_4(rate=11.0), 30))
    assert answer.paths == pytest.approx({"a": 14, "b": 16, "c": 0})


def test_nothing_produced_is_left_over() -> None:
    for model in some_models(30, seed=9):
        answer = allocate(Question(model, 0.4 * predict(model).spent))
        assert answer.expected.wasted == pytest.approx(0, abs=1e-6)
        between = [h for h in model.half_joins if isinstance(h.driver, tuple)]
        assert [answer.expected.skipped[h] for h in between] == pytest.approx([0] * len(between), abs=1e-6)


def best_of_all(model: PlanModel, budget: float) -> float:
    """The most results of any allowances: probes at each half-join, no more than rows that reach it.

    Rows that reach an operator's input are what the operator below produces, whoever drove it there.
    """
    number = {h: i for i, h in enumerate(model.half_joins)}
    rho = [model.productivity(h) for h in model.half_joins]
    matrix, limits = [np.ones(len(rho))], [budget]
    for operator in model.operators:
        for direction in model.directions(operator):
            for hop, half_join in enumerate(direction):
                row = np.zeros(len(rho))
                row[number[half_join]] = 1.0
                driver = half_join.driver
                before = [direction[hop - 1]] if hop else [d[-1] for d in model.directions(driver)]
                for earlier in before:
                    row[number[earlier]] -= rho[number[earlier]]
                matrix.append(row)
                limits.append(model.rates[driver] if not hop and isinstance(driver, str) else 0.0)
    results = np.zeros(len(rho))
    for direction in model.directions(model.plan):
        results[number[direction[-1]]] = rho[number[direction[-1]]]
    found = linprog(-results, A_ub=np.array(matrix), b_ub=np.array(limits), method="highs")
    assert found.status == 0
    return float(-found.fun)


def shortfall(count: int, *, seed: int = 0, streams: tuple[int, int] = (3, 8)) -> np.ndarray:
    """How far below the best GrePP's predicted output is; for campaigns by hand, too."""
    gaps = []
    for number, model in enumerate(some_models(count, seed=seed, streams=streams)):
        part = float(np.random.default_rng([seed, number, 1]).uniform(0.02, 1.0))
        budget = part * predict(model).spent
        gaps.append(1 - allocate(Question(model, budget)).output / best_of_all(model, budget))
    return np.array(gaps)


def test_within_two_percent_of_the_linear_program_on_500_plans() -> None:
    gaps = shortfall(500)
    assert gaps.max() <= 0.02
    assert gaps.min() >= -1e-6  # and the program is indeed an upper bound
