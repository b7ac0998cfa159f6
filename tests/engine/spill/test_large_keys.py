"""A key whose own rows are more than the budget: merged in blocks, exact, and never all in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.sides.side import Rows, SideState
from braided.engine.spill import disk
from braided.engine.spill.disk_phase import DiskPhase
from braided.testing import assert_same_bag, expected
from tests.engine.spill.test_spilling import FLUSHES
from tests.seeds import seeds

LIMIT = 60_000


@pytest.fixture(autouse=True)
def _nothing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "AT_ONCE_BYTES", 0)


def hot(seed: int, rows: int, *, hot_rows: float, batches: int = 12) -> list[pa.Table]:
    """Batches with a key that has most of the rows."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(rows) < hot_rows, 7, rng.integers(0, 60, rows))
    times = pa.array(np.sort(rng.integers(0, 1000, rows)), pa.timestamp("us"))
    table = pa.table({"k": keys, "n": np.arange(rows), "t": times, "v": [f"{n:0100}" for n in range(rows)]})
    return [table.slice(i * rows // batches, rows // batches) for i in range(batches)]


@pytest.mark.parametrize("flush", FLUSHES)
@pytest.mark.parametrize("turn", seeds(2))
def test_oracle_a_key_larger_than_the_budget(flush: Any, turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 5 * turn + FLUSHES.index(flush)
    most, real = 0, DiskPhase._side

    def watched(phase: DiskPhase, child: Any, rows: Rows, slices: int) -> SideState:
        nonlocal most
        if isinstance(child, str):  # what a batch makes of lower operators is there at once
            most = max(most, rows.batch.nbytes)
        return real(phase, child, rows, slices)

    monkeypatch.setattr(DiskPhase, "_side", watched)
    defer = (True, False)[seed // 2 % 2]
    windows: Any = ("unbounded", "700 us")[seed % 2]
    plan: Any = "linear" if seed % 3 == 2 else "mjoin"
    streams = [bd.Stream(n, "k", time="t", window=windows, lateness="50 us") for n in "abc"]
    given = [hot(seed, 1560, hot_rows=0.9), hot(seed + 1, 24, hot_rows=0.3), hot(seed + 2, 24, hot_rows=0.1)]
    memory = bd.Memory(LIMIT, flush=flush, defer=defer)
    live, found, spilled = bd.LocalJoin(bd.JoinQuery(streams, plan=plan, memory=memory)), [], 0
    for number, batches in enumerate(zip(*given, strict=True)):
        found.append(live.push(dict(zip("abc", batches, strict=True))))
        spilled = max(spilled, live.stats().streams["a"].spilled_rows)
        if number % 4 == 3 and not memory.one_sided:
            live = bd.LocalJoin(bd.JoinQuery(streams, plan=plan, memory=memory)).restore(live.snapshot())
    found.append(live.end())
    tables = {n: pa.concat_tables(batches) for n, batches in zip("abc", given, strict=True)}
    assert_same_bag(
        pa.concat_tables([t for t in found if t.num_columns]), expected(bd.JoinQuery(streams), tables)
    )
    assert spilled * 130 > 2 * LIMIT, spilled
    assert 0 < most < 1.5 * LIMIT, most  # smaller groups are read at once


def test_a_large_group_has_few_pieces() -> None:
    streams = [bd.Stream(n, "k") for n in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(streams, memory=bd.Memory(LIMIT, defer=False)))
    few = hot(1, 1, hot_rows=1, batches=1)[0].drop_columns("t")
    rows = 0
    for batch in hot(2, 1500, hot_rows=1, batches=150):
        rows += live.push({"a": batch.drop_columns("t"), "b": few.slice(0, 1 if not rows else 0)}).num_rows
    assert rows == 1500
    generations = live._engine.core.features.get("spill").disk.generations[0]
    assert len(list(generations)) < 60
    assert live.stats().streams["a"].spilled_rows > 1000
