"""Rationed probes: a subset, within the budget, the same every time, fresh, and exact again afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.engine.operators.tree import Tree
from braided.engine.site import Site
from braided.query.overload import ProbeAllocation
from braided.query.tuning import RowByRow, WholeBuffers
from braided.testing import bag, expected
from tests.workloads import names_of, random_tables, stream

FOUR = names_of(4)
PLANS: dict[str, Any] = {"flat": "mjoin", "linear": "linear", "bushy": (("s0", "s1"), ("s2", "s3"))}
SECOND = 1_000_000


def query_of(
    plan: str, probes: int | None, allocation: Any = "jaqpot", names: list[str] = FOUR, **options: Any
) -> bd.JoinQuery:
    overload = bd.Overload(probes, allocation=allocation) if probes else None
    return bd.JoinQuery([stream(n, "90 us", **options) for n in names], plan=PLANS[plan], overload=overload)


def batches_of(tables: dict[str, pa.Table], rows: int) -> Iterator[dict[str, pa.Table]]:
    for at in range(0, max(t.num_rows for t in tables.values()), rows):
        yield {n: t.slice(at, rows) for n, t in tables.items()}


def probes(engine: Engine) -> int:
    return sum(h.probes for h in engine.statistics().half_joins.values())


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("allocation", get_args(ProbeAllocation))
def test_oracle_every_allocation_gives_a_subset_within_its_budget(plan: str, allocation: str) -> None:
    tables = random_tables(3, FOUR, rows=100, keys=12)
    exact = bag(expected(query_of(plan, None), tables))
    for budget in (1, 40, 150):
        engine = Engine(query_of(plan, budget, allocation), Site(repeatable=True))
        found, batches = [], 0
        for batch in batches_of(tables, 20):
            found += list(engine.step(engine.accept(batch)))
            batches += 1
        result = bag(pa.concat_tables(found)) if found else bag(pa.table({}))
        assert not result - exact
        assert probes(engine) <= 1.6 * budget * batches + 120  # what is taken too much is taken off later


@pytest.mark.parametrize("plan", PLANS)
def test_oracle_a_budget_that_suffices_loses_nothing(plan: str) -> None:
    tables = random_tables(5, FOUR, rows=60, keys=8)
    query = query_of(plan, 1_000_000)
    assert bag(bd.run_local(query, tables, batch_rows=9)) == bag(expected(query, tables))


@pytest.mark.parametrize("plan", PLANS)
def test_a_run_can_be_repeated(plan: str) -> None:
    tables = random_tables(6, FOUR, rows=150, keys=12)
    runs = [bag(bd.run_local(query_of(plan, 60), tables, batch_rows=25)) for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]
    assert runs[0]


@pytest.mark.parametrize("plan", PLANS)
def test_a_saved_state_goes_on_as_if_nothing_had_happened(plan: str) -> None:
    from braided.engine import snapshot

    tables = random_tables(6, FOUR, rows=150, keys=12)
    whole = bag(bd.run_local(query_of(plan, 60), tables, batch_rows=25))
    found, saved = [], None
    for batch in batches_of(tables, 25):
        engine = Engine(query_of(plan, 60), Site(repeatable=True))
        if saved is not None:
            snapshot.load(engine, saved)
        found += list(engine.step(engine.accept(batch)))
        saved = snapshot.save(engine)
    assert bag(pa.concat_tables(found)) == whole


def load(
    rng: np.random.Generator, at: int, rows: int, names: list[str], keys: int = 40
) -> dict[str, pa.Table]:
    """Rows of one second, in order."""
    return {
        n: pa.table(
            {
                "k": rng.integers(0, keys, rows),
                "t": np.sort(rng.integers(at * SECOND, (at + 1) * SECOND, rows)),
                "n": rng.integers(0, 1 << 40, rows),
            }
        )
        for n in names
    }


def new_results(engine: Engine, batch: dict[str, pa.Table]) -> Any:
    tables = list(engine.step(engine.accept(batch)))
    return bag(pa.concat_tables(tables) if tables else pa.table({}))


@pytest.mark.parametrize("plan", ["flat", "linear"])
@pytest.mark.parametrize(("window", "keys", "budget"), [("2 seconds", 40, 1_200), ("1 hour", 400, 600)])
def test_oracle_after_a_burst_the_join_is_exact_again(plan: str, window: str, keys: int, budget: int) -> None:
    names = names_of(3)
    rng = np.random.default_rng(2)
    streams = [bd.Stream(n, key="k", time="t", window=window) for n in names]
    overload = bd.Overload(budget)
    live = Engine(bd.JoinQuery(streams, plan=PLANS[plan], overload=overload), Site(repeatable=True))
    plain = Engine(bd.JoinQuery(streams, plan=PLANS[plan]), Site(repeatable=True))
    rows = [20] * 4 + [160] * 5 + [20] * 60
    lost, since = [], []
    for at, many in enumerate(rows):
        batch = load(rng, at, many, names, keys)
        found = new_results(live, batch)
        wanted = new_results(plain, batch)
        assert not found - wanted
        lost.append((wanted - found).total())
        since.append(live.statistics().exact_again)
    assert not any(lost[:4])
    assert any(lost[4:9])
    assert None in since[4:9]
    again = since[-1]
    assert again is not None
    assert again >= 9
    assert not any(lost[again:])
    if plan == "flat":
        assert again == 9
    seen = live.statistics()
    assert seen.rationing is not None
    assert 0.3 * sum(lost) < seen.rationing.results_lost < 3 * sum(lost)
    assert seen.rationing.adaptations


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("allocation", get_args(ProbeAllocation))
def test_no_result_is_stale(plan: str, allocation: Any) -> None:
    rng = np.random.default_rng(4)
    streams = [
        bd.Stream(n, key="k", time="t", window="2 seconds", lateness="1 second", freshness=f)
        for n, f in zip(FOUR, ("2 seconds", "3 seconds", "2500 ms", None), strict=True)
    ]
    query = bd.JoinQuery(streams, plan=PLANS[plan], overload=bd.Overload(2_000, allocation=allocation))
    exact = bd.LocalJoin(plain_query("1 second"))
    live = bd.LocalJoin(query)
    clock, fresh_only, results = 0, 0, 0
    for at in range(5):
        batch = load(rng, at, 60, FOUR)
        lag = load(rng, max(0, at - 2), 60, FOUR)["s0"]  # one stream is behind
        batch["s0"] = lag
        clock = max(clock, *(int(t["t"].to_numpy().max()) for t in batch.values()))
        found, wanted = live.push(batch), exact.push(batch)
        results += found.num_rows
        for name, bound in (("s0", 2), ("s1", 3), ("s2", 2.5)):
            if found.num_rows:
                assert found[f"{name}_t"].to_numpy().min() >= clock - bound * SECOND
        assert not bag(found) - bag(wanted)
        fresh_only += wanted.num_rows
        for name, seen in live.stats().streams.items():
            oldest = found[f"{name}_t"].to_numpy().min() if found.num_rows else None
            assert seen.staleness_us == (None if oldest is None else clock - oldest)
    assert results < fresh_only
    if allocation == "jaqpot":
        assert results


def plain_query(lateness: str, bounds: dict[str, int] | None = None) -> bd.JoinQuery:
    """Windows of two seconds; bounds on age, in seconds, if there is an overload to go with."""
    fresh: dict[str, Any] = {n: {"freshness": f"{f} seconds"} for n, f in (bounds or {}).items()}
    return bd.JoinQuery(
        [
            bd.Stream(n, key="k", time="t", window="2 seconds", lateness=lateness, **fresh.get(n, {}))
            for n in FOUR
        ],
        overload=bd.Overload(1) if bounds else None,
    )


def test_freshness_alone_loses_stale_results_only() -> None:
    rng = np.random.default_rng(4)
    bounds = dict(zip(FOUR, (2, 3, 2, 4), strict=True))
    for plan in PLANS.values():
        query = plain_query("3 seconds", bounds)
        query = dataclasses.replace(query, plan=plan, overload=bd.Overload(10_000_000))
        live, plain = bd.LocalJoin(query), bd.LocalJoin(plain_query("3 seconds"))
        clock = dropped = 0
        for at in range(6):
            batch = load(rng, at, 30, FOUR)
            batch["s3"] = load(rng, max(0, at - 1), 30, FOUR)["s3"]
            clock = max(clock, *(int(t["t"].to_numpy().max()) for t in batch.values()))
            found, wanted = live.push(batch), plain.push(batch)
            fresh = np.ones(wanted.num_rows, np.bool_)
            for n, f in bounds.items():
                fresh &= wanted[f"{n}_t"].to_numpy() >= clock - f * SECOND
            dropped += int((~fresh).sum())
            assert bag(found) == bag(wanted.filter(pa.array(fresh)))
        assert dropped


def test_a_failed_batch_does_not_move_the_clock() -> None:
    streams = [
        bd.Stream(n, key="k", time="t", window="2 us", lateness="100 us", freshness="2 us") for n in "ab"
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams, where="10 / (a.k - b.k + 1) > 0", overload=bd.Overload(100)))

    def rows(k: int, t: int) -> pa.Table:
        return pa.table({"k": [k], "t": [t]})

    live.push({"a": rows(1, 10)})
    with pytest.raises(bd.BraidedError):
        live.push({"a": rows(1, 500), "b": pa.table({"k": ["x"], "t": [500]})})
    assert live.push({"b": rows(1, 11)}).num_rows == 1


def test_target_batch_makes_a_budget_from_measured_time() -> None:
    rng = np.random.default_rng(1)
    names = names_of(3)
    streams = [bd.Stream(n, key="k", time="t", window="2 seconds") for n in names]
    live = bd.LocalJoin(bd.JoinQuery(streams, overload=bd.Overload(target_batch="1 ms")))
    budgets = []
    for at in range(12):
        live.push(load(rng, at, 3_000, names))
        seen = live.stats().rationing
        assert seen is not None
        budgets.append(seen.budget)
    assert budgets[0] is None
    assert all(b is not None and b > 0 for b in budgets[2:])
    assert live.stats().exact_again is None
    seen = live.stats().rationing
    assert seen is not None
    assert not seen.problem or "target_batch is" in seen.problem


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"freshness": "1 us"}, "freshness='1 microsecond' must be at least the window"),
        ({"freshness": "-1 us"}, "must not be negative"),
    ],
)
def test_bad_freshness(options: dict[str, Any], message: str) -> None:
    with pytest.raises(bd.BraidedError, match=message):
        query_of("flat", 10, **options)


def test_freshness_needs_a_time_and_an_overload() -> None:
    with pytest.raises(bd.BraidedError, match="only goes with overload"):
        query_of("flat", None, freshness="1 hour")
    with pytest.raises(bd.BraidedError, match="needs a time column"):
        bd.JoinQuery([bd.Stream("a", "k", freshness="1 hour"), bd.Stream("b", "k")], overload=bd.Overload(5))


def rows_of(**columns: Any) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize("plan", ["mjoin", (("a", "b"), "c")])
def test_no_result_is_stale_where_only_some_streams_have_times(plan: Any) -> None:
    streams = [
        bd.Stream("a", key="k", time="t", freshness="5 us"),
        bd.Stream("b", key="k"),
        bd.Stream("c", key="k", time="t"),
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams, plan=plan, overload=bd.Overload(1_000)))
    live.push({"a": rows_of(k=[1], t=[0]), "b": rows_of(k=[1]), "c": rows_of(k=[2], t=[0])})
    assert live.push({"c": rows_of(k=[1], t=[100])}).num_rows == 0


@pytest.mark.parametrize("driver", get_args(WholeBuffers))
def test_rows_that_waited_for_count_windows_are_not_stale_either(driver: Any) -> None:
    streams = [
        bd.Stream("a", key="k", time="t", lateness="100 us", freshness="5 us"),
        bd.Stream("b", key="k", time="t", window=bd.CountWindow(3), lateness="100 us"),
    ]
    query = bd.JoinQuery(streams, overload=bd.Overload(1_000), tuning=bd.Tuning(driver))
    live = bd.LocalJoin(query)
    live.push({"a": rows_of(k=[1], t=[10]), "b": rows_of(k=[1], t=[1])})
    assert live.push({"a": rows_of(k=[9], t=[1_000]), "b": rows_of(k=[8], t=[1_000])}).num_rows == 0


@pytest.mark.parametrize("later", [{}, {n: rows_of(k=pa.nulls(1, pa.int64()), t=[50]) for n in "ab"}])
def test_rows_that_waited_have_a_budget_if_their_batch_brings_none(later: Any) -> None:
    streams = [bd.Stream(n, key="k", time="t", window=bd.CountWindow(3)) for n in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(streams, overload=bd.Overload(1_000)))
    found = [live.push({n: rows_of(k=[1], t=[5]) for n in "ab"}), live.push(later), live.end()]
    assert sum(t.num_rows for t in found) == 1


def test_a_failed_batch_does_not_move_the_clock_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = bd.Stream("a", key="k", time="t", freshness="5 us")
    streams = [timed, bd.Stream("b", key="k", time="t", window=bd.CountWindow(3))]
    live = bd.LocalJoin(bd.JoinQuery(streams, overload=bd.Overload(1_000)))
    live.push({n: rows_of(k=[1], t=[1]) for n in "ab"})
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(Tree, "foreseen", lambda *_: (_ for _ in ()).throw(MemoryError()))
        live.push({n: rows_of(k=[2], t=[1_000]) for n in "ab"})
    assert live.end().num_rows == 1


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("driver", get_args(WholeBuffers))
def test_the_order_of_rows_in_a_batch_does_not_matter(plan: str, driver: Any) -> None:
    rng = np.random.default_rng(1)
    query = dataclasses.replace(query_of(plan, 60), tuning=bd.Tuning(driver))
    one, two = (Engine(query, Site(repeatable=True)) for _ in range(2))
    for batch in batches_of(random_tables(6, FOUR, rows=150, keys=12), 25):
        shuffled = {n: t.take(pa.array(rng.permutation(t.num_rows))) for n, t in batch.items()}
        assert new_results(one, batch) == new_results(two, shuffled)


@pytest.mark.parametrize("plan", PLANS)
def test_a_saved_state_goes_on_alike_after_a_batch_without_rows(plan: str) -> None:
    from braided.engine import snapshot

    tables = random_tables(6, FOUR, rows=150, keys=12)
    one, two = (Engine(query_of(plan, 60), Site(repeatable=True)) for _ in range(2))
    for batch in [{}, *batches_of(tables, 25)]:
        found = new_results(one, batch)
        restored = Engine(query_of(plan, 60), Site(repeatable=True))
        snapshot.load(restored, snapshot.save(two))
        two = restored
        assert new_results(two, batch) == found


def test_another_plan_says_since_when_nothing_is_missing() -> None:
    rng = np.random.default_rng(1)
    names = names_of(3)
    live = bd.LocalJoin(query_of("linear", 10, names=names))
    for at in range(3):
        live.push(load(rng, at, 20, names, keys=4))
    assert live.stats().exact_again is None
    other = bd.LocalJoin(query_of("flat", 10, names=names)).restore(live.snapshot())
    other.push({})
    assert other.stats().exact_again == 3


def test_intermediates_of_rows_that_memory_has_no_room_for_are_forgotten() -> None:
    rng = np.random.default_rng(1)
    names = names_of(3)
    streams = [bd.Stream(n, key="k", time="t", window="unbounded") for n in names]
    live = bd.LocalJoin(bd.JoinQuery(streams, plan="linear", overload=bd.Overload(state_rows=60)))
    for at in range(20):
        live.push(load(rng, at, 20, names, keys=10))
    assert live.stats().intermediates["(s0 s1)"].live_rows < 300


@pytest.mark.parametrize("driver", get_args(RowByRow))
@pytest.mark.parametrize("budget", [{"probes": 60}, {"target_batch": "1 second"}])
def test_policies_that_take_single_rows_are_refused(driver: Any, budget: dict[str, Any]) -> None:
    """They were replaced by the largest buffer first, and nobody was told."""
    query = dataclasses.replace(query_of("flat", 60), overload=bd.Overload(**budget))
    with pytest.raises(
        bd.BraidedError, match=rf"driver_stream='{driver}' .*rationed .*use .*'output-rate'"
    ) as e:
        dataclasses.replace(query, tuning=bd.Tuning(driver))
    assert (e.value.option, e.value.position) == ("tuning", ("driver_stream",))


@pytest.mark.parametrize("driver", get_args(RowByRow))
@pytest.mark.parametrize("budget", [{"probes": 60, "shed": "input"}, {"state_rows": 60}])
def test_policies_that_take_single_rows_run_where_probes_are_not_rationed(
    driver: Any, budget: dict[str, Any]
) -> None:
    query = dataclasses.replace(
        query_of("flat", 60), overload=bd.Overload(**budget), tuning=bd.Tuning(driver)
    )
    live = bd.LocalJoin(query)
    live.push(random_tables(1, list(query.names), rows=20))
    assert live.stats().driver_switches > len(query.names)  # row by row
