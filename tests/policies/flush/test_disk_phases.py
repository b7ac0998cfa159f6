"""When rivals of the state manager merge, and what."""

from __future__ import annotations

from typing import Any

from braided.policies.flush.question import Groups, Merge, Setting
from braided.policies.flush.registry import best_task, largest_part, most_owed, never
from tests.policies.flush.some_groups import SETTING, groups

USUAL = Setting(**SETTING)


def on_disk(**others: Any) -> Groups:
    """Group 0 owes the most per row, group 1 the most, group 2 is the largest, and 3 owes nothing."""
    disk = [[10, 90, 200, 900], [10, 10, 0, 900]]
    return groups([[1] * 4, [1] * 4], disk_rows=disk, owed=[80, 100, 50, 0], **others)


def test_each_takes_the_group_it_thinks_best() -> None:
    plan = [on_disk(silent=(True, True))]
    merges = [phase(plan, USUAL).merge for phase in (never, best_task, most_owed, largest_part)]
    assert merges == [None, Merge(0, 0), Merge(0, 1), Merge(0, 2)]


def test_one_input_that_brings_rows_is_enough_to_wait() -> None:
    for silent in ((True, False), (False, False), ()):
        plan = [on_disk(silent=silent)]
        assert all(phase(plan, USUAL).merge is None for phase in (best_task, most_owed, largest_part))


def test_an_operator_merges_whatever_arrives_below() -> None:
    plan = [on_disk(silent=(True, False), parent=1), on_disk(silent=(True, True))]
    decision = most_owed(plan, USUAL)
    assert decision.merge == Merge(1, 1)
    assert decision.reason == (
        "join is silent and merges group 1: 100 results are owed, 100 rows are read in 1 s"
    )


def test_of_equals_the_lower_operator_goes_first() -> None:
    plan = [on_disk(silent=(True, True), parent=1), on_disk(silent=(True, True))]
    assert most_owed(plan, USUAL).merge == Merge(0, 1)


def test_state_spill_waits_for_the_end() -> None:
    plan = [on_disk(silent=(True, True))]
    assert never(plan, USUAL).reason == "groups on disk wait for the end of all streams"
