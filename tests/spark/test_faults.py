"""Killed in mid-run and started again, a join's sink holds exactly what DuckDB finds."""

from __future__ import annotations

from pathlib import Path

from braided.bench.chaos import Trouble, campaign


def test_two_kills_of_the_driver_and_workers_that_kill_themselves(tmp_path: Path) -> None:
    report = campaign(tmp_path, kills=2, seed=3, batches=9, trouble=Trouble(suicide=True))
    assert report.kills == 2
    assert report.expected > 1_000
    assert (report.missing, report.doubled) == (0, 0), str(report)


def test_a_killed_executor_and_two_attempts_at_once(tmp_path: Path) -> None:
    report = campaign(
        tmp_path,
        kills=0,
        seed=5,
        batches=6,
        trouble=Trouble(suicide=True, dawdle=True),
        executor_kills=1,
        master="cluster",
    )
    assert report.executor_kills == 1
    assert report.second_attempts > 0
    assert report.expected > 1_000
    assert (report.missing, report.doubled) == (0, 0), str(report)
