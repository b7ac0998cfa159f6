"""A side's arrays moved, grown, compacted, renumbered and undone hold the same rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.sides import payload, side
from braided.engine.sides.side import Rows, SideState
from braided.testing import assert_same_bag, expected
from tests.workloads import names_of, random_tables, stream


def rows(start: int, count: int) -> Rows:
    numbers = np.arange(start, start + count)
    return Rows(pa.record_batch({"v": numbers}), numbers * 7919 % 13, numbers.copy())


def held(state: SideState) -> list[int]:
    return [v for r in state.contents() for v in r.batch.column(0).to_pylist()]


def test_rows_survive_moves_growth_and_expiry() -> None:
    state = SideState("a", pa.schema([("v", pa.int64())]))
    for start in range(0, 5000, 37):
        state.append(rows(start, 37))
        state.expire(start - 400)
        assert held(state) == list(range(max(0, start - 400), start + 37))
        assert state.rows == len(held(state))


def test_undo_takes_back_exactly_what_was_appended() -> None:
    state = SideState("a", pa.schema([("v", pa.int64())]))
    state.append(rows(0, 50))
    mark = state.reserve(500)
    before = held(state), state._head.copy()
    state.append(rows(50, 500))
    state.undo(mark)
    assert held(state) == before[0]
    assert np.array_equal(state._head, before[1])


def test_small_positions_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are 32-bit; a stream longer than that starts them anew. Here they are 7-bit."""
    monkeypatch.setattr(side, "_MAX_POSITION", 160)
    monkeypatch.setattr(side, "_MIN_ROWS", 2)
    monkeypatch.setattr(payload, "MERGED_ROWS", 5)
    names = names_of(3)
    query = bd.JoinQuery([stream(n, "20 us") for n in names])
    for seed in range(5):
        tables = random_tables(seed, names, rows=400, keys=20, span_us=1500)
        assert_same_bag(bd.run_local(query, tables, batch_rows=11), expected(query, tables))


def test_more_rows_than_positions_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side, "_MAX_POSITION", 100)
    state = SideState("orders", pa.schema([("v", pa.int64())]))
    with pytest.raises(bd.BraidedError, match="'orders'"):
        state.append(rows(0, 101))
