"""A bucket without Spark: its state kept in a dict, its batches retried, its chunks damaged."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.policies.driver import DRIVER_POLICIES
from braided.policies.probe_order import PROBE_ORDER_POLICIES
from braided.policies.statistics import JoinMetrics
from braided.spark import measures
from braided.spark.bucket import Bucket
from braided.spark.plan import JoinPlan
from braided.spark.storage import chunks, folders
from braided.spark.storage.store import META, Meta
from braided.spark.wire import blobs, bucketing
from braided.spark.wire.labels import labels
from braided.spark.wire.pack import beat, pack
from braided.spark.wire.packed import Packed, packed_rows
from braided.testing import assert_same_bag, bag, expected
from tests.seeds import seeds, some_pairs
from tests.workloads import names_of, random_tables, stream

BUCKETS = 4
MIXES = list(itertools.product(DRIVER_POLICIES, PROBE_ORDER_POLICIES))


class Memory:
    """A bucket's state in this process."""

    def __init__(self) -> None:
        self.meta: bytes | None = None
        self.chunks: dict[int, bytes] = {}

    def get(self, number: int) -> bytes | None:
        return self.meta if number == META else self.chunks.get(number)

    def put(self, number: int, data: bytes) -> None:
        if number == META:
            self.meta = data
        else:
            self.chunks[number] = data

    def remove(self, number: int) -> None:
        del self.chunks[number]


class Cluster:
    """All buckets of a join, fed with micro-batches as Spark would."""

    def __init__(
        self, query: bd.JoinQuery, tables: dict[str, pa.Table], late: Any = "drop", *, arena: bool = False
    ) -> None:
        """With `arena` live engines are kept between batches."""
        schemas = tuple(tables[n].schema for n in query.names)
        self.plan = JoinPlan(query, schemas, BUCKETS, late, "app" if arena else "")
        self.states = [Memory() for _ in range(BUCKETS)]
        self.reports: list[str] = []

    def seen(self) -> JoinMetrics:
        """What the buckets have reported since the reports were last cleared."""
        return measures.combined(self.plan.query.names, self.plan.query.tree, [measures.read(self.reports)])

    def packed(self, batch: dict[str, pa.Table]) -> list[list[Packed]]:
        """Every bucket's packed rows, each stream from two tasks."""
        return _by_bucket(
            out
            for i, name in enumerate(self.plan.query.names)
            for part in _halves(batch[name])
            for out in pack(self.plan, i, iter(part.to_batches()))
        )

    def push(self, batch: dict[str, pa.Table]) -> pa.Table:
        return self._run(self.packed(batch))

    def push_twice(self, batch: dict[str, pa.Table]) -> pa.Table:
        """A batch whose first attempt's state is lost; the second gives the same."""
        before = copy.deepcopy(self.states)
        first, self.states = self.push(batch), before
        second = self.push(batch)
        assert bag(first) == bag(second)
        return second

    def beat(self) -> pa.Table:
        """A batch in which all streams are silent."""
        beats = pa.record_batch({"beat": [0], "run": [0], "changed": [False]})
        return self._run(_by_bucket(beat(self.plan, iter([beats]))))

    def owed(self) -> pa.Table:
        """What would come if nothing more arrived; the states are as before."""
        found = [
            blobs.decode(blob)
            for number, state in enumerate(copy.deepcopy(self.states))
            if state.meta is not None
            for blob in Bucket(self.plan, number, state).owed()
        ]
        return pa.Table.from_batches(found, self.plan.schema)

    def _run(self, packed: list[list[Packed]]) -> pa.Table:
        found = []
        for number, rows in enumerate(packed):
            if rows:
                for made in Bucket(self.plan, number, self.states[number]).run(rows):
                    if made.blob is not None:
                        found.append(blobs.decode(made.blob))
                    if made.report is not None:
                        self.reports.append(made.report)
        return pa.Table.from_batches(found, self.plan.schema)


def _halves(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    half = table.num_rows // 2
    return table.slice(0, half), table.slice(half)


def _by_bucket(packed: Iterable[pa.RecordBatch]) -> list[list[Packed]]:
    rows = packed_rows(packed)
    return [[row for row in rows if row.bucket == label] for label in labels(BUCKETS)]


def batches(tables: dict[str, pa.Table], rows: int) -> list[dict[str, pa.Table]]:
    longest = max(t.num_rows for t in tables.values())
    return [{n: t.slice(at, rows) for n, t in tables.items()} for at in range(0, longest, rows)]


@pytest.mark.parametrize("key_type", ["int64", "string"])
@pytest.mark.parametrize("rows", [1, 7, 50])
def test_oracle_buckets_give_the_definitions_bag(rows: int, key_type: str) -> None:
    names = names_of(3)
    for seed in seeds(1):
        tables = random_tables(seed, names, key_type=key_type)
        query = bd.JoinQuery([stream(n) for n in names])
        cluster = Cluster(query, tables)
        found = [cluster.push(b) for b in batches(tables, rows)]
        assert_same_bag(pa.concat_tables(found), expected(query, tables))


@pytest.mark.parametrize(("mix", "size"), some_pairs(MIXES, ((2, 7), (3, 50), (5, 20)), every=3))
def test_oracle_every_mix_of_policies_gives_the_same_bag(mix: Any, size: tuple[int, int]) -> None:
    streams, rows = size
    names = names_of(streams)
    tuning = bd.Tuning(driver_stream=mix[0], probe_order=mix[1])
    query = bd.JoinQuery([stream(n, f"{20 * streams} us") for n in names], tuning=tuning)
    tables = random_tables(streams, names, rows=150 // streams, keys=streams)
    cluster = Cluster(query, tables)
    found = pa.concat_tables([cluster.push(b) for b in batches(tables, rows)])
    assert found.num_rows > 0
    assert_same_bag(found, expected(query, tables))


def test_numbers_of_all_buckets_come_together() -> None:
    names = names_of(3)
    tables = random_tables(1, names, rows=200, keys=40, nulls=False)
    hot = pa.array([7 if i % 2 else k for i, k in enumerate(tables["s0"]["k"].to_pylist())])
    tables["s0"] = tables["s0"].set_column(0, "k", hot)
    cluster = Cluster(bd.JoinQuery([stream(n, "1 hour") for n in names]), tables)
    found = cluster.push(tables)
    seen, loads = cluster.seen(), [load for _, load in measures.read(cluster.reports)]
    rows = sum(t.num_rows for t in tables.values())
    assert seen.results == found.num_rows
    assert sum(load.rows for load in loads) == rows
    assert max(load.hottest_key_rows for load in loads) >= tables["s0"].num_rows // 2
    assert seen.buckets == BUCKETS
    assert seen.state_bytes == sum(s.live_bytes for s in seen.streams.values()) > 0
    assert set(seen.driver_streams) == set(names)
    assert all({d, *seen.probe_orders[d]} == set(names) for d in names)


def test_every_stage_reports_under_a_name_of_its_own() -> None:
    query = bd.JoinQuery([stream(n) for n in names_of(2)])
    assert measures.observation(JoinPlan(query, (), BUCKETS, "drop")) == measures.OBSERVED
    graph = [("a.k", "b.k"), ("b.m", "c.m"), ("c.n", "d.n")]
    query = bd.JoinQuery([bd.Stream(n) for n in "abcd"], on=graph, plan=((("a", "b"), "c"), "d"))
    reported = [
        measures.observation(stage) for stage in JoinPlan(query, (), BUCKETS, "drop", staged=True).stages()
    ]
    assert len(set(reported)) == 3
    assert reported[-1] == measures.OBSERVED


def test_consumption_rate_counts_each_buckets_own_rows() -> None:
    """Rows are counted in the first bucket only, so the others did not know the streams' sizes."""
    rng = np.random.default_rng(1)
    sizes = [{"a": 4_000, "b": 40}, {"a": 40, "b": 400}]
    made = [{n: pa.table({"k": rng.integers(0, 1_000, rows)}) for n, rows in size.items()} for size in sizes]
    tuning = bd.Tuning(driver_stream="consumption-rate")
    cluster = Cluster(bd.JoinQuery([bd.Stream(n, key="k") for n in "ab"], tuning=tuning), made[0])
    cluster.push(made[0])
    cluster.reports.clear()
    cluster.push(made[1])
    drivers = [load.turns[0][0] for _, load in measures.read(cluster.reports)]
    assert drivers == ["a"] * BUCKETS  # it brought most, drives first


def test_the_epoch_is_a_newest_time_like_any_other() -> None:
    names = names_of(2)
    tables = {n: random_tables(1, [n], rows=4)[n] for n in names}
    at_epoch = pa.array([0] * tables["s0"].num_rows).cast(pa.timestamp("us"))
    tables["s0"] = tables["s0"].set_column(1, "t", at_epoch)
    cluster = Cluster(bd.JoinQuery([stream(n, "1 hour") for n in names]), tables)
    assert {p.newest_us for rows in cluster.packed(tables) for p in rows if p.stream == 0 and p.rows_in} == {
        0
    }


def test_count_windows_settle_as_in_one_process() -> None:
    names = names_of(2)
    query = bd.JoinQuery([stream(n, bd.CountWindow(2)) for n in names])
    for seed in seeds(2):
        tables = random_tables(seed, names, rows=200, span_us=500)
        cluster, live = Cluster(query, tables), bd.LocalJoin(query)
        for batch in batches(tables, 11):
            assert_same_bag(cluster.push(batch), live.push(batch))


def test_a_retried_batch_gives_the_same_bag_from_the_same_state() -> None:
    names = names_of(3)
    query = bd.JoinQuery([stream(n) for n in names])
    tables = random_tables(5, names)
    cluster = Cluster(query, tables)
    for batch in batches(tables, 9):
        before = copy.deepcopy(cluster.states)
        first, states = cluster.push(batch), cluster.states
        cluster.states = before
        shuffled = {
            n: t.take(pa.array(np.random.default_rng(1).permutation(t.num_rows))) for n, t in batch.items()
        }
        assert bag(cluster.push(shuffled)) == bag(first)
        for one, two in zip(states, cluster.states, strict=True):  # and the state holds the same rows
            assert _rows(one) == _rows(two)


def _rows(state: Memory) -> list[str]:
    return sorted(str(row) for data in state.chunks.values() for row in blobs.decode(data).to_pylist())


def test_expired_chunks_are_removed_and_dead_rows_are_not_written() -> None:
    names = names_of(2)
    query = bd.JoinQuery([stream(n, "20 us") for n in names])
    tables = random_tables(1, names, rows=2_000, span_us=20_000)
    cluster = Cluster(query, tables)
    for batch in batches(tables, 50):
        cluster.push(batch)
    held = sum(len(s.chunks) for s in cluster.states)
    assert held <= 3 * BUCKETS * len(names)
    rows = sum(blobs.decode(d).num_rows for s in cluster.states for d in s.chunks.values())
    assert rows < 100


def test_many_small_chunks_are_rewritten_into_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_MOST_CHUNKS", 5)
    names = names_of(2)
    for window in ("unbounded", bd.CountWindow(3)):
        query = bd.JoinQuery([stream(n, window) for n in names])
        tables = random_tables(1, names, rows=100, keys=20)
        cluster = Cluster(query, tables)
        live = bd.LocalJoin(query)
        for batch in batches(tables, 4):
            assert_same_bag(cluster.push(batch), live.push(batch))
            assert max(len(s.chunks) for s in cluster.states) <= 2 * 6


def test_blobs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "BLOB_BYTES", 500)
    monkeypatch.setattr(bucketing, "_FLUSH_BYTES", 1_000)
    names = names_of(2)
    query = bd.JoinQuery([stream(n) for n in names])
    tables = random_tables(1, names, rows=300)
    cluster = Cluster(query, tables)
    found = [cluster.push(b) for b in batches(tables, 100)]
    assert_same_bag(pa.concat_tables(found), expected(query, tables))
    assert max(blobs.decode(d).nbytes for s in cluster.states for d in s.chunks.values()) <= 1_000


@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage", "other"])
def test_a_damaged_chunk_is_named(damage: str) -> None:
    names = names_of(2)
    tables = random_tables(1, names)
    cluster = Cluster(bd.JoinQuery([stream(n, "unbounded") for n in names]), tables)
    cluster.push({n: t.slice(0, 30) for n, t in tables.items()})
    number, state = next((n, s) for n, s in enumerate(cluster.states) if s.chunks)
    chunk, data = next(iter(state.chunks.items()))
    if damage == "missing":
        del state.chunks[chunk]
    else:
        other = blobs.encode(blobs.decode(data).slice(1))
        state.chunks[chunk] = {"truncated": data[: len(data) // 2], "garbage": b"x" * 50, "other": other}[
            damage
        ]
    with pytest.raises(bd.BraidedError, match=f"bucket {number}, stream '.*', chunk {chunk}"):
        cluster.push({n: t.slice(30) for n, t in tables.items()})


@pytest.mark.parametrize("version", [1, 7])
def test_state_of_another_format_is_refused(version: int) -> None:
    names = names_of(2)
    tables = random_tables(1, names)
    cluster = Cluster(bd.JoinQuery([stream(n) for n in names]), tables)
    cluster.push(tables)
    for state in cluster.states:
        assert state.meta is not None
        state.meta = state.meta.replace(b'"format": 6', b'"format": %d' % version)
    with pytest.raises(bd.BraidedError, match=rf"state of format {version}; this version .* reads format 6"):
        cluster.push(tables)


def test_late_rows_are_flagged_with_their_stream() -> None:
    names = names_of(2)
    tables = random_tables(1, names, nulls=False)
    cluster = Cluster(bd.JoinQuery([stream(n) for n in names]), tables, "flag")
    cluster.push(tables)
    again = cluster.push({n: t.slice(0, 5) for n, t in tables.items()})
    assert sorted(again["late_stream"].to_pylist()) == ["s0"] * 5 + ["s1"] * 5
    assert set(again.filter(pa.compute.equal(again["late_stream"], "s0"))["s1_n"].to_pylist()) == {None}


def test_a_types_change_is_refused_and_columns_may_come_and_go() -> None:
    names = names_of(2)
    tables = random_tables(1, names)
    query = bd.JoinQuery([stream(n, "unbounded") for n in names])
    cluster = Cluster(query, tables)
    cluster.push({n: t.slice(0, 20) for n, t in tables.items()})
    for change, ok in (("new", True), ("gone", True), ("type", False)):
        changed = {}
        for n, t in tables.items():
            if change == "new":
                t = t.append_column("x", pa.array(["y"] * t.num_rows))
            elif change == "gone":
                t = t.drop_columns("s")
            else:
                t = t.set_column(2, "n", t["n"].cast(pa.int32()))
            changed[n] = t
        other = Cluster(query, changed)
        other.states = copy.deepcopy(cluster.states)
        if ok:
            other.push({n: t.slice(20) for n, t in changed.items()})
        else:
            with pytest.raises(bd.BraidedError, match=r"column 'n'.*int64.*int32"):
                other.push({n: t.slice(20) for n, t in changed.items()})


@pytest.mark.parametrize(
    "name", ["a\tb", "a\nb", "a.b", "a/b", "'a' \"b\" `c`", "größe 数", "\\ ", "../x", "\0"]
)
def test_a_column_may_have_any_name(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tab in a column's name broke the second batch: the state joined names and types by tabs."""
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    names = names_of(2)
    tables = random_tables(1, names)
    key, time = f"k{name}", f"t{name}"
    tables = {n: t.rename_columns([key, time, f"n{name}", name]) for n, t in tables.items()}
    query = bd.JoinQuery(
        [bd.Stream(n, key=key, time=time, window="40 us", lateness="12 us") for n in names],
        plan="linear",
    )
    wanted = expected(query, tables)
    assert wanted.num_rows > 0
    for arena in (False, True):
        cluster = Cluster(query, tables, arena=arena)
        found = [cluster.push(b) for b in batches(tables, 9)]
        assert_same_bag(pa.concat_tables(found), wanted)


def test_labels_spread_buckets_evenly_over_tasks() -> None:
    from braided.spark.wire.labels import murmur3

    for buckets in (1, 2, 8, 64, 1024):
        for partitions in (1, 2, 4, 8):
            tasks = murmur3(np.array(labels(buckets))) % partitions
            counts = np.bincount(tasks, minlength=partitions)
            assert counts.max() - counts.min() <= (1 if buckets < partitions else 0)


def test_metadata_round_trips() -> None:
    names = names_of(2)
    tables = random_tables(1, names)
    cluster = Cluster(bd.JoinQuery([stream(n) for n in names]), tables)
    cluster.push(tables)
    data = cluster.states[0].meta
    assert data is not None
    assert Meta.decode(data).encode() == data


@pytest.mark.parametrize("plan", ["linear", (("s0", "s1"), ("s2", "s3")), (("s3", "s1", "s2"), "s0")])
def test_oracle_trees_give_the_definitions_bag(plan: Any) -> None:
    names = names_of(4)
    query = bd.JoinQuery([stream(n, "60 us") for n in names], plan=plan)
    for rows in (7, 50):
        tables = random_tables(rows, names, rows=40, keys=4)
        cluster = Cluster(query, tables)
        found = [cluster.push(b) for b in batches(tables, rows)]
        assert_same_bag(pa.concat_tables(found), expected(query, tables))


def test_oracle_a_tree_keyed_by_more_than_all_streams_share() -> None:
    """The lower operator is keyed by two columns, buckets by the one that the third stream has too."""
    rng = np.random.default_rng(1)
    tables = {
        n: _with_another_key(random_tables(i, [n], rows=40, keys=3)[n], rng)
        for i, n in enumerate(names_of(3))
    }
    streams = [bd.Stream(n, time="t", window="90 us", lateness="12 us") for n in tables]
    on = [("s0.k", "s1.k"), ("s1.k", "s2.k"), ("s0.a", "s1.a")]
    for plan in ("mjoin", "linear"):
        query = bd.JoinQuery(streams, on=on, plan=plan)
        cluster = Cluster(query, tables)
        found = [cluster.push(b) for b in batches(tables, 9)]
        assert_same_bag(pa.concat_tables(found), expected(query, tables))


def _with_another_key(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    return table.append_column("a", pa.array(rng.integers(0, 3, table.num_rows)))


def test_a_silent_stream_is_idle_by_the_recorded_clock_within_one_run() -> None:
    """Spark repeats a batch with the clock it logged; an outage between two runs is no idleness."""
    streams = [stream(n, "10 us", lateness="0 us", idle_after="1 minute") for n in names_of(2)]
    times = {"s0": [1, 90], "s1": [2]}
    tables = {
        n: pa.table({"k": [1] * len(t), "t": pa.array(t).cast(pa.timestamp("us"))}) for n, t in times.items()
    }
    cluster = Cluster(bd.JoinQuery(streams), tables)

    def batch(rows: dict[str, pa.Table], clock: int, run: int) -> int | None:
        cluster.reports.clear()
        packed = [
            list(part) for part in cluster.packed({n: rows.get(n, t.slice(0, 0)) for n, t in tables.items()})
        ]
        beats = pa.record_batch({"beat": [clock], "run": [run], "changed": [False]})
        for own, more in zip(packed, _by_bucket(beat(cluster.plan, iter([beats]))), strict=True):
            own += more
        cluster._run(packed)
        return cluster.seen().watermark_us

    assert batch({n: t.slice(0, 1) for n, t in tables.items()}, 1000, 1) == 1
    assert batch({"s0": tables["s0"].slice(1)}, 1059, 1) == 2
    assert batch({}, 5000, 2) == 2  # it was down for long
    assert batch({"s0": tables["s0"].slice(1)}, 5059, 2) == 2
    assert batch({"s0": tables["s0"].slice(1)}, 5060, 2) == 90
    assert [s.idle for s in cluster.seen().streams.values()] == [False, True]
