"""Promises on Spark: the same bag, state that shrinks, and both survive retries and restarts."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braided as bd
from braided.spark.storage import folders
from braided.spark.storage.store import Meta
from braided.testing import assert_same_bag, bag, expected
from braided.testing.samples.files import add_file
from tests.promised import KINDS, batches_of, data_of, plainly, promised_stream, promised_table
from tests.seeds import seeds
from tests.spark.test_bucket import Cluster
from tests.workloads import names_of


@pytest.fixture(autouse=True)
def own_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    return tmp_path / "arenas"


def workload(seed: int, kinds: tuple[str, ...], **options: Any) -> tuple[bd.JoinQuery, dict[str, pa.Table]]:
    rng = np.random.default_rng(seed)
    names = names_of(len(kinds))
    key_type = options.pop("key_type", "int64")
    streams = [promised_stream(n, kind) for n, kind in zip(names, kinds, strict=True)]
    tables = {}
    for stream, kind in zip(streams, kinds, strict=True):
        table = promised_table(rng, kind, rows=24, keys=10, key_type=key_type)
        unused = [c for c in ("p", "upto") if c not in (stream.flag, stream.upto)]
        tables[stream.name] = table.drop_columns(unused)
    return bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate"), **options), tables


def the_oracle(query: bd.JoinQuery, tables: dict[str, pa.Table]) -> pa.Table:
    return expected(plainly(query), {n: data_of(t) for n, t in tables.items()})


def stored_rows(made: Cluster) -> dict[str, int]:
    """Rows in chunks, less those that have gone."""
    found = dict.fromkeys(made.plan.query.names, 0)
    for state in made.states:
        if state.meta is not None:
            meta = Meta.decode(state.meta)
            for name in found:
                found[name] += sum(c.live_rows for c in meta.by_input().get(name, ()))
    return found


@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
@pytest.mark.parametrize("seed", seeds(6))
def test_oracle_kept_rebuilt_and_retried_buckets_give_the_same_bag(seed: int, arena: bool) -> None:
    rng = np.random.default_rng(seed)
    kinds = tuple(rng.choice(KINDS[1:], 2 + seed % 3).tolist())
    plan: Any = "linear" if seed % 4 == 3 else "mjoin"
    options = {"key_type": "string"} if seed % 5 == 4 and "range" not in kinds else {}
    query, tables = workload(seed, kinds, plan=plan, **options)
    made = Cluster(query, tables, arena=arena)
    found = [made.push_twice(batch) for batch in batches_of(tables, 4)]
    assert_same_bag(pa.concat_tables(found), the_oracle(query, tables))


@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
def test_state_shrinks_in_the_store_and_gone_rows_stay_gone(arena: bool) -> None:
    names = names_of(3)
    tuning = bd.Tuning(purge=bd.BatchPurge(every=20))
    query = bd.JoinQuery([bd.Stream(n, "k", punctuation="p") for n in names], tuning=tuning)
    rng = np.random.default_rng(1)
    made, seen = None, 0
    for batch in range(40):
        keys = np.arange(batch * 20, batch * 20 + 20)
        tables = {}
        for n in names:
            data = np.repeat(keys, 3)
            rng.shuffle(data)
            closed = keys - 20  # one batch later
            tables[n] = pa.table(
                {
                    "k": np.concatenate([data, closed]),
                    "p": np.concatenate([np.zeros(len(data), bool), np.ones(len(closed), bool)]),
                }
            )
        made = made or Cluster(query, tables, arena=arena)
        assert made.push(tables).num_rows == 20 * 27
        seen += 180
    assert made is not None
    assert sum(stored_rows(made).values()) <= 2 * 180
    metas = [Meta.decode(s.meta) for s in made.states if s.meta]
    held = sum(c.rows for m in metas for chunks in m.by_input().values() for c in chunks)
    assert held <= 4 * 180 < 0.15 * seen


def test_a_broken_promise_fails_the_batch_in_every_attempt() -> None:
    query = bd.JoinQuery([bd.Stream("a", "k", unique=True), bd.Stream("b", "k")])
    tables = {"a": pa.table({"k": [1, 2]}), "b": pa.table({"k": [1, 2]})}
    made = Cluster(query, tables, arena=True)
    made.push(tables)
    for _ in range(2):
        with pytest.raises(bd.BraidedError, match="a row with key 2 came, but unique=True says"):
            made.push({"a": pa.table({"k": [2]}), "b": pa.table({"k": [5]})})


def test_a_streaming_join_without_windows_forgets_what_is_complete(spark: Any, tmp_path: Path) -> None:
    """Three punctuated streams over several runs of one checkpoint: exact, and the state does not grow."""
    names = names_of(3)
    query = bd.JoinQuery([bd.Stream(n, "k", punctuation="p") for n in names])
    everything: dict[str, list[pa.Table]] = {n: [] for n in names}
    for batch in range(6):
        keys = np.arange(batch * 100, batch * 100 + 100)
        for n in names:
            flags = np.repeat([False, False, True], 100)
            values = pa.array(np.arange(300) + batch, mask=flags)
            table = pa.table({"k": np.concatenate([keys, keys, keys - 100]), "v": values, "p": flags})
            everything[n].append(table)
            (tmp_path / n).mkdir(exist_ok=True)
            add_file(tmp_path / n, batch, table)
        if batch % 2:
            frames = {
                n: spark.readStream.schema("k long, v long, p boolean")
                .option("maxFilesPerTrigger", 1)
                .parquet(str(tmp_path / n))
                for n in names
            }
            streaming = (
                bd.spark.join(query, frames, buckets=4)
                .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "out"), format="parquet")
            )
            streaming.awaitTermination()
            seen = bd.spark.metrics(streaming)
    tables = {n: pa.concat_tables(parts) for n, parts in everything.items()}
    found = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert_same_bag(found, bd.run_local(plainly(query), {n: data_of(t) for n, t in tables.items()}))
    assert all(s.punctuations == 600 for s in seen.streams.values())
    assert all(s.purged_rows >= 800 for s in seen.streams.values())
    stored = bd.spark.inspect_state(str(tmp_path / "checkpoint"))
    assert all(rows <= 400 for rows in stored.rows.values())


@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_the_output_is_told_once_by_all_buckets_together(seed: int, arena: bool) -> None:
    rng = np.random.default_rng(seed)
    kinds = tuple(rng.choice(KINDS[1:], 2 + seed % 2).tolist())
    query, tables = workload(seed, kinds, emit_punctuations=True)
    made, live = Cluster(query, tables, arena=arena), bd.LocalJoin(query)
    told: list[Any] = []
    found = []
    for batch in batches_of(tables, 4):
        before = copy.deepcopy(made.states)
        first = made.push(batch)
        made.states = before
        second = made.push(batch)
        assert bag(first) == bag(second)
        results = second.filter(pc.invert(second["punctuation"])).drop_columns(["punctuation"])
        assert not set(results["s0_k"].to_pylist()) & set(told)
        told += second.filter(second["punctuation"])["s0_k"].to_pylist()
        found.append(results)
        live.push(batch)
    assert len(told) == len(set(told)) > 0
    assert_same_bag(pa.concat_tables(found), the_oracle(query, tables))
    if "ordered" not in kinds and "descending" not in kinds:  # a bucket knows only its own largest key
        assert len(told) == live.stats().punctuations_out


def marked(data: Any, closed: Any = ()) -> pa.Table:
    """Rows of some keys, and punctuations of others."""
    flags = np.repeat([False, True], [len(data), len(closed)])
    return pa.table({"k": pa.array([*data, *closed], pa.int64()), "p": flags})


def one_bucket(query: bd.JoinQuery, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr("tests.spark.test_bucket.BUCKETS", 1)
    return Cluster(query, {n: marked([1]) for n in query.names}, arena=True)


def test_a_rebuilt_batch_that_is_retried_loses_nothing(
    own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks that were not committed said where rows lie in an arena that was."""
    streams = [bd.Stream(n, "k", punctuation="p") for n in "ab"]
    made = one_bucket(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate")), monkeypatch)
    made.push({"a": marked(range(10)), "b": marked([])})
    made.push({"a": marked(range(20, 30)), "b": marked([])})
    made.push({"a": marked(range(30, 40)), "b": marked([], range(10))})
    made.push({"a": marked([50]), "b": marked([])})
    shutil.rmtree(own_root)
    before = copy.deepcopy(made.states)
    batch = {"a": marked([51]), "b": marked([], range(30, 40))}
    made.push(batch)
    made.states = before
    made.push(batch)
    made.push({"a": marked([52]), "b": marked([])})
    shutil.rmtree(own_root)
    assert made.push({"a": marked([]), "b": marked(range(20, 30))}).num_rows == 10


def test_another_plan_keeps_all_intermediate_rows(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def query(plan: Any) -> bd.JoinQuery:
        streams = [bd.Stream(n, "k", punctuation="p") for n in "abc"]
        return bd.JoinQuery(streams, plan=plan, tuning=bd.Tuning(purge="immediate"))

    flat = one_bucket(query("mjoin"), monkeypatch)
    nothing = marked([])
    flat.push({"a": marked(range(20)), "b": marked(range(20)), "c": nothing})
    flat.push({"a": nothing, "b": nothing, "c": marked([], [17, 18, 19])})
    tree = one_bucket(query("linear"), monkeypatch)
    tree.states = flat.states
    tree.push({"a": marked([100]), "b": nothing, "c": nothing})
    shutil.rmtree(own_root)
    assert tree.push({"a": nothing, "b": nothing, "c": marked(range(17))}).num_rows == 17


def test_after_a_change_of_plans_the_right_rows_are_noted_as_gone(
    own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another plan leaves out what had gone at the front; chunks then spoke of the row behind each."""

    def made(plan: Any) -> Cluster:
        streams = [bd.Stream(n, "k", punctuation="p") for n in "abc"]
        return one_bucket(bd.JoinQuery(streams, plan=plan, tuning=bd.Tuning(purge="immediate")), monkeypatch)

    def batch(keys: Any = (), closed: Any = ()) -> dict[str, pa.Table]:
        return dict.fromkeys("abc", marked(keys, closed))

    flat, tree = made("mjoin"), made("linear")
    flat.push(batch(range(9)))
    flat.push(batch(closed=[0]))  # the first row goes
    tree.states = flat.states
    tree.push(batch(closed=[1]))
    assert stored_rows(tree) == dict.fromkeys("abc", 7)
    shutil.rmtree(own_root)
    assert tree.push({**batch(), "c": marked(range(2, 9))}).num_rows == 7
    tree.push(batch(closed=range(2, 9)))
    assert stored_rows(tree) == dict.fromkeys("abc", 0)


def test_damaged_closed_keys_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = one_bucket(
        bd.JoinQuery([bd.Stream("a", "k", unique=True), bd.Stream("b", "k", punctuation="p")]), monkeypatch
    )
    batch = {"a": marked([1, 2]).drop_columns(["p"]), "b": marked([1], [9])}
    made = Cluster(made.plan.query, batch, arena=False)
    made.push(batch)
    state = made.states[0]
    assert state.meta is not None
    chunk = Meta.decode(state.meta).parts["promises/keys"][0]
    number, whole = chunk.number, state.chunks[chunk.number]
    closed, end = whole[chunk.offset : chunk.offset + chunk.size], chunk.offset + chunk.size
    for damage in (b"", b"garbage", closed[: chunk.size // 2]):
        state.chunks[number] = whole[: chunk.offset] + damage.ljust(chunk.size, b"\0") + whole[end:]
        with pytest.raises(bd.BraidedError, match=f"state is damaged: bucket 0, closed keys, chunk {number}"):
            made.push({"a": marked([3]).drop_columns(["p"]), "b": marked([3])})


def reported(made: Cluster, what: str) -> dict[str, int]:
    """A number of each stream, as the buckets of the latest batch tell it."""
    return {name: getattr(s, what) for name, s in made.seen().streams.items()}


@pytest.mark.parametrize("punctuation", ["p", bd.RangePunctuation("p", "k")], ids=["keys", "ranges"])
def test_punctuations_of_null_are_counted_and_close_nothing(punctuation: Any) -> None:
    """Spark counted them only beside others, and never those of single keys."""
    query = bd.JoinQuery([bd.Stream(n, "k", punctuation=punctuation) for n in "ab"])
    made, live = Cluster(query, {n: marked([1]) for n in "ab"}, arena=True), bd.LocalJoin(query)
    for batch in (
        {"a": marked([1, 2, 3], [None, None]), "b": marked([4], [None, 0])},
        {"a": marked([], [None]), "b": marked([])},
    ):
        made.reports.clear()
        made.push(batch)
        live.push(batch)
    counted = {n: s.punctuations for n, s in live.stats().streams.items()}
    assert reported(made, "punctuations") == counted == {"a": 3, "b": 2}
    assert sum(stored_rows(made).values()) == 4


def test_ranges_are_purged_in_every_bucket() -> None:
    """Only the first bucket counted them, so that purging was never due in the others."""
    streams = [bd.Stream(n, "k", punctuation=bd.RangePunctuation("p", "k")) for n in "ab"]
    for purge, most in (("immediate", 20), (bd.BatchPurge(every=8), 60)):
        query = bd.JoinQuery(streams, tuning=bd.Tuning(purge=purge))  # type: ignore[arg-type]
        made = Cluster(query, {n: marked([1]) for n in "ab"}, arena=False)
        for n in range(0, 200, 20):
            made.push({name: marked(range(n, n + 20), [n - 1]) for name in "ab"})
            assert max(stored_rows(made).values()) <= most


def test_a_batch_of_punctuations_alone_is_told_by_all_buckets() -> None:
    """Only the buckets of their keys ran, and the join's numbers were those of these buckets."""
    query = bd.JoinQuery([bd.Stream(n, "k", punctuation="p") for n in "ab"])
    made = Cluster(query, {n: marked([1]) for n in "ab"}, arena=True)
    made.push({n: marked(range(100)) for n in "ab"})
    made.reports.clear()
    made.push({"a": marked([], [7]), "b": marked([])})
    assert reported(made, "rows_in") == {"a": 100, "b": 100}
    assert reported(made, "punctuations") == {"a": 1, "b": 0}


@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
def test_rows_are_live_or_purged_however_often_batches_are_retried(arena: bool) -> None:
    query, tables = workload(1, ("unique", "punctuated", "punctuated"))
    rows_in = {n: data_of(t).num_rows for n, t in tables.items()}
    found = []
    for retries in (0, 1, 2):
        made = Cluster(query, tables, arena=arena)
        for batch in batches_of(tables, 4):
            before = copy.deepcopy(made.states)
            for _ in range(retries):
                made.push(batch)
                made.states = copy.deepcopy(before)
            made.reports.clear()
            made.push(batch)
        purged, live = reported(made, "purged_rows"), reported(made, "live_rows")
        assert {n: purged[n] + live[n] for n in purged} == rows_in
        found.append(purged)
    assert found[0] == found[1] == found[2]
    assert all(found[0].values())


def test_announcements_are_told_from_results_in_data_frames(spark: Any) -> None:
    """The column that tells them was left out of Spark's schema, so they looked like results of nulls."""
    streams = [bd.Stream("a", "k", unique=True), bd.Stream("b", "k", punctuation="p")]
    query = bd.JoinQuery(streams, emit_punctuations=True)
    tables = {"a": pa.table({"k": [1, 2, 3]}), "b": marked([1, 1, 2], [1, 3, 4])}
    found = bd.spark.join(query, {n: spark.createDataFrame(t) for n, t in tables.items()}).toArrow()
    assert found.column_names == ["a_k", "b_k", "punctuation"]
    assert sorted(found.filter(found["punctuation"])["a_k"].to_pylist()) == [1, 3, 4]
    assert_same_bag(found, bd.run_local(query, tables))


@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
def test_buckets_hear_of_punctuations_that_close_nothing(arena: bool) -> None:
    streams = [bd.Stream("a", "k", punctuation="p"), bd.Stream("b", "k")]
    query = bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate"))

    def rows(values: list[int | None], p: list[bool]) -> pa.Table:
        return pa.table({"k": [7] * len(p), "v": pa.array(values, pa.int64()), "p": p})

    tables = {"a": rows([1, 1], [False, True]), "b": pa.table({"k": [7]})}
    made = Cluster(query, tables, arena=arena)
    assert made.push(tables).num_rows == 1
    assert made.push({"a": rows([2], [False]), "b": tables["b"].slice(0, 0)}).num_rows == 1
    assert stored_rows(made) == {"a": 2, "b": 1}
    made.push({"a": rows([None], [True]), "b": tables["b"].slice(0, 0)})
    assert stored_rows(made) == {"a": 2, "b": 0}


@pytest.mark.parametrize("seed", seeds(4))
def test_the_order_of_rows_in_a_micro_batch_changes_neither_state_nor_probes(seed: int) -> None:
    """So buckets do not sort rows by what is closed: all of a batch is there before any of it may go."""
    rng = np.random.default_rng(seed)
    kinds = [("unique", "punctuated"), ("punctuated", "punctuated", "unique-punctuated")][seed % 2]
    query, tables = workload(seed, kinds)
    made = {how: Cluster(query, tables, arena=True) for how in ("came", "backwards", "shuffled")}
    turns = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=3))
    for batch in batches_of(tables, 8):
        for how, cluster in made.items():
            places = {n: np.arange(t.num_rows) for n, t in batch.items()}
            if how != "came":
                places = {n: p[::-1] if how == "backwards" else rng.permutation(p) for n, p in places.items()}
            cluster.reports.clear()
            cluster.push({n: t.take(pa.array(places[n])) for n, t in batch.items()})
        turns.push(batch)
        live = {n: s.live_rows for n, s in turns.stats().streams.items()}
        seen = [cluster.seen() for cluster in made.values()]
        for one in seen:  # a bucket that read its rows in turns would write the same ones, too
            assert {n: s.live_rows for n, s in one.streams.items()} == live
            assert one.results == turns.stats().results
            for name, s in one.streams.items():
                first = seen[0].streams[name]
                assert (s.purged_rows, s.closed_keys) == (first.purged_rows, first.closed_keys)
            assert {p: h.probes for p, h in one.half_joins.items()} == {
                p: h.probes for p, h in seen[0].half_joins.items()
            }
        assert all(stored_rows(cluster) == live for cluster in made.values())
