"""Overload on Spark with several keys and bounds on age: stopped in the middle, and started again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import braided as bd
from braided.testing import bag
from braided.testing.samples.files import add_file
from tests.spark.streams import exact, read, results, run

NAMES = ["a", "b", "c"]
BATCHES, ROWS = 4, 120
OVERLOADS: dict[str, dict[str, Any]] = {
    "event": {"probes": 300, "allocation": "jaqpot", "intermediate_rows": {("a", "b"): 150}},
    "wall": {"probes": 300, "allocation": "equal-halfjoin", "clock": "wall"},
    "input": {"probes": 200, "shed": "input", "allocation": "proportional", "state_rows": 400},
}


def tables(start_us: int) -> dict[str, pa.Table]:
    """A second a batch; every other one has a stream that is five seconds behind."""
    rng, made = np.random.default_rng(3), {}
    for name in NAMES:
        batches = []
        for at in range(BATCHES):
            late = 5 if name == "b" and at % 2 else 0
            times = start_us + (at - late) * 1_000_000 + np.sort(rng.integers(0, 1_000_000, ROWS))
            columns = {c: rng.integers(0, 8, ROWS) for c in ("k", "m")}
            batches.append(pa.table({**columns, "t": pa.array(times, pa.timestamp("us", tz="UTC"))}))
        made[name] = pa.concat_tables(batches)
    return made


def query(overload: bd.Overload | None, freshness: str) -> bd.JoinQuery:
    fresh = freshness if overload is not None else None
    streams = [
        bd.Stream(n, time="t", window="2 seconds", lateness="10 seconds", freshness=fresh) for n in NAMES
    ]
    return bd.JoinQuery(streams, [("a.k", "b.k"), ("b.m", "c.m")], plan="linear", overload=overload)


def joined(spark: SparkSession, root: Path, q: bd.JoinQuery, made: dict[str, pa.Table], stops: bool) -> Any:
    """All batches, a file each; perhaps with a stop and a restart in the middle."""
    for part in (range(BATCHES // 2), range(BATCHES // 2, BATCHES)):
        for name, table in made.items():
            for at in part:
                add_file(root / name, at, table.slice(at * ROWS, ROWS))
        if stops or part[-1] == BATCHES - 1:
            streaming = run(bd.spark.join(q, read(spark, root, made), buckets=2), root)
    return streaming


@pytest.mark.parametrize("given", OVERLOADS)
def test_results_are_a_subset_and_a_restart_in_the_middle_changes_none(
    spark: SparkSession, tmp_path: Path, given: str
) -> None:
    overload = bd.Overload(**OVERLOADS[given])
    made = tables(round(time.time() - BATCHES) * 1_000_000 if given == "wall" else 1_700_000_000_000_000)
    q = query(overload, "1 hour" if given == "wall" else "3 seconds")
    streaming = joined(spark, tmp_path / "stopped", q, made, stops=True)
    wanted = exact(query(None, ""), made)
    found = bag(results(tmp_path / "stopped").select(wanted.column_names))
    assert 0 < found.total() < bag(wanted).total()
    assert not found - bag(wanted)
    seen = bd.spark.metrics(streaming)
    assert seen.results == found.total()
    ages_us = [age for s in seen.streams.values() if (age := s.staleness_us) is not None]
    assert all(age <= 3_000_000 for age in ages_us) or given == "wall"
    if given == "event":
        joined(spark, tmp_path / "straight", q, made, stops=False)
        assert bag(results(tmp_path / "straight").select(wanted.column_names)) == found


def test_what_is_too_old_by_the_wall_clock_does_not_come_out(spark: SparkSession, tmp_path: Path) -> None:
    """A job that is days behind its source has no fresh result, and says so."""
    made = tables(1_700_000_000_000_000)
    overload = bd.Overload(10**6, clock="wall")
    streaming = joined(spark, tmp_path, query(overload, "10 minutes"), made, stops=False)
    assert bd.spark.metrics(streaming).results == 0
    assert "10 minutes" in bd.spark.why(streaming)
