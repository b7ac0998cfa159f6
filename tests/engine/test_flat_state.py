"""State stays flat: over ten windows, in bursts, and with a clock that is wrong."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa

import braided as bd

WINDOW_US = 2_000


def batch(start: int, rows: int, rng: np.random.Generator) -> pa.Table:
    times = start + np.arange(rows)
    return pa.table({"k": rng.integers(0, 1000, rows), "t": times, "v": rng.random(rows)})


def join(**options: object) -> bd.LocalJoin:
    streams = [bd.Stream(n, key="k", time="t", window=f"{WINDOW_US} us", **options) for n in "abc"]  # type: ignore[arg-type]
    return bd.LocalJoin(bd.JoinQuery(streams, select={"k": "a.k"}))


def test_live_state_is_flat_and_small_over_ten_windows() -> None:
    rng, live = np.random.default_rng(1), join()
    held, allocated = [], []
    for start in range(0, 10 * WINDOW_US, 500):
        live.push({n: batch(start, 500, rng) for n in "abc"})
        held.append(sum(s.live_bytes for s in live.stats().streams.values()))
        if len(held) in (11, 12, 13, 38, 39, 40):
            gc.collect()
            allocated.append(pa.total_allocated_bytes())
    window_rows = 3 * (WINDOW_US + 1)
    arrow_bytes = 16 * window_rows  # key and time are stored; v is not asked for
    assert held[-1] <= arrow_bytes + 64 * window_rows
    full = held[len(held) // 2 :]
    assert max(full) <= 1.3 * min(full)
    assert max(allocated[3:]) <= 1.3 * max(allocated[:3])


def test_one_row_from_the_far_future_does_not_keep_the_rest_alive() -> None:
    """A device with a wrong clock sends one row of the year 2100: it stays, the others go."""
    rng, live = np.random.default_rng(1), join(lateness="10 us")
    future = pa.table({"k": [1], "t": [4_000_000_000_000_000], "v": [1.0]})
    live.push({"a": future})
    for start in range(0, 20 * WINDOW_US, 500):
        live.push({n: batch(start, 500, rng) for n in "abc"})
    assert live.stats().streams["a"].live_rows < 3 * WINDOW_US


def test_a_burst_is_given_back() -> None:
    rng, live = np.random.default_rng(1), join()
    live.push({n: batch(0, 100, rng) for n in "abc"})
    quiet = live.stats().streams["a"].live_bytes
    rows = np.zeros(50_000, np.int64)
    burst = {n: pa.table({"k": rows + i, "t": rows + 200, "v": rows + 0.5}) for i, n in enumerate("abc")}
    live.push(burst)
    assert live.stats().streams["a"].live_bytes > 1_000_000
    for start in range(300, 5 * WINDOW_US, 100):
        live.push({n: batch(start, 1, rng) for n in "abc"})
    assert live.stats().streams["a"].live_bytes < 10 * quiet


def test_a_small_slice_does_not_keep_a_large_table_alive() -> None:
    live = join()
    before = pa.total_allocated_bytes()
    rows = np.arange(1_000_000)
    big = pa.table({"k": rows, "t": rows, "v": rows * 0.5})
    big = big.take(pa.array(np.arange(1_000_000)))  # memory of Arrow's own
    live.push({"a": big.slice(5, 10)})
    del big
    gc.collect()
    assert pa.total_allocated_bytes() - before < 1_000_000
