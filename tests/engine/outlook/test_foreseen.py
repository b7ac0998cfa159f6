"""What is foreseen of a join is what it does: results, probes, the index, and what budgets leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import braided as bd
from braided.engine.calibration import machine_costs
from braided.engine.outlook import yields
from braided.engine.outlook.around import Around
from braided.engine.outlook.work import Work, most_times
from braided.policies.flow import predict
from tests.engine.outlook.running import foresee, query, run

RATES = {"a": 200, "b": 400, "c": 100}
AROUND = Around(1e6, 100.0, 50.0)


def work(asked: bd.JoinQuery, rates: Mapping[str, float], **more: Any) -> Work:
    return Work(foresee(asked, rates, **more), machine_costs(), AROUND)


@pytest.mark.parametrize(
    ("asked", "rates"),
    [
        (query("ab"), {"a": 200, "b": 400}),
        (query({"a": 2, "b": 6}), {"a": 200, "b": 400}),
        (query("abc"), RATES),
        (query("abc", plan="linear"), RATES),
        (query("abc", plan=("a", ("b", "c"))), RATES),
        (query("ab", within={("a", "b"): ("0 s", "1 second")}), {"a": 200, "b": 400}),
        (query("ab", options={"lateness": "2 seconds"}), {"a": 200, "b": 400}),
    ],
)
def test_results_and_probes_are_those_of_the_engine(asked: bd.JoinQuery, rates: Mapping[str, float]) -> None:
    flow, seen = predict(foresee(asked, rates).exact), run(asked, rates)
    assert flow.output == pytest.approx(seen.results, rel=0.1)
    if asked.flat:  # statistics name half-joins by streams
        assert flow.spent == pytest.approx(seen.probes, rel=0.1)


def test_a_direction_finds_what_the_engine_finds() -> None:
    asked, rates = query({"a": 2, "b": 6}), {"a": 200.0, "b": 400.0}
    one, other = work(asked, rates).directions
    seen = run(asked, rates).live.stats().half_joins
    for direction, pair in ((one, ("a", "b")), (other, ("b", "a"))):
        assert direction.found / direction.probes == pytest.approx(seen[pair].productivity, rel=0.15)


@pytest.mark.parametrize("keys", [2, 5000])
def test_the_index_is_the_one_that_auto_settles_on(keys: int) -> None:
    asked, rates = query("ab"), {"a": 400, "b": 100}
    foreseen = {d.node: "scan" if d.scanned else "hash" for d in work(asked, rates, keys=keys).directions}
    seen = run(asked, rates, keys=keys, warm=10, batches=60).live.stats().streams
    assert foreseen == {name: seen[name].index for name in "ab"}
    assert set(foreseen.values()) == {"scan" if keys == 2 else "hash"}


def test_a_fixed_index_is_foreseen_as_it_is_asked_for() -> None:
    asked = query("ab", tuning=bd.Tuning(index={"a": "scan", "b": "hash"}))
    assert [d.scanned for d in work(asked, {"a": 200, "b": 200}).directions] == [True, False]


def test_one_core_is_busy_where_a_batch_costs_as_long_as_it_lasts() -> None:
    now = work(query("abc"), RATES)
    most = most_times(now, 0.25)
    assert most > 1
    assert now.at(most).ns == pytest.approx(0.25e9, rel=0.01)
    assert now.at(1.0).ns == pytest.approx(now.ns)
    assert now.ns == pytest.approx(now.batch_ns + now.rows_ns + now.made_ns + now.probing_ns)


def test_where_nothing_comes_no_core_is_ever_busy() -> None:
    assert most_times(work(query("ab"), {"a": 0, "b": 0}), 0.25) == float("inf")


@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_allocations_yield_in_the_engine_what_is_foreseen(plan: str) -> None:
    """Those that look at paths; a heuristic may yield more than foreseen, because a join holds on to an
    earlier allocation that promises more than the one it would make now."""
    budget = round(0.3 * predict(foresee(query("abc", plan=plan), RATES).exact).spent)
    foreseen = foresee(query("abc", plan=plan, overload=bd.Overload(budget)), RATES)
    expected = {y.rule: y for y in yields.by_probes(foreseen, budget)}
    seen = {}
    for rule, one in expected.items():
        overload = bd.Overload(budget, allocation=rule)  # type: ignore[arg-type]
        seen[rule] = run(query("abc", plan=plan, overload=overload), RATES).results
        assert one.used <= budget * 1.001
        assert one.results < 1.1 * seen[rule], rule
    for rule in ("jaqpot", "least-loss", "greedy-path", "dp-knapsack", "best-halfjoin"):
        assert expected[rule].results == pytest.approx(seen[rule], rel=0.1), rule
    assert yields.most([*expected.values()], "jaqpot").rule == "jaqpot"
    if plan == "linear":  # best paths first starves what it counts on: a clear case
        assert expected["jaqpot"].results > 1.3 * expected["greedy-path"].results
        assert seen["jaqpot"] > 1.3 * seen["greedy-path"]


@pytest.mark.parametrize("allocation", ["equal", "proportional", "inverse"])
def test_what_dropped_rows_leave_is_what_the_engine_finds(allocation: Any) -> None:
    asked = query("ab", overload=bd.Overload(60, shed="input", allocation=allocation))
    rates = {"a": 200, "b": 600}
    expected = {y.rule: y for y in yields.by_input(foresee(asked, rates), 60)}
    assert expected[allocation].used == pytest.approx(60)
    assert expected[allocation].results == pytest.approx(run(asked, rates).results, rel=0.15)
    assert yields.most([*expected.values()], "equal").rule == "equal"


@pytest.mark.parametrize("split", ["best", "max-fast", "equal"])
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_what_cut_windows_leave_is_what_the_engine_finds(split: Any, plan: str) -> None:
    batch_us = 50_000  # short beside the windows
    asked = query("abc", plan=plan, overload=bd.Overload(state_rows=1200, window_split=split))
    expected = {y.rule: y for y in yields.by_windows(foresee(asked, RATES, batch_us=batch_us), 1200)}
    seen = run(asked, RATES, batch_us=batch_us, warm=200, batches=600)
    assert expected[split].used <= 1200 * 1.001
    assert expected[split].results == pytest.approx(seen.results, rel=0.25)
    assert yields.most([*expected.values()], "best").rule == "best"


def test_windows_of_intermediates_are_foreseen() -> None:
    asked = query("abc", plan="linear", overload=bd.Overload(intermediate_rows=1000))
    foreseen = foresee(asked, RATES)
    left = yields.by_intermediates(foreseen)
    assert left < 0.8 * predict(foreseen.exact).output
    assert left == pytest.approx(run(asked, RATES).results, rel=0.2)


def test_states_that_starve_under_bounds_on_age_are_named() -> None:
    """Only what is fed enough is fresh; the allocation that looks at freshness feeds first."""
    options = {"freshness": "8 seconds"}
    overload = bd.Overload(120, intermediate_rows=2000)
    asked = query("abc", plan="linear", options=options, overload=overload)
    expected = {y.rule: y for y in yields.by_probes(foresee(asked, RATES), 120)}
    plan = yields.freshness(foresee(asked, RATES), 120)
    assert plan is not None
    assert plan.refresh[("a", "b")] > 0
    for one in expected.values():
        assert one.starved in ((), ("(a b)",))
    assert any(one.starved for one in expected.values())
    assert (
        yields.freshness(foresee(query("abc", options=options, overload=bd.Overload(120)), RATES), 120)
        is None
    )
