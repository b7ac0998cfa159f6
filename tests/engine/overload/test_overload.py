"""Overload loses rows, never invents results: always a subset of the exact bag, and all of it if it can."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.policies.driver import DRIVER_POLICIES
from braided.query.overload import InputAllocation, WindowSplit
from braided.testing import assert_same_bag, bag, expected
from tests.workloads import names_of, random_tables, stream

ALLOCATIONS = get_args(InputAllocation)
SPLITS = get_args(WindowSplit)


def shedding(probes: int, allocation: Any = "equal", **options: Any) -> bd.Overload:
    return bd.Overload(probes, shed="input", allocation=allocation, **options)


def joined(
    overload: bd.Overload | None, names: list[str], window: str = "60 us", **tuning: Any
) -> bd.JoinQuery:
    return bd.JoinQuery([stream(n, window) for n in names], overload=overload, tuning=bd.Tuning(**tuning))


def assert_subset(result: pa.Table, exact: pa.Table) -> None:
    wrong = bag(result) - bag(exact)
    assert not wrong, f"{wrong.total()} results that the exact join does not have: {list(wrong)[:2]}"


@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("streams", [2, 3, 5])
def test_oracle_shedding_gives_a_subset_and_keeps_to_its_budget(allocation: str, streams: int) -> None:
    names = names_of(streams)
    lost = 0
    for seed, rows in enumerate((3, 7, 40)):
        tables = random_tables(seed, names, rows=60 if streams < 5 else 25, keys=streams)
        query = joined(shedding(rows + 1, allocation), names)
        live, found = bd.LocalJoin(query), []
        for start in range(0, 60, rows):
            before = live.stats()
            found.append(live.push({n: t.slice(start, rows) for n, t in tables.items()}))
            let_in = live.stats().driven_rows - before.driven_rows
            assert let_in <= rows + 1
        exact = expected(query, tables)
        result = pa.concat_tables([t for t in found if t.num_columns])
        assert_subset(result, exact)
        lost += exact.num_rows - result.num_rows
        for name, s in live.stats().streams.items():
            accepted = s.rows_in - s.late_rows - s.null_keys - s.null_times - s.shed_rows
            assert 0 <= accepted <= tables[name].num_rows
    assert lost > 0


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("streams", [2, 3])
def test_oracle_a_state_budget_gives_a_subset_and_is_kept(split: Any, streams: int) -> None:
    names = names_of(streams)
    for seed in range(2):
        tables = random_tables(seed, names, rows=90, keys=streams)
        query = joined(bd.Overload(state_rows=25, window_split=split), names)
        live, found = bd.LocalJoin(query), []
        for start in range(0, 90, 8):
            found.append(live.push({n: t.slice(start, 8) for n, t in tables.items()}))
            held = live.stats().streams.values()
            assert sum(s.live_rows for s in held) <= 25
        exact = expected(query, tables)
        result = pa.concat_tables([t for t in found if t.num_columns])
        assert_subset(result, exact)
        assert sum(s.cut_rows for s in live.stats().streams.values()) > 0


@pytest.mark.parametrize(
    "overload",
    [shedding(10_000, a) for a in ALLOCATIONS]
    + [bd.Overload(state_rows=10_000, window_split=s) for s in SPLITS]
    + [shedding(10_000, "window-inverse", state_rows=10_000)],
)
def test_oracle_where_nothing_is_shed_the_bag_is_exact(overload: bd.Overload) -> None:
    names = names_of(3)
    tables = random_tables(2, names, rows=50, keys=3)
    query = joined(overload, names)
    for rows in (1, 9, 1000):
        assert_same_bag(bd.run_local(query, tables, batch_rows=rows), expected(query, tables))


def test_the_same_rows_are_let_in_whatever_their_order_in_the_batch() -> None:
    """Rows with equal keys and times too: a retried task may see them in another order."""
    rng = np.random.default_rng(3)
    query = joined(shedding(40, "proportional"), ["a", "b"], window="1 second")
    tables = {
        n: pa.table(
            {"k": rng.integers(0, 2, 70), "t": pa.array([7] * 70).cast(pa.timestamp("us")), "i": range(70)}
        )
        for n in "ab"
    }
    first = bd.LocalJoin(query).push(tables)
    for _ in range(5):
        shuffled = {n: t.take(pa.array(rng.permutation(70))) for n, t in tables.items()}
        assert_same_bag(bd.LocalJoin(query).push(shuffled), first)
    other = bd.JoinQuery(query.streams, overload=query.overload, tuning=bd.Tuning(seed=1))
    assert bag(bd.LocalJoin(other).push(tables)) != bag(first)


def test_the_watermark_hears_of_rows_that_are_not_let_in() -> None:
    """Else a row that the exact join sets aside as late could be let in: results would be no subset."""
    query = joined(shedding(1, "window-proportional"), ["a", "b"])
    live = bd.LocalJoin(query)
    table = random_tables(1, ["a"], rows=40)["a"]
    live.push({"a": table, "b": table})
    newest = max(table["t"].cast(pa.int64()).to_pylist())
    assert live.stats().watermark_us == newest - 12


def rates(a: int, b: int, seconds: int, keys: int, seed: int = 1) -> list[dict[str, pa.Table]]:
    """A batch per second, rows evenly spaced."""
    rng = np.random.default_rng(seed)

    def rows(n: int, second: int) -> pa.Table:
        times = second * 1_000_000 + (np.arange(n) * 1_000_000) // max(n, 1)
        return pa.table({"k": rng.integers(0, keys, n), "t": pa.array(times).cast(pa.timestamp("us"))})

    return [{"a": rows(a, s), "b": rows(b, s)} for s in range(seconds)]


def test_the_slower_streams_remainder_is_given_away() -> None:
    query = joined(shedding(50), ["a", "b"], window="1 minute")
    live = bd.LocalJoin(query)
    for batch in rates(5, 100, 10, 10):
        live.push(batch)
    seen = live.stats().streams
    assert (seen["a"].shed_rows, seen["b"].shed_rows) == (0, 550)


def test_rows_of_a_window_that_shrinks_to_nothing_probe_and_pass() -> None:
    """max-slow: b probes a's window and is not stored; a meets only the rows of b in its own batch."""
    query = joined(bd.Overload(state_rows=100), ["a", "b"], window="1 hour")
    live = bd.LocalJoin(query)
    batches = rates(10, 50, 30, 4)
    for batch in batches[:20]:  # until a's window is full, b may use the rest
        live.push(batch)
    before = live.stats().half_joins
    for batch in batches[20:]:
        live.push(batch)
        seen = live.stats()
        assert (seen.streams["a"].live_rows, seen.streams["b"].live_rows) == (100, 0)
    to_a, to_b = (seen.half_joins[p].matches - before[p].matches for p in (("b", "a"), ("a", "b")))
    assert to_a == pytest.approx(10 * 50 * 100 / 4, rel=0.1)
    assert to_b == pytest.approx(10 * 10 * 50 / 4, rel=0.2)


def test_what_a_full_window_cannot_use_goes_to_the_other() -> None:
    query = joined(bd.Overload(state_rows=100), ["a", "b"], window="5 seconds")
    live = bd.LocalJoin(query)
    for batch in rates(10, 50, 30, 4):
        live.push(batch)
    held = {n: s.live_rows for n, s in live.stats().streams.items()}
    assert 50 <= held["a"] <= 60
    assert held["a"] + held["b"] in (99, 100)


def test_a_state_budget_holds_even_while_a_stream_is_silent() -> None:
    query = joined(bd.Overload(state_rows=70), ["a", "b"], window="1 hour")
    live = bd.LocalJoin(query)
    for batch in rates(10, 50, 30, 4):
        live.push({"b": batch["b"]})
        assert sum(s.live_rows for s in live.stats().streams.values()) <= 70
    assert live.stats().streams["b"].live_bytes < 60_000


@pytest.mark.parametrize("expiry", ["active", "lazy"])
def test_oracle_a_snapshot_in_between_changes_nothing(expiry: Any) -> None:
    overload = shedding(30, "window-inverse", state_rows=60)
    query = joined(overload, ["a", "b"], window="20 seconds", expiry=expiry)
    straight, stopped = bd.LocalJoin(query), bd.LocalJoin(query)
    for batch in rates(10, 50, 40, 4):
        one, other = straight.push(batch), stopped.push(batch)
        assert_same_bag(one, other)
        stopped = bd.LocalJoin(query).restore(stopped.snapshot())
    assert straight.stats().results > 0
    for mine, other in zip(*(live.stats().streams.values() for live in (straight, stopped)), strict=True):
        latest: Any = {
            "live_bytes": 0,
            "staleness_us": None,
            "staleness_wall_us": None,
        }  # of the latest batch: nothing after a restore
        assert dataclasses.replace(mine, **latest) == dataclasses.replace(other, **latest)


def test_a_failed_batch_changes_no_budget() -> None:
    query = joined(shedding(30, state_rows=60), ["a", "b"], window="20 seconds")
    live = bd.LocalJoin(query)
    batches = rates(10, 50, 12, 2)
    for batch in batches[:8]:
        live.push(batch)
    before = live.snapshot()
    work: Any = live._engine.step(live._engine.accept(batches[8]))
    next(work)
    with pytest.raises(RuntimeError):
        work.throw(RuntimeError("stop"))
    again, fresh = live.push(batches[8]), bd.LocalJoin(query).restore(before).push(batches[8])
    assert_same_bag(again, fresh)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (bd.Overload, "give a budget"),
        (lambda: bd.Overload(0, shed="input"), "probes must be at least 1 and at most .*; got 0"),
        (lambda: bd.Overload(1.5), "whole number; got 1.5"),  # type: ignore[arg-type]
        (lambda: bd.Overload(5, shed="input", allocation="jaqpot"), "'jaqpot' does not go with shed='input'"),
        (lambda: bd.Overload(5, allocation="equal"), "'equal' does not go with shed='probes'"),
        (lambda: bd.Overload(5, allocation="eqal"), "did you mean 'equal'"),  # type: ignore[arg-type]
        (lambda: bd.Overload(state_rows=5, shed="input", allocation="equal"), "needs probes"),
        (lambda: bd.Overload(5, "2 seconds"), "not both"),
        (lambda: bd.Overload(target_batch="-2 seconds"), "above zero"),
        (lambda: bd.Overload(state_rows=5, window_split="max"), "window_split must be one of"),  # type: ignore[arg-type]
        (lambda: joined("much", ["a", "b"]), "must be a bd.Overload"),  # type: ignore[arg-type]
        (
            lambda: bd.JoinQuery([stream("a"), stream("b", bd.CountWindow(3))], overload=shedding(5)),
            "'b' has a window that counts rows",
        ),
        (
            lambda: bd.JoinQuery(
                [bd.Stream("a", "k"), bd.Stream("b", "k")], overload=bd.Overload(state_rows=5)
            ),
            "needs a time column in stream 'a'",
        ),
        (
            lambda: bd.JoinQuery(
                [bd.Stream("a", "k"), bd.Stream("b", "k")], overload=shedding(5, "window-inverse")
            ),
            "needs a window for stream 'a'",
        ),
    ],
)
def test_mistakes_are_named(make: Any, words: str) -> None:
    with pytest.raises(bd.BraidedError, match=words):
        make()


def test_overload_survives_a_round_trip_and_is_not_part_of_the_meaning() -> None:
    overload = shedding(50, "inverse", state_rows=9, window_split="equal")
    query = joined(overload, ["a", "b"])
    assert bd.JoinQuery.from_dict(query.to_dict()) == query
    assert bd.Overload.from_dict(overload.to_dict()) == overload
    assert query.fingerprint() == joined(None, ["a", "b"]).fingerprint()
    assert "lossy" in query.explain()


# stories of a review

PAST_THE_FLOOR = [([11, 10], [21, 94, 85]), ([32, 77, 27], [4, 74, 87, 20]), ([81, 50, 92], [47, 69, 56, 64])]


def old_and_new(order: Any = None) -> list[dict[str, pa.Table]]:
    def rows(times: list[int]) -> pa.Table:
        times = times if order is None else list(order(times))
        return pa.table({"k": [0] * len(times), "t": pa.array(times).cast(pa.timestamp("us"))})

    return [{"a": rows(a), "b": rows(b)} for a, b in PAST_THE_FLOOR]


@pytest.mark.parametrize("driver", DRIVER_POLICIES)
def test_a_row_below_the_floor_does_not_enter_so_turns_do_not_matter(driver: Any) -> None:
    """It was met by others of its batch only if its turn came last, which depends on the order of rows."""
    query = bd.JoinQuery(
        [bd.Stream(n, key="k", time="t", window="1 hour", lateness="1 hour") for n in "ab"],
        overload=bd.Overload(state_rows=4, window_split="equal"),
        tuning=bd.Tuning(driver_stream=driver),
    )
    found = []
    for order in (None, reversed, sorted):
        live = bd.LocalJoin(query)
        found.append([live.push(batch).num_rows for batch in old_and_new(order)])
    assert found == [[6, 16, 6]] * 3
    assert sum(s.cut_rows for s in live.stats().streams.values()) > 8


@pytest.mark.parametrize(
    ("window", "expiry"), [("unbounded", "active"), ("1 hour", "lazy"), ("1 hour", "active")]
)
def test_what_was_cut_off_stays_so_when_the_budget_goes(window: str, expiry: Any) -> None:
    streams = [bd.Stream(n, key="k", time="t", window=window, lateness="1 hour") for n in "ab"]
    tuning = bd.Tuning(expiry=expiry)
    short = bd.JoinQuery(streams, overload=bd.Overload(state_rows=1, window_split="max-fast"), tuning=tuning)
    live = bd.LocalJoin(short)
    for second in range(10):
        times = pa.array([second]).cast(pa.timestamp("us"))
        live.push({"a": pa.table({"k": [1], "t": times})})
    saved = live.snapshot()
    freed = bd.LocalJoin(bd.JoinQuery(streams, tuning=tuning)).restore(saved)
    probe = pa.table({"k": [1], "t": pa.array([10]).cast(pa.timestamp("us"))})
    assert freed.push({"b": probe}).num_rows == 1


def test_rows_that_differ_only_in_null_or_nested_columns_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    query = joined(shedding(20, "proportional"), ["a", "b"], window="1 second")
    times = pa.array([7] * 40).cast(pa.timestamp("us"))
    numbers = pa.array([None, -1] * 20, pa.int64())
    lists = pa.array([[i] for i in range(40)])
    tables = {n: pa.table({"k": [1] * 40, "t": times, "n": numbers, "l": lists}) for n in "ab"}
    first = bag(bd.LocalJoin(query).push(tables))
    for _ in range(4):
        shuffled = {n: t.take(pa.array(rng.permutation(40))) for n, t in tables.items()}
        assert bag(bd.LocalJoin(query).push(shuffled)) == first


def test_live_rows_are_right_after_a_restore_into_a_budget() -> None:
    plain = bd.LocalJoin(joined(None, ["a", "b"], window="1 hour"))
    for batch in rates(5, 5, 5, 4):
        plain.push(batch)
    short = bd.LocalJoin(joined(bd.Overload(state_rows=10), ["a", "b"], window="1 hour")).restore(
        plain.snapshot()
    )
    assert sum(s.live_rows for s in short.stats().streams.values()) == 50


def test_numbers_beyond_all_bounds_are_refused_and_rules_without_weights_share_evenly() -> None:
    with pytest.raises(bd.BraidedError, match="state_rows must be at least 1 and at most"):
        bd.Overload(state_rows=10**400)
    with pytest.raises(bd.BraidedError, match="fits in 64 bits"):
        bd.Tuning(seed=1 << 63)
    overload = shedding(4, "window-proportional", state_rows=10, window_split="proportional")
    live = bd.LocalJoin(joined(overload, ["a", "b"], window="1 hour"))
    live.push(rates(5, 5, 1, 4)[0])
    assert sum(s.live_rows for s in live.stats().streams.values()) == 4
