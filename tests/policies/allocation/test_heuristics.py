"""The paper's four heuristics on Figure 10 (golden J4-J7; the paper's SBestHJP is wrong)."""

from __future__ import annotations

import pytest

from braided.policies.allocation.heuristics import (
    equal_best,
    equal_halfjoin,
    global_productivity,
    selectivity_best,
)
from braided.policies.allocation.question import Allocation, Question
from braided.policies.flow import predict
from braided.policies.sharing import fill
from braided.query.plan_tree import HalfJoin
from tests.policies.plans import AB, figure_10, some_models

FIGURE_10 = Question(figure_10(), 300)


def outputs(answer: Allocation) -> tuple[float, float]:
    return answer.expected.arrivals[AB], answer.output


def allowed(answer: Allocation) -> list[float]:
    return list(answer.allowances.values())


def test_equal_halfjoin() -> None:
    answer = equal_halfjoin(FIGURE_10)
    assert allowed(answer) == [75, 75, 75, 75]
    assert outputs(answer) == (412.5, 450)  # J4


def test_global_productivity() -> None:
    answer = global_productivity(FIGURE_10)
    exact = [13.043478260869565, 130.43478260869566, 130.43478260869566, 26.08695652173913]
    assert allowed(answer) == pytest.approx(exact)
    assert outputs(answer) == pytest.approx((658.695652173913, 678.2608695652174))  # J5b


def test_equal_best() -> None:
    answer = equal_best(FIGURE_10)
    assert allowed(answer) == [0, 150, 150, 0]
    assert outputs(answer) == (750, 750)  # J6
    assert answer.expected.skipped[HalfJoin(AB, "c")] == 600


def test_selectivity_best_as_corrected() -> None:
    answer = selectivity_best(FIGURE_10)
    assert allowed(answer) == pytest.approx([0, 50, 250, 0])
    assert outputs(answer) == pytest.approx((250, 1250))  # J7: the paper has 150 and 750, and 100 wasted
    assert answer.spent - answer.expected.spent == pytest.approx(0)


ALL = [equal_halfjoin, global_productivity, equal_best, selectivity_best]


def test_what_caps_leave_over_is_not_used() -> None:
    plenty = Question(figure_10(), 3000)
    assert allowed(equal_halfjoin(plenty)) == [500, 700, 750, 300]
    assert all(policy(plenty).spent < 3000 for policy in ALL[:3])


def test_what_caps_leave_over_goes_to_others_if_redistributed() -> None:
    plenty = Question(figure_10(), 3000)
    answer = equal_halfjoin(plenty, share=fill)  # 300 rows of c, 500 of a, 700 of b, the rest to ab
    assert allowed(answer) == [500, 700, 1500, 300]
    assert [p(plenty, share=fill).spent for p in ALL] == pytest.approx([3000] * 4)


def test_redistributed_they_saturate_with_enough() -> None:
    for model in some_models(20, seed=7):
        full = predict(model)
        for policy in ALL:
            answer = policy(Question(model, full.spent * 1.001), share=fill)
            assert answer.output == pytest.approx(full.output)
            assert answer.spent <= full.spent * 1.001


def test_redistribution_never_takes_from_anybody() -> None:
    for model in some_models(20, seed=12):
        question = Question(model, 0.3 * predict(model).spent)
        for policy in ALL:
            more = policy(question, share=fill).allowances
            less = policy(question).allowances
            assert all(more[h] >= n * (1 - 1e-9) for h, n in less.items())
