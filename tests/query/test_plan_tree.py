"""Shapes of plans."""

from __future__ import annotations

import pytest

from braided.query.errors import BraidedError
from braided.query.plan_tree import (
    HalfJoin,
    Plan,
    ascent,
    flat,
    half_joins,
    intermediates,
    label,
    leaves,
    linear,
    operators,
    read_plan,
)

BUSHY: Plan = (("a", "b"), ("c", "d"))
WIDE: Plan = (("a", "b", "c"), "d")


def test_operators_come_after_their_producers() -> None:
    for plan in (BUSHY, WIDE, linear("abcde"), flat("abc")):
        seen: set[Plan] = set(leaves(plan))
        for operator in operators(plan):
            assert seen.issuperset(operator)
            seen.add(operator)


def test_a_binary_tree_has_two_half_joins_for_each_operator() -> None:
    assert len(half_joins(BUSHY)) == 6
    assert len(half_joins(linear("abcd"))) == 6


def test_the_flat_plan_has_a_half_join_for_each_ordered_pair() -> None:
    assert len(half_joins(flat("abcd"))) == 12
    assert intermediates(flat("abcd")) == ()


def test_orders_change_the_sequence_of_a_wide_operators_half_joins() -> None:
    orders: dict[Plan, tuple[Plan, ...]] = {"a": ("c", "b"), "b": ("a", "c"), "c": ("a", "b")}
    assert half_joins(flat("abc"), orders)[:2] == (HalfJoin("a", "c"), HalfJoin("a", "b"))


def test_own_states_lead_from_the_leaf_to_below_the_root() -> None:
    assert ascent(WIDE, "b") == ("b", ("a", "b", "c"))
    assert ascent(WIDE, "d") == ("d",)
    assert ascent(linear("abcd"), "a") == ("a", ("a", "b"), (("a", "b"), "c"))


def test_labels_are_short() -> None:
    assert str(HalfJoin(("a", "b"), ("c", "d"))) == "(a b)>(c d)"
    assert label(linear("abc")) == "((a b) c)"


@pytest.mark.parametrize(
    ("plan", "says"),
    [("a", "nested tuples"), ((("a",), "b"), "at least two"), (("a", ("b", "a")), "two names")],
)
def test_plans_that_cannot_be_meant_are_refused(plan: Plan, says: str) -> None:
    with pytest.raises(BraidedError, match=says):
        read_plan(plan, "ab")
