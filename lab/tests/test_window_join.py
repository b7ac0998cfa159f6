"""The window-join lab on the shipped join: tiny runs say what large ones do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import braided as bd
from braided_lab import window_index, window_overload, window_paper
from braided_lab.report import Claim
from braided_lab.window_index import Cell, Course
from braided_lab.window_join import lab, parameters

GIVEN = parameters()


def quiet(_: str) -> None:
    pass


def test_overload_follows_the_papers_formulas(tmp_path: Path) -> None:
    given = {**GIVEN["overload"], "quick_units": 150, "quick_figure_10_units": 500}
    rows, claims = window_overload.figures(tmp_path, given, quick=True, seed=3, say=quiet)
    assert {r["figure"] for r in rows} == {8, 9, 10}
    for row in rows:
        assert row["measured"] == pytest.approx(row["formula"], rel=0.15, abs=0.4), row
    assert [c.verdict for c in claims][1] == "reproduced"
    assert {p.name for p in tmp_path.glob("*.png")} == {f"figure-{n}.png" for n in (8, 9, 10, 11)}


def test_a_ranking_that_is_turned_round_is_not_reproduced() -> None:
    rows = [
        {"figure": f, "rule": rule, "formula": formula, "measured": 10 - formula}
        for f in (8, 9, 10)
        for rule, formula in (("a", 3.0), ("b", 1.0))
    ]
    assert {c.verdict for c in window_overload.claims(GIVEN["overload"], rows)} == {"not reproduced"}


def test_a_cells_load_is_what_its_parameters_say() -> None:
    load = Cell(keys=10, ratio=5, window=100, batch_rows=1_000).load(3)
    assert (load.probes, load.inserts, load.rows, load.hits) == (600, 3_000, 100, 10)
    assert load.hops == 110


def test_courses_bring_their_rows_in_order() -> None:
    course = Course((Cell(10, 1, 100, 50), Cell(80, 10, 100, 50)), batches=4)
    batches = course.tables(seed=1)
    assert [b["a"].num_rows for b in batches] == [50, 50, 5, 5]
    assert course.seconds(bd.Tuning(), batches) > 0
    active, lazy = (course.most_rows(bd.Tuning(expiry=e), batches) for e in ("active", "lazy"))
    assert 0 < active <= lazy


def index_rows(given: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Claim]]:
    rows = window_index.directions(given, quick=True, seed=1)
    rows += window_index.auto(given, quick=True, seed=1, say=quiet)
    rows += window_index.expiry(given, quick=True, seed=1)
    return rows, list(window_index.claims(given, rows))


def test_the_index_sweep_measures_predicts_and_judges(tmp_path: Path) -> None:
    given = {
        **GIVEN["index"], "keys": [5, 80], "ratios": [1, 10], "windows": [100, 400], "batch_rows": 200,
        "direction": {"quick_batches": 2, "quick_repeats": 1},
        "auto": {**GIVEN["index"]["auto"], "keys": [5], "ratios": [1], "quick_batches": 4, "moves": []},
    }  # fmt: skip
    given["auto"]["moves"] = [{"keys": [5, 5], "ratios": [1, 2]}]
    rows, claims = index_rows(given)
    assert sum(r["experiment"] == "direction" for r in rows) == 2 * 2 * 2 * 2
    assert sum(r["experiment"] == "auto" for r in rows) == 2 + 2
    assert all(r["measured_us_per_batch"] > 0 for r in rows if r["experiment"] == "direction")
    assert sum(r["experiment"] == "expiry" for r in rows) == 2
    assert len(claims) == 5
    window_index.draw(tmp_path, rows)
    assert (tmp_path / "our-indexes.png").exists()


def test_a_sweep_outside_its_bars_is_not_reproduced() -> None:
    direction = {"experiment": "direction", "keys": 5, "ratio": 1, "window": 1, "measured_us_per_batch": 1.0}
    rows: list[dict[str, Any]] = [
        {**direction, "index": index, "predicted / measured": 2.0} for index in ("hash", "scan")
    ]
    rows += [{"experiment": "auto", "moving": moving, "auto / best": 1.5} for moving in (False, True)]
    assert {c.verdict for c in window_index.claims(GIVEN["index"], rows)} == {"not reproduced"}


def test_the_whole_lab_writes_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = Claim("|B| = 5", "paper", "ours", "reproduced")
    parts: list[str] = []

    def figures(out: Path, given: dict[str, Any], **_: Any) -> tuple[list[dict[str, Any]], list[Claim]]:
        parts.append(next(iter(given)))
        return [{"figure": 1}], [claim]

    for module in (window_paper, window_overload):
        monkeypatch.setattr(module, "figures", figures)
    monkeypatch.setattr(window_index, "directions", lambda *_, **__: [])
    monkeypatch.setattr(window_index, "auto", lambda *_, **__: [])
    monkeypatch.setattr(window_index, "expiry", lambda *_, **__: [])
    monkeypatch.setattr(window_index, "claims", lambda *_: iter([claim]))
    monkeypatch.setattr(window_index, "draw", lambda *_: None)
    lab(tmp_path, quick=True, seed=4)
    written = json.loads((tmp_path / "window-join.json").read_text())
    assert (written["experiment"], written["seed"], len(written["claims"])) == ("window-join", 4, 3)
    assert "\\|B\\| = 5" in (tmp_path / "window-join.md").read_text()
    assert len(parts) == 2
