"""One job file of the examples on Spark: XML, a document a batch, with punctuations."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import braided as bd
from braided.jobs import load
from braided.jobs.running import Watching, run
from braided.testing import assert_same_bag, expected
from examples.news import join as news
from examples.run_all import HERE, environment


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
