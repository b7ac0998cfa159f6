"""What promises bound, a memory budget in Spark's buckets does not unbound: rows held after a stall."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from pathlib import Path

import pytest

import braided as bd
from braided.spark.storage import folders
from braided.testing import bag
from tests.engine.spill import test_stalls as local
from tests.spark.test_bucket import Cluster
from tests.spark.test_cold import cold_rows
from tests.spark.test_promises import stored_rows


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize(("silent", "window"), [("access", None), ("news", "20000 us")])
def test_after_a_stall_buckets_hold_no_more_than_twice_what_they_hold_without(
    silent: str, window: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, defer: bool
) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    schemas = next(local.batches(silent, 1))
    free, bounded = (
        Cluster(bd.JoinQuery(local.streams(window, "0 us"), memory=memory), schemas, arena=memory is None)
        for memory in (None, bd.Memory(20_000, defer=defer))
    )
    found: list[Counter[tuple[object, ...]]] = [Counter(), Counter()]
    cold = 0
    for number, batch in enumerate(itertools.islice(local.batches(silent, 1), 45)):
        before = copy.deepcopy(bounded.states)
        found[0] += bag(free.push(batch))
        found[1] += (made := bag(bounded.push(batch)))
        if number % 10 == 0:  # a retry
            bounded.states = before
            assert bag(bounded.push(batch)) == made
        cold = max(cold, cold_rows(bounded))
    assert cold > 2 * local.KEYS
    held = sum(stored_rows(bounded).values()) + cold_rows(bounded)
    latest = 6 * local.KEYS if defer else 0  # rows that wait for the next batch to meet those on disk
    assert held <= 2 * sum(stored_rows(free).values()) + latest
    if not defer:
        assert found[0] == found[1]
