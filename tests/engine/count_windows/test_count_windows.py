"""Count windows: a row leaves when enough newer ones came, and results wait until that is certain."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import (
    assert_same_bag,
    end,
    expect_results,
    expected,
    push,
    restore,
    run_script,
    snapshot,
)
from tests.seeds import seeds
from tests.workloads import BATCH_ROWS, names_of, random_tables, stream


def row(k: int, t: int) -> dict[str, Any]:
    return {"k": k, "t": t}


@pytest.mark.parametrize("batch_rows", BATCH_ROWS)
@pytest.mark.parametrize("per", ["key", "stream"])
def test_oracle_count_windows(per: str, batch_rows: int) -> None:
    names = names_of(3)
    for seed in seeds(4):
        rows = 1 + seed
        counted = bd.CountWindow(rows, per=per)  # type: ignore[arg-type]
        query = bd.JoinQuery([stream("s0", counted), stream("s1", "25 us"), stream("s2", counted)])
        tables = random_tables(seed, names, keys=4, span_us=60)
        result = bd.run_local(query, tables, batch_rows=batch_rows)
        assert_same_bag(result, expected(query, tables))


def test_count_window_results_wait_for_the_watermark_and_the_rest_for_the_end() -> None:
    query = bd.JoinQuery(
        [
            bd.Stream("a", key="k", time="t", window=bd.CountWindow(1)),
            bd.Stream("b", key="k", time="t", window="10 us"),
        ]
    )
    run_script(
        query,
        push(a=[row(1, 1)], b=[row(1, 2)]),
        expect_results(),  # the watermark is 1: another row of a could come at 2
        snapshot(),
        push(a=[row(1, 3)], b=[row(1, 3)]),  # now 3: (1, 2) is settled
        expect_results({"a_t": 1, "b_t": 2, "result_time": 2}),
        restore(),
        push(a=[row(1, 2)], b=[row(2, 9)]),  # ties with now: pushes the row at 1 out
        end(),
        expect_results({"a_t": 2, "b_t": 2, "result_time": 2}),
    )


def test_count_windows_hold_what_they_count() -> None:
    streams = [
        bd.Stream("a", key="k", time="t", window=bd.CountWindow(3)),
        bd.Stream("b", key="k", time="t", window=bd.CountWindow(50, per="stream")),
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams))
    for start in range(0, 20_000, 100):
        t = np.arange(start, start + 100)
        live.push({n: pa.table({"k": t % 20, "t": t}) for n in "ab"})
    seen = live.stats().streams
    assert seen["a"].live_rows <= 3 * 60 + 200
    assert seen["b"].live_rows <= 50 + 100


def test_a_hot_key_in_a_count_window_takes_no_longer_than_its_candidates() -> None:
    """Every candidate walked the key's chain: 2,000 rows of one key took 9 seconds."""
    times = np.arange(2_000)
    table = pa.table({"k": np.zeros(2_000, np.int64), "t": times})
    query = bd.JoinQuery([stream("a", bd.CountWindow(1)), stream("b", bd.CountWindow(1))])
    began = time.perf_counter()
    assert bd.run_local(query, {"a": table, "b": table}).num_rows == 2_000
    assert time.perf_counter() - began < 3
