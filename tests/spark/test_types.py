"""Columns of every Spark type arrive as they went in, nulls included; keys of any type join."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import braided as bd

DDL = (
    "k string, t timestamp, row int, bo boolean, by tinyint, sh smallint, i int, l bigint, f float, "
    "d double, "
    "de decimal(20,3), s string, bi binary, da date, ts timestamp, ntz timestamp_ntz, a array<string>, "
    "st struct<x:int,y:array<timestamp>>, m map<string,int>, iv interval day to second"
)
NOON = dt.datetime(2024, 3, 31, 12, 0, 0, 123456)


def rows(count: int) -> list[tuple[Any, ...]]:
    full = [
        (
            f"key {n % 5}", NOON + dt.timedelta(seconds=n), n, n % 2 == 0, n, -n, n, 2**40 + n, n / 4, n / 3,
            Decimal(n) / 8, f"ü{n}" * n, bytes([n]) * n, dt.date(1969, 1, 1 + n), NOON, NOON, ["x", None] * n,
            (n, [NOON, None]), {f"m{n}": n, "none": None}, dt.timedelta(days=n, microseconds=n),
        )
        for n in range(count)
    ]  # fmt: skip
    empty = [(f"key {n}", NOON, count + n, *[None] * 17) for n in range(2)]
    nothing = [(None, NOON, count + 2, *[None] * 17), ("key 1", None, count + 3, *[None] * 17)]
    return [*full, *empty, *nothing]


def test_every_type_arrives_as_it_went_in(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(rows(12), DDL)
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    query = bd.JoinQuery(
        [bd.Stream(n, key="k", time="t", window="3 seconds", lateness="1 minute") for n in ("a", "b")]
    )
    live = {n: spark.readStream.schema(DDL).parquet(str(tmp_path / "in")) for n in ("a", "b")}
    joined = bd.spark.join(query, live, buckets=2)
    for name in ("a", "b"):
        types = {f.name: f.dataType for f in joined.schema if f.name.startswith(f"{name}_")}
        assert types == {f"{name}_{f.name}": f.dataType for f in frame.schema}
    seen: list[Any] = []
    writer = joined.writeStream.foreachBatch(lambda df, _: seen.extend(df.collect()))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    originals = {r["row"]: r for r in frame.collect()}
    assert len(seen) > 14
    for result in seen:
        for name in ("a", "b"):
            source = originals[result[f"{name}_row"]]
            assert all(result[f"{name}_{c}"] == source[c] for c in frame.columns)


def test_keys_of_several_types_join_in_batches(spark: SparkSession) -> None:
    frame = spark.createDataFrame(rows(12), DDL)
    for key in ("bo", "i", "l", "d", "de", "bi", "da", "ts", "ntz", ["k", "sh"]):
        query = bd.JoinQuery([bd.Stream(n, key=key) for n in ("a", "b")])
        columns = [key] if isinstance(key, str) else key
        counts = frame.dropna(subset=columns).groupBy(*columns).count().collect()
        assert bd.spark.join(query, {"a": frame, "b": frame}).count() == sum(r["count"] ** 2 for r in counts)


def test_columns_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """Names with dots and backticks were read as paths by Spark, and a tab broke the second batch."""
    key, time, value = "the.key\t`k`", "t.ime `x`\n'", 'größe/"数"'
    frame = spark.createDataFrame(rows(6), DDL).select("k", "t", "row").toDF(key, time, value)
    frame.coalesce(1).write.parquet(str(tmp_path / "in" / "0"))
    frame.coalesce(1).write.parquet(str(tmp_path / "in" / "1"))
    query = bd.JoinQuery(
        [bd.Stream(n, key=key, time=time, window="3 seconds", lateness="1 minute") for n in ("a", "b")]
    )
    reader = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    live = {n: reader.parquet(str(tmp_path / "in" / "*")) for n in ("a", "b")}
    seen: list[Any] = []
    writer = bd.spark.join(query, live, buckets=2).writeStream.foreachBatch(
        lambda df, _: seen.extend(df.collect())
    )
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    streaming = writer.start()
    streaming.awaitTermination()
    assert bd.spark.metrics(streaming).batches == 2
    joined = [(r[f"a_{value}"], r[f"b_{value}"]) for r in seen]
    assert len(joined) == 4 * len(set(joined)) > 0
    assert all(r[f"a_{key}"] == r[f"b_{key}"] for r in seen)
