"""The state manager on the paper's example (Figure 6; golden A8, A9, A14), and over plans of all shapes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from braided.policies.flush.question import Groups, Merge, Setting
from braided.policies.flush.state_manager import (
    at_or_below,
    buffer_seconds,
    decide,
    memory_rate,
    merge_seconds,
    owed_after_flush,
    results_per_row,
    top_down,
)
from tests.policies.flush.some_groups import PLANS, SETTING, groups

USUAL = Setting(**SETTING)
DISK, FLUSHED, UNIQUE = np.array([[300.0], [60]]), np.array([[140.0], [10]]), np.array([5.0])


def on_disk(disk: Any, owed: Any, **others: Any) -> Groups:
    return groups(np.zeros((2, len(owed))), disk_rows=disk, owed=owed, **others)


def test_a_flush_owes_what_meets_across_generations() -> None:
    assert owed_after_flush(DISK, FLUSHED, UNIQUE).tolist() == [2280]
    assert owed_after_flush(DISK * 0, FLUSHED, UNIQUE).tolist() == [0]
    assert owed_after_flush(DISK, FLUSHED * 0, UNIQUE * 0).tolist() == [0]


def test_what_three_inputs_owe_is_every_mixture_of_generations() -> None:
    disk, flushed = (2.0, 3.0, 4.0), (5.0, 1.0, 2.0)
    every = sum(math.prod(rows) for rows in itertools.product(*zip(disk, flushed, strict=True)))
    mixed = every - math.prod(disk) - math.prod(flushed)
    found = owed_after_flush(np.array([disk]).T, np.array([flushed]).T, np.array([2.0]))
    assert found.tolist() == [mixed / 4]


def test_owed_adds_up_over_flushes_however_rows_are_split() -> None:
    rng = np.random.default_rng(3)
    for inputs in (2, 3, 4):
        flushes = rng.integers(0, 20, (5, inputs, 6))
        disk, owed, unique = np.zeros((inputs, 6)), np.zeros(6), rng.integers(1, 9, 6).astype(float)
        for rows in flushes:
            owed += owed_after_flush(disk, rows, unique)
            disk += rows
        met = np.prod(flushes, axis=1).sum(axis=0)
        np.testing.assert_allclose(owed, (np.prod(disk, axis=0) - met) / unique ** (inputs - 1))


def test_results_per_row_of_the_paper_and_of_what_is_on_disk_by_then() -> None:
    assert results_per_row(on_disk(DISK, [2280]))[0] == pytest.approx(6.33, abs=0.005)
    assert results_per_row(on_disk(DISK + FLUSHED, [2280]))[0] == pytest.approx(4.4706, abs=5e-5)
    half = on_disk(DISK, [2280], local=[8], overall=[4], parent=1)
    assert results_per_row(half)[0] == pytest.approx(2280 / 360 / 2)


def test_a_merge_must_end_before_the_buffer_is_full() -> None:
    group = on_disk(DISK + FLUSHED, [2280], arrived=[[300], [100]])
    assert merge_seconds(group, USUAL).tolist() == [5.1]
    assert buffer_seconds([group], USUAL) == 12.5
    assert decide([group], USUAL).merge == Merge(0, 0)
    small = Setting(interval_s=5, disk_rate=100, buffer_rows=408)  # 5.1 s: not longer than the merge
    decision = decide([group], small)
    assert decision.merge is None
    assert decision.reason == (
        "join would merge group 0: 447.1 results a second from disk, 0 from memory;"
        " 5.1 s, the buffer lasts 5.1 s"
    )


def test_rows_for_operators_below_fill_the_buffer_too() -> None:
    lower = groups([[0], [0]], arrived=[[600], [600]], parent=1)
    root = on_disk(DISK + FLUSHED, [2280], arrived=[[300], [100]])
    assert decide([root], USUAL).merge is not None
    assert decide([lower, root], USUAL).merge is None  # 3.1 s


def test_a_shorter_merge_is_begun_if_the_best_is_too_long() -> None:
    group = on_disk([[900, 40], [100, 10]], [9000, 300], arrived=[[500, 0], [500, 0]])
    assert decide([group], USUAL).merge == Merge(0, 1)


def test_silence_leaves_all_the_time() -> None:
    decision = decide([on_disk(DISK, [2280])], Setting(interval_s=5, disk_rate=100, buffer_rows=0))
    assert decision.merge == Merge(0, 0)
    assert decision.reason.endswith("3.6 s, nothing arrives")


def test_memory_has_to_be_beaten_as_it_counts() -> None:
    group = on_disk([[50], [50]], [200], local=[1000], overall=[1000])
    assert memory_rate(group, USUAL) == 200 == results_per_row(group)[0] * USUAL.disk_rate
    assert decide([group], USUAL).merge is None
    less = Setting(interval_s=5, disk_rate=100, buffer_rows=1000, memory_weight=0.9)
    assert memory_rate(group, less) == 180
    assert decide([group], less).merge == Merge(0, 0)


def test_the_first_operator_from_the_root_that_gains_merges_and_those_below_wait() -> None:
    """Figure 6(a): the third of four joins merges, the fourth goes on in memory."""
    rich = {"local": [9], "overall": [9]}
    plan = [
        on_disk([[50], [50]], [900], parent=1),
        on_disk([[50], [50]], [9000], parent=2),
        on_disk([[50], [50]], [500], parent=3, **rich),
        on_disk([[50], [50]], [0], **rich),
    ]
    assert decide(plan, USUAL).merge == Merge(2, 0)
    assert at_or_below(plan, 2) == {0, 1, 2}


def test_of_siblings_the_one_that_promises_more_goes_first() -> None:
    left, right = on_disk([[50], [50]], [300], parent=2), on_disk([[50], [50]], [400], parent=2)
    root = groups([[5], [5]])
    assert list(top_down([left, right, root])) == [2, 1, 0]
    assert decide([left, right, root], USUAL).merge == Merge(1, 0)
    assert at_or_below([left, right, root], 1) == {1}


def test_results_that_go_nowhere_are_not_merged() -> None:
    lower = on_disk([[50], [50]], [300], local=[9], overall=[0], parent=1)
    decision = decide([lower, groups([[5], [5]])], USUAL)
    assert decision.merge is None
    assert decision.reason == "join: nothing is expected from disk; join: nothing is expected from disk"


def test_every_operator_is_asked_after_the_one_above() -> None:
    for plan in PLANS:
        order = list(top_down(plan))
        assert sorted(order) == list(range(len(plan)))
        for i, known in enumerate(plan):
            assert known.parent is None or order.index(known.parent) < order.index(i)


def test_those_below_wait_and_no_merge_overruns_the_buffer() -> None:
    for plan in PLANS:
        for rows in (0.0, 30.0, 1000.0, math.inf):
            setting = Setting(interval_s=5.0, disk_rate=500.0, buffer_rows=rows)
            decision = decide(plan, setting)
            if decision.merge is None:
                continue
            operator, group = decision.merge
            below = at_or_below(plan, operator)
            assert all((i in below) == (operator in _above(plan, i)) for i in range(len(plan)))
            waiting = [plan[i] for i in below]
            takes = plan[operator].disk_rows[:, group].sum() / 500.0
            assert takes < buffer_seconds(waiting, setting)
            promised = results_per_row(plan[operator])[group] * 500.0
            assert promised > memory_rate(plan[operator], setting)


def _above(plan: list[Groups], operator: int) -> set[int]:
    """The operator and all that its rows pass."""
    at: int | None = operator
    found = set()
    while at is not None:
        found.add(at)
        at = plan[at].parent
    return found
