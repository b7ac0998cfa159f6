"""The join on Spark gives the definition's bag, exactly once, over batches and restarts."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import braided as bd
from braided.spark.storage import folders
from braided.testing import assert_same_bag
from braided.testing.samples.files import add_file
from tests.spark.streams import START_US, exact, generated, query, read, results, run, write

NAMES = ["a", "b", "c"]


def test_a_streaming_join_is_exact_over_batches_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES, 3_000)
    q = query(NAMES, where="a.v <= b.v or c.v > 10")
    write(tmp_path, {n: t.slice(0, 1_500) for n, t in tables.items()}, 2)
    df = bd.spark.join(q, read(spark, tmp_path, tables), buckets=4)
    run(df, tmp_path)
    for n, t in tables.items():  # more files, another run on the same checkpoint
        add_file(tmp_path / n, 2, t.slice(1_500, 700))
        add_file(tmp_path / n, 3, t.slice(2_200))
    streaming = run(df, tmp_path)
    wanted = exact(q, tables)
    assert wanted.num_rows > 100
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)

    seen = bd.spark.metrics(streaming)
    assert seen.results == wanted.num_rows  # totals survive the restart
    assert {n: s.rows_in for n, s in seen.streams.items()} == dict.fromkeys(NAMES, 3000)
    assert {n: s.null_keys for n, s in seen.streams.items()} == {n: tables[n]["k"].null_count for n in NAMES}
    assert seen.buckets == 4
    assert seen.watermark_us is not None
    assert 0.25 <= seen.largest_bucket_share < 0.6
    assert "results in 4 batches" in bd.spark.why(streaming)

    stored = bd.spark.inspect_state(str(tmp_path / "checkpoint"), spark=spark)
    assert set(stored.buckets) == {0, 1, 2, 3}
    assert stored.watermark_us == seen.watermark_us
    assert 0 < sum(stored.rows.values()) < 3_000
    assert stored.results == wanted.num_rows


def test_policies_of_every_kind_run_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES, 1_200)
    write(tmp_path, tables, 2)
    for driver, order in (("timestamp", "a-greedy"), ("consumption-rate", "fixed")):
        root = tmp_path / driver
        tuning = bd.Tuning(driver_stream=driver, probe_order=order)  # type: ignore[arg-type]
        q = query(NAMES, tuning=tuning)
        streaming = run(bd.spark.join(q, read(spark, tmp_path, tables), buckets=2), root)
        wanted = exact(q, tables)
        assert_same_bag(results(root).select(wanted.column_names), wanted)
        seen = bd.spark.metrics(streaming)
        assert set(seen.driver_streams) == set(NAMES)
        assert {d: set(o) for d, o in seen.probe_orders.items()} == {d: set(NAMES) - {d} for d in NAMES}
        assert seen.driver_switches > 1_000 if driver == "timestamp" else seen.driver_switches == 12
        assert 0 < seen.hottest_key_share < 0.2


def query_folders(spark: SparkSession) -> list[str]:
    application = folders.application_folder(spark.sparkContext.applicationId)
    return [name for name in application.names() if not name.startswith("owner")]


def test_a_querys_arena_goes_when_it_ends(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES, 300)
    write(tmp_path, tables, 3)
    df = bd.spark.join(query(NAMES), read(spark, tmp_path, tables), buckets=2)
    seen = []

    def look(batch: DataFrame, _: int) -> None:
        batch.count()
        seen.append(len(query_folders(spark)))

    writer = df.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.foreachBatch(look).trigger(availableNow=True).start().awaitTermination()
    assert max(seen) > 0
    deadline = time.monotonic() + 20
    while query_folders(spark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert query_folders(spark) == []


def test_batch_inputs_give_a_batch_result(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES, 1_000)
    write(tmp_path, tables, 1)
    for window in ("3 seconds", bd.CountWindow(2)):
        q = query(NAMES, window)
        frames = {n: spark.read.parquet(str(tmp_path / n)) for n in NAMES}
        df = bd.spark.join(q, frames, buckets=2)
        assert not df.isStreaming
        df.write.mode("overwrite").parquet(str(tmp_path / "out"))
        wanted = exact(q, tables)
        assert wanted.num_rows > 50
        assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)


def test_streams_fed_one_at_a_time_still_move_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """Spark forgets a stream's newest time on restart; Braided keeps it."""
    tables = generated(["a", "b"], 400, span_s=40)
    q = query(["a", "b"])
    for n in tables:
        (tmp_path / n).mkdir()
    df = bd.spark.join(q, read(spark, tmp_path, tables), buckets=2)
    for n, t in tables.items():
        add_file(tmp_path / n, 0, t)
        streaming = run(df, tmp_path)
    seen = bd.spark.metrics(streaming)
    assert seen.watermark_us is not None
    assert seen.watermark_us >= START_US + 35_000_000
    assert_same_bag(results(tmp_path).select(exact(q, tables).column_names), exact(q, tables))


def test_late_rows_come_out_flagged_and_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(["a", "b"], 300, span_s=30)
    late = tables["a"].slice(0, 7)
    q = query(["a", "b"])
    write(tmp_path, {n: t.slice(0, 200) for n, t in tables.items()}, 1)
    add_file(tmp_path / "a", 1, pa.concat_tables([late, tables["a"].slice(200)]))
    add_file(tmp_path / "b", 1, tables["b"].slice(200))
    df = bd.spark.join(q, read(spark, tmp_path, tables), buckets=2, late="flag")
    streaming = run(df, tmp_path)
    out = results(tmp_path)
    flagged = out.filter(pa.compute.equal(out["late_stream"], "a"))
    with_key = late.num_rows - late["k"].null_count
    assert flagged.num_rows == with_key
    assert set(flagged["b_k"].to_pylist()) == {None}
    assert bd.spark.metrics(streaming).streams["a"].late_rows == with_key
    assert "came too late" in bd.spark.why(streaming)
    real = out.filter(pa.compute.is_null(out["late_stream"]))
    wanted = exact(q, tables)
    assert_same_bag(real.select(wanted.column_names), wanted)


def test_a_windowed_aggregation_may_follow(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(["a", "b"], 600, span_s=60)
    q = query(["a", "b"])
    write(tmp_path, tables, 4)
    joined = bd.spark.join(q, read(spark, tmp_path, tables), buckets=2)
    counted = joined.groupBy(F.window("result_time", "10 seconds")).count()
    run(counted.select(F.col("window.start").alias("start"), "count"), tmp_path)
    out = results(tmp_path)
    times = exact(q, tables)["result_time"].cast(pa.int64()).to_numpy() // 10_000_000
    got = dict(
        zip(out["start"].cast(pa.int64()).to_numpy() // 10_000_000, out["count"].to_pylist(), strict=True)
    )
    assert len(got) >= 3
    for window, count in got.items():  # every window that was closed has all its rows
        assert count == (times == window).sum()
    # Spark numbers operators with state from the sink: the aggregation, not the join, was read once
    stored = bd.spark.inspect_state(str(tmp_path / "checkpoint"), spark=spark)
    assert stored.results == len(times)


def test_count_windows_wait_for_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(["a", "b"], 400, keys=10, span_s=40)
    q = query(["a", "b"], bd.CountWindow(2))
    write(tmp_path, tables, 4)
    run(bd.spark.join(q, read(spark, tmp_path, tables), buckets=2), tmp_path)
    wanted = exact(q, tables)
    passed = min(t["t"].to_pylist()[-1] for t in tables.values())
    settled = wanted.filter(
        pa.compute.less(wanted["result_time"], pa.scalar(passed, wanted["result_time"].type))
    )
    assert settled.num_rows > 100
    assert_same_bag(results(tmp_path).select(wanted.column_names), settled)


@pytest.mark.parametrize("keys", ["one key", "several keys"])
def test_count_windows_in_a_tree_go_on_after_a_restart(
    spark: SparkSession, tmp_path: Path, keys: str
) -> None:
    tables = generated(NAMES, 300, keys=10, span_s=40)
    tables = {n: t.set_column(2, "v", pc.bit_wise_and(t["v"], 3)) for n, t in tables.items()}
    on = [("a.k", "b.k"), ("b.v", "c.v")] if keys == "several keys" else None
    key = None if on else "k"
    windows: list[Any] = [bd.CountWindow(2), bd.CountWindow(3), "2 seconds"]
    streams = [
        bd.Stream(n, key, time="t", window=w, lateness="0 seconds")
        for n, w in zip(NAMES, windows, strict=True)
    ]
    q = bd.JoinQuery(streams, on, plan="linear")
    write(tmp_path, {n: t.slice(0, 150) for n, t in tables.items()}, 1)
    run(bd.spark.join(q, read(spark, tmp_path, tables), buckets=4), tmp_path)
    for n, t in tables.items():
        add_file(tmp_path / n, 1, t.slice(150))
    run(bd.spark.join(q, read(spark, tmp_path, tables), buckets=4), tmp_path)
    wanted = exact(q, tables)
    passed = min(t["t"].to_pylist()[-1] for t in tables.values())
    settled = wanted.filter(pc.less(wanted["result_time"], pa.scalar(passed, wanted["result_time"].type)))
    assert settled.num_rows > 50
    assert_same_bag(results(tmp_path).select(wanted.column_names), settled)


def test_tuning_and_new_columns_may_change_on_restart(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(["a", "b"], 200, span_s=20)
    write(tmp_path, {n: t.slice(0, 100) for n, t in tables.items()}, 1)
    run(bd.spark.join(query(["a", "b"]), read(spark, tmp_path, tables), buckets=2), tmp_path / "one")
    shutil.copytree(tmp_path / "one" / "checkpoint", tmp_path / "two" / "checkpoint")
    for n, t in tables.items():
        add_file(tmp_path / n, 1, t.slice(100))
    tuned = query(["a", "b"], tuning=bd.Tuning(probe_order="fixed", expiry="lazy"))
    frames = {n: f.withColumn("extra", F.lit("new")) for n, f in read(spark, tmp_path, tables).items()}
    run(bd.spark.join(tuned, frames, buckets=2), tmp_path / "two")
    out = results(tmp_path / "two")
    first = results(tmp_path / "one").num_rows
    assert out.num_rows + first == exact(query(["a", "b"]), tables).num_rows
    assert set(out["a_extra"].to_pylist()) <= {"new", None}


def test_more_buckets_than_partitions_one_key_and_an_empty_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = generated(NAMES, 200, keys=1)
    q = query(NAMES, "1 second")
    write(tmp_path, {n: tables[n] for n in ("a", "b")}, 2)
    (tmp_path / "c").mkdir()
    df = bd.spark.join(q, read(spark, tmp_path, tables), buckets=16)
    streaming = run(df, tmp_path)
    assert bd.spark.metrics(streaming).results == 0
    assert "Stream 'c' has not brought a single row" in bd.spark.why(streaming)
    add_file(tmp_path / "c", 0, tables["c"])
    run(df, tmp_path)
    wanted = exact(q, tables)
    assert wanted.num_rows > 0
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)


def test_two_actions_in_one_foreach_batch_see_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(["a", "b"], 300)
    q = query(["a", "b"])
    write(tmp_path, tables, 3)
    counts: list[tuple[int, int]] = []

    def twice(frame: object, _: int) -> None:
        counts.append((frame.count(), frame.count()))  # type: ignore[attr-defined]

    df = bd.spark.join(q, read(spark, tmp_path, tables), buckets=2)
    writer = df.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "checkpoint"))
    streaming = writer.trigger(availableNow=True).start()
    streaming.awaitTermination()
    assert all(one == two for one, two in counts)
    assert sum(one for one, _ in counts) == exact(q, tables).num_rows
