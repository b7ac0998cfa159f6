"""Optional streams on real Spark: against DuckDB, over restarts, with an aggregation behind, in one batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import braided as bd
from braided.testing import assert_same_bag
from braided.testing.samples.files import add_file
from tests.spark.streams import generated, read, results, run, start, write

NAMES = ["a", "b", "c", "d"]
NEAR = "abs(epoch_us(a.t) - epoch_us({0}.t)) <= 3000000"
SQL = f"""
    select a.v as v, c.v as c from a left join c on c.k = a.v % 50 and {NEAR.format("c")} and c.v > 200
    where exists (select 1 from b where b.k = a.k and {NEAR.format("b")})
    and not exists (select 1 from d where d.k = a.k and {NEAR.format("d")})
"""


def query() -> bd.JoinQuery:
    """Two keys: b and d by k, c by another column of a; some rows lack the first."""
    kinds = {"a": "inner", "b": "semi", "c": "left", "d": "anti"}
    streams = [
        bd.Stream(n, time="t", window="3 seconds", lateness="0 s", how=how) for n, how in kinds.items()
    ]
    on = [("a.k", "b.k"), ("a.k", "d.k"), ("a.m", "c.k")]
    return bd.JoinQuery(streams, on, where="c.v > 200", select={"v": "a.v", "c": "c.v"})


def tables_of(rows: int) -> dict[str, pa.Table]:
    tables = generated(NAMES, rows, keys=50)
    m = pa.array([v % 50 for v in tables["a"]["v"].to_pylist()], pa.int64())
    return {**tables, "a": tables["a"].append_column("m", m)}


def by_duckdb(tables: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        return sorted(db.sql(SQL).fetchall(), key=repr)


def pairs(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(table["v"].to_pylist(), table["c"].to_pylist(), strict=True), key=repr)


def later(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """A row of each stream a minute later, with keys that meet nothing: time moves on."""
    rows = {}
    for number, (name, table) in enumerate(tables.items()):
        time = pa.scalar(max(table["t"].to_pylist()), table.schema.field("t").type).value + 60_000_000
        columns = {c: pa.array([1000 + number], pa.int64()) for c in table.column_names if c != "t"}
        columns["t"] = pa.array([time]).cast(table.schema.field("t").type)
        rows[name] = pa.table({c: columns[c] for c in table.column_names})
    return rows


def test_left_semi_and_anti_over_two_keys_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    tables = tables_of(600)
    wanted = by_duckdb(tables)
    assert sum(c is None for _, c in wanted) > 30
    assert sum(c is not None for _, c in wanted) > 30
    write(tmp_path, tables, 4)
    for until in (1, 3, None):
        streaming = start(bd.spark.join(query(), read(spark, tmp_path, tables), buckets=4), tmp_path)
        while until is not None and (bd.spark.metrics(streaming).batches or 0) < until:
            assert streaming.isActive, streaming.exception()
        if until is None:
            streaming.processAllAvailable()
        streaming.stop()
    for name, table in later(tables).items():
        add_file(tmp_path / name, 9, table)
    streaming = run(bd.spark.join(query(), read(spark, tmp_path, tables), buckets=4), tmp_path)
    assert pairs(results(tmp_path)) == wanted  # the later row of a has no partner in b: it is no result
    seen = bd.spark.metrics(streaming)
    assert sum(s.live_rows for s in seen.streams.values()) < 40  # of 2,400; copies of the last rows


def test_nothing_is_dropped_by_an_aggregation_behind(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(["a", "b"], 500, keys=400)
    windows = {"a": "20 seconds", "b": "1 second"}
    streams = [
        bd.Stream(n, "k", time="t", window=w, lateness="0 s", how="left" if n == "b" else "inner")
        for n, w in windows.items()
    ]
    q = bd.JoinQuery(streams)
    write(tmp_path, tables, 5)
    for name, table in later(tables).items():
        add_file(tmp_path / name, 8, table)
        add_file(
            tmp_path / name,
            9,
            table.set_column(
                1, "t", pa.array([t.value + 90_000_000 for t in table["t"]]).cast(table["t"].type)
            ),
        )
    joined = bd.spark.join(q, read(spark, tmp_path, tables), buckets=2)
    counted = joined.groupBy(F.window("result_time", "5 seconds")).agg(
        F.count("*").alias("n"), F.count("b_v").alias("b")
    )
    flat = counted.select(F.col("window.start").alias("begin"), "n", "b")
    run(flat, tmp_path)
    wanted = bd.run_local(q, tables)
    nulls = wanted["b_v"].null_count
    found = results(tmp_path)
    assert sum(found["n"].to_pylist()) - sum(found["b"].to_pylist()) == nulls + 1  # the first later row, too
    assert nulls > 100


def test_a_smaller_watermark_of_ones_own_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(["a", "b"], 20)
    write(tmp_path, tables, 1)
    frames: dict[str, DataFrame] = read(spark, tmp_path, tables)
    frames["a"] = frames["a"].withWatermark("t", "2 seconds")
    streams = [
        bd.Stream(n, "k", time="t", window="3 seconds", lateness="0 s", how="left" if n == "b" else "inner")
        for n in "ab"
    ]
    with pytest.raises(
        bd.BraidedError, match=r"stream 'a': .*withWatermark of 3 seconds or more \(it has 2 sec"
    ):
        bd.spark.join(bd.JoinQuery(streams), frames)
    frames["a"] = read(spark, tmp_path, tables)["a"].withWatermark("t", "3 seconds")
    bd.spark.join(bd.JoinQuery(streams), frames)


@pytest.mark.parametrize("how", ["left", "full"])
def test_in_one_batch(spark: SparkSession, tmp_path: Path, how: str) -> None:
    tables = generated(["a", "b"], 300, keys=200)
    write(tmp_path, tables, 1)
    streams = [
        bd.Stream(n, "k", time="t", window="2 seconds", how=how if n == "b" else "inner") for n in "ab"
    ]
    q = bd.JoinQuery(streams)
    found = bd.spark.join(q, {n: spark.read.parquet(str(tmp_path / n)) for n in "ab"}, buckets=4)
    found.write.parquet(str(tmp_path / "out"))
    wanted = bd.run_local(q, tables)
    assert wanted["b_v"].null_count > 50
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)


def test_what_spark_cannot_bound_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(["a", "b"], 20)
    write(tmp_path, tables, 1)
    frames = read(spark, tmp_path, tables)
    streams = [
        bd.Stream(n, "k", time="t", window="unbounded", lateness="0 s", how=how)
        for n, how in (("a", "inner"), ("b", "left"))
    ]
    with pytest.raises(
        bd.BraidedError, match="a row without one could never be handed out; give the required"
    ):
        bd.spark.join(bd.JoinQuery(streams), frames)
    bounded = bd.JoinQuery(
        [
            bd.Stream(n, "k", time="t", window="1 s", lateness="0 s", how=how)
            for n, how in (("a", "inner"), ("b", "left"))
        ]
    )
    with pytest.raises(bd.BraidedError, match="hot_keys: stream 'b' is optional"):
        bd.spark.join(bounded, frames, hot_keys={"b": {1: 2}})


def test_as_of_joins_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    def query(age: str | None = "3 seconds") -> bd.JoinQuery:
        prices = bd.AsOf(age) if age else "3 seconds"
        return bd.JoinQuery(
            [
                bd.Stream("a", "k", time="t", window="0 s", lateness="0 s"),
                bd.Stream("b", "k", time="t", window=prices, lateness="0 s"),
                bd.Stream("c", "k", time="t", window=bd.AsOf("1 second"), lateness="0 s", how="left"),
            ],
            select={"v": "a.v", "b": "b.v", "c": "c.v"},
        )

    tables = generated(["a", "b", "c"], 600, keys=50)
    write(tmp_path, tables, 4)
    streaming = start(bd.spark.join(query(), read(spark, tmp_path, tables), buckets=4), tmp_path)
    while (bd.spark.metrics(streaming).batches or 0) < 2:
        assert streaming.isActive, streaming.exception()
    streaming.stop()
    for name, table in later(tables).items():
        add_file(tmp_path / name, 9, table)
    run(bd.spark.join(query(), read(spark, tmp_path, tables), buckets=4), tmp_path)
    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(bd.BraidedError, match=r"'b' was joined as of the others \(AsOf\), and that is fixed"):
        bd.spark.join(query(None), read(spark, tmp_path, tables), buckets=4, resume=checkpoint)
    newest = "{0}.t = (select max(t) from {0} o where o.k = a.k and o.t <= a.t)"
    near = "{0}.k = a.k and epoch_us(a.t) - epoch_us({0}.t) <= {1} and " + newest
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        joins = f"a join b on {near.format('b', 3_000_000)} left join c on {near.format('c', 1_000_000)}"
        wanted = db.sql(f"select a.v, b.v, c.v from {joins}").fetchall()
    assert sum(c is None for *_, c in wanted) > 30
    found = results(tmp_path)
    columns = (found[c].to_pylist() for c in ("v", "b", "c"))
    assert sorted(zip(*columns, strict=True), key=repr) == sorted(wanted, key=repr)
