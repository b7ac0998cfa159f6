"""A condition that fails on a pair of rows refuses the batch that brings the second one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import bag


@pytest.mark.parametrize("plan", ["mjoin", "linear"])
@pytest.mark.parametrize("flush", ["adaptive-global", "state-spill", "rpj"])
def test_a_where_that_fails_on_a_pair_with_a_row_on_disk_refuses_the_batch(flush: Any, plan: Any) -> None:
    """The batch was accepted, and every later push, and the end, failed."""
    wide = pa.decimal128(38, 0)
    streams = [bd.Stream(n, "k") for n in "abc"]
    where = "a.v * b.v * c.v > 0"
    free, bounded = (
        bd.LocalJoin(bd.JoinQuery(streams, where=where, plan=plan, memory=memory))
        for memory in (None, bd.Memory(4096, flush=flush))
    )

    def rows(keys: Any, value: int) -> pa.Table:
        return pa.table({"k": keys, "v": pa.array([Decimal(value)] * len(keys), wide)})

    found: list[list[pa.Table]] = [[], []]

    def push(batch: dict[str, pa.Table]) -> None:
        for join, of_join in zip((free, bounded), found, strict=True):
            of_join.append(join.push(batch))

    for i in range(6):
        push({n: rows(np.arange(40 * i, 40 * i + 40), 1000) for n in "abc"})
    assert sum(s.spilled_rows for s in bounded.stats().streams.values()) > 0
    push({"a": rows(np.arange(240), 10**37)})
    bad = {"b": rows(np.arange(240), 10**37)}
    for join in (free, bounded):
        with pytest.raises(bd.BraidedError, match="has more than 76 digits"):
            join.push(bad)
    push({"b": rows(np.arange(0, 240, 7), 5)})
    for join, of_join in zip((free, bounded), found, strict=True):
        of_join.append(join.end())
    without, within = (bag(pa.concat_tables(of_join)) for of_join in found)
    assert without == within
