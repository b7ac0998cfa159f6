"""Join graphs with several keys on Spark: several stages in one query give the definition's bag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import braided as bd
from braided.testing import assert_same_bag, expected
from braided.testing.samples.files import add_file
from tests.spark.streams import START_US, read, results, run, write

NAMES = ["a", "b", "c", "d"]
CHAIN = [("a.k", "b.k"), ("b.m", "c.m")]
CYCLE = [("a.k", "b.k"), ("b.m", "c.m"), ("c.k", "d.k"), ("d.m", "a.m")]


def generated(
    names: list[str], rows: int, *, seed: int = 1, keys: int = 8, span_s: int = 40
) -> dict[str, Any]:
    """Rows at most half a second out of order, with some null keys."""
    rng = np.random.default_rng(seed)
    tables = {}
    for name in names:
        times = np.sort(rng.integers(0, span_s * 1_000_000, rows)) + START_US
        times = times[np.argsort(times + rng.uniform(0, 500_000, rows))]
        tables[name] = pa.table(
            {
                "k": pa.array(rng.integers(0, keys, rows), mask=rng.random(rows) < 0.03),
                "m": pa.array(rng.integers(0, keys, rows), mask=rng.random(rows) < 0.03),
                "t": pa.array(times, pa.timestamp("us", tz="UTC")),
                "v": rng.integers(0, keys, rows),
            }
        )
    return tables


def query(names: list[str], on: list[tuple[str, str]], **options: Any) -> bd.JoinQuery:
    streams = [bd.Stream(n, time="t", window="3 seconds", lateness="500 ms") for n in names]
    return bd.JoinQuery(streams, on=on, **options)


def null_keys(table: pa.Table, columns: list[str]) -> int:
    return sum(any(v is None for v in row.values()) for row in table.select(columns).to_pylist())


def test_two_stages_are_exact_over_batches_restarts_and_late_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Stream c lags at first, so a first stage that knew nothing of it would forget too early."""
    tables = generated(NAMES[:3], 160, keys=6)
    q = query(NAMES[:3], CHAIN)
    late = tables["b"].slice(0, 9)
    for n, files in (("a", 1), ("b", 1), ("c", 2)):
        for file in range(files):
            add_file(tmp_path / n, file, tables[n].slice(file * 80 // files, 80 // files))
    df = bd.spark.join(q, read(spark, tmp_path, tables), buckets=4, late="flag", layout="stages")
    run(df, tmp_path)
    for n in ("a", "b", "c"):  # more files, another run on the same checkpoint
        add_file(tmp_path / n, 3, tables[n].slice(80, 40))
        add_file(tmp_path / n, 4, tables[n].slice(120))
    add_file(tmp_path / "b", 5, late)
    streaming = run(df, tmp_path)

    wanted, out = expected(q, tables), results(tmp_path)
    assert wanted.num_rows > 100
    real = out.filter(pa.compute.is_null(out["late_stream"]))
    assert_same_bag(real.select(wanted.column_names), wanted)
    flagged = out.filter(pa.compute.equal(out["late_stream"], "b"))
    with_keys = late.num_rows - null_keys(late, ["k", "m"])
    assert flagged.num_rows == out.num_rows - wanted.num_rows == with_keys
    assert set(flagged["c_v"].to_pylist()) == {None}

    seen = bd.spark.metrics(streaming)
    assert seen.results == wanted.num_rows  # totals survive the restart
    assert {n: s.rows_in for n, s in seen.streams.items()} == {"a": 160, "b": 169, "c": 160}
    keyed = {"a": ["k"], "b": ["k", "m"], "c": ["m"]}
    nulls = {n: null_keys(tables[n], columns) for n, columns in keyed.items()}
    nulls["b"] += late.num_rows - with_keys
    assert {n: s.null_keys for n, s in seen.streams.items()} == nulls
    assert {n: s.late_rows for n, s in seen.streams.items()} == {"a": 0, "b": with_keys, "c": 0}
    assert seen.half_joins["(a b)", "c"].probes > 0
    assert seen.half_joins["a", "b"].matches > 0
    assert seen.intermediates["(a b)"].live_rows > 0
    assert seen.buckets == 4
    assert 0.25 <= seen.largest_bucket_share <= 1
    assert "of stream 'b' came too late" in bd.spark.why(streaming)

    stored = bd.spark.inspect_state(str(tmp_path / "checkpoint"), spark=spark)
    assert set(stored.buckets) == {0, 1, 2, 3}
    assert set(stored.rows) == {"a", "b", "c", "(a b)"}
    assert min(stored.rows.values()) > 0
    assert stored.results == wanted.num_rows
    assert stored.watermark_us == seen.watermark_us is not None


def test_a_cycle_of_four_streams_in_three_stages(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES, 60, keys=4, span_s=15)
    q = query(NAMES, CYCLE, where="a.v >= c.v")
    write(tmp_path, tables, 2)
    run(bd.spark.join(q, read(spark, tmp_path, tables), buckets=2, layout="stages"), tmp_path)
    wanted = expected(q, tables)
    assert wanted.num_rows > 50
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)


def test_a_windowed_aggregation_may_follow(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES[:3], 150)
    q = query(NAMES[:3], CHAIN)
    write(tmp_path, tables, 3)
    joined = bd.spark.join(q, read(spark, tmp_path, tables), buckets=2, layout="stages")
    counted = joined.groupBy(F.window("result_time", "10 seconds")).count()
    run(counted.select(F.col("window.start").alias("start"), "count"), tmp_path)
    out = results(tmp_path)
    times = expected(q, tables)["result_time"].cast(pa.int64()).to_numpy() // 10_000_000
    starts = out["start"].cast(pa.int64()).to_numpy() // 10_000_000
    got = dict(zip(starts, out["count"].to_pylist(), strict=True))
    assert len(got) >= 2
    for window, count in got.items():  # every window that was closed has all its rows
        assert count == (times == window).sum()
    stored = bd.spark.inspect_state(str(tmp_path / "checkpoint"), spark=spark)
    assert stored.results == len(times)


def test_batch_inputs_give_a_batch_result(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES, 60, keys=4, span_s=15)
    write(tmp_path, tables, 1)
    q = query(NAMES, CYCLE)
    frames = {n: spark.read.parquet(str(tmp_path / n)) for n in NAMES}
    bd.spark.join(q, frames, buckets=2, late="flag", layout="stages").write.parquet(str(tmp_path / "out"))
    wanted = expected(q, tables)
    assert wanted.num_rows > 30
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)


def test_overload_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES[:3], 10)
    write(tmp_path, tables, 1)
    q = query(NAMES[:3], CHAIN, overload=bd.Overload(probes=100))
    with pytest.raises(bd.BraidedError, match="overload needs all streams in one stage; leave out layout="):
        bd.spark.join(q, read(spark, tmp_path, tables), layout="stages")
