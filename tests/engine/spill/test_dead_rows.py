"""Rows on disk that windows have passed go, however often groups are written again as one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import bag

ROWS, KEYS, WINDOW = 30, 40, 8  # of a stream and batch; batches


def query(streams: int, plan: Any, memory: bd.Memory | None) -> bd.JoinQuery:
    window = f"{1000 * WINDOW} us"
    made = [bd.Stream(f"s{i}", "k", time="t", window=window, lateness="0 us") for i in range(streams)]
    return bd.JoinQuery(made, plan=plan, memory=memory)


def batch(rng: np.random.Generator, n: int, streams: int) -> dict[str, pa.Table]:
    keys = KEYS if streams == 2 else 5 * KEYS
    return {
        f"s{i}": pa.table(
            {
                "k": rng.integers(0, keys, ROWS),
                "t": pa.array(np.sort(1000 * n + rng.integers(0, 1000, ROWS)), pa.timestamp("us")),
                "pad": ["x" * 40] * ROWS,
            }
        )
        for i in range(streams)
    }


@pytest.mark.parametrize(("defer", "idle"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(("streams", "plan"), [(2, "mjoin"), (3, "linear")])
def test_what_is_held_follows_the_windows(streams: int, plan: Any, *, defer: bool, idle: bool) -> None:
    rng = np.random.default_rng(1)
    free, bounded = (
        bd.LocalJoin(query(streams, plan, memory)) for memory in (None, bd.Memory(20_000, defer=defer))
    )
    found: list[list[pa.Table]] = [[], []]
    sizes, spilled = [], 0
    for n in range(6 * WINDOW):
        made = batch(rng, n, streams)
        for join, of_join in zip((free, bounded), found, strict=True):
            of_join.append(join.push(made))
            if idle:
                of_join.append(join.push({}))
        of_streams = bounded.stats().streams.values()
        spilled = max(spilled, sum(s.spilled_rows for s in of_streams))
        sizes.append(sum(s.live_rows + s.spilled_rows for s in of_streams))
    assert spilled > 2 * ROWS
    assert max(sizes[-WINDOW:]) <= 2 * (WINDOW + 2) * ROWS * streams * (2 if defer else 1), sizes
    assert max(sizes[-WINDOW:]) <= 1.25 * max(sizes[2 * WINDOW : 4 * WINDOW])  # and does not grow
    for join, of_join in zip((free, bounded), found, strict=True):
        of_join.append(join.end())
    without, within = (bag(pa.concat_tables(of_join)) for of_join in found)
    assert without == within
