"""The jaqpot lab with rows in the join: near the model, never stale, the same every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from braided.query.plan_tree import intermediates, label
from braided_lab import intel_lab, jaqpot
from braided_lab.jaqpot import parameters
from braided_lab.jaqpot_engine import FITTED, NEVER, Bench, predicted
from braided_lab.jaqpot_engine_flat import OneKey
from braided_lab.jaqpot_engine_fresh import BOUNDED
from braided_lab.jaqpot_settings import PLANS, Lab, draw_model
from braided_lab.jaqpot_workload import Workload, draw_exact, links, workload
from braided_lab.report import quiet

GIVEN = parameters()
ROWS = GIVEN["rows"]


def drawn(plan: str, seed: int = 5) -> tuple[Workload, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return workload(draw_model(rng, PLANS[plan], ROWS["range"]), "count"), rng


def test_every_operator_has_columns_of_its_own() -> None:
    assert links(PLANS["linear"]) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert links(PLANS["bushy"]) == [("a", "b"), ("c", "d"), ("b", "c")]
    assert links(PLANS["five"]) == [("a", "b"), ("c", "d"), ("b", "c"), ("d", "e")]


@pytest.mark.parametrize("plan", PLANS)
def test_with_all_rows_probing_the_engine_is_the_model(plan: str) -> None:
    work, rng = drawn(plan)
    bench = Bench(work, rng, 30)
    found = bench.unlimited()
    held = {name: state.live_rows for name, state in found.seen.streams.items()}
    held |= {name: state.live_rows for name, state in found.seen.intermediates.items()}
    assert held == {label(node): rows for node, rows in work.held.items()}  # all states are full
    assert found.probes.mean() == pytest.approx(work.setting.saturation, rel=0.15)
    assert found.results.mean() == pytest.approx(work.setting.full.output, rel=0.2)
    for node in intermediates(work.model.plan):
        rows = found.entered[label(node)]
        assert rows.mean() == pytest.approx(work.setting.full.arrivals[node], rel=0.2)


@pytest.mark.parametrize("plan", PLANS)
def test_under_a_budget_the_engine_is_within_a_fifth_of_the_model(plan: str) -> None:
    work, rng = drawn(plan)
    bench = Bench(work, rng, 30)
    for policy in ("jaqpot", "equal-best", FITTED["global-productivity"]):
        probes = 0.4 * work.setting.saturation
        found = bench.run(policy, probes)
        assert found.probes.mean() <= 1.02 * probes
        assert found.results.mean() == pytest.approx(predicted(work, policy, probes).output, rel=0.2), policy


def test_exact_states_settle_where_the_model_says() -> None:
    rng = np.random.default_rng(2)
    work = workload(draw_exact(rng, PLANS["linear"], ROWS["exact"]["range"]), "time")
    assert not work.state_windows
    assert all(0.15 < work.model.productivity(h) < 6 for h in work.model.half_joins)
    since = round(max(work.setting.bounds(1.1).values()))
    bench = Bench(work, rng, since + 30)
    probes = 0.5 * work.setting.saturation
    ours = bench.run("jaqpot", probes).results[since:].mean()
    assert ours == pytest.approx(predicted(work, "jaqpot", probes).output, rel=0.2)


def test_a_run_can_be_repeated_and_policies_see_the_same_rows() -> None:
    def runs() -> list[list[float]]:
        work, rng = drawn("bushy")
        bench = Bench(work, rng, 12)
        policies = ("jaqpot", NEVER, "selectivity-best")
        return [bench.run(p, 0.3 * work.setting.saturation).results.tolist() for p in policies]

    first = runs()
    assert first == runs()
    assert first[0] != first[2]


def test_no_result_is_stale_under_any_policy_and_without_bounds_most_are() -> None:
    rng = np.random.default_rng(3)
    work = workload(draw_model(rng, PLANS["bushy"], ROWS["fresh"]["range"]), "count")
    probes, bounds = 0.3 * work.setting.saturation, work.setting.bounds(1.5)
    bound = Bench(work, rng, 40, 1.5)
    for policy in BOUNDED:
        found = bound.run(policy, probes, ages=True)
        assert not found.stale(bounds), policy
    free = Bench(work, rng, 40).run("greedy-path", probes, ages=True)
    assert free.stale(bounds, 30) > 0.5 * free.results[30:].sum() > 0


def test_what_cannot_be_kept_fresh_is_said() -> None:
    work, rng = drawn("linear")
    found = Bench(work, rng, 8, 1.01).run("jaqpot", 0.1 * work.setting.saturation)
    assert "these bounds would do" in found.problem


def test_newest_rows_of_intermediates_follow_the_model_too() -> None:
    rng = np.random.default_rng(2)
    work = workload(draw_exact(rng, PLANS["bushy"], ROWS["exact"]["range"]), "newest")
    assert not work.state_windows
    since = round(max(work.setting.bounds(1.1).values()))
    found = Bench(work, rng, since + 15, 1.5).run("jaqpot", 0.5 * work.setting.saturation)
    assert found.results[since:].mean() == pytest.approx(
        predicted(work, "jaqpot", 0.5 * work.setting.saturation, 1.5).output, rel=0.25
    )
    most = {label(node): rows for node, rows in work.held.items()}
    states = found.seen.intermediates.items()
    assert all(state.live_rows <= most[name] + state.entered_rows for name, state in states)


def test_real_data_is_left_out_with_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intel_lab, "FOLDER", tmp_path)
    monkeypatch.setattr(intel_lab.missing, "__defaults__", (tmp_path,))
    outcome = jaqpot.rows_intel(Lab(GIVEN, True, 1), tmp_path, quiet)
    assert not outcome.rows
    assert [c.verdict for c in outcome.claims] == ["not tested"]
    assert "left out" in outcome.notes[0]


def test_shedding_lets_in_what_its_probes_pay_for() -> None:
    drawn_ = OneKey({"a": 20.0, "b": 30.0, "c": 40.0, "d": 25.0}, 10, 300)
    assert drawn_.let_in(1e9) == pytest.approx(1)
    assert 0 < drawn_.let_in(60) < drawn_.let_in(120) < 1


def test_an_experiment_makes_rows_claims_and_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn_: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda _, path, **__: drawn_.append(path.name))
    few = {**GIVEN["quick"], "rows_minute": 2}
    given = {**GIVEN, "quick": few, "changes": {**GIVEN["changes"], "plans": ["linear"]}}
    outcome = jaqpot.rows_changes(Lab(given, True, 1), tmp_path, quiet)
    assert drawn_ == ["engine-6.png"]
    assert len(outcome.rows) == 20  # ten policies, with bounds and without
    assert [c.verdict for c in outcome.claims] == ["not tested"] * 6  # one setting
