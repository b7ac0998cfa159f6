"""A join activated once a period, with bounded buffers: rows wait, and none is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest

import braided as bd
from braided.testing import assert_same_bag, expected
from tests.seeds import seeds
from tests.workloads import names_of, random_tables, stream

NAMES = names_of(3)


def reports(tables: dict[str, pa.Table], **options: object) -> list[bd.BatchReport]:
    query = bd.JoinQuery([stream(n) for n in NAMES])
    seen: list[bd.BatchReport] = []
    result = bd.run_local(query, tables, on_batch=seen.append, **options)  # type: ignore[arg-type]
    assert_same_bag(result, expected(query, tables))
    assert sum(r.results for r in seen) == result.num_rows
    assert {n: sum(r.rows[n] for r in seen) for n in NAMES} == {n: tables[n].num_rows for n in NAMES}
    return seen


@pytest.mark.parametrize("buffer_rows", [1, 3, 10, 1000])
def test_oracle_full_buffers_hold_rows_back_and_lose_none(buffer_rows: int) -> None:
    for seed in seeds(2):
        seen = reports(random_tables(seed, NAMES), batch_period="17 us", buffer_rows=buffer_rows)
        assert max(max(r.rows.values()) for r in seen) <= buffer_rows
        held_back = any(any(r.held_back.values()) for r in seen)
        assert held_back or buffer_rows >= 10
        assert not held_back or buffer_rows < 1000
        assert not any(seen[-1].held_back.values())


def test_a_batch_is_a_period_and_says_how_idle_the_cpu_was() -> None:
    tables = random_tables(1, NAMES)
    seen = reports(tables, batch_period="17 us")
    assert 200 // 17 <= len(seen) <= 200 // 17 + 1
    assert {r.period_seconds for r in seen} == {17e-6}
    assert all(r.idle_share == 0.0 for r in seen)  # microseconds are too short for any work
    assert all(0.5 < (r.idle_share or 0) <= 1 for r in reports(tables, batch_period="1 hour"))
    assert all(r.idle_share is None for r in reports(tables, batch_rows=9))


def test_bounded_buffers_need_a_period() -> None:
    tables = random_tables(1, NAMES)
    query = bd.JoinQuery([stream(n) for n in NAMES])
    with pytest.raises(bd.BraidedError, match="give one"):
        bd.run_local(query, tables, buffer_rows=5)
    with pytest.raises(bd.BraidedError, match="buffer_rows must be at least 1"):
        bd.run_local(query, tables, batch_period="1 s", buffer_rows=0)
