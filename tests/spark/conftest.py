"""One Spark session for the whole suite."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import braided.spark

# short runs, here and in processes that tests start: compiling better costs more than it brings
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = braided.spark.session(
        "braided-tests",
        **{
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
