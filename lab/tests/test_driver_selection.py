"""The driver-selection lab: its data is the paper's, its report says what it must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.policies.decisions import Turn
from braided.policies.driver import ConsumptionRate, InitialOutputSize, OutputRate
from braided_lab import driver_selection
from braided_lab.arrivals import alternating, b_model, b_model_weights, constant, sinusoidal
from braided_lab.driver_datasets import NAMES, STREAMS, dataset, query, wide
from braided_lab.measure import by_period
from braided_lab.report import Verdict, mean_of

GIVEN = driver_selection.parameters()


@pytest.mark.parametrize("name", NAMES)
def test_data_sets_have_the_papers_sizes_and_selectivities(name: str) -> None:
    tables = dataset(name, 10_000, GIVEN, seed=3)
    uneven = name in ("V", "VI")
    assert [tables[s].num_rows for s in STREAMS] == ([100, 1_000, 10_000] if uneven else [10_000] * 3)
    assert all(np.all(np.diff(t["t"].cast(pa.int64()).to_numpy()) >= 0) for t in tables.values())
    joined = bd.run_local(query(STREAMS, bd.Tuning()), tables)
    assert joined.num_rows == 10 * (1 * 10 * 100 if uneven else 1 * 5 * 1_000)
    ends = [t["t"].cast(pa.int64()).to_numpy()[-1] for t in tables.values()]
    assert min(ends) > 0.9 * 100_000  # all finish about together
    assert dataset(name, 10_000, GIVEN, seed=3) == tables
    assert dataset(name, 10_000, GIVEN, seed=4) != tables


def test_formulas_give_what_follows_from_the_papers_tables() -> None:
    """golden.json, D8 and D9: Eq. 1, outRate and sigma_Sj, by hand from Tables 1 to 3."""
    full, buffers = (10_000, 100_000, 1_000_000), (100, 1_000, 10_000)
    turn = Turn(waiting_rows=buffers, stored_rows=full, recent_rows=full)
    of_join = 1e-9
    assert [of_join * InitialOutputSize().score(turn, j) for j in range(3)] == pytest.approx([10_000] * 3)
    assert [of_join * OutputRate().score(turn, j) for j in range(3)] == pytest.approx([100, 10, 1])
    assert [1e6 / ConsumptionRate().score(turn, j) for j in range(3)] == pytest.approx([100, 10, 1])
    even = Turn(waiting_rows=(10_000,) * 3, stored_rows=(1_000_000,) * 3)
    assert 5e-12 * InitialOutputSize().score(even, 0) == pytest.approx(50_000)


def test_arrival_patterns() -> None:
    rng = np.random.default_rng(1)
    assert (b_model_weights(0.2, 2) * 1_000).round().tolist() == [40, 160, 160, 640]
    fast = alternating(rng, 8_000, 80_000, fast_first=True)
    slow = alternating(rng, 8_000, 80_000, fast_first=False)
    assert (fast < 10_000).sum() == 2_000
    assert (slow < 30_000).sum() == 2_000
    first = b_model(rng, 8_000, 80_000, first=0.2, depth=7) < 40_000
    assert 0.17 < first.mean() < 0.23
    for times in (constant(rng, 100, 50), sinusoidal(rng, 100, 50, cycles=2, amplitude=0.8)):
        assert len(times) == 100
        assert times.min() >= 0
        assert times.max() < 50


@pytest.mark.parametrize("condition", GIVEN["beyond"]["conditions"])
def test_wider_joins_have_results(condition: str) -> None:
    tables = wide(6, condition, 4_000, GIVEN, seed=1)
    assert bd.run_local(query(tuple(tables), bd.Tuning()), tables).num_rows > 0


def test_periods_cover_all_rows_once() -> None:
    tables = dataset("V", 5_000, GIVEN, seed=1)
    parts = by_period(tables, 7, 50_000)
    assert len(parts) == 7
    for name, table in tables.items():
        assert pa.concat_tables([p[name] for p in parts]).combine_chunks() == table.combine_chunks()


def test_means_have_intervals() -> None:
    assert str(mean_of([1.0])) == "1.000 (1.000 to 1.000)"
    assert mean_of([1.0, 2.0, 3.0]).low == pytest.approx(2 - 4.303 / 3**0.5)


def test_a_small_run_reports_every_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small: dict[str, Any] = {
        **GIVEN,
        "quick": {
            "rows": 2_000,
            "repetitions": 2,
            "spark": {"data_sets": ["II"], "rows": 2_000, "batches": 5, "repetitions": 2},
        },
        "batches": [8, 4],
        "beyond": {
            **GIVEN["beyond"],
            "streams": [4],
            "quick_rows": 1_000,
            "batches": 3,
            "quick_repetitions": 1,
        },
    }
    monkeypatch.setattr(driver_selection, "parameters", lambda: small)
    report = driver_selection.lab(tmp_path, quick=True, seed=2)
    said = json.loads((tmp_path / "driver-selection.json").read_text())
    assert set(said) >= {"experiment", "seed", "parameters", "rows", "claims"}
    assert len(said["claims"]) == len(report.claims) == len({c.claim for c in report.claims}) == 140
    assert sum(c.claim.startswith("Spark") for c in report.claims) == 2
    assert {c["verdict"] for c in said["claims"]} <= set(get_args(Verdict))
    assert all({"claim", "paper", "ours", "verdict"} <= set(c) for c in said["claims"])
    assert "| bar | must | measured |" in (tmp_path / "driver-selection.md").read_text()
    drawn = {p.name for p in tmp_path.glob("*.png")}
    assert drawn == {"figure-5.png", "figure-6.png", "figure-7.png", "figure-8.png", "consumed.png"}
