"""Layouts, hot keys and queries that change while they run, on Spark itself."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import braided as bd
from braided.testing import assert_same_bag
from braided.testing.samples.files import add_file
from tests.spark.streams import exact, generated, query, read, results, run, write

NAMES = ["a", "b", "c"]


def joined_by(query_: bd.JoinQuery, tables: dict[str, pa.Table], since_us: int, until_us: int) -> pa.Table:
    """The results whose oldest row lies in an epoch."""
    found = exact(query_, tables)
    times = [found[f"{name}_t"].cast(pa.int64()).to_numpy() for name in query_.names]
    oldest = np.minimum.reduce(times)
    return found.filter(pa.array((oldest >= since_us) & (oldest < until_us)))


@contextlib.contextmanager
def nothing_committed(folder: Path) -> Iterator[None]:
    """A checkpoint as if the query had been killed before its first commit."""
    commits = folder / "checkpoint" / "commits"
    hidden = commits.rename(folder / "commits")
    yield
    hidden.rename(commits)


def test_a_query_changes_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES, 900, keys=30, span_s=90)
    parts = [{n: t.slice(i * 225, 225) for n, t in tables.items()} for i in range(4)]
    checkpoint = str(tmp_path / "checkpoint")
    first = query(NAMES)
    write(tmp_path, parts[0], 1)
    run(bd.spark.join(first, read(spark, tmp_path, tables), buckets=4, resume=checkpoint), tmp_path)
    other = query(NAMES, window="5 seconds", where="a.v > b.v", plan="linear")
    frames = read(spark, tmp_path, tables)
    with nothing_committed(tmp_path):  # the sink may hold what the first query found
        for path in ({"resume": checkpoint}, {"checkpoint": checkpoint}):
            with pytest.raises(bd.BraidedError, match="another query and has not been finished"):
                bd.spark.join(other, frames, buckets=4, **path)
        with pytest.raises(bd.BraidedError, match="another query and has not been finished"):
            bd.spark.explain(other, frames, buckets=4, resume=checkpoint)
            bd.spark.join(first, frames, buckets=4, **path)
    with pytest.raises(bd.BraidedError, match=r"window of 'a' was '3 seconds'.*resume=checkpoint"):
        bd.spark.join(other, frames, buckets=4, checkpoint=checkpoint)
    text = bd.spark.explain(other, frames, buckets=2, resume=checkpoint)
    assert "checkpoint: a new epoch begins" in text
    for n in NAMES:
        add_file(tmp_path / n, 1, parts[1][n])
    streaming = run(bd.spark.join(other, frames, buckets=2, resume=checkpoint), tmp_path)
    old, new = bd.spark.metrics(streaming).epochs
    assert new.changes == (
        *(f"the window of '{n}' was 3 seconds and is 5 seconds" for n in NAMES),
        "where was none and is a.v > b.v",
        "buckets was 4 and is 2",
    )
    changed = "; ".join(new.changes)
    assert f"; {changed}" in text
    assert f"The query has changed ({changed}): epoch 0 still holds" in bd.spark.why(streaming)
    assert new.since_us is not None
    assert f"before {np.datetime64(new.since_us, 'us').item():%Y-%m-%d %H:%M:%S}; it is empty once" in text
    assert (old.number, old.until_us, new.number) == (0, new.since_us, 1)
    assert new.since_us is not None
    for i in (2, 3):
        for n in NAMES:
            add_file(tmp_path / n, i, parts[i][n])
        frames = read(spark, tmp_path, tables)
        streaming = run(bd.spark.join(other, frames, buckets=2, resume=checkpoint), tmp_path)
    wanted = [joined_by(first, tables, 0, new.since_us), joined_by(other, tables, new.since_us, 1 << 62)]
    assert all(table.num_rows for table in wanted)
    assert_same_bag(results(tmp_path), pa.concat_tables(wanted))
    seen = bd.spark.metrics(streaming)
    assert [epoch.number for epoch in seen.epochs] == [1]
    text = bd.spark.explain(other, frames, buckets=2, resume=checkpoint)
    assert "checkpoint: goes on, without a new epoch" in text
    assert "epoch 0" not in text
    assert "first start" in bd.spark.explain(other, frames, resume=str(tmp_path / "new"))
    assert seen.results == sum(table.num_rows for table in wanted)
    state = bd.spark.inspect_state(checkpoint)
    assert [(epoch.number, len(epoch.buckets)) for epoch in state.epochs] == [(1, 2)]
    typed = {n: f.withColumn("v", f["v"].cast("int")) for n, f in frames.items()}
    with pytest.raises(bd.BraidedError, match="column 'v' of stream 'a' as int64, and it is now int32"):
        bd.spark.join(other, typed, buckets=2, resume=checkpoint)
    with pytest.raises(bd.BraidedError, match="key of 'a' was"):
        keyed = [dataclasses.replace(s, key="v") for s in other.streams]
        bd.spark.join(bd.JoinQuery(keyed), frames, resume=checkpoint)


@pytest.mark.parametrize("layout", ["grid", "stages"])
def test_several_keys_by_a_grid_and_in_stages(spark: SparkSession, tmp_path: Path, layout: Any) -> None:
    tables = {
        n: t.append_column("m", pa.array(np.random.default_rng(i).integers(0, 25, t.num_rows)))
        for i, (n, t) in enumerate(generated(NAMES, 400, keys=30, span_s=60).items())
    }
    write(tmp_path, tables, 3)
    streams = [bd.Stream(n, time="t", window="3 seconds", lateness="0 seconds") for n in NAMES]
    query_ = bd.JoinQuery(streams, on=[("a.k", "b.k"), ("b.m", "c.m")])
    joined = bd.spark.join(query_, read(spark, tmp_path, tables), buckets=4, layout=layout)
    seen = bd.spark.metrics(run(joined, tmp_path))
    assert_same_bag(results(tmp_path), exact(query_, tables))
    assert {n: s.rows_in for n, s in seen.streams.items()} == dict.fromkeys(NAMES, 400)
    assert (seen.copies > 1) == (layout == "grid")


def test_no_key_is_spread_and_hot_keys_are_named(spark: SparkSession, tmp_path: Path) -> None:
    tables = generated(NAMES[:2], 300, keys=30, span_s=60)
    hot = pa.array([7 if i % 2 else k for i, k in enumerate(tables["a"]["k"].to_pylist())])
    tables["a"] = tables["a"].set_column(0, "k", hot)
    write(tmp_path, tables, 2)
    query_ = query(NAMES[:2])
    hot_keys = {"a": {7: 3}}
    joined = bd.spark.join(query_, read(spark, tmp_path, tables), buckets=4, hot_keys=hot_keys)
    streaming = run(joined, tmp_path)
    assert_same_bag(results(tmp_path), exact(query_, tables))
    seen = bd.spark.metrics(streaming)
    assert seen.hot_keys["a"]["7"] > 0.4
    assert "7" in bd.spark.why(streaming)
    batch = {n: spark.createDataFrame(t.drop_null().to_pandas()) for n, t in tables.items()}
    spread = bd.spark.join(query_, batch, buckets=4, hot_keys=hot_keys)
    assert spread.count() == exact(query_, tables).num_rows
    streams = [bd.Stream(n, time="t", window="2 seconds", lateness="0 seconds") for n in NAMES[:2]]
    keyless = bd.JoinQuery(streams, where="a.v < b.v and a.k = b.k")
    assert bd.spark.join(keyless, batch, buckets=4).count() == exact(keyless, tables).num_rows


BAD_HOT_KEYS: dict[str, tuple[Any, str]] = {
    "an unknown stream": ({"x": {1: 2}}, "hot_keys"),
    "a key of another type": ({"a": {"seven": 2}}, "is no key of stream 'a'"),
    "too many cells": ({"a": {7: 99}}, "from 2 to buckets=4"),
    "a key twice": ({"a": {7: 2}, "b": {7: 2}}, "only one stream's rows"),
    "a word": ("sometimes", "hot_keys"),
}


@pytest.mark.parametrize("bad", BAD_HOT_KEYS)
def test_hot_keys_that_cannot_be(spark: SparkSession, bad: str) -> None:
    tables = generated(NAMES[:2], 5)
    frames = {n: spark.createDataFrame(t.drop_null().to_pandas()) for n, t in tables.items()}
    hot_keys, words = BAD_HOT_KEYS[bad]
    with pytest.raises(bd.BraidedError, match=words):
        bd.spark.join(query(NAMES[:2]), frames, buckets=4, hot_keys=hot_keys)
