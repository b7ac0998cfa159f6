"""Restarts with another query: refused without harm, so that the query of the checkpoint still runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import braided as bd
from braided.testing import assert_same_bag
from braided.testing.samples.files import add_file
from tests.spark import test_stages as stages
from tests.spark.streams import exact, generated, query, read, results, run, write

NAMES = ["a", "b"]
OTHERS: dict[str, tuple[bd.JoinQuery, int, list[str]]] = {
    "the streams in another order": (
        query(["b", "a"]),
        2,
        ["their order, which is that of the result's columns, was ['a', 'b'] and is ['b', 'a']"],
    ),
    "another window": (query(NAMES, window="4 seconds"), 2, ["window of 'a' was '3 seconds' and is '4 sec"]),
    "another condition": (query(NAMES, where="a.v > 3"), 2, ["where was None and is 'a.v > 3'"]),
    "more buckets": (query(NAMES), 8, ["buckets=2", "buckets=8"]),
    "fewer buckets": (query(NAMES), 1, ["buckets=2", "buckets=1"]),
}


def begun(spark: SparkSession, root: Path) -> dict[str, pa.Table]:
    """A join that has run for a batch, with rows waiting for the next."""
    tables = generated(NAMES, 400, keys=20, span_s=40)
    write(root, {n: t.slice(0, 200) for n, t in tables.items()}, 1)
    run(bd.spark.join(query(NAMES), read(spark, root, tables), buckets=2), root)
    for n, t in tables.items():
        add_file(root / n, 1, t.slice(200))
    return tables


def files(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_query_of_a_checkpoint_runs_after_others_were_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Streams in another order were refused in a task, when Spark had read the files of one stream into the
    log of the other's source: from then on the original query failed, and its checkpoint was lost.
    """
    tables = begun(spark, tmp_path)
    before = results(tmp_path).num_rows
    for other, buckets, words in OTHERS.values():
        with pytest.raises(Exception, match=r"this checkpoint .* new checkpoint") as refused:
            run(bd.spark.join(other, read(spark, tmp_path, tables), buckets=buckets), tmp_path)
        for word in words:
            assert word in str(refused.value)
        assert results(tmp_path).num_rows == before
    frames = dict(reversed(read(spark, tmp_path, tables).items()))  # their order says nothing
    streaming = run(bd.spark.join(query(NAMES), frames, buckets=2), tmp_path)
    wanted = exact(query(NAMES), tables)
    assert before < wanted.num_rows
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)
    seen = bd.spark.metrics(streaming)
    assert {n: s.rows_in for n, s in seen.streams.items()} == {n: t.num_rows for n, t in tables.items()}
    stored = bd.spark.inspect_state(str(tmp_path / "checkpoint"), spark=spark)
    assert stored.batches == 3  # one more: what the refused ones had planned is in the log
    assert stored.rows == {n: s.live_rows for n, s in seen.streams.items()}


def test_a_driver_that_knows_the_checkpoint_refuses_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = begun(spark, tmp_path)
    checkpoint = str(tmp_path / "checkpoint")
    before = files(tmp_path / "checkpoint")
    frames = read(spark, tmp_path, tables)
    for other, buckets, words in OTHERS.values():
        with pytest.raises(bd.BraidedError) as refused:
            bd.spark.join(other, frames, buckets=buckets, checkpoint=checkpoint)
        for word in words:
            assert word in str(refused.value)
    renamed = bd.JoinQuery(
        [dataclasses.replace(s, name=n) for s, n in zip(query(NAMES).streams, "zb", strict=True)]
    )
    with pytest.raises(bd.BraidedError, match="another query: streams was"):
        bd.spark.join(renamed, {"z": frames["a"], "b": frames["b"]}, buckets=2, checkpoint=checkpoint)
    typed = {n: f.withColumn("v", f["v"].cast("int")) for n, f in frames.items()}
    with pytest.raises(bd.BraidedError, match="column 'v' of stream 'a' as int64, and it is now int32"):
        bd.spark.join(query(NAMES), typed, buckets=2, checkpoint=checkpoint)
    assert files(tmp_path / "checkpoint") == before
    run(bd.spark.join(query(NAMES), frames, buckets=2, checkpoint=checkpoint), tmp_path)
    wanted = exact(query(NAMES), tables)
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)


def test_a_checkpoint_that_is_new_and_one_of_no_join(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES, 20)
    write(tmp_path, tables, 1)
    frames = read(spark, tmp_path, tables)
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        assert bd.spark.join(query(NAMES), frames, checkpoint=str(tmp_path / name)).isStreaming
    assert not (tmp_path / "missing").exists()
    run(frames["a"], tmp_path)
    with pytest.raises(bd.BraidedError, match=r"no state of a Braided join .*; name another folder"):
        bd.spark.join(query(NAMES), frames, checkpoint=str(tmp_path / "checkpoint"))
    (tmp_path / "checkpoint").rename(tmp_path / "check point")
    with pytest.raises(
        bd.BraidedError, match="only from paths without spaces and the like: rename the folder"
    ):
        bd.spark.join(query(NAMES), frames, checkpoint=str(tmp_path / "check point"))
    wrong: Any = 7
    with pytest.raises(bd.BraidedError, match="checkpoint must be the path of a folder; got 7"):
        bd.spark.join(query(NAMES), frames, checkpoint=wrong)


def test_another_plan_of_several_stages_is_refused_without_harm(spark: SparkSession, tmp_path: Path) -> None:
    """The plan decided in which order Spark met the sources, and the refused one wrote into wrong logs."""
    names = stages.NAMES[:3]
    tables = stages.generated(names, 80, keys=4)
    asked, other = (stages.query(names, stages.CHAIN, plan=plan) for plan in ("mjoin", ("a", ("c", "b"))))
    write(tmp_path, {n: t.slice(0, 40) for n, t in tables.items()}, 1)
    frames = read(spark, tmp_path, tables)
    run(bd.spark.join(asked, frames, buckets=2, layout="stages"), tmp_path)
    for n, t in tables.items():
        add_file(tmp_path / n, 1, t.slice(40))
    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(bd.BraidedError, match="the plan is fixed; go back to it, or start a new checkpoint"):
        bd.spark.join(other, frames, buckets=2, layout="stages", checkpoint=checkpoint)
    with pytest.raises(Exception, match="the plan is fixed; go back to it, or start a new checkpoint"):
        run(bd.spark.join(other, frames, buckets=2, layout="stages"), tmp_path)
    run(bd.spark.join(asked, frames, buckets=2, layout="stages", checkpoint=checkpoint), tmp_path)
    wanted = exact(asked, tables)
    assert wanted.num_rows > 20
    assert_same_bag(results(tmp_path).select(wanted.column_names), wanted)
