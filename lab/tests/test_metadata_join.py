"""The metadata-join lab: its runs count what they must, its claims can hold and can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from braided_lab import metadata_claims, metadata_join, metadata_lengths, metadata_spark
from braided_lab.measured import commit
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
from braided_lab.report import Report, Verdict

GIVEN = metadata_join.parameters()
TINY: dict[str, Any] = {
    "queues": {"access_records": 100, "seeds": 1, "streams": ["ordered", "random, scattered keys"]},
    "bulk": {"access_records": 500, "quota": 100, "seeds": 2, "streams": ["random"]},
    "fine": {"access_records": 200, "seeds": 1, "streams": ["ordered", "random"]},
    "lengths": {"own_records": 200, "fine_records": 100, "quota": 20, "seeds": 1, "streams": ["ordered"]},
    "spark": {"access_records": 400, "seeds": 1, "batches": 2, "streams": ["ordered"]},
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
    monkeypatch.setattr(metadata_spark, "add", lambda *_: None)
    report = metadata_join.lab(tmp_path, quick=True, seed=2)
    said = json.loads((tmp_path / "metadata-join.json").read_text())
    assert len(said["claims"]) == len(report.claims) == 2 * 4 + 5 + 2 * 3 + 3 + 2
    assert len({c["claim"] for c in said["claims"]}) == len(said["claims"])
    assert {c["verdict"] for c in said["claims"]} <= set(get_args(Verdict))
    assert all(np.isfinite(v) for row in said["rows"] for v in row.values() if isinstance(v, float))
    assert len(said["rows"]) == 10 * (2 * 3 + 3 + 2 * 5)
    assert said["commit"] == commit()
    written = (tmp_path / "metadata-join.md").read_text()
    assert "| queues | random, scattered keys | priority, value |" in written
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
        scanned = COLUMNS.index("scanned")
        keyed, scanning = (np.delete(runs[p, every].points, scanned, 1) for p in (KeyedPurge, ScanningPurge))
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


def curve(seconds: Any = 1.0, state: Any = 1.0, operations: float = 1.0) -> Curve:
    """A run of ten even batches, with the time, state and operations of each."""
    points = np.zeros((11, len(COLUMNS)))
    points[:, 0] = 100 * np.arange(11)
    points[1:, 1] = np.cumsum(np.broadcast_to(seconds, 10))
    points[1:, 2] = state
    points[1:, 3:] = np.arange(1, 11)[:, None] * operations
    return Curve(points)


GROWS = 100.0 * np.arange(1, 11)
CROSSING = [3.0, *[0.1] * 9]
Changed = dict[tuple[str, str], Any]
HOLDS: Changed = {  # a world in which all that the paper says is true
    ("queues", "priority, value"): curve(),
    ("queues", "random, sequential"): curve(2.0, operations=2.0),
    ("queues", "random, sequential, in quotas"): curve(2.0, operations=2.0),
    ("bulk", "mjoin"): curve(CROSSING),
    ("bulk", "xjoin"): curve(1.0, GROWS),
    ("bulk", "xjoin, a tenth of memory"): curve(4.0, GROWS),
    ("fine", "keyed purge, every 1"): curve(CROSSING, 1.0),
    ("fine", "keyed purge, every 100"): curve(CROSSING, 2.0),
    ("fine", "scanning purge, every 1"): curve(3.0),
    ("fine", "scanning purge, every 100"): curve(1.0),
    ("fine", "xjoin"): curve(1.0, GROWS),
}


def verdicts(changed: Changed | None = None) -> dict[str, str]:
    """What is said of made-up runs of random arrival; several curves are of several seeds."""
    cells: Any = {}
    for (experiment, name), runs in (HOLDS | (changed or {})).items():
        cells[experiment, "random", name] = runs if isinstance(runs, list) else [runs] * 4
    report = Report("made up", 1, {})
    metadata_claims.add(report, cells, {})
    return {c.claim: c.verdict for c in report.claims}


def verdict(part: str, changed: Changed) -> str:
    """The verdict of the one claim that has a text."""
    (found,) = [v for claim, v in verdicts(changed).items() if part in claim]
    return found


def test_every_claim_can_hold() -> None:
    said = verdicts()
    assert (
        said.pop("Figure 8, random: priority and value take less time than random, row by row")
        == "not tested"
    )
    assert list(said.values()) == ["reproduced"] * 14


ROW, QUOTA = ("queues", "random, sequential"), ("queues", "random, sequential, in quotas")
BATCHED = ("fine", "keyed purge, every 100")
WRONG: list[tuple[str, Changed, str]] = [  # a claim, what makes it wrong, and the verdict then
    ("fewer operations than random stream, row by row", {ROW: curve(2.0, operations=0.9)}, "not reproduced"),
    ("fewer operations than random stream, row by row", {ROW: curve(2.0, operations=1.01)}, "not reproduced"),
    ("fewer operations than random stream, the same", {QUOTA: curve(2.0, operations=0.9)}, "not reproduced"),
    ("less time than random, the same quota", {QUOTA: curve(0.9, operations=2.0)}, "not reproduced"),
    ("less time than random, the same quota", {QUOTA: curve([0.5, *[2.0] * 9])}, "same direction"),
    ("own schedules: MJoin is slower", {("bulk", "mjoin"): curve(2.0)}, "not reproduced"),
    ("own schedules: MJoin is slower", {("bulk", "mjoin"): curve(0.5)}, "same direction"),
    ("punctuation: MJoin is slower", {BATCHED: curve(2.0, 2.0)}, "not reproduced"),
    ("own schedules: the state of XJoin", {("bulk", "xjoin"): curve(1.0, GROWS[::-1])}, "not reproduced"),
    ("own schedules: the state of XJoin", {("bulk", "xjoin"): curve(1.0, GROWS**4)}, "same direction"),
    ("punctuation: the state of XJoin", {("fine", "xjoin"): curve(1.0, GROWS[::-1])}, "not reproduced"),
    ("own schedules: the peak", {("bulk", "mjoin"): curve(CROSSING, 999.0)}, "not reproduced"),
    ("own schedules: the peak", {("bulk", "mjoin"): curve(CROSSING, 300.0)}, "same direction"),
    ("punctuation: the peak", {BATCHED: curve(CROSSING, 999.0)}, "not reproduced"),
    ("with everything in memory", {("bulk", "mjoin"): curve(1.2)}, "not reproduced"),
    ("a tenth of the rows", {("bulk", "xjoin, a tenth of memory"): curve(0.1, GROWS)}, "not reproduced"),
    ("a tenth of the rows", {("bulk", "xjoin, a tenth of memory"): curve(0.6, GROWS)}, "same direction"),
    ("lowest peak state", {("fine", "keyed purge, every 1"): curve(CROSSING, 3.0)}, "not reproduced"),
    ("lowest peak state", {("fine", "keyed purge, every 1"): curve(CROSSING, 1.99)}, "not tested"),
    ("if purging scans", {("fine", "scanning purge, every 1"): curve(1.0)}, "not reproduced"),
    ("removes the gap", {("fine", "keyed purge, every 1"): curve(1.0)}, "not reproduced"),
    ("removes the gap", {("fine", "scanning purge, every 1"): curve(1.0)}, "not tested"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "changed", "wanted"), WRONG)
def test_every_claim_fails_where_the_world_is_otherwise(part: str, changed: Changed, wanted: str) -> None:
    assert verdict(part, changed) == wanted


def test_every_claim_is_seen_to_fail() -> None:
    fails = [part for part, _, wanted in WRONG if wanted == "not reproduced"]
    tested = [claim for claim, v in verdicts().items() if v == "reproduced"]
    assert [claim for claim in tested if not any(part in claim for part in fails)] == []


@pytest.mark.parametrize(
    ("part", "cell"),
    [
        ("less time than random, the same quota", QUOTA),
        ("with everything in memory", ("bulk", "xjoin")),
        ("a tenth of the rows", ("bulk", "xjoin, a tenth of memory")),
        ("if purging scans", ("fine", "scanning purge, every 1")),
        ("removes the gap", ("fine", "keyed purge, every 1")),
        ("own schedules: MJoin is slower", ("bulk", "xjoin")),
    ],
)
def test_times_that_differ_from_run_to_run_are_no_verdict(part: str, cell: tuple[str, str]) -> None:
    noise = [curve(seconds, GROWS, operations=2.0) for seconds in (0.05, 3.0, 0.1, 2.0)]
    assert verdict(part, {cell: noise}) == "not tested"


def held(rows: Any) -> metadata_spark.Held:
    return metadata_spark.Held(10, np.broadcast_to(rows, 10).astype(float))


@pytest.mark.parametrize(
    ("rows", "wanted"), [([5.0], "reproduced"), (GROWS, "not reproduced"), ([300.0], "same direction")]
)
def test_claims_of_spark_can_hold_and_fail(rows: Any, wanted: str) -> None:
    pairs = [(held(rows), held(GROWS))] * 3
    assert [claim.verdict for claim in metadata_spark.claims("ordered", pairs)] == [wanted]


@pytest.mark.parametrize(
    ("peaks", "wanted"),
    [
        ([(50.0, 51.0), (60.0, 58.0), (55.0, 56.0)], "reproduced"),
        ([(50.0, 99.0), (60.0, 121.0), (55.0, 110.0)], "not reproduced"),
        ([(5.0, 9.0), (12.0, 4.0), (7.0, 8.0)], "not tested"),
    ],
)
def test_a_state_that_grows_with_the_run_is_not_flat(peaks: Any, wanted: str) -> None:
    made = {"own schedules": peaks, "a batch per punctuation": peaks}
    assert [claim.verdict for claim in metadata_lengths.claims("ordered", made)] == [wanted] * 2


def test_spark_holds_what_promises_leave_and_finds_the_same(tmp_path: Path) -> None:
    """Real Spark, two micro-batches: it raises if promises change the result, or a batch is missing."""
    pytest.importorskip("pyspark")
    report = Report("made up", 1, {})
    metadata_spark.add(report, GIVEN, TINY["spark"], seed=1)
    assert [claim.verdict for claim in report.claims] == ["reproduced"]
    rows = {(row["join"], row["batch"]): row["state_rows"] for row in report.rows}
    assert rows["without", 1] == 440
    assert rows["with promises", 1] < 22  # what the next purge lets go


def test_joins_that_disagree_are_an_error() -> None:
    short = Curve(np.zeros((2, len(COLUMNS))))
    with pytest.raises(AssertionError, match="disagree"):
        metadata_join._in_turn({"one": lambda: curve(1.0), "other": lambda: short}, 0)
