"""One contract for all flush policies and all disk phases, over plans of all shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest

from braided.policies.flush.question import Flush, Groups, Setting
from braided.policies.flush.registry import FLUSHES, MERGES
from braided.policies.flush.state_manager import at_or_below
from braided.query import memory
from tests.policies.flush.some_groups import PLANS, SETTING

PARTS = (0.0, 0.01, 0.05, 0.5, 1.0, 3.0)
SETTINGS = [
    Setting(**SETTING),
    Setting(interval_s=0.5, disk_rate=1e4, buffer_rows=10.0, memory_weight=3.0),
    Setting(interval_s=5.0, disk_rate=1e6, buffer_rows=0.0),
    Setting(interval_s=5.0, disk_rate=0.0, buffer_rows=100.0),
]


def freed(plan: Sequence[Groups], flush: Flush) -> tuple[float, float]:
    """Rows and bytes."""
    rows = plan[flush.operator].rows[:, flush.group]
    sizes = rows * np.array(plan[flush.operator].row_bytes)
    if flush.side is None:
        return float(rows.sum()), float(sizes.sum())
    return float(rows[flush.side]), float(sizes[flush.side])


def in_memory(plan: Sequence[Groups]) -> float:
    return float(sum(groups.sizes.sum() for groups in plan))


def test_all_names_of_the_api_are_there() -> None:
    assert set(FLUSHES) == set(MERGES) == set(get_args(memory.Flush))


@pytest.mark.parametrize("name", FLUSHES)
def test_enough_is_freed_and_no_more_than_needed(name: str) -> None:
    for plan in PLANS:
        for part in PARTS:
            wanted = part * in_memory(plan)
            found = FLUSHES[name](plan, wanted)
            sizes = [freed(plan, flush)[1] for flush in found]
            assert sum(sizes) >= min(wanted, in_memory(plan))
            assert not found or sum(sizes[:-1]) < wanted


@pytest.mark.parametrize("name", FLUSHES)
def test_only_what_holds_rows_is_flushed_and_only_once(name: str) -> None:
    one_sided = memory.Memory("1 MB", flush=name).one_sided  # type: ignore[arg-type]
    for plan in PLANS:
        found = FLUSHES[name](plan, 0.6 * in_memory(plan))
        assert len(set(found)) == len(found)
        for flush in found:
            assert freed(plan, flush)[0] > 0
            assert (flush.side is not None) == one_sided
            assert all(type(n) is int for n in flush if n is not None)


@pytest.mark.parametrize("name", FLUSHES)
def test_a_flush_depends_on_nothing_but_the_numbers(name: str) -> None:
    for plan in PLANS:
        before = [groups.rows.copy() for groups in plan]
        wanted = 0.3 * in_memory(plan)
        assert FLUSHES[name](plan, wanted) == FLUSHES[name](plan, wanted)
        assert all((groups.rows == rows).all() for groups, rows in zip(plan, before, strict=True))


@pytest.mark.parametrize("name", MERGES)
def test_only_what_is_on_disk_and_owed_is_merged(name: str) -> None:
    for plan in PLANS:
        for setting in SETTINGS:
            decision = MERGES[name](plan, setting)
            assert decision == MERGES[name](plan, setting)
            assert decision.reason
            assert "nan" not in decision.reason
            if decision.merge is not None:
                operator, group = decision.merge
                assert plan[operator].owed[group] > 0
                assert plan[operator].disk_rows[:, group].sum() > 0


@pytest.mark.parametrize("name", ["hash-merge", "rpj", "largest"])
def test_rivals_merge_only_where_all_inputs_are_silent(name: str) -> None:
    merged = 0
    for plan in PLANS:
        decision = MERGES[name](plan, SETTINGS[0])
        if decision.merge is not None:
            assert all(plan[decision.merge.operator].silent)
            merged += 1
    assert merged > 10


def test_plans_are_of_every_kind() -> None:
    assert {len(plan) for plan in PLANS} == {0, 1, 2, 3, 4, 5}
    assert {len(groups.rows) for plan in PLANS for groups in plan} >= {2, 3, 8}
    decisions = [MERGES["adaptive-global"](plan, SETTINGS[0]) for plan in PLANS]
    assert sum(decision.merge is not None for decision in decisions) > 20
    merging = [(plan, d.merge.operator) for plan, d in zip(PLANS, decisions, strict=True) if d.merge]
    assert sum(len(at_or_below(plan, operator)) > 1 for plan, operator in merging) > 10
