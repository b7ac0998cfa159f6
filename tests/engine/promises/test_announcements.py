"""Punctuations of the output: true, said once, as soon as they are true, and of use to a next join."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braided as bd
from braided.engine.promises import ledger
from braided.testing import assert_same_bag, expected
from tests.engine.promises.test_promises import access, keyed, workload
from tests.promised import KINDS, batches_of, data_of, plainly
from tests.seeds import seeds


def parted(table: pa.Table) -> tuple[pa.Table, list[Any]]:
    """Results, and the announced keys of the first stream."""
    flags = table["punctuation"]
    told = table.filter(flags)["s0_k"].to_pylist()
    return table.filter(pc.invert(flags)).drop_columns(["punctuation"]), told


def complete(query: bd.JoinQuery, seen: dict[str, list[Any]], closed: dict[str, set[Any]]) -> set[Any]:
    """By the definition: keys that all streams are closed for, or one is and has brought none."""
    names = query.names
    return {
        k
        for k in set().union(*closed.values())
        if all(k in closed[n] for n in names) or any(k in closed[n] and k not in seen[n] for n in names)
    }


@pytest.mark.parametrize("key_type", ["int64", "string"])
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_announcements_are_true_and_said_once_when_they_get_true(
    seed: int, plan: Any, key_type: str
) -> None:
    """Streams that are unique or punctuated, where what is closed can be told from the rows alone."""
    rng = np.random.default_rng(seed)
    kinds = tuple(rng.choice(["unique", "punctuated", "unique-punctuated"], 2 + seed % 2).tolist())
    query, tables = workload(
        seed, kinds, key_type=key_type, plan=plan, rows=16, keys=8, emit_punctuations=True,
        tuning=bd.Tuning(purge=("batch", "immediate")[seed % 2]),
    )  # fmt: skip
    told: set[Any] = set()
    live, found = bd.LocalJoin(query), []
    seen: dict[str, list[Any]] = {n: [] for n in query.names}
    closed: dict[str, set[Any]] = {n: set() for n in query.names}
    for batch in batches_of(tables, 3):
        results, keys = parted(live.push(batch))
        for stream in query.streams:
            rows = batch[stream.name].to_pylist()
            data = [r["k"] for r in rows if not r.get("p")]
            seen[stream.name] += data
            closed[stream.name] |= {r["k"] for r in rows if r.get("p")} | set(data if stream.unique else ())
        assert not set(results["s0_k"].to_pylist()) & told
        assert len(keys) == len(set(keys))
        assert not set(keys) & told
        told |= set(keys)
        assert told == complete(query, seen, closed)
        found.append(results)
    assert told
    assert live.stats().punctuations_out == len(told)
    plain = expected(plainly(query), {n: data_of(t) for n, t in tables.items()})
    assert_same_bag(pa.concat_tables(found), plain)


@pytest.mark.parametrize("seed", seeds(4))
def test_oracle_no_result_comes_after_its_announcement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = tuple(rng.choice(KINDS[1:], 2 + seed % 3).tolist())
    query, tables = workload(seed, kinds, emit_punctuations=True, rows=20, keys=8)
    told: set[Any] = set()
    live, found = bd.LocalJoin(query), []
    for n, batch in enumerate(batches_of(tables, 3)):
        results, keys = parted(live.push(batch))
        assert not set(results["s0_k"].to_pylist()) & told
        assert not set(keys) & told
        told |= set(keys)
        found.append(results)
        if n % 3 == 2:
            live = bd.LocalJoin(query).restore(live.snapshot())
    assert live.stats().punctuations_out == len(told)
    plain = expected(plainly(query), {n: data_of(t) for n, t in tables.items()})
    assert_same_bag(pa.concat_tables(found), plain)


def test_a_chained_join_uses_what_the_first_announces() -> None:
    first = bd.LocalJoin(
        bd.JoinQuery(
            [bd.Stream("news", "k", unique=True), bd.Stream("access", "k", punctuation="p")],
            emit_punctuations=True,
            select={"k": "news.k"},
        )
    )
    second = bd.LocalJoin(
        bd.JoinQuery(
            [bd.Stream("read", "k", punctuation="punctuation"), bd.Stream("topics", "k", unique=True)],
            tuning=bd.Tuning(purge="immediate"),
        )
    )
    read = first.push({"news": keyed(1, 2), "access": access(1, 1, 2, -1)})
    assert read.column_names == ["k", "punctuation"]
    assert sorted(zip(*read.to_pydict().values(), strict=True)) == [
        (1, False),
        (1, False),
        (1, True),
        (2, False),
    ]
    assert second.push({"read": read, "topics": keyed(1, 2)}).num_rows == 3
    assert second.stats().streams["topics"].live_rows == 1  # item 1 is complete there, too
    assert first.push({"access": access(-2)}).to_pydict() == {"k": [2], "punctuation": [True]}


def test_a_complete_key_is_announced_before_the_end_and_without_results() -> None:
    query = bd.JoinQuery(
        [bd.Stream("a", "k", punctuation="p"), bd.Stream("b", "k", punctuation="p")], emit_punctuations=True
    )
    live = bd.LocalJoin(query)
    told = live.push({"a": access(-7), "b": access(3)})
    assert told.to_pydict() == {"a_k": [7], "b_k": [7], "punctuation": [True]}
    assert live.stats().results == 0
    assert live.push({"a": access(-3), "b": access(3)}).num_rows == 1
    assert live.push({"b": access(-7, 3)}).num_rows == 0  # said already; and of 3 a has brought none


@pytest.mark.parametrize("key_type", ["int64", "string"])
@pytest.mark.parametrize("restored", [False, True])
def test_a_key_is_announced_once_though_closed_keys_have_aged(key_type: str, restored: bool) -> None:
    """Where rows expire, closed keys age; a punctuation repeated after that announced its key again."""
    cast: Callable[[int], Any] = int if key_type == "int64" else "key number {}".format
    streams = [bd.Stream(n, "k", time="t", window="10 us", punctuation="p") for n in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(streams, emit_punctuations=True))

    def push(keys: list[int], time: int, over: str = "ab") -> list[Any]:
        nonlocal live
        told = live.push(
            {
                n: pa.table(
                    {
                        "k": [*map(cast, keys), cast(1_000 + time)],
                        "t": [time] * (len(keys) + 1),
                        "p": [True] * len(keys) + [False],
                    }
                )
                for n in over
            }
        )
        if restored:
            live = bd.LocalJoin(live.query).restore(live.snapshot())
        return [k for k in told.filter(told["punctuation"])["a_k"].to_pylist() if k in (cast(1), cast(2))]

    assert push([1], 0) == [cast(1)]
    assert push([2], 5, "a") == [cast(2)]  # b has brought none of it, and a brings none
    assert not any(push([], time) for time in range(10, 100, 10))
    assert push([1, 2], 100) == []
    assert push([1, 2], 200, "b") == []
    assert live.stats().punctuations_out == 2


def test_announced_keys_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_MOST_ANNOUNCED", 16)
    streams = [bd.Stream(n, "k", time="t", window="1 us", punctuation="p") for n in "ab"]
    live, sizes = bd.LocalJoin(bd.JoinQuery(streams, emit_punctuations=True)), []
    for time in range(200):
        over = pa.table({"k": [f"key {time}"], "t": [time], "p": [True]})
        row = pa.table({"k": ["x"], "t": [time], "p": [False]})
        assert live.push(dict.fromkeys("ab", pa.concat_tables([over, row]))).num_rows >= 1
        sizes.append(len(live.snapshot()))
    assert live.stats().punctuations_out == 200
    assert max(sizes[100:]) <= max(sizes[40:100]) + 100, sizes


def test_mistakes_of_emitting_are_named() -> None:
    with pytest.raises(bd.BraidedError, match="emit_punctuations=True needs a stream that is unique"):
        bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b", "k")], emit_punctuations=True)
    with pytest.raises(bd.BraidedError, match="emit_punctuations must be True or False; got 1"):
        bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b", "k")], emit_punctuations=1)  # type: ignore[arg-type]
    clustered = bd.JoinQuery(
        [bd.Stream("a", "k", arrival="clustered"), bd.Stream("b", "k")], emit_punctuations=True
    )
    with pytest.raises(bd.BraidedError, match="needs a key of one number, date or time column"):
        bd.LocalJoin(clustered).push({"a": pa.table({"k": ["x"]})})
    clash = bd.JoinQuery(
        [bd.Stream("a", "k", unique=True), bd.Stream("b", "k")],
        select={"punctuation": "a.k"},
        emit_punctuations=True,
    )
    with pytest.raises(bd.BraidedError, match="output name 'punctuation' is wanted by emit_punctuations"):
        bd.run_local(clash, {"a": keyed(1), "b": keyed(1)})
