"""The jaqpot lab in the fluid model: settings, sweeps, staleness, linear programs, flat plans, real data."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from braided.policies.allocation import greedy_path
from braided.policies.flow import predict
from braided.policies.freshness import staleness
from braided.policies.plan_model import plan_model
from braided_lab import intel_lab, jaqpot, jaqpot_flat, jaqpot_optimum
from braided_lab.jaqpot import lab, parameters
from braided_lab.jaqpot_freshness import ages, cases, stale_share
from braided_lab.jaqpot_harvest import harvest
from braided_lab.jaqpot_model import HEURISTICS, REDISTRIBUTED, SHEDDING, Sweep, course, sweep
from braided_lab.jaqpot_settings import PLANS, Lab, Outcome, Setting, draw_model
from braided_lab.report import Claim, quiet

GIVEN = parameters()


def small(**sizes: int) -> Lab:
    return Lab({**GIVEN, "quick": {**GIVEN["quick"], "settings": 4, **sizes}}, quick=True, seed=3)


@pytest.fixture(scope="module")
def engine_sweep() -> Sweep:
    return sweep(small(), "engine", "bushy")


@pytest.mark.parametrize("plan", PLANS)
def test_settings_stay_within_their_ranges(plan: str) -> None:
    for setting in small().settings("engine", plan):
        rho = [setting.model.productivity(h) for h in setting.model.half_joins]
        assert 0.2 - 1e-9 <= min(rho) <= max(rho) <= 5 + 1e-9
    for setting in small().settings("table-3", plan):
        assert all(0.01 <= s <= 0.1 for s in setting.model.selectivities.values())
        assert all(200 <= s <= 5000 for s in setting.model.sizes.values())
        assert not setting.model.settles  # intermediates have count windows


def test_the_same_seed_gives_the_same_rows_and_another_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)  # drawing takes longer than computing

    def rows(seed: int) -> list[Any]:
        few = Lab(small(settings=1, results_sampled=50, optimum_plans=6, analyses=1).given, True, seed)
        found = [experiment(few, tmp_path, quiet).rows for experiment in jaqpot.FLUID]
        return [json.dumps(part) for part in found]

    first = rows(1)
    assert first == rows(1)
    assert all(a != b for a, b in zip(first[1:], rows(2)[1:], strict=True))  # examples have no seed


def test_every_policy_yields_all_at_saturation_and_nothing_without_budget(engine_sweep: Sweep) -> None:
    for policy, shares in engine_sweep.shares.items():
        assert shares[:, 0] == pytest.approx(0), policy
        full = policy in ("jaqpot", "greedy-path", SHEDDING, *REDISTRIBUTED)
        assert not full or shares[:, -1] == pytest.approx(1, rel=1e-6), policy


def test_no_allocation_beats_best_paths_first(engine_sweep: Sweep) -> None:
    best = engine_sweep.shares["greedy-path"]
    for policy, shares in engine_sweep.shares.items():
        assert (shares <= best * (1 + 1e-9)).all(), policy


def test_redistribution_helps_where_budget_was_left_over() -> None:
    found = sweep(small(), "table-3", "linear").between(0.1, 0.6)
    plain, redistributed = found.times_best(list(HEURISTICS)), found.times_best(list(REDISTRIBUTED))
    assert plain.mean() > 2
    assert redistributed.mean() < 1.1


def test_shedding_with_count_windows_yields_the_part_that_is_paid_for(engine_sweep: Sweep) -> None:
    assert engine_sweep.shares[SHEDDING].mean(axis=0) == pytest.approx(engine_sweep.budgets)


def test_adapting_never_yields_less_than_staying(tmp_path: Path) -> None:
    for budget in ("fixed", "moving"):
        found = course(small(), "linear", budget)
        assert found.seconds == (180, 240, 180)
        adapted, stayed = found.rates["greedy-path"], found.rates["jaqpot, never adapted"]
        assert (adapted >= stayed * (1 - 1e-9)).all()
        assert (found.totals["jaqpot"] > 0).all()


def test_no_result_drawn_is_older_than_lemma_1_says() -> None:
    rng = np.random.default_rng(5)
    for setting in small().settings("engine", "five"):
        for part in (0.2, 1.0):
            flow = greedy_path.allocate(setting.question(part)).expected
            oldest = staleness(setting.model, flow)
            for stream, drawn in ages(rng, setting.model, flow, 300).items():
                assert drawn.max() <= oldest[stream] or math.isinf(oldest[stream])


def test_ages_in_a_single_join_are_those_of_the_window() -> None:
    model = plan_model(
        ("a", "b"), {"a": 100, "b": 100}, sizes={"a": 1000, "b": 1}, selectivity={("a", "b"): 0.1}
    )
    only_b = predict(model, {model.half_joins[1]: 100.0})  # rows of b probe a's window of ten seconds
    drawn = ages(np.random.default_rng(0), model, only_b, 20_000)
    assert drawn["b"].max() == 0
    assert drawn["a"].mean() == pytest.approx(5, abs=0.1)
    assert stale_share(drawn, {"a": 7.5, "b": 1.0}) == pytest.approx(0.25, abs=0.02)


def test_jaqpot_is_never_stale_where_there_is_a_cover() -> None:
    found = cases(small(settings=2, results_sampled=200), quiet)
    covered = [c for c in found if c.feasible]
    assert len(covered) > 50
    assert all(c.reached and c.stale["jaqpot"] == 0 and 0 <= c.cost <= 1 + 1e-9 for c in covered)
    assert any(c.stale["greedy-path"] > 0.5 for c in covered)
    tight, loose = ([c for c in found if c.factor == f] for f in (1.5, 5))
    assert sum(c.feasible for c in tight) < sum(c.feasible for c in loose)


def test_best_paths_first_is_within_two_percent_of_the_program() -> None:
    rows = list(jaqpot_optimum.optimum_rows(small(optimum_plans=50)))
    assert len(rows) == 50
    assert max(r["below_optimum"] for r in rows) <= 0.02
    assert min(r["below_optimum"] for r in rows) >= -1e-6  # the program is indeed an upper bound
    assert all(r["cover_above_optimum"] is None or r["cover_above_optimum"] >= -1e-6 for r in rows)


def test_best_paths_first_is_within_two_percent_of_the_program_on_500_plans() -> None:
    lab = small(optimum_plans=500)
    budgets = lab.rng("budgets").uniform(0.02, 1.0, 500)
    settings = jaqpot_optimum.random_settings(lab)
    gaps = [jaqpot_optimum.below_optimum(s, float(b)) for s, b in zip(settings, budgets, strict=True)]
    assert max(gaps) <= 0.02
    assert min(gaps) >= -1e-6


def test_flat_and_tree_have_the_same_results() -> None:
    for chain in jaqpot_flat.chains(small()):
        outputs = [predict(chain.tree(PLANS[plan])).output for plan in ("linear", "bushy")]
        assert outputs == pytest.approx([predict(chain.flat()).output] * 2)


def test_shedding_with_time_windows_spends_its_budget_and_no_more() -> None:
    chain = next(jaqpot_flat.chains(small()))
    full = predict(chain.tree(PLANS["linear"]))
    assert jaqpot_flat.shed(chain, PLANS["linear"], 2 * full.spent) == pytest.approx(full.output)
    assert jaqpot_flat.shed(chain, PLANS["linear"], 0.5 * full.spent) < 0.5 * full.output
    assert jaqpot_flat.shed(chain, PLANS["linear"], 0.0) == pytest.approx(0, abs=1e-9)


def test_parts_of_windows_without_correlation_are_best_paths_first() -> None:
    setting = Setting(next(jaqpot_flat.chains(small())).flat())
    parts = (0.2, 0.5, 1.0)
    plain = [greedy_path.allocate(setting.question(part)).output for part in parts]
    budgets = [part * setting.saturation for part in parts]
    assert harvest(setting.model, budgets, basic_windows=10, correlation=1.0) == pytest.approx(
        plain, rel=0.02
    )
    better = harvest(setting.model, budgets, basic_windows=10, correlation=0.5)
    assert all(b >= p * (1 - 1e-9) for b, p in zip(better, plain, strict=True))


def test_the_whole_lab_writes_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {**GIVEN["quick"], "settings": 2, "results_sampled": 50, "optimum_plans": 12, "analyses": 2}
    monkeypatch.setattr(jaqpot, "parameters", lambda: {**GIVEN, "quick": few})

    def more(_: Lab, __: Path, ___: object) -> Outcome:
        return Outcome([{"experiment": "more"}], [Claim("a", "b", "c", "reproduced")], ["left out"])

    monkeypatch.setattr(jaqpot, "EXPERIMENTS", (*jaqpot.FLUID, more))
    lab(tmp_path, quick=True, seed=4)
    written = json.loads((tmp_path / "jaqpot.json").read_text())
    assert {row["experiment"] for row in written["rows"]} == {
        "budget", "changes", "example", "flat", "flat-cost", "freshness", "more", "optimum"
    }  # fmt: skip
    assert "left out" in (tmp_path / "jaqpot.md").read_text()
    figures = {path.name for path in tmp_path.glob("*.png")}
    assert figures == {
        "figure-6.png", "figure-7.png", "figure-9.png", "flat-against-tree.png", "greedy-cover.png"
    }  # fmt: skip


def test_readings_become_streams_by_group_in_order_of_time(tmp_path: Path) -> None:
    assert "left out" in intel_lab.missing(tmp_path)
    times = pa.array([3, 1, 2, 4], pa.int64()).cast(pa.timestamp("us", "UTC"))
    warm = pa.array([20.5, 19.0, 20.5, 7.0], pa.float32())
    table = pa.table({"ts": times, "moteid": pa.array([1, 2, 2, 3], pa.int16()), "temperature": warm})
    pq.write_table(table, tmp_path / "intel_lab.parquet")
    (tmp_path / "intel_lab_groups.csv").write_text("group,moteid\nA,1\nA,3\nB,2\n")
    assert not intel_lab.missing(tmp_path)
    found = intel_lab.streams(folder=tmp_path)
    assert {name: t["t"].cast(pa.int64()).to_pylist() for name, t in found.items()} == {
        "A": [3, 4],
        "B": [1, 2],
    }
    a, b = found["A"]["key"].to_pylist(), found["B"]["key"].to_pylist()
    assert a[0] == b[1]
    assert len({*a, *b}) == 3


def test_a_drawn_model_is_a_pure_function_of_its_generator() -> None:
    within = GIVEN["ranges"]["engine"]
    one, two = (draw_model(np.random.default_rng(8), PLANS["five"], within) for _ in range(2))
    assert (one.rates, one.sizes, one.selectivities) == (two.rates, two.sizes, two.selectivities)
