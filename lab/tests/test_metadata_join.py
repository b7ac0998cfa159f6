"""The metadata-join lab: its runs count what they must, its claims can hold and can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided_lab import metadata_claims, metadata_join
from braided_lab.metadata_measure import (
    COLUMNS,
    Curve,
    KeyedPurge,
    ScanningPurge,
    at_punctuations,
    news_query,
    run_mjoin,
    run_xjoin,
)
from braided_lab.news import News, tables
from braided_lab.report import Report

GIVEN = metadata_join.parameters()
TINY: dict[str, Any] = {
    "queues": {"access_records": 100, "repetitions": 1},
    "bulk": {"access_records": 500, "quota": 100, "repetitions": 2},
    "fine": {"access_records": 200, "repetitions": 1},
}


def whole(records: int, arrival: Any = "random", seed: int = 1) -> dict[str, Any]:
    made = tables(News(records, arrival=arrival), seed=seed)
    return {name: table.combine_chunks().to_batches()[0] for name, table in made.items()}


def counts(curve: Curve) -> list[list[float]]:
    """All but the time."""
    rows: list[list[float]] = np.delete(curve.points, COLUMNS.index("seconds"), axis=1).tolist()
    return rows


def test_a_small_run_reports_every_claim_and_counts_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_join, "parameters", lambda: {**GIVEN, "quick": TINY})
    report = metadata_join.lab(tmp_path, quick=True, seed=2)
    said = json.loads((tmp_path / "metadata-join.json").read_text())
    assert len(said["claims"]) == len(report.claims) == 2 * 16
    assert len({c["claim"] for c in said["claims"]}) == 2 * 16
    assert {c["verdict"] for c in said["claims"]} <= {"reproduced", "same direction", "not reproduced"}
    assert all(np.isfinite(v) for row in said["rows"] for v in row.values() if isinstance(v, float))
    assert len(said["rows"]) == 10 * 2 * (3 + 3 + 5)
    assert "| queues | ordered | priority, value |" in (tmp_path / "metadata-join.md").read_text()
    drawn = {p.name for p in tmp_path.glob("*.png")}
    assert drawn == {f"figure-{n}.png" for n in ("8", "9", "10", "10-fine", "11")}
    again = metadata_join.measured(GIVEN, TINY, 2)
    rows = list(metadata_join._rows(again))
    for one, other in zip(report.rows, rows, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize("arrival", ["ordered", "random"])
def test_purges_differ_in_what_they_look_at_and_in_nothing_else(arrival: str) -> None:
    rows = whole(400, arrival)
    batches = at_punctuations(rows, 10)
    assert sum(b["access"].num_rows for b in batches) == rows["access"].num_rows
    assert sum(b["news"].num_rows for b in batches if "news" in b) == rows["news"].num_rows
    runs = {
        (p, n): run_mjoin(lambda _: batches, news_query(n), p)
        for p in (KeyedPurge, ScanningPurge)
        for n in (1, 100)
    }
    for every in (1, 100):
        keyed, scanning = (runs[p, every].points[:, :-1].copy() for p in (KeyedPurge, ScanningPurge))
        keyed[:, 1] = scanning[:, 1] = 0
        assert (keyed == scanning).all()
        assert runs[KeyedPurge, every].total("scanned") < runs[ScanningPurge, every].total("scanned")
        assert runs[KeyedPurge, every].total("state_rows") == 0
    assert runs[KeyedPurge, 1].peak <= runs[KeyedPurge, 100].peak
    assert runs[KeyedPurge, 1].results == run_xjoin(batches).results == 400


def test_xjoin_on_disk_finds_the_same_and_holds_everything(tmp_path: Path) -> None:
    batches = at_punctuations(whole(400), 10)
    memory, disk = run_xjoin(batches), run_xjoin(batches, 44, tmp_path)
    assert memory.results == disk.results == 400
    assert memory.peak == disk.peak == 440
    assert not list(tmp_path.iterdir())
    assert counts(memory) == counts(run_xjoin(batches))


def test_deciles_are_read_between_batches() -> None:
    points = np.zeros((4, len(COLUMNS)))
    points[:, 0], points[:, 1] = [0, 10, 10, 20], [0, 1, 3, 5]
    curve = Curve(points)
    assert curve.deciles("seconds").tolist() == pytest.approx(
        [0.2, 0.4, 0.6, 0.8, 1.0, 1.8, 2.6, 3.4, 4.2, 5.0]
    )


def curve(seconds: Any, state: Any = 1.0, operations: float = 1.0, scanned: float = 1.0) -> Curve:
    """A run of ten even batches, with the time, state and operations of each."""
    points = np.zeros((11, len(COLUMNS)))
    points[:, 0] = 100 * np.arange(11)
    points[1:, 1] = np.cumsum(np.broadcast_to(seconds, 10))
    points[1:, 2] = state
    for i in range(3, len(COLUMNS)):
        points[1:, i] = np.cumsum(np.full(10, operations if i < len(COLUMNS) - 1 else scanned))
    return Curve(points)


def verdicts(*, ours: Any, batch: Any, scan: tuple[float, float], better: bool) -> list[str]:
    """What is said of made-up runs, of one arrival."""
    grows = 100.0 * np.arange(1, 11)
    worse, best = (2.0, 1.0) if better else (1.0, 2.0)
    cells = {
        ("queues", "priority, value"): curve(best, operations=best),
        ("queues", "random, sequential"): curve(worse, operations=worse),
        ("queues", "random, sequential, in quotas"): curve(worse, operations=worse),
        ("bulk", "mjoin"): ours,
        ("bulk", "xjoin"): curve(1.0, grows if better else grows[::-1]),
        ("bulk", "xjoin, a tenth of memory"): curve(4.0 if better else 0.1, grows),
        ("fine", "keyed purge, every 1"): curve(0.7 if better else 9.0, 1.0 if better else 9.0),
        ("fine", "keyed purge, every 100"): batch,
        ("fine", "scanning purge, every 1"): curve(scan[0]),
        ("fine", "scanning purge, every 100"): curve(scan[1]),
        ("fine", "xjoin"): curve(1.0, grows if better else grows[::-1]),
    }
    report = Report("made up", 1, {"arrivals": ["random"]})
    size = {"bulk": {"access_records": 1_000, "repetitions": 1}}
    metadata_claims.add(report, {(e, "random", n): [c] for (e, n), c in cells.items()}, size)
    return [c.verdict for c in report.claims]


def test_every_claim_can_hold() -> None:
    crossing = [3.0, *[0.5] * 9]
    holds = verdicts(ours=curve(crossing), batch=curve(crossing, 2.0), scan=(3.0, 1.0), better=True)
    assert holds == ["reproduced"] * 16


def test_every_claim_can_fail() -> None:
    grows = 1000.0 * np.arange(1, 11)
    fails = verdicts(ours=curve(2.0, grows), batch=curve(2.0, grows), scan=(1.0, 3.0), better=False)
    peak = 11  # the made-up immediate purge has a peak of 9, less than that of batch purging
    assert [v for i, v in enumerate(fails) if i != peak] == ["not reproduced"] * 15
    flat = verdicts(ours=curve(2.0, grows), batch=curve(2.0, 5.0), scan=(1.0, 3.0), better=False)
    assert flat[peak] == "not reproduced"


def test_joins_that_disagree_are_an_error() -> None:
    short = Curve(np.zeros((2, len(COLUMNS))))
    with pytest.raises(AssertionError, match="disagree"):
        metadata_join._in_turn({"one": lambda: curve(1.0), "other": lambda: short}, 0)
