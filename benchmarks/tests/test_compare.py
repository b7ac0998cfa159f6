"""The comparison with other engines: what is fed and expected, what is read from a run and shown."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

import braided as bd
from braided.query.errors import InvalidValue
from braided_benchmarks.compare.command import SCENARIOS, compare
from braided_benchmarks.compare.pages import NAMES, page
from braided_benchmarks.compare.runs import CONTENDERS, Outcome, Run
from braided_benchmarks.compare.scenarios import Scenario, land, stage

TINY = Scenario("tiny", rows=40, steps=8, warm=2, settle=1)


def found_by_braided(scenario: Scenario, arrivals: list[dict[str, pa.Table]]) -> dict[int, tuple[int, int]]:
    """Results and checksum of each step, by the join under test."""
    names = [f"s{i}" for i in range(scenario.streams)]
    window = f"{scenario.window_s} seconds"
    query = bd.JoinQuery([bd.Stream(n, "k", time="t", window=window, lateness="0 seconds") for n in names])
    found: dict[int, tuple[int, int]] = {}
    join = bd.LocalJoin(query)
    for batch in arrivals:
        stamped = {
            n: t.set_column(1, "t", t["t"].cast(pa.timestamp("us", tz="UTC"))) for n, t in batch.items()
        }
        for row in join.push(stamped).to_pylist():
            step = max(row[f"{n}_n"] for n in names)
            rows, checksum = found.get(step, (0, 0))
            found[step] = rows + 1, checksum + sum(row[f"{n}_v"] for n in names)
    return found


@pytest.mark.parametrize(
    "scenario",
    [
        TINY,
        Scenario("five", streams=5, rows=60, steps=6, step_s=5, window_s=10),
        Scenario("hot", rows=60, steps=8, hot=0.2, warm=2),
        Scenario("silent", rows=60, steps=8, silent=(3, 6), warm=2),
        Scenario("burst", rows=40, steps=8, burst=(3, 5), warm=2),
    ],
    ids=lambda s: s.name,
)
def test_the_expected_results_are_those_of_the_join(scenario: Scenario) -> None:
    arrivals = scenario.generate()
    expected = scenario.expected(arrivals)
    assert sum(rows for rows, _ in expected.values()) > 50
    assert found_by_braided(scenario, arrivals) == expected


def test_a_silent_stream_s_rows_come_together_and_are_counted_from_then_on() -> None:
    arrivals = Scenario("silent", rows=60, steps=8, silent=(3, 6), warm=2).generate()
    assert [sorted(a) for a in arrivals[3:6]] == [["s0", "s1"]] * 3
    late = arrivals[6]["s2"]
    assert late.num_rows == 4 * 60
    assert set(late["n"].to_pylist()) == {6}
    assert late["t"].to_pylist() == sorted(late["t"].to_pylist())


def test_files_are_staged_once_and_linked_in(tmp_path: Path) -> None:
    arrivals = TINY.generate()
    stage(tmp_path / "staged", arrivals, header=False, one_file=False)
    steps = sorted((tmp_path / "staged").iterdir())
    assert len(steps) == 8
    for step in steps:
        land(step, tmp_path / "data")
    files = sorted((tmp_path / "data" / "s1").iterdir())
    assert [f.stat().st_mtime for f in files] == sorted({f.stat().st_mtime for f in files})
    read = csv.read_csv(files[3], csv.ReadOptions(column_names=["k", "t", "v", "n"]))
    assert read.to_pydict() == arrivals[3]["s1"].to_pydict()
    stage(tmp_path / "one", arrivals, header=True, one_file=True)
    whole = csv.read_csv(tmp_path / "one" / "0000" / "s1.csv")
    assert whole.to_pydict() == pa.concat_tables([a["s1"] for a in arrivals]).to_pydict()


def run_of(tmp_path: Path, contender: str, emitted: list[tuple[int, float, int, int]]) -> Run:
    """A run whose contender has written so much; it never starts one."""
    expected = dict.fromkeys(range(TINY.steps), (10, 100))
    run = Run(contender, TINY, tmp_path / "run", tmp_path, expected, python="none")
    run.landed = {step: 1_000.0 + step for step in range(TINY.steps)}
    if contender.startswith("flink"):
        rows = tmp_path / "run" / "out" / "rows"
        rows.mkdir()
        (rows / "part-1").write_text(
            "".join(f"{b},{int(at * 1e3)},{s // n}\n" for b, at, n, s in emitted for _ in range(n))
        )
        (rows / ".part-2.inprogress").write_text("1,1,")
    else:
        lines = [json.dumps({"batch": b, "at": at, "rows": n, "checksum": s}) for b, at, n, s in emitted]
        (tmp_path / "run" / "out" / "emissions.jsonl").write_text("\n".join(lines) + '\n{"bat')
    return run


@pytest.mark.parametrize("contender", ["braided", "flink-chain"])
def test_latency_is_counted_from_the_landing_of_the_results_last_file(tmp_path: Path, contender: str) -> None:
    quick = [(step, 1_000.5 + step, 10, 100) for step in range(7)]
    run = run_of(tmp_path, contender, [*quick, (7, 1_010.0, 10, 100)])
    assert run.latencies() == {50: pytest.approx(0.5), 99: pytest.approx(3.0)}
    assert run.wait(range(8), patience=0) == 1.0


def test_results_that_never_came_are_the_latest_of_all(tmp_path: Path) -> None:
    run = run_of(tmp_path, "braided", [(step, 1_000.5 + step, 10, 100) for step in range(5)])
    assert run.latencies() == {50: float("inf"), 99: float("inf")}
    assert run.wait(range(8), patience=0) == pytest.approx(5 / 8)


@pytest.mark.parametrize("wrong", [(7, 1_010.0, 11, 100), (7, 1_010.0, 10, 101)])
def test_a_contender_that_finds_something_else_fails(
    tmp_path: Path, wrong: tuple[int, float, int, int]
) -> None:
    right = [(step, 1_000.5 + step, 10, 100) for step in range(7)]
    with pytest.raises(Exception, match=r"other results than expected.*7:"):
        run_of(tmp_path, "braided", [*right, wrong]).wait(range(8), patience=0)


def test_a_contender_that_ends_by_itself_says_its_last_error(tmp_path: Path) -> None:
    """A real process: the runner of Flink with a Python that has no Flink."""
    arrivals = TINY.generate()
    stage(tmp_path / "staged", arrivals, header=False, one_file=False)
    python = os.path.realpath("/proc/self/exe")
    run = Run("flink-chain", TINY, tmp_path / "run", tmp_path / "staged", TINY.expected(arrivals), python)
    began = time.monotonic()
    outcome = run.outcome()
    assert outcome.failure.startswith("ended by itself: ")
    assert "pyflink" in outcome.failure
    assert time.monotonic() - began < 20
    assert not (tmp_path / "run").exists()


def test_the_page_has_a_row_for_each_contender_and_says_what_is_missing() -> None:
    outcomes = [
        Outcome("braided", "3 streams", share=1.0, first_s=2.0, seconds=12.34),
        Outcome("flink-chain", "3 streams", share=0.25, seconds=180.0),
        Outcome("pathway-plain", "3 streams", failure="ended by itself: MemoryError"),
        Outcome("braided", "burst", share=1.0, latencies={50: 0.5, 99: 1.25}),
        Outcome("flink-chain", "burst", share=0.9, latencies={50: 0.5, 99: float("inf")}),
        Outcome(
            "braided", "fast", 1.0, latencies={50: 1, 99: 2}, restarted=True, restart_s=9.5, state_bytes=10**6
        ),
    ]
    text = page(outcomes, {"spark": "4.3.0", "flink": "2.3.0", "pathway": ""})
    assert "Spark 4.3.0, Flink 2.3.0." in text
    assert "left out: Pathway" in text
    assert "| **Braided** on Spark | 12.3 (2.0) |" in text
    assert "| Flink, chain of regular joins | 25% after 180 |" in text
    assert "| Pathway, joins and a filter | failed |" in text
    assert "3 streams: ended by itself: MemoryError" in text
    assert "| Flink, chain of regular joins | 0.50 / never, 90% came |  |" in text
    assert "| **Braided** on Spark | 1.0 | 9.5 |" in text


def test_every_contender_has_a_name_and_every_scenario_its_own() -> None:
    assert set(NAMES) == set(CONTENDERS)
    names = [s.name for s in SCENARIOS]
    assert len(set(names)) == len(names)
    assert {s.streams for s in SCENARIOS} == {2, 3, 4, 5, 6}


def test_an_unknown_contender_is_named_with_its_neighbour(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="no 'flink-chian' in the comparison; did you mean 'flink-chain'"):
        compare(tmp_path, tmp_path / "page.md", ["flink-chian"])
