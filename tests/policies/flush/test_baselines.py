"""What the rivals flush, on small examples (golden H1 for hash-merge)."""

from __future__ import annotations

import numpy as np
import pytest

from braided.policies.flush import hash_merge
from braided.policies.flush.question import Flush
from braided.policies.flush.registry import largest, met, productivity, rpj, state_spill
from tests.policies.flush.some_groups import groups

H1 = np.array([[4.0, 11, 13, 6, 25], [12, 13, 10, 4, 2]])


@pytest.mark.parametrize(("a", "b", "group"), [(10, 0.25, 1), (10, 0.1, 2), (1, 0.1, 4)])
def test_adaptive_of_hash_merge(a: float, b: float, group: int) -> None:
    assert hash_merge.adaptive(H1, least_rows=a, balance=b) == group
    assert hash_merge.adaptive(H1[::-1], least_rows=a, balance=b) == group
    assert hash_merge.choose([groups(H1)], 1, least_rows=a, balance=b) == [Flush(0, group)]


def test_hash_merge_looks_again_after_every_group() -> None:
    """Without 4 there are 34 and 39: balanced, and so without 1; then no group keeps 23 and 26 balanced."""
    found = hash_merge.choose([groups(H1)], 8 * 60, least_rows=1, balance=0.1)
    assert [flush.group for flush in found] == [4, 1, 2]


def test_hash_merge_asks_the_operator_that_holds_the_most() -> None:
    small, large = groups([[5, 5], [5, 5]]), groups([[20, 4], [20, 4]])
    assert hash_merge.choose([small, large], 8 * 45) == [Flush(1, 0), Flush(0, 0)]


def test_hash_merge_of_three_inputs_goes_by_the_largest_and_the_smallest() -> None:
    rows = np.array([[30.0, 20, 12], [5, 40, 12], [5, 6, 12]])  # 62, 57, 23
    assert hash_merge.adaptive(rows, least_rows=1, balance=0.1) == 0  # leans to the first input
    assert hash_merge.adaptive(rows, least_rows=10, balance=0.9) == 2  # has ten of each
    never_largest = np.array([[4.0, 4], [5, 0], [0, 5]])
    assert hash_merge.adaptive(never_largest, balance=0.0) == 0


def test_state_spill_counts_intermediates_downstream() -> None:
    known = groups([[50, 50], [50, 50]], overall=[40, 50])
    assert productivity(known).tolist() == [0.4, 0.5]
    assert state_spill([known], 1) == [Flush(0, 0)]
    costly = groups([[50, 50], [50, 50]], overall=[40, 50], downstream=[0, 100])
    assert productivity(costly).tolist() == [0.4, 0.25]
    assert state_spill([costly], 1) == [Flush(0, 1)]


def test_rpj_keeps_what_waits_for_the_other_input() -> None:
    plan = [groups([[9, 9], [9, 9]], arrived=[[8, 1], [6, 5]])]
    assert met(plan)[0].tolist() == [[0.3, 0.25], [0.4, 0.05]]
    assert rpj(plan, 80) == [Flush(0, 1, 1), Flush(0, 1, 0)]


def test_rpj_compares_operators_and_adds_up_other_inputs() -> None:
    three = groups([[9], [9], [9]], arrived=[[2], [3], [4]])
    two = groups([[9], [9]], arrived=[[5.5], [5.5]])
    assert [a.ravel().tolist() for a in met([three, two])] == [[0.35, 0.3, 0.25], [0.275, 0.275]]
    assert rpj([three, two], 1) == [Flush(0, 0, 2)]


def test_the_largest_input_of_a_group_is_the_one_with_most_bytes() -> None:
    plan = [groups([[9, 2], [3, 3]], row_bytes=(2.0, 8.0)), groups([[1], [4]])]
    assert largest(plan, 33) == [Flush(1, 0, 1), Flush(0, 0, 1)]


def test_ties_go_to_what_frees_more_then_to_lower_numbers() -> None:
    plan = [groups([[3, 5, 3], [3, 5, 3]]), groups([[5, 5], [5, 5]])]
    found = [(flush.operator, flush.group) for flush in state_spill(plan, 1e9)]
    assert found == [(0, 1), (1, 0), (1, 1), (0, 0), (0, 2)]
    sides = [(flush.operator, flush.side, flush.group) for flush in rpj(plan[1:], 1e9)]
    assert sides == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
