"""Whole rows (golden J12, J13), against all combinations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from braided.policies.allocation.dp_knapsack import _top_up, allocate, whole_unit
from braided.policies.allocation.greedy_path import allocate as fractional
from braided.policies.allocation.question import Question
from braided.testing.samples.plans import random_plan
from tests.policies.plans import figure_4, figure_10, path_probes, random_model, some_models


def test_the_best_path_first_fails_in_whole_units() -> None:
    question = Question(figure_4(), 30)  # J12
    paths = question.model.paths
    units = [whole_unit(path) for path in paths]
    times = _top_up(paths, units, [0] * len(units), 30)
    assert [unit.probes * n for unit, n in zip(units, times, strict=True)] == [0, 16, 10]
    assert sum(unit.output * n for unit, n in zip(units, times, strict=True)) == pytest.approx(6)


def test_dynamic_programming_finds_the_best() -> None:
    answer = allocate(Question(figure_4(), 30))  # J13
    assert path_probes(figure_4(), answer) == pytest.approx({"a": 30, "b": 0, "c": 0})
    assert answer.output == pytest.approx(8)


@pytest.mark.parametrize("budget", [*range(0, 60, 7), 41, 100, 333])
def test_oracle_all_combinations(budget: int) -> None:
    model = figure_4(rate=33.0)
    units = [whole_unit(path) for path in model.paths]
    best = max(
        sum(n * unit.output for n, unit in zip(times, units, strict=True))
        for times in itertools.product(*(range(unit.times + 1) for unit in units))
        if sum(n * unit.probes for n, unit in zip(times, units, strict=True)) <= budget
    )
    assert allocate(Question(model, budget)).output == pytest.approx(best)


def test_rows_without_a_whole_multiple_are_dealt_out_singly() -> None:
    rng = np.random.default_rng(0)
    model = random_model(rng, random_plan(rng, 4))
    assert {whole_unit(path).rows for path in model.paths} == {1}


def test_large_budgets_are_close_to_the_fractional_best() -> None:
    for model in some_models(10, seed=8):
        question = Question(model, 0.3 * sum(path.full_cost for path in model.paths))
        assert allocate(question).output >= 0.98 * fractional(question).output


def test_units_of_figure_10_are_single_rows_of_b() -> None:
    assert allocate(Question(figure_10(), 300)).output == pytest.approx(1250)
