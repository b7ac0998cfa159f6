"""BestHJP (golden J2)."""

from __future__ import annotations

import pytest

from braided.policies.allocation.heuristics import best_halfjoin as allocate
from braided.policies.allocation.question import Question
from braided.policies.plan_model import plan_model
from braided.query.plan_tree import HalfJoin, Plan, flat
from tests.policies.plans import AB, figure_2a, figure_10


def test_the_papers_example() -> None:
    answer = allocate(Question(figure_2a(), 300))
    assert answer.allowances == {HalfJoin("a", "b"): 0.0, HalfJoin("b", "a"): 300.0}
    assert answer.output == 1500  # J2


def test_what_the_better_half_join_cannot_use_goes_to_the_other() -> None:
    answer = allocate(Question(figure_2a(), 900))
    assert answer.allowances == {HalfJoin("a", "b"): 200.0, HalfJoin("b", "a"): 700.0}
    assert answer.output == pytest.approx(700 * 5 + 200 * 2.5)


def test_in_a_plan_of_two_operators_it_feeds_who_may_not_go_on() -> None:
    answer = allocate(Question(figure_10(), 300))
    assert answer.allowances[HalfJoin("b", "a")] == 300
    assert answer.expected.skipped[HalfJoin(AB, "c")] == 1500
    assert answer.output == 0


def test_in_a_wide_operator_a_direction_counts_as_a_whole() -> None:
    selectivity: dict[Plan | HalfJoin, float] = {flat("abc"): 0.1}
    selectivity |= {HalfJoin("a", "b"): 0.001, HalfJoin("a", "c"): 0.9}  # the second is worth nothing alone
    model = plan_model(
        flat("abc"),
        dict.fromkeys("abc", 10.0),
        sizes=dict.fromkeys(flat("abc"), 10.0),
        selectivity=selectivity,
    )
    answer = allocate(Question(model, 4))
    assert answer.allowances[HalfJoin("a", "c")] == 0
    assert answer.output == pytest.approx(2)
