"""Count windows in trees with budgets: subsets of the exact results, and freshness counted in rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import bag, expected
from tests.seeds import seeds
from tests.workloads import names_of, random_tables, stream

THREE = names_of(3)
FRESH: dict[str, Any] = {"s0": 4, "s1": 3, "s2": None}


def query(per: Any, overload: bd.Overload, plan: Any = "linear", *, fresh: bool = False) -> bd.JoinQuery:
    made = [stream(n, bd.CountWindow(2, per=per), freshness=FRESH[n] if fresh else None) for n in THREE]
    return bd.JoinQuery(made, plan=plan, overload=overload)


def batches_of(tables: dict[str, pa.Table], rows: int) -> list[dict[str, pa.Table]]:
    return [{n: t.slice(i, rows) for n, t in tables.items()} for i in range(0, 60, rows)]


@pytest.mark.parametrize("per", ["key", "stream"])
@pytest.mark.parametrize("seed", seeds(3))
def test_rationed_probes_give_a_subset_and_a_saved_state_the_same_one(per: str, seed: int) -> None:
    tables = random_tables(seed, THREE, rows=60, keys=3)
    for options in ({"probes": 12}, {"probes": 12, "intermediate_rows": 4}, {"intermediate_rows": 2}):
        rationed = query(per, bd.Overload(**options))  # type: ignore[arg-type]
        live, other, found = bd.LocalJoin(rationed), bd.LocalJoin(rationed), []
        for batch in batches_of(tables, 12):
            found.append(live.push(batch))
            assert bag(other.push(batch)) == bag(found[-1])
            other = bd.LocalJoin(rationed).restore(other.snapshot())
            made = live.stats().intermediates["(s0 s1)"]
            inside = 2 * 2 * 2 * 3  # of each of 3 keys 2 rows and 2 rows, and as much again that is tied
            assert made.live_rows <= options.get("intermediate_rows", inside + made.entered_rows)
        found.append(live.end())
        assert bag(pa.concat_tables(found)) <= bag(expected(rationed, tables))


@pytest.mark.parametrize("plan", ["mjoin", "linear", ("s0", ("s1", "s2"))])
@pytest.mark.parametrize("per", ["key", "stream"])
@pytest.mark.parametrize("rows", [5, 20])
def test_no_result_has_a_row_that_so_many_newer_ones_have_followed(per: str, plan: Any, rows: int) -> None:
    """And every other result that a batch would have is still there."""
    dropped = 0
    for seed in seeds(3):
        tables = random_tables(seed, THREE, rows=60, keys=3)
        ample = bd.Overload(10**6)
        fresh = bd.LocalJoin(query(per, ample, plan, fresh=True))
        plain = bd.LocalJoin(query(per, ample, plan))
        arrived = {n: t.slice(0, 0) for n, t in tables.items()}
        for batch in batches_of(tables, rows):
            arrived = {n: pa.concat_tables([t, batch[n]]) for n, t in arrived.items()}
            all_results = plain.push(batch)
            wanted = all_results.filter(pa.array(_fresh(per, arrived, all_results), pa.bool_()))
            assert bag(fresh.push(batch)) == bag(wanted)
            dropped += all_results.num_rows - wanted.num_rows
    assert dropped > 0


def _fresh(per: str, arrived: dict[str, pa.Table], results: pa.Table) -> list[bool]:
    """Whether fewer rows than a stream's freshness are newer than its row, result by result."""
    keep = [True] * results.num_rows
    for name, most in ((n, f) for n, f in FRESH.items() if f is not None):
        rows = list(zip(arrived[name]["k"].to_pylist(), arrived[name]["t"].to_pylist(), strict=True))
        own = zip(results[f"{name}_k"].to_pylist(), results[f"{name}_t"].to_pylist(), strict=True)
        for i, (key, time) in enumerate(own):
            newer = sum(1 for k, t in rows if t > time and (per == "stream" or k == key))
            keep[i] &= newer < most
    return keep


def test_bounds_in_rows_make_refresh_rates_where_intermediates_have_windows() -> None:
    counted = [stream(n, bd.CountWindow(3), freshness=6) for n in THREE]
    rng = np.random.default_rng(0)
    live = bd.LocalJoin(bd.JoinQuery(counted, plan="linear", overload=bd.Overload(200, intermediate_rows=20)))
    for start in range(0, 1_000, 50):
        times = pa.array(np.sort(rng.integers(start, start + 50, 60))).cast(pa.timestamp("us"))
        live.push({n: pa.table({"k": rng.integers(0, 10, 60), "t": times}) for n in THREE})
    seen = live.stats()
    assert (seen.intermediates["(s0 s1)"].refresh_rows or 0) > 0
    assert seen.rationing is not None
    assert seen.rationing.freshness_share > 0


def test_freshness_is_of_the_kind_of_the_window() -> None:
    rows, time, ample = bd.CountWindow(3), "10 us", bd.Overload(10)
    for window, freshness, sentence in (
        (rows, "1 second", "stream 's0': .*is a time, and its window counts rows; give rows, at least 3"),
        (time, 5, "stream 's0': freshness=5 counts rows, and its window does not; give a duration"),
        (rows, 2, "stream 's0': freshness=2 must be at least the window, 3 rows; raise it"),
        (rows, 0, "at least 1"),
    ):
        with pytest.raises(bd.BraidedError, match=sentence):
            bd.JoinQuery([stream("s0", window, freshness=freshness), stream("s1")], overload=ample)
    query_ = bd.JoinQuery([stream("s0", rows, freshness=4), stream("s1")], overload=ample)
    assert bd.JoinQuery.from_dict(query_.to_dict()) == query_
    assert "no row of s0 in any result once 4 newer rows of its key have come" in query_.explain()
    with pytest.raises(bd.BraidedError, match="only goes with overload"):
        dataclasses.replace(query_, overload=None)
