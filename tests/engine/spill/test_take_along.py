"""Whether merges take rows in memory along: a group's rows stay there or go, and the results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.engine.site import Site
from braided.engine.spill.feature import Spilling
from braided.policies.arrays import Floats
from braided.testing import assert_same_bag, expected

QUERY = bd.JoinQuery([bd.Stream(n, "k") for n in "ab"])


def tables(seed: int = 1, rows: int = 2_000) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    return {n: pa.table({"k": rng.integers(0, 300, rows), "v": [f"{n:0300}"] * rows}) for n in "ab"}


def batches(rows: int = 100) -> Iterator[dict[str, pa.Table]]:
    data = tables()
    for at in range(0, data["a"].num_rows, rows):
        yield {n: t.slice(at, rows) for n, t in data.items()}


class Run:
    """A join of which the clock is ours: a batch a second, all of them before the first merge."""

    def __init__(self, **options: Any) -> None:
        self.now, self.found = 1.0, list[pa.Table]()
        memory = bd.Memory(300_000, groups=8, interval="1 second", **options)
        engine = self.engine = Engine(
            bd.JoinQuery(QUERY.streams, memory=memory), Site(clock=lambda: self.now)
        )
        self.spilling: Spilling = engine.core.features.get("spill")
        for batch in batches():
            self.found += engine.step(engine.accept(batch), eager=False)
            self.now += 1.0

    @property
    def in_memory(self) -> Floats:
        """Rows in memory by group."""
        (operator,) = self.spilling.tree.operators
        return np.asarray(self.spilling.disk.statistics.held(operator).sum(axis=0))

    def merge(self) -> tuple[int, int]:
        """Merge one group in a silent time; return the group, and how many results it gave."""
        merge = self.spilling.phase.decide(idle=True)
        assert merge is not None
        tables = list(next(iter(self.engine.before(idle=True))))
        self.found += tables
        return merge.group, sum(t.num_rows for t in tables)

    def finish(self) -> pa.Table:
        for step in self.engine.finish():
            self.found += step
        return pa.concat_tables(self.found)


def test_rows_in_memory_go_along_or_stay() -> None:
    whole, alone = Run(), Run(take_along=False)
    for run, stays in ((whole, False), (alone, True)):
        before = run.in_memory
        group, found = run.merge()
        assert before[group] > 0 < found
        assert run.in_memory[group] == (before[group] if stays else 0)
        assert np.delete(run.in_memory, group).tolist() == np.delete(before, group).tolist()
        assert_same_bag(run.finish(), expected(QUERY, tables()))


def test_what_rows_in_memory_owe_counts_only_if_they_go_along() -> None:
    whole, alone = Run(), Run(take_along=False)
    (operator,) = alone.spilling.tree.operators
    assert alone.spilling.disk.owed.sum() == alone.spilling.phase.owed(operator).sum()
    assert alone.engine.statistics().owed > alone.spilling.disk.owed.sum()  # the user sees all of it
    (operator,) = whole.spilling.tree.operators
    assert whole.spilling.phase.owed(operator).sum() > whole.spilling.disk.owed.sum()


def test_merges_that_leave_rows_in_memory_leave_more_for_the_end() -> None:
    left = []
    for run in (Run(), Run(take_along=False)):
        while run.spilling.phase.decide(idle=True) is not None:
            run.merge()
        early = sum(t.num_rows for t in run.found)
        left.append(run.finish().num_rows - early)
    assert left[0] == 0 < left[1]


@pytest.mark.parametrize(("disk_rate", "merges"), [(1e5, True), (100.0, False)])
def test_a_merge_is_not_begun_if_too_much_would_arrive_meanwhile(disk_rate: float, merges: bool) -> None:
    """An eighth of the limit, for it comes as one batch; results from memory count for nothing here."""
    run = Run(disk_rate=disk_rate, memory_weight=1e-9)
    assert bool([list(step) for step in run.engine.before()]) == merges
    assert ("would merge" in run.spilling.phase.reason) != merges
    assert "the buffer lasts" in run.spilling.phase.reason
    assert [list(step) for step in run.engine.before(idle=True)]  # nothing arrives: there is time
