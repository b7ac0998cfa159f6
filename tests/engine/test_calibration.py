"""Costs are measured once and kept; a machine without a place for them measures for itself."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from braided.engine import calibration
from braided.policies.index_cost import Costs, Load, hash_ns, scan_ns


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("BRAIDED_CACHE_DIR", str(tmp_path / "cache"))
    calibration.machine_costs.cache_clear()
    yield tmp_path / "cache"
    calibration.machine_costs.cache_clear()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Costs:
    """Costs that a measurement of half a second would give."""
    costs = Costs()
    monkeypatch.setattr(calibration, "measure", lambda: costs)
    return costs


def test_measured_costs_tell_few_keys_from_many() -> None:
    costs = calibration.measure()
    assert all(cost >= 0 for cost in dataclasses.astuple(costs))
    few, many = Load(1e4, 1e3, 1e3, 500, 500), Load(1e4, 1e3, 1e5, 1.5, 1)
    assert scan_ns(few, costs) < hash_ns(few, costs)
    assert scan_ns(many, costs) > 10 * hash_ns(many, costs)


def test_costs_are_kept_and_read(fresh: Path, measured: Costs) -> None:
    assert calibration.machine_costs() == measured
    (kept,) = fresh.iterdir()
    assert Costs(**json.loads(kept.read_text())) == measured
    kept.write_text(json.dumps({**dataclasses.asdict(measured), "hop": 7.5}))
    calibration.machine_costs.cache_clear()
    assert calibration.machine_costs().hop == 7.5


@pytest.mark.parametrize(
    "damage", ["", "{}", "[1]", '{"hop": -1.0}', '{"hop": "x"}', '{"colour": 1.0}', "\x00"]
)
def test_a_damaged_file_is_measured_again(measured: Costs, damage: str) -> None:
    calibration.costs_file().parent.mkdir()
    calibration.costs_file().write_text(damage)
    assert calibration.machine_costs() == measured
    assert json.loads(calibration.costs_file().read_text()) == dataclasses.asdict(measured)


def test_without_a_home_or_a_place_to_write_a_process_measures_for_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measured: Costs
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("BRAIDED_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert calibration.costs_file().name.startswith("index-costs-")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("BRAIDED_CACHE_DIR", str(tmp_path / "file"))
    assert calibration.machine_costs() == measured
