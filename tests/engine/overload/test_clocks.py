"""Ages by the wall clock: no result holds a row older than its bound by the time that came with the batch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braided as bd
from braided.engine import snapshot
from braided.engine.engine import Engine
from braided.engine.site import Site
from braided.engine.watermark import Clock
from braided.testing import assert_same_bag, bag
from tests.seeds import seeds, some_pairs

SECOND = 1_000_000
BOUNDS: dict[str, Any] = {"a": 3, "b": 5, "c": None}  # seconds
PLANS: dict[str, Any] = {"flat": "mjoin", "linear": "linear"}
ONE_KEY, SEVERAL = None, [("a.k", "b.k"), ("b.m", "c.m")]
AMPLE = 10**6


def query(
    overload: bd.Overload | None, *, on: Any = ONE_KEY, plan: Any = "mjoin", window: Any = "2 seconds"
) -> bd.JoinQuery:
    """Three streams, rows of which may be as old as `BOUNDS` say."""
    streams = []
    for name, bound in BOUNDS.items():
        freshness = None if bound is None or overload is None else f"{bound} seconds"
        key = None if on else "k"
        streams.append(
            bd.Stream(name, key, time="t", window=window, lateness="4 seconds", freshness=freshness)
        )
    return bd.JoinQuery(streams, on, plan=plan, overload=overload)


def batches(rng: np.random.Generator, count: int, rows: int = 12) -> Iterator[tuple[float, pa.Table]]:
    """Batches with the time they come at, from which they are up to six seconds behind; it may go back."""
    for at in range(count):
        behind = float(rng.choice([0, 1, 2.5, 4, 6]))
        batch = {name: part(rng, at + 10 - behind, rows) for name in BOUNDS if rng.random() < 0.9}
        yield at + 10 - 3 * float(rng.random() < 0.2), batch


def part(rng: np.random.Generator, second: float, rows: int) -> pa.Table:
    """Rows of one second, in any order."""
    return pa.table(
        {
            "k": rng.integers(0, 4, rows),
            "m": rng.integers(0, 4, rows),
            "t": rng.integers(round(second * SECOND), round((second + 1) * SECOND), rows),
            "n": rng.integers(0, 1 << 40, rows),
        }
    )


def fresh(results: pa.Table, clock_s: float) -> pa.Table:
    """The results none of whose rows is too old by a clock."""
    for name, bound in BOUNDS.items():
        if bound is not None and results.num_rows:
            oldest = round((clock_s - bound) * SECOND)
            results = results.filter(pc.greater_equal(results[f"{name}_t"], oldest))
    return results


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("on", [ONE_KEY, SEVERAL], ids=["one key", "several"])
def test_oracle_exactly_the_results_that_are_too_old_by_the_wall_clock_are_left_out(
    plan: str, on: Any
) -> None:
    lost = 0
    for seed in seeds(3):
        rng = np.random.default_rng(seed)
        live = bd.LocalJoin(query(bd.Overload(AMPLE, clock="wall"), on=on, plan=PLANS[plan]))
        exact, clock_s = bd.LocalJoin(query(None, on=on)), 0.0
        for now, batch in batches(rng, 14):
            clock_s = max(clock_s, now)  # a clock that goes back stands still
            wanted = exact.push(batch)
            found = live.push(batch, now=now)
            assert_same_bag(found, fresh(wanted, clock_s))
            lost += wanted.num_rows - found.num_rows
    assert lost > 100


OVERLOADS: dict[str, dict[str, Any]] = {
    "probes": {"probes": 25},
    "input": {"probes": 20, "shed": "input"},
    "state": {"state_rows": 50},
    "input and state": {"probes": 20, "shed": "input", "allocation": "window-inverse", "state_rows": 40},
    "least loss": {"probes": 25, "allocation": "least-loss"},
    "windows of intermediates": {"probes": 60, "intermediate_rows": 20},
}


@pytest.mark.parametrize(("given", "on"), some_pairs([*OVERLOADS], [ONE_KEY, SEVERAL]))
def test_oracle_no_result_is_too_old_and_a_restart_or_a_retry_changes_nothing(given: str, on: Any) -> None:
    plan = "linear" if "intermediate_rows" in OVERLOADS[given] else "mjoin"
    asked, results = query(bd.Overload(**OVERLOADS[given], clock="wall"), on=on, plan=plan), 0
    for seed in seeds(2):
        rng = np.random.default_rng([3, seed])
        exact, clock_s = bd.LocalJoin(query(None, on=on)), 0.0
        straight, stopped = Engine(asked, Site(repeatable=True)), bd.LocalJoin(asked)
        for number, (now, batch) in enumerate(batches(rng, 14)):
            clock_s, before = max(clock_s, now), stopped.snapshot()
            wanted, found = exact.push(batch), stopped.push(batch, now=now)
            assert not bag(found) - bag(fresh(wanted, clock_s))
            again = bd.LocalJoin(asked).restore(before).push(batch, now=now)
            assert_same_bag(again, found)
            went_on = straight.step(straight.accept(batch, clock=Clock(now)))
            assert_same_bag(pa.concat_tables([found.slice(0, 0), *went_on]), found)
            results += found.num_rows
            if number % 3 == 0:
                stopped = bd.LocalJoin(asked).restore(stopped.snapshot())
    assert results > 20


def test_ages_are_reported_by_both_clocks_whichever_is_chosen() -> None:
    rng = np.random.default_rng(2)
    for clock in ("event", "wall"):
        overload = bd.Overload(AMPLE, clock=clock)
        live, newest_us, seen = bd.LocalJoin(query(overload)), 0, 0
        for at in range(6):
            batch = {name: part(rng, at + 10, 12) for name in BOUNDS}
            now_us = round((at + 12.5) * SECOND)
            found = live.push(batch, now=now_us / 1e6)
            newest_us = max(newest_us, *(pc.max(table["t"]).as_py() for table in batch.values()))
            for name, statistics in live.stats().streams.items():
                oldest_us = pc.min(found[f"{name}_t"]).as_py()
                assert statistics.staleness_us == newest_us - oldest_us
                assert statistics.staleness_wall_us == now_us - oldest_us
                seen += 1
        assert seen == 18


def test_a_job_that_is_behind_its_source_is_not_fresh() -> None:
    """By event time a job that is fifteen minutes behind calls all that it finds fresh."""
    rng = np.random.default_rng(1)
    found = dict.fromkeys(("event", "wall"), 0)
    for clock in found:
        live = bd.LocalJoin(query(bd.Overload(AMPLE, clock=clock)))  # type: ignore[arg-type]
        for at in range(4):
            batch = {name: part(rng, at, 12) for name in BOUNDS}
            found[clock] += live.push(batch, now=at + 900).num_rows
    assert found["event"] > 0
    assert found["wall"] == 0
    assert [s.cut_rows for s in live.stats().streams.values()] == [48, 48, 0]
    problem = live.stats().rationing.problem  # type: ignore[union-attr]
    assert problem == "rows of a are 15 minutes old when they come, and may be 3 seconds old"


@pytest.mark.parametrize("clock", ["event", "wall"])
def test_a_clock_that_stands_still_between_batches_is_no_problem(clock: Any) -> None:
    """Batches of one second, one stream far behind: how old its rows come was divided by that second."""
    bounds: dict[str, Any] = {"freshness": "3 seconds", "window": "2 seconds", "lateness": "1 hour"}
    streams = [bd.Stream(name, "k", time="t", **bounds) for name in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(streams, overload=bd.Overload(5, clock=clock)))
    for _ in range(4):
        live.push({"a": part_of(100, 1), "b": part_of(9, 10)}, now=100.0)
    problem = live.stats().rationing.problem  # type: ignore[union-attr]
    assert problem == "rows of b are 91 seconds old when they come, and may be 3 seconds old"


def part_of(second: int, rows: int) -> pa.Table:
    return pa.table({"k": [1] * rows, "t": [second * SECOND] * rows})


def test_without_now_it_is_the_time_now() -> None:
    asked, now = query(bd.Overload(AMPLE, clock="wall")), dt.datetime.now(dt.UTC).timestamp()
    for behind, results in ((0, 1), (4, 0)):
        live = bd.LocalJoin(asked)
        times = round((now - behind) * SECOND)
        assert live.push({n: pa.table({"k": [1], "t": [times]}) for n in BOUNDS}).num_rows == results


@pytest.mark.parametrize("restart", [False, True])
def test_the_clock_is_remembered_where_a_batch_comes_without_one_and_never_goes_back(restart: bool) -> None:
    asked, rows = query(bd.Overload(AMPLE, clock="wall")), {n: part_of(10, 1) for n in BOUNDS}
    engine = Engine(asked)
    found = []
    for clock in (Clock(12.0), None, Clock(5.0), Clock(13.5), None):
        found.append(sum(t.num_rows for t in engine.step(engine.accept(rows, clock=clock))))
        if found[-1]:
            ages_us = {s.staleness_wall_us for s in engine.statistics().streams.values()}
            assert ages_us == {2 * SECOND}
        if restart:
            saved, engine = snapshot.save(engine), Engine(asked)
            snapshot.load(engine, saved)
    assert found == [1, 7, 19, 0, 0]


def test_a_failed_batch_leaves_the_clock_as_it_was() -> None:
    live = bd.LocalJoin(query(bd.Overload(AMPLE, clock="wall")))
    rows = {n: part_of(10, 1) for n in BOUNDS}
    live.push(rows, now=10)
    with pytest.raises(bd.BraidedError):
        live.push({"a": pa.table({"k": ["x"], "t": [1]})}, now=100)
    assert live.push(rows, now=11).num_rows == 7


def test_a_join_of_what_has_long_been_recorded_refuses_the_wall_clock() -> None:
    asked = query(bd.Overload(AMPLE, clock="wall"))
    with pytest.raises(bd.BraidedError, match=r"^run_local: .* says nothing; use clock='event', or a Local"):
        bd.run_local(asked, {n: part_of(1, 1) for n in BOUNDS})


@pytest.mark.parametrize("per", ["key", "stream"])
def test_with_windows_that_count_rows_streams_with_time_windows_go_by_the_wall_clock(per: Any) -> None:
    streams = [
        bd.Stream("a", "k", time="t", window="2 seconds", lateness="0 seconds", freshness="3 seconds"),
        bd.Stream("b", "k", time="t", window=bd.CountWindow(3, per=per), lateness="0 seconds", freshness=6),
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams, overload=bd.Overload(AMPLE, clock="wall")))
    for now, wanted in ((12, 0), (13, 1), (14, 3), (20, 0)):
        rows = {n: part_of(round(now), 1) for n in "ab"}
        assert live.push(rows, now=now).num_rows == wanted
