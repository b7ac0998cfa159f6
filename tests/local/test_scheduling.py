"""Rows taken out of queues in any order of streams and keys: the result never changes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.local.queues import scheduled
from braided.testing import assert_same_bag
from tests.engine.promises.test_promises import the_oracle, workload
from tests.promised import KINDS
from tests.seeds import seeds

STREAMS: tuple[Any, ...] = ("random", "priority")
TUPLES: tuple[Any, ...] = ("sequential", "value")


def schedules(seed: int) -> list[bd.Scheduling]:
    return [
        bd.Scheduling(streams, tuples, quota=quota, seed=seed)
        for streams, tuples in itertools.product(STREAMS, TUPLES)
        for quota in (1, 4, 100)
    ]


def batches(query: bd.JoinQuery, tables: dict[str, pa.Table], scheduling: bd.Scheduling) -> list[Any]:
    """What is taken, batch by batch: the stream and its rows."""
    whole = {name: table.combine_chunks().to_batches()[0] for name, table in tables.items()}
    engine = Engine(query)
    engine.core.learn({name: batch.schema for name, batch in whole.items()})
    taken, ends = [], []
    for now, last in scheduled(engine, whole, scheduling):
        ((name, batch),) = now.items()
        taken.append((name, batch))
        ends.append(last)
        list(engine.step(engine.accept(now)))
    assert ends == [False] * (len(ends) - 1) + [True]
    return taken


def rows_of(table: pa.Table | pa.RecordBatch) -> list[tuple[Any, bool]]:
    """The key of each row, and whether it is a punctuation."""
    flags = table.column("p").to_pylist() if "p" in table.schema.names else [False] * table.num_rows
    return list(zip(table.column("k").to_pylist(), flags, strict=True))


def signed(taken: list[Any]) -> list[Any]:
    """Keys alone; a negative one is a punctuation."""
    return [(name, [-k if p else k for k, p in rows_of(batch)]) for name, batch in taken]


@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_every_schedule_of_two_streams_gives_the_same(seed: int) -> None:
    for n, (one, other) in enumerate(itertools.product(KINDS, KINDS)):
        purge: Any = ("immediate", "batch")[seed % 2]
        query, tables = workload(seed, (one, other), rows=20, tuning=bd.Tuning(purge=purge))
        exact = the_oracle(query, tables)
        for scheduling in schedules(seed)[(seed + n) % 6 :: 6]:
            assert_same_bag(bd.run_local(query, tables, scheduling=scheduling), exact)


@pytest.mark.parametrize("plan", ["mjoin", "linear"])
@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_every_schedule_of_three_streams_gives_the_same(seed: int, plan: Any) -> None:
    kinds = tuple(np.random.default_rng(seed).choice(KINDS, 3).tolist())
    query, tables = workload(seed, kinds, rows=18, keys=9, plan=plan)
    exact = the_oracle(query, tables)
    for scheduling in schedules(seed):
        assert_same_bag(bd.run_local(query, tables, scheduling=scheduling), exact)


@pytest.mark.parametrize("key_type", ["uint64", "string", "timestamp"])
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_keys_of_other_types_and_windows(seed: int, key_type: str) -> None:
    for kinds in [("unique", "punctuated"), ("clustered", "punctuated", "punctuated")]:
        for options in ({}, {"stream": {"window": "60 us"}}, {"stream": {"key": ("k", "k2")}}):
            query, tables = workload(seed, kinds, rows=14, keys=9, key_type=key_type, **options)
            for scheduling in schedules(seed)[seed::3]:
                made = bd.run_local(query, tables, scheduling=scheduling)
                assert_same_bag(made, the_oracle(query, tables))


@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_joins_without_promises_and_null_keys(seed: int) -> None:
    query, tables = workload(seed, ("any", "any"))
    for scheduling in schedules(seed):
        assert_same_bag(bd.run_local(query, tables, scheduling=scheduling), the_oracle(query, tables))
    query, tables = workload(seed, ("unique", "punctuated"))
    keys = pa.array([None if i % 3 == 0 else k for i, k in enumerate(tables["s1"]["k"].to_pylist())])
    tables["s1"] = tables["s1"].set_column(0, "k", keys)
    for scheduling in schedules(seed):
        assert_same_bag(bd.run_local(query, tables, scheduling=scheduling), the_oracle(query, tables))


@pytest.mark.parametrize(
    "kinds", [("punctuated", "punctuated"), ("range", "punctuated", "unique-punctuated")]
)
def test_rows_of_a_key_keep_their_order_and_punctuations_stay_behind_them(kinds: tuple[str, ...]) -> None:
    moved = False
    for seed in seeds(4):
        query, tables = workload(seed, kinds, rows=40)
        for scheduling in (bd.Scheduling(quota=9), bd.Scheduling("random", quota=9, seed=seed)):
            taken = batches(query, tables, scheduling)
            for name, table in tables.items():
                came = rows_of(table)
                went = [row for stream, batch in taken if stream == name for row in rows_of(batch)]
                moved |= came != went
                assert sorted(came) == sorted(went)
                for key in {k for k, _ in came}:
                    assert [p for k, p in came if k == key] == [p for k, p in went if k == key]
    assert moved


def two(one: list[int], other: list[int], **promises: Any) -> tuple[bd.JoinQuery, dict[str, pa.Table]]:
    """A unique stream `a` and a stream `b`; negative keys are punctuations of theirs."""
    query = bd.JoinQuery([bd.Stream("b", "k", **promises), bd.Stream("a", "k", unique=True)])
    flags = {"p": [k < 0 for k in other]} if "punctuation" in promises else {}
    return query, {"b": pa.table({"k": [abs(k) for k in other], **flags}), "a": pa.table({"k": one})}


def test_rows_with_punctuated_keys_come_first_then_the_pool_in_order() -> None:
    query, tables = two([5, 4, 3, 2, 1, 6], [1, 2, -1, -2, 3], punctuation="p")
    assert signed(batches(query, tables, bd.Scheduling(quota=4, order=["b"]))) == [
        ("b", [1, 2, -1, -2]),
        ("a", [2]),
        ("a", [5, 4, 3]),
        ("b", [3]),
        ("a", [1]),
        ("a", [6]),
    ]
    assert signed(batches(query, tables, bd.Scheduling(tuples="sequential", quota=4))) == [
        ("a", [5, 4, 3, 2]),
        ("b", [1, 2, -1, -2]),
        ("a", [1, 6]),
        ("b", [3]),
    ]


def test_a_cluster_that_has_joined_is_read_to_its_end() -> None:
    query, tables = two([7, 9], [7, 7, 7, 8, 8, 8, 9, 9], arrival="clustered")
    assert signed(batches(query, tables, bd.Scheduling(quota=1))) == [
        ("a", [7]), ("b", [7, 7, 7]), ("a", [9]), ("b", [8]), ("b", [8]), ("b", [8]), ("b", [9, 9]),
    ]  # fmt: skip


def test_scheduling_makes_the_batches_alone() -> None:
    query, tables = two([1], [1])
    for options in ({"batch_rows": 5}, {"batch_period": "1 s"}, {"buffer_rows": 5}):
        with pytest.raises(bd.BraidedError, match="scheduling makes the batches"):
            bd.run_local(query, tables, scheduling=bd.Scheduling(), **options)
    with pytest.raises(bd.BraidedError, match=r"must be a bd\.Scheduling"):
        bd.run_local(query, tables, scheduling="priority")  # type: ignore[arg-type]
    seen: list[bd.BatchReport] = []
    bd.run_local(query, tables, scheduling=bd.Scheduling(), on_batch=seen.append)
    assert [dict(r.rows) for r in seen] == [{"b": 0, "a": 1}, {"b": 1, "a": 0}]


def test_empty_queues_end_at_once() -> None:
    query, tables = two([1, 2], [1, -1], punctuation="p")
    for some in ({"a"}, {"b"}, {"a", "b"}):
        emptied = {n: t.slice(0, 0) if n in some else t for n, t in tables.items()}
        for scheduling in schedules(1):
            assert bd.run_local(query, emptied, scheduling=scheduling).num_rows == 0
