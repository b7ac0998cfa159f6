"""GrePP (golden J9, J14); how near it comes to the best of all allocations is a test of the lab."""

from __future__ import annotations

import pytest

from braided.policies.allocation.greedy_path import allocate
from braided.policies.allocation.question import Question
from braided.policies.flow import predict
from braided.query.plan_tree import HalfJoin
from tests.policies.plans import AB, figure_4, figure_10, path_probes, some_models


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
    model = figure_4(rate=11.0)
    assert path_probes(model, allocate(Question(model, 30))) == pytest.approx({"a": 14, "b": 16, "c": 0})


def test_nothing_produced_is_left_over() -> None:
    for model in some_models(30, seed=9):
        answer = allocate(Question(model, 0.4 * predict(model).spent))
        assert answer.spent - answer.expected.spent == pytest.approx(0, abs=1e-6)
        between = [h for h in model.half_joins if isinstance(h.driver, tuple)]
        assert [answer.expected.skipped[h] for h in between] == pytest.approx([0] * len(between), abs=1e-6)
