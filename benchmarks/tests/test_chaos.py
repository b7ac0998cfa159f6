"""Killed in mid-run and started again, a join's sink holds exactly what DuckDB finds.

A killed executor of a cluster, two attempts at once, and rows that go by promises are in `make chaos`: they
take minutes.
"""

from __future__ import annotations

from pathlib import Path

from braided_benchmarks.chaos import campaign
from braided_benchmarks.chaos_child import Trouble


def test_a_kill_of_the_driver_and_workers_that_kill_themselves(tmp_path: Path) -> None:
    report = campaign(tmp_path, kills=1, seed=3, batches=5, trouble=Trouble(suicide=True))
    assert report.kills == 1
    assert report.expected > 1_000
    assert (report.missing, report.doubled) == (0, 0), str(report)
