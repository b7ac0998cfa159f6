"""Overload and index choice on Spark: budgets hold over all buckets, and any attempt does the same."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import braided as bd
from braided.spark.plan import JoinPlan
from braided.spark.storage import folders
from braided.testing import assert_same_bag, bag, expected
from tests.seeds import seeds
from tests.spark.streams import exact, generated, query, read, results, run, write
from tests.spark.test_bucket import BUCKETS, Cluster, batches
from tests.workloads import names_of, random_tables, stream

NAMES = names_of(2)
OVERLOADS = {
    "input": bd.Overload(11, shed="input", allocation="equal"),
    "random": bd.Overload(11, shed="input", allocation="random"),
    "state": bd.Overload(state_rows=30),
    "both": bd.Overload(11, shed="input", allocation="window-inverse", state_rows=30, window_split="equal"),
}


def clusters(overload: bd.Overload, tables: dict[str, pa.Table], **options: Any) -> tuple[Cluster, Cluster]:
    """The same join with engines that go on from batch to batch, and with engines that are rebuilt."""
    q = bd.JoinQuery([stream(n, "60 us") for n in NAMES], overload=overload, **options)
    keeping, rebuilding = Cluster(q, tables), Cluster(q, tables)
    plan = keeping.plan
    keeping.plan = JoinPlan(plan.query, plan.schemas, plan.buckets, plan.late, "app")
    return keeping, rebuilding


@pytest.mark.parametrize("overload", OVERLOADS)
def test_oracle_budgets_hold_over_all_buckets_and_any_attempt_does_the_same(
    overload: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    for seed in seeds(2):
        tables = random_tables(seed, NAMES, rows=90, keys=8)
        keeping, rebuilding = clusters(OVERLOADS[overload], tables)
        found, before = [], 0
        for batch in batches(tables, 9):
            states = copy.deepcopy(keeping.states)
            lost = keeping.push(batch)  # an attempt whose state is lost
            keeping.states = states
            keeping.reports.clear()
            found.append(keeping.push(batch))
            assert bag(found[-1]) == bag(lost) == bag(rebuilding.push(batch))
            seen = keeping.seen()
            if OVERLOADS[overload].probes:
                assert seen.driven_rows - before <= 11
                before = seen.driven_rows
            if OVERLOADS[overload].state_rows:
                assert sum(s.live_rows for s in seen.streams.values()) <= 30
        assert not bag(pa.concat_tables(found)) - bag(expected(keeping.plan.query, tables))
        assert any(s.shed_rows for s in seen.streams.values()) == (OVERLOADS[overload].probes is not None)
        assert any(s.cut_rows for s in seen.streams.values()) == (OVERLOADS[overload].state_rows is not None)


def test_shares_of_all_buckets_are_the_budget() -> None:
    """Even a budget smaller than the number of buckets is used."""
    q = bd.JoinQuery([stream(n) for n in NAMES], overload=bd.Overload(3, shed="input", allocation="random"))
    tables = random_tables(1, NAMES, rows=200, keys=50, nulls=False)
    cluster = Cluster(q, tables)
    cluster.push(tables)
    assert cluster.seen().driven_rows == 3
    assert BUCKETS > 3


@pytest.mark.parametrize("keys", ["none", "several"])
def test_a_budget_that_is_not_exceeded_lets_in_all_rows_in_a_grid_too(keys: str) -> None:
    """A stream whose window is zero has no part of a budget by windows, but there is enough for all."""
    overload = bd.Overload(1000, shed="input", allocation="window-proportional")
    on, where = (None, "s0.n <= s1.n") if keys == "none" else ([("s0.k", "s1.k"), ("s0.n", "s1.n")], None)
    windows = {"s0": "9 us", "s1": "0 us"}
    streams = [bd.Stream(n, time="t", window=w, lateness="1 hour") for n, w in windows.items()]
    q = bd.JoinQuery(streams, on, where=where, overload=overload)
    tables = random_tables(1, NAMES, rows=40, nulls=False, span_us=30)
    cluster = Cluster(q, tables)
    assert_same_bag(cluster.push(tables), expected(q, tables))
    assert cluster.seen().streams["s1"].shed_rows == 0


def test_the_index_is_kept_between_batches_and_reported() -> None:
    rng = np.random.default_rng(1)
    q = bd.JoinQuery(
        [bd.Stream(n, key="k", time="t", window="1 second") for n in NAMES],
        tuning=bd.Tuning(index={"s0": "scan", "s1": "hash"}),
    )
    times = pa.array([1] * 50).cast(pa.timestamp("us"))
    tables = {n: pa.table({"k": rng.integers(0, 50, 50), "t": times}) for n in NAMES}
    cluster = Cluster(q, tables)
    cluster.push(tables)
    seen = cluster.seen()
    assert {n: s.index for n, s in seen.streams.items()} == {"s0": "scan", "s1": "hash"}


def test_shedding_split_and_index_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a", "b"]
    tables = generated(names, 2_000, keys=4)
    write(tmp_path, tables, 4)
    overload = bd.Overload(600, shed="input", allocation="equal", state_rows=200)
    q = query(names, overload=overload, tuning=bd.Tuning(index={"a": "scan", "b": "auto"}))
    streaming = run(bd.spark.join(q, read(spark, tmp_path, tables), buckets=2), tmp_path)
    wanted = exact(query(names), tables)
    found = results(tmp_path).select(wanted.column_names)
    assert 0 < found.num_rows < wanted.num_rows
    assert not bag(found) - bag(wanted)
    seen = bd.spark.metrics(streaming)
    assert seen.results == found.num_rows
    assert sum(s.live_rows for s in seen.streams.values()) <= 200
    accepted = sum(s.rows_in - s.null_keys - s.shed_rows for s in seen.streams.values())
    assert accepted == 4 * 600
    assert all(s.shed_rows > 0 for s in seen.streams.values())
    assert sum(s.cut_rows for s in seen.streams.values()) > 0
    assert seen.streams["a"].index == "scan"
    assert "were not let in" in bd.spark.why(streaming)
    assert seen.to_dict()["streams"]["a"]["shed_rows"] == seen.streams["a"].shed_rows


def test_nothing_shed_is_exact_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    tables = generated(names, 900)
    write(tmp_path, tables, 3)
    overload = bd.Overload(10**6, shed="input", allocation="inverse", state_rows=10**6)
    q = query(names, overload=overload, tuning=bd.Tuning(index="scan"))
    streaming = run(bd.spark.join(q, read(spark, tmp_path, tables), buckets=2), tmp_path)
    wanted = exact(query(names), tables)
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)
    assert {s.index for s in bd.spark.metrics(streaming).streams.values()} == {"scan"}


def test_a_join_without_any_key_is_spread_over_all_buckets(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a", "b"]
    tables = generated(names, 300)
    write(tmp_path, tables, 2)
    streams = [bd.Stream(n, time="t", window="3 seconds", lateness="0 seconds") for n in names]
    q = bd.JoinQuery(streams, where="a.v > 3 * b.v")
    streaming = run(bd.spark.join(q, read(spark, tmp_path, tables), buckets=4), tmp_path)
    wanted = exact(q, tables)
    assert wanted.num_rows > 10
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)
    seen = bd.spark.metrics(streaming)
    assert seen.buckets == 4
    assert seen.copies == 2.0
    assert seen.largest_bucket_share < 0.5
    assert {s.index for s in seen.streams.values()} == {"scan"}
