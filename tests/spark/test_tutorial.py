"""The tutorial's second half runs on Spark, and prints what the page says; so do two how-tos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import braided as bd
from tests.docs.pages import blocks, run


@pytest.fixture
def namespace(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the first half leaves behind, in a folder of its own, with this suite's session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bd.spark, "session", lambda name: spark)
    made: dict[str, Any] = {}
    run("start/tutorial.md", blocks("start/tutorial.md", until="## On Spark"), made)
    return made


def test_the_tutorial_on_spark_and_the_recipes_that_go_on_with_it(
    spark: SparkSession, namespace: dict[str, Any]
) -> None:
    run("start/tutorial.md", blocks("start/tutorial.md", "## On Spark"), namespace)
    namespace["frames"] = {
        name: spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 4)
        .parquet(str(namespace["folder"] / name))
        for name, schema in namespace["SCHEMAS"].items()
    }
    for page in ("howto/upsert.md", "howto/late-rows.md"):
        run(page, blocks(page), namespace)
