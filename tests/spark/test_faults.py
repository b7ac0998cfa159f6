"""Killed in mid-run and started again, a join's sink holds exactly what DuckDB finds."""

from __future__ import annotations

from pathlib import Path

from braided.bench.chaos import Trouble, campaign


def test_a_kill_of_the_driver_and_workers_that_kill_themselves(tmp_path: Path) -> None:
    report = campaign(tmp_path, kills=1, seed=3, batches=7, trouble=Trouble(suicide=True))
    assert report.kills == 1
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
