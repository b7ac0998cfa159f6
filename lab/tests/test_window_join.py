"""The window-join lab on the shipped join: tiny runs say what large ones do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import braided as bd
from braided_lab import window_index, window_index_claims, window_overload, window_paper, window_spark
from braided_lab.report import Claim, Report
from braided_lab.window_index import Cell, Course
from braided_lab.window_join import lab, parameters

GIVEN = parameters()


def quiet(_: str) -> None:
    pass


def test_overload_follows_the_papers_formulas(tmp_path: Path) -> None:
    given = {**GIVEN["overload"], "quick": {"seeds": 2, "units": 100, "figure_10_units": 400}}
    rows, claims = window_overload.figures(tmp_path, given, quick=True, seed=3, say=quiet)
    assert {r["figure"] for r in rows} == {"8", "9", "10", "regulated", "equal_rates"}
    for row in rows:
        if row["paper"] is not None:
            assert sum(row["measured"]) / 2 == pytest.approx(row["paper"], rel=0.2, abs=0.4), row
    verdicts = {c.claim: c.verdict for c in claims}
    assert verdicts["Section 4.2: of 5 and 100 rows, with a budget of 50, these are let in"] == "reproduced"
    assert {p.name for p in tmp_path.glob("*.png")} == {f"figure-{n}.png" for n in (8, 9, 10, 11)}


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


def test_the_index_sweep_measures_predicts_and_judges(tmp_path: Path) -> None:
    given = {
        **GIVEN["index"], "keys": [5, 80], "ratios": [1, 10], "windows": [100, 400], "batch_rows": 200,
        "direction": {"quick_batches": 2, "quick_repeats": 1}, "quick_seeds": 2,
        "auto": {**GIVEN["index"]["auto"], "keys": [5], "ratios": [1], "quick_batches": 4, "moves": []},
    }  # fmt: skip
    given["auto"]["moves"] = [{"keys": [5, 5], "ratios": [1, 2]}]
    rows = window_index.measured(given, quick=True, seed=1, say=quiet)
    assert sum(r["experiment"] == "direction" for r in rows) == 2 * 2 * 2 * 2 * 2
    assert sum(r["experiment"] == "auto" for r in rows) == (2 + 2) * 2
    assert all(r["measured_us_per_batch"] > 0 for r in rows if r["experiment"] == "direction")
    assert sum(r["experiment"] == "expiry" for r in rows) == 2 * 2
    assert len(list(window_index_claims.claims(given, rows))) == 6
    window_index.draw(tmp_path, rows)
    assert (tmp_path / "our-indexes.png").exists()


def test_the_whole_lab_writes_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = Claim("|B| = 5", "paper", "ours", "reproduced")
    parts: list[str] = []

    def figures(out: Path, given: dict[str, Any], **_: Any) -> tuple[list[dict[str, Any]], list[Claim]]:
        parts.append(next(iter(given)))
        return [{"figure": 1}], [claim]

    for module in (window_paper, window_overload):
        monkeypatch.setattr(module, "figures", figures)
    monkeypatch.setattr(window_index, "measured", lambda *_, **__: [])
    monkeypatch.setattr(window_index_claims, "claims", lambda *_: iter([claim]))
    monkeypatch.setattr(window_index, "draw", lambda *_: None)
    monkeypatch.setattr(window_spark, "add", lambda *_, **__: None)
    lab(tmp_path, quick=True, seed=4)
    written = json.loads((tmp_path / "window-join.json").read_text())
    assert (written["experiment"], written["seed"], len(written["claims"])) == ("window-join", 4, 3)
    assert "\\|B\\| = 5" in (tmp_path / "window-join.md").read_text()
    assert len(parts) == 2


def test_rules_on_spark_let_in_what_they_say() -> None:
    """Real Spark: a micro-batch for each file, and equal rates ahead even after few of them."""
    pytest.importorskip("pyspark")
    spark_given = {**GIVEN["spark"], "warm_up": 3, "quick": {"units": 2, "seeds": 2}, "scale": 5}
    figure = {**GIVEN["overload"]["figure_8"], "windows": [2, 1]}
    figure["rules"] = ["window-inverse", "equal"]
    figure["paper"] = {"window-inverse": 0.02 * (10 / 3) * (20 / 3) * 3, "equal": 0.02 * 25 * 3}
    figure["ranking"] = [["equal"], ["window-inverse"]]
    given = {"spark": spark_given, "overload": {**GIVEN["overload"], "figure_8": figure}}
    report = Report("made up", 1, {})
    window_spark.add(report, given, quick=True, seed=1)
    measured = {row["rule"]: sum(row["measured"]) / 2 for row in report.rows}
    for rule, paper in figure["paper"].items():
        assert measured[rule] == pytest.approx(25 * paper, rel=0.35)
    assert [c.claim.split(":")[0] for c in report.claims] == ["Figure 8, on Spark"] * 2
