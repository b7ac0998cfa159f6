"""A budget that is ample for what a batch really takes loses nothing, however large a window may become."""

from __future__ import annotations

import pyarrow as pa
import pytest

import braided as bd
from braided.query.overload import ProbeAllocation

PLAN = (("s0", "s1"), "s2", "s3")


def rows(key: int) -> dict[str, pa.Table]:
    """A row of each stream, all at one time."""
    at = pa.array([100_000], pa.timestamp("us"))
    return {f"s{i}": pa.table({"k": [key], "t": at}) for i in range(4)}


@pytest.mark.parametrize("allocation", ["jaqpot", "greedy-path", "best-halfjoin"])
def test_a_window_of_intermediates_that_is_not_full_costs_what_it_holds(allocation: ProbeAllocation) -> None:
    overload = bd.Overload(probes=10**6, intermediate_rows=10**6, allocation=allocation)
    streams = [bd.Stream(f"s{i}", "k", time="t", window="20 us", lateness="0 us") for i in range(4)]
    live = bd.LocalJoin(bd.JoinQuery(streams, plan=PLAN, overload=overload))
    assert [live.push(rows(key)).num_rows for key in range(3)] == [1, 1, 1]
