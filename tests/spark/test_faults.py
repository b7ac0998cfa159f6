"""Killed in mid-run and started again, a join's sink holds exactly what DuckDB finds."""

from __future__ import annotations

from pathlib import Path

from braided.bench.chaos import campaign


def test_two_kills_of_the_driver_and_workers_that_kill_themselves(tmp_path: Path) -> None:
    report = campaign(tmp_path, kills=2, seed=3, batches=9, suicide=True)
    assert report.kills == 2
    assert report.expected > 1_000
    assert (report.missing, report.doubled) == (0, 0), str(report)
