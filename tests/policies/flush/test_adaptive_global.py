"""AdaptiveGlobalFlush on the paper's example (Figure 4; golden A1-A7)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from braided.policies.flush.adaptive_global import (
    arrived_in_all,
    choose,
    expected_overall,
    expected_results,
    expected_rows,
    score,
    scores,
)
from braided.policies.flush.question import Flush, Groups
from braided.policies.flush.state_manager import overall_share
from tests.policies.flush.some_groups import groups

N = 2000


def join_ab() -> Groups:
    return groups(
        [[150, 100], [30, 15]],
        row_bytes=(10.0, 8.0),
        arrived=[[30, 6], [20, 4]],
        unique=[5, 5],
        local=[50, 80],
        overall=[50, 40],
        parent=1,
    )


def join_abc() -> Groups:
    return groups([[50, 50], [50, 50]], arrived=[[10, 10], [10, 10]], local=[900, 900], overall=[900, 900])


def test_rows_are_expected_as_they_arrived_in_the_whole_plan() -> None:
    plan = [join_ab(), join_abc()]
    assert arrived_in_all(plan) == 100
    expected = expected_rows(plan[0].arrived, 100, plan[0].row_bytes, N)
    assert expected[:, 1].tolist() == [12, 10]


def test_local_results_are_those_of_stored_and_new_rows() -> None:
    a, b, unique = np.array([[100.0], [0]]), np.array([[0.0], [15]]), np.array([5.0])
    new_a, new_b = np.array([[12.0], [0]]), np.array([[0.0], [10]])
    assert expected_results(a, new_b, unique).tolist() == [200]
    assert expected_results(b, new_a, unique).tolist() == [36]
    assert expected_results(a * 0, new_a + new_b, unique).tolist() == [24]
    assert expected_results(a + b, new_a + new_b, unique).tolist() == [260]


def test_a_group_is_worth_its_overall_results_per_row() -> None:
    group = join_ab()
    assert overall_share(group).tolist() == [1, 0.5]
    assert scores(group, 100, group.row_bytes, N)[1] == pytest.approx(130 / 115)
    assert round(float(scores(group, 100, group.row_bytes, N)[1]), 4) == 1.1304


def test_of_equal_promises_the_smaller_group_is_better() -> None:
    assert score(np.array([25.0, 25]), np.array([[10.0, 4], [10, 6]])).tolist() == [1.25, 2.5]


def test_bytes_of_all_inputs_count_and_one_group_may_not_be_enough() -> None:
    plan = [join_ab(), join_abc()]
    assert plan[0].sizes.tolist() == [1740, 1120]
    found = choose(plan, N)
    assert found[0] == Flush(0, 1)
    assert len(found) == 2
    assert choose(plan[:1], 1120) == choose(plan[:1], 1) == [Flush(0, 1)]
    assert choose(plan[:1], 1121) == [Flush(0, 1), Flush(0, 0)]


def test_three_inputs_are_counted_by_all_combinations_with_a_new_row() -> None:
    rows, new = np.array([[2.0], [3], [4]]), np.array([[1.0], [0], [1]])
    assert expected_results(rows, new, np.array([2.0])).tolist() == [(3 * 3 * 5 - 2 * 3 * 4) / 4]


def test_whole_numbers_of_eight_inputs_do_not_overflow() -> None:
    rows = np.full((8, 1), 10**6)
    found = expected_results(rows, np.ones((8, 1)), np.array([10**6]))
    assert found[0] == pytest.approx(8e42 / 1e42, rel=1e-4)


def test_without_local_results_the_root_keeps_all_and_others_their_usual_share() -> None:
    rows = [[5, 5, 5], [5, 5, 5]]
    assert overall_share(groups(rows, local=[10, 0, 30], overall=[5, 0, 5], parent=1)).tolist() == [
        0.5,
        0.25,
        5 / 30,
    ]
    assert overall_share(groups(rows, local=[10, 0, 30], overall=[10, 0, 30])).tolist() == [1, 1, 1]
    assert overall_share(groups(rows, parent=1)).tolist() == [1, 1, 1]


def test_what_an_average_has_left_of_local_results_long_past_counts_as_none() -> None:
    """Results of old rows by a local count that had been halved forty times made a share of 10 ** 9."""
    rows = [[5, 5], [5, 5]]
    assert overall_share(groups(rows, local=[1e-12, 4], overall=[3, 1], parent=1)).tolist() == pytest.approx(
        [1, 0.25]
    )
    assert overall_share(groups(rows, local=[1e-12, 0.5], overall=[3, 1], parent=1)).tolist() == [1, 1]


def test_a_group_whose_results_go_nowhere_is_flushed_before_a_silent_root() -> None:
    lower = groups([[9], [9]], arrived=[[50], [50]], local=[90], overall=[0], parent=1)
    root = groups([[9], [9]], arrived=[[1], [1]], local=[1], overall=[1])
    assert choose([lower, root], 1) == [Flush(0, 0)]


def test_as_much_as_there_is_may_be_asked_for() -> None:
    assert len(choose([join_ab(), join_abc()], float("inf"))) == 4


def test_rows_that_a_group_has_made_above_count_with_its_own() -> None:
    """Seen against hindsight in the lab: groups that fill the operators above were thought small."""
    plain = join_ab()
    heavy = dataclasses.replace(plain, downstream=np.array([0.0, 115]))
    assert (scores(plain, 100, (10, 8), N) / scores(heavy, 100, (10, 8), N)).tolist() == [1, 2]


def test_local_results_correct_those_observed_within_bounds() -> None:
    """Rows are expected twice: local results by those of a forgetting average were 10 ** 12 times as many."""
    given = groups(np.full((2, 5), 10), arrived=np.full((2, 5), 5), local=[0, 1e-12, 2, 300, 1e9],
                   overall=[3, 3, 3, 3, 0], parent=1)  # fmt: skip
    found = expected_overall(given, given.arrived * 2)  # 300 local results of each group
    assert found.tolist() == [3 * 8, 3 * 8, 3 * 8, 3, 0]
    assert expected_overall(given, given.arrived * 0).tolist() == [0] * 5


def test_wide_rows_are_expected_as_often_as_they_come() -> None:
    """Operators above, with wide rows, were thought to get fewer rows for the same share of arrivals."""
    few = {"arrived": [[5, 5], [5, 5]], "local": [100, 100], "overall": [100, 100]}
    lower = groups(np.full((2, 2), 20), row_bytes=(10.0, 10.0), parent=1, **few)
    root = groups(np.full((2, 2), 19), row_bytes=(90.0, 10.0), **few)
    assert [flush.operator for flush in choose([lower, root], 300)] == [0]
