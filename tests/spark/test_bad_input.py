"""Mistakes with Spark get one clear error before the query starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import braided as bd
from braided.spark.sessions.java import check_java
from braided.spark.wire.labels import labels
from tests.spark.streams import generated, query, read, write

NAMES = ["a", "b"]


@pytest.fixture
def frames(spark: SparkSession, tmp_path: Path) -> dict[str, Any]:
    tables = generated(NAMES, 20)
    write(tmp_path, tables, 1)
    return {
        "stream": read(spark, tmp_path, tables),
        "batch": {n: spark.read.parquet(str(tmp_path / n)) for n in NAMES},
    }


def test_mistakes_are_named_before_the_query_starts(spark: SparkSession, frames: dict[str, Any]) -> None:
    live, batch = frames["stream"], frames["batch"]
    q, loose = query(NAMES), bd.JoinQuery([bd.Stream(n, key="k", time="t") for n in NAMES])
    unlate = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="1 s") for n in NAMES])
    wrong = {"a": live["a"].withColumn("k", F.col("k").cast("string")), "b": live["b"]}
    untimed = {"a": live["a"].withColumn("t", F.col("t").cast("long")), "b": live["b"]}
    again = {"a": bd.spark.join(q, live).select("a_k", "a_t").toDF("k", "t"), "b": live["b"]}
    streams = [bd.Stream(n, time="t", window=bd.CountWindow(2), lateness="0 s") for n in ("a", "b", "c")]
    staged, three = bd.JoinQuery(streams, [("a.k", "b.k"), ("b.v", "c.v")]), {**live, "c": live["a"]}
    mistakes: list[tuple[Any, Any, dict[str, Any], list[str]]] = [
        (q, {"a": live["a"], "b": batch["b"]}, {}, ["a stream", "b do not"]),
        (q, {"a": live["a"]}, {}, ["'b'"]),
        (q, {**live, "z": live["a"]}, {}, ["'z'"]),
        (q, live, {"buckets": 3}, ["power of two", "3"]),
        (q, live, {"late": "keep"}, ["'keep'"]),
        (loose, live, {}, ["'a'", "window", "unbounded"]),
        (unlate, live, {}, ["'a'", "lateness"]),
        (query(NAMES, bd.CountWindow(2, per="stream")), live, {}, ["per='key'"]),
        (query(NAMES, bd.CountWindow(2, per="stream")), batch, {}, ["'a'", "per='key'"]),
        (staged, three, {"layout": "stages"}, ["stream 'a' counts rows", "leave out layout='stages'"]),
        (q, wrong, {}, ["a.k is string", "b.k is int64"]),
        (q, untimed, {}, ["'a'", "bigint", "timestamp"]),
        (query(NAMES, where="a.nope = 1"), live, {}, ["'nope'"]),
        (q, again, {}, ["'a'", "another bd.spark.join", "one JoinQuery", "sink"]),
    ]
    for q_, inputs, options, words in mistakes:
        with pytest.raises(bd.BraidedError) as raised:
            bd.spark.join(q_, inputs, **options)
        for word in words:
            assert word in str(raised.value), str(raised.value)


def test_a_session_without_rocksdb_or_with_the_max_policy_is_refused(
    spark: SparkSession, frames: dict[str, Any]
) -> None:
    for key, value, word in (
        ("spark.sql.streaming.stateStore.providerClass", "org.example.Other", "RocksDBStateStoreProvider"),
        ("spark.sql.streaming.multipleWatermarkPolicy", "max", "multipleWatermarkPolicy=min"),
    ):
        before = spark.conf.get(key)
        spark.conf.set(key, value)
        try:
            with pytest.raises(bd.BraidedError, match=word):
                bd.spark.join(query(NAMES), frames["stream"])
        finally:
            spark.conf.set(key, before or "")


def test_a_watermark_that_is_there_already_is_respected(frames: dict[str, Any]) -> None:
    marked = {n: f.withWatermark("t", "5 seconds") for n, f in frames["stream"].items()}
    plan = bd.spark.join(query(NAMES), marked)._jdf.queryExecution().analyzed().toString()
    assert plan.count("EventTimeWatermark") == 2
    assert "5 seconds" in plan


def test_no_state_is_one_clear_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(bd.BraidedError, match="no state of a Braided join"):
        bd.spark.inspect_state(str(tmp_path / "nothing"), spark=spark)


def test_our_murmur3_is_sparks(spark: SparkSession) -> None:
    from braided.spark.wire.labels import murmur3

    numbers = [0, 1, 2, 77, 5_000, *labels(8)]
    rows = spark.createDataFrame([(n,) for n in numbers], "n int").select(F.hash("n").alias("h")).collect()
    assert [r["h"] for r in rows] == murmur3(np.array(numbers)).tolist()


def test_an_input_with_numbers_of_its_own_is_no_join(frames: dict[str, Any]) -> None:
    live = frames["stream"]
    watched = {**live, "a": live["a"].observe("braided-a", F.count(F.lit(1)).alias("rows"))}
    assert bd.spark.join(query(NAMES), watched).isStreaming


def test_without_java_a_session_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(bd.BraidedError, match=r"Spark needs Java 17 or newer.*install it or set JAVA_HOME"):
        bd.spark.session()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as spark-submit does: a Java runs already
    check_java()
