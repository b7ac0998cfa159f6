"""A real query followed from its start to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import braided as bd
from braided.testing.samples.files import add_file
from braided.view import Journal, follow
from tests.spark.streams import generated, query, read, write


def _wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_every_batch_is_told_once_also_after_an_idle_while(spark: SparkSession, tmp_path: Path) -> None:
    """An idle query reports the number of the batch to come, which must not hide that batch."""
    tables = generated(["a", "b"], 600)
    write(tmp_path, {name: t.slice(0, 400) for name, t in tables.items()}, 2)
    memory = bd.Memory("64 MB")
    joined = bd.spark.join(query(["a", "b"], memory=memory), read(spark, tmp_path, tables), buckets=2)
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100")
    try:
        writer = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        streaming = writer.start()
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    journal, said = Journal(tmp_path / "journal.jsonl"), []
    following = threading.Thread(
        target=follow,
        args=(streaming,),
        kwargs={"journal": journal.path, "show": lambda _, why: said.append(why), "every": 0.1},
    )
    following.start()
    try:
        _wait(lambda: sum(r.rows for r in journal.read()) == 800)
        _wait(lambda: "addBatch" not in (streaming.lastProgress or {"durationMs": {}})["durationMs"])
        for name, table in tables.items():
            add_file(tmp_path / name, 2, table.slice(400))
        _wait(lambda: sum(r.rows for r in journal.read()) == 1_200)
    finally:
        streaming.stop()
        following.join()
    records, seen = journal.read(), bd.spark.metrics(streaming)
    assert [r.batch for r in records] == list(range(len(records)))
    assert sum(r.rows for r in records) == 1_200
    assert sum(r.results or 0 for r in records) == records[-1].total_results == seen.results > 0
    assert records[-1].budget_bytes == 64_000_000
    assert records[-1].streams["a"].live_rows == seen.streams["a"].live_rows
    assert said[0].startswith("No batch has been finished")
    assert said[-1].startswith(f"{seen.results:,} results in ")
