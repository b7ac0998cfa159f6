"""The examples on Spark: a job file with XML and punctuations, one of Nexmark, and what scripts do there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import braided as bd
from braided.jobs import load
from braided.jobs.running import Watching, run
from braided.testing import assert_same_bag, expected
from braided.testing.samples import shop
from braided.testing.samples.files import by_period, write_batches
from braided_benchmarks import nexmark
from examples.ads import join as ads
from examples.ecommerce import join as ecommerce
from examples.news import join as news
from examples.nexmark import join as auctions
from examples.run_all import HERE, environment
from examples.sensors import join as sensors
from tests.examples.oracles import by_duckdb


def test_oracle_news_as_a_job(spark: SparkSession, tmp_path: Path) -> None:
    news.write(tmp_path / "data", 1000, documents=3)
    said: list[str] = []
    job = load(HERE / "news" / "job.yaml", environment(tmp_path))
    run(job, once=True, watching=Watching(said.append, quiet=True), session=spark)
    assert said[0] == "ended after batch 2"  # a document of each stream a batch
    found = pq.read_table(tmp_path / "out" / "results")
    assert_same_bag(found, expected(news.query(), news.tables(1000)).select(found.column_names))
    assert found.num_rows == 1000
    assert bd.spark.inspect_state(str(tmp_path / "out" / "checkpoint")).rows == {"news": 0, "access": 0}


def test_oracle_nexmark_as_a_job(spark: SparkSession, tmp_path: Path) -> None:
    made = _auctions(tmp_path / "data")
    job = load(HERE / "nexmark" / "q8.yaml", environment(tmp_path))
    run(job, once=True, watching=Watching(quiet=True), session=spark)
    wanted = by_duckdb("q8", made)
    assert wanted.num_rows > 20
    assert_same_bag(pq.read_table(tmp_path / "out" / "q8"), wanted)


def _ecommerce(spark: SparkSession, folder: Path) -> pa.Table:
    write_batches(folder, by_period(ecommerce.tables(200), ecommerce.TIMES, 2))
    ecommerce.on_spark(spark, folder, folder, "shipped")
    return expected(ecommerce.shipped(), shop.tables(200))


def _ads(spark: SparkSession, folder: Path) -> pa.Table:
    write_batches(folder, by_period(ads.tables(10_000), ads.TIMES, 2))
    ads.on_spark(spark, folder, folder, "attributed")
    return expected(ads.attributed(), ads.tables(10_000))


def _sensors(spark: SparkSession, folder: Path) -> pa.Table:
    # the sun has gone at the end of these, so no result waits for more readings
    made = {name: table.slice(table.num_rows // 2) for name, table in sensors.generated(hours=0.75).items()}
    write_batches(folder, by_period(made, dict.fromkeys(sensors.STREAMS, "at"), 2))
    sensors.on_spark(spark, folder, folder)
    return expected(sensors.query(), made)


def _news(spark: SparkSession, folder: Path) -> pa.Table:
    news.write(folder, 500, documents=2)
    news.on_spark(spark, folder, folder)
    return expected(news.query(), news.tables(500))


def _nexmark(spark: SparkSession, folder: Path) -> pa.Table:
    made = _auctions(folder)
    auctions.on_spark(spark, folder, folder, "q3")
    return by_duckdb("q3", made)


def _auctions(folder: Path) -> dict[str, pa.Table]:
    made = auctions.tables(6000)
    write_batches(folder, by_period({n: made[n] for n in nexmark.TIMES}, nexmark.TIMES, 2))
    return made


@pytest.mark.parametrize("joined", [_ecommerce, _ads, _sensors, _news, _nexmark])
def test_oracle_script(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    joined: Callable[[SparkSession, Path], pa.Table],
) -> None:
    wanted = joined(spark, tmp_path)
    found = pq.read_table(tmp_path / "results")
    assert found.num_rows > 10
    assert_same_bag(found.select(wanted.column_names), wanted)
    assert f"{found.num_rows:,} results in 2 batches" in capsys.readouterr().out
