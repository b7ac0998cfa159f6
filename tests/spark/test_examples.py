"""The recipes of `examples/`, run: what they say about repeated batches is true."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def forget(checkpoint: Path, batch: int) -> None:
    """As after a kill between the sink and the commit of this batch: the next start gives it again."""
    for folder, first in (("commits", batch), ("offsets", batch + 1)):
        for path in (checkpoint / folder).iterdir():
            if int(path.name.removeprefix(".").removesuffix(".crc")) >= first:
                path.unlink()


def test_late_rows_have_a_table_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    late_rows = example("late_rows")
    late_rows["generate"](tmp_path)
    late_rows["run"](spark, tmp_path)

    def tables() -> tuple[set[int], list[tuple[str, int]]]:
        results = spark.read.parquet(str(tmp_path / "results")).collect()
        late = spark.read.parquet(str(tmp_path / "late")).collect()
        return {row.orders_id for row in results}, [(row.late_stream, row.payments_id) for row in late]

    assert tables() == ({1, 3, 4}, [("payments", 2)])
    forget(tmp_path / "checkpoint", 2)
    late_rows["run"](spark, tmp_path)
    assert tables() == ({1, 3, 4}, [("payments", 2)])


def test_a_repeated_batch_is_not_upserted_again(spark: SparkSession, tmp_path: Path) -> None:
    upsert = example("upsert")
    upsert["generate"](tmp_path)
    upsert["run"](spark, tmp_path)
    wanted = [(1, 60, 3), (2, 5, 1), (3, 7, 1)]
    assert upsert["paid"](tmp_path) == wanted
    forget(tmp_path / "checkpoint", 1)
    upsert["run"](spark, tmp_path)
    assert upsert["paid"](tmp_path) == wanted


def test_a_batch_that_fails_half_way_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    upsert = example("upsert")
    take = upsert["upsert"](tmp_path / "paid.db", "q")
    rows = spark.createDataFrame([(1, 10), (2, 20)], "id long, amount long")
    take(rows, 0)
    with pytest.raises(Exception, match="amount"):
        take(rows.select("id"), 1)
    take(rows, 0)
    take(rows, 1)
    assert upsert["paid"](tmp_path) == [(1, 20, 2), (2, 40, 2)]
