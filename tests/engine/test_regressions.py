"""Bugs that were found, each with its story, so that none comes back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.sides.payload import Payload


def stream(name: str, window: Any = "1 hour", **options: Any) -> bd.Stream:
    return bd.Stream(name, key="k", time="t", window=window, **options)


def rows(keys: Any, times: Any, **columns: Any) -> pa.Table:
    return pa.table({"k": keys, "t": pa.array(times, pa.timestamp("us")), **columns})


def letters(start: int, count: int) -> pa.Array:
    """A column of int8 indices, as pandas makes of a categorical."""
    words = pa.array([f"v{i}" for i in range(start, start + count)])
    return pa.DictionaryArray.from_arrays(pa.array(range(count), pa.int8()), words)


def test_a_store_that_fails_leaves_no_links_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows were linked before their payload was stored; when that failed, the links stayed, and the
    next row at such a position linked to itself: endless results."""
    live = bd.LocalJoin(bd.JoinQuery([stream("a"), stream("b")]))
    live.push({"a": rows([0, 1, 2], [1, 1, 1])})
    with monkeypatch.context() as broken, pytest.raises(MemoryError):
        broken.setattr(Payload, "append", lambda *_: (_ for _ in ()).throw(MemoryError()))
        live.push({"a": rows([0, 1, 2], [1, 1, 1])})
    live.push({"a": rows([0], [1])})
    found = itertools.islice(live.stream({"b": rows([0], [1])}, chunk_rows=1), 10)
    assert sum(t.num_rows for t in found) == 2


def test_a_compaction_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction emptied the payload before it built the new one; and it ran after the batch was
    committed, so the batch's results were lost."""
    options = {"lateness": "200 us"}
    query = bd.JoinQuery([stream("a", "100 us", **options), stream("b", "100 us", **options)])
    live = bd.LocalJoin(query)
    live.push({"a": rows(np.arange(100), [1000] + [0] * 95 + [1000] * 4)})
    with monkeypatch.context() as broken:
        broken.setattr(Payload, "keep", lambda *_: (_ for _ in ()).throw(MemoryError()))
        assert live.push({"a": rows([99], [1000]), "b": rows([99], [1000])}).num_rows == 2
    assert live.push({"b": rows([99, 20], [1001, 1001])}).num_rows == 2
    assert live.stats().streams["a"].live_rows < 50


def test_dictionaries_neither_overflow_nor_grow() -> None:
    """int8 indices overflowed once two batches together had more than 128 values; and dictionaries
    put together kept every value that ever came."""
    live = bd.LocalJoin(bd.JoinQuery([stream("a", "500 us"), stream("b", "500 us")]))
    sizes = []
    for n in range(60):
        times = [n * 1000] * 100
        live.push({"a": rows(np.arange(100), times, c=letters(100 * n, 100)), "b": rows([1], times[:1])})
        sizes.append(live.stats().streams["a"].live_bytes)
    assert max(sizes[30:]) < 2 * max(sizes[:10])
    wide = bd.JoinQuery([stream("a"), stream("b")])
    table = pa.concat_tables([rows(np.arange(100), [1] * 100, c=letters(100 * n, 100)) for n in range(3)])
    parts = {"a": table.slice(0, 100), "b": rows(np.arange(100), [1] * 100)}
    joined = bd.LocalJoin(wide)
    joined.push({"a": table.slice(100, 100)})
    joined.push({"a": table.slice(200, 100)})
    result = joined.push(parts)
    assert result["a_c"].type == letters(0, 1).type
    assert sorted(result["a_c"].to_pylist()) == sorted(f"v{i}" for i in range(300))


def test_null_keys_of_run_end_encoded_columns_join_nothing() -> None:
    """Such a column says it has no nulls; its values do."""
    key = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([7, None]))
    live = bd.LocalJoin(bd.JoinQuery([stream("a"), stream("b")]))
    assert live.push({"a": rows(key, [1, 1, 1]), "b": rows([7, 0], [1, 1])}).num_rows == 1
    assert live.stats().streams["a"].null_keys == 2


def test_the_results_of_an_abandoned_stream_that_fails_are_void(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were kept up to the failure and handed out, although their batch was undone."""
    from braided.engine.operators import predicate

    live = bd.LocalJoin(bd.JoinQuery([stream("a"), stream("b")], where="a.k >= 0"))
    live.push({"a": rows([1] * 5, [1] * 5)})
    real, calls = predicate.passes, itertools.count()

    def failing(*arguments: Any) -> Any:
        if next(calls) == 2:
            raise bd.BraidedError("broken")
        return real(*arguments)

    monkeypatch.setattr(predicate, "passes", failing)
    live.stream({"b": rows([1], [2])}, chunk_rows=1)  # never read
    with pytest.raises(bd.BraidedError, match=r"earlier stream\(\) .*undone.*broken"):
        live.push({})
    assert live.push({}).num_rows == 0
    assert live.push({"b": rows([1], [2])}).num_rows == 5


def test_late_rows_of_any_type_are_handed_back() -> None:
    """Polars exports text as views, which Arrow cannot filter."""
    live = bd.LocalJoin(bd.JoinQuery([stream("a"), stream("b")]))

    def frame(times: list[int]) -> pl.DataFrame:
        return pl.DataFrame({"k": ["x"] * len(times), "t": times})

    live.push({"a": frame([100]), "b": frame([100])})
    live.push({"a": frame([5, 101])})
    assert live.late()["a"].to_pylist() == [{"k": "x", "t": 5}]


def test_integers_in_where_do_not_overflow() -> None:
    """A product beyond 64 bits failed the batch, again at every try, so a join could never go on."""
    for window in ("1 hour", bd.CountWindow(5)):
        query = bd.JoinQuery([stream("a", window), stream("b")], where="a.n * b.n > 9223372036854775808")
        live = bd.LocalJoin(query)
        found = live.push({"a": rows([1], [1], n=[2**62]), "b": rows([1], [1], n=[2**62])})
        assert found.num_rows + live.end().num_rows == 1


def test_a_push_that_fails_later_teaches_no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only failures in reading a batch gave its schema up again."""
    live = bd.LocalJoin(bd.JoinQuery([stream("a"), stream("b")]))
    with monkeypatch.context() as broken, pytest.raises(MemoryError):
        broken.setattr(Payload, "append", lambda *_: (_ for _ in ()).throw(MemoryError()))
        live.push({"a": rows([1], [1], extra=[1])})
    live.push({"a": rows([1], [1])})
    assert live.push({"b": rows([1], [1])}).num_rows == 1


def test_a_damaged_snapshot_is_refused_wherever_the_damage_is() -> None:
    """A flipped bit could end the process."""
    live = bd.LocalJoin(bd.JoinQuery([stream("a"), stream("b")]))
    live.push({"a": rows(["x", "y"], [1, 2])})
    saved = live.snapshot()
    for at in range(0, len(saved), 7):
        damaged = bytearray(saved)
        damaged[at] ^= 4
        with pytest.raises(bd.BraidedError, match="damaged"):
            bd.LocalJoin(live.query).restore(bytes(damaged))


def test_the_watermark_stays_what_it_was_when_the_streams_end() -> None:
    """It was reported as a number of 19 digits."""
    live = bd.LocalJoin(bd.JoinQuery([stream("a"), stream("b")]))
    live.push({"a": rows([1], [5]), "b": rows([1], [7])})
    live.end()
    assert live.stats().watermark_us == 5


def test_restore_keeps_the_schemas_that_were_given() -> None:
    """They were forgotten, and results had no columns."""
    table = rows([1], [1])
    query = bd.JoinQuery([stream("a"), stream("b")])
    saved = bd.LocalJoin(query).snapshot()
    live = bd.LocalJoin(query, schemas={"a": table.schema, "b": table.schema}).restore(saved)
    assert live.push({"a": table}).column_names == ["a_k", "a_t", "b_k", "b_t", "result_time"]


def unread_join() -> bd.LocalJoin:
    """Rows with key 2 make the condition overflow, and so their batch fail."""
    streams = [bd.Stream(n, key="k") for n in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(streams, where="a.n * b.n * a.n * b.n * a.n >= 0"))
    live.push({"a": pa.table({"k": [1, 2], "n": [1, 2**62]})})
    return live


def test_results_kept_for_later_survive_a_later_batch_that_fails() -> None:
    """They were read into the same list as the failing batch's, and thrown away with it."""
    live = unread_join()
    live.stream({"b": pa.table({"k": [1], "n": [1]})})  # never read
    live.stream({"b": pa.table({"k": [2], "n": [2**62]})})  # fails when it is read
    with pytest.raises(bd.BraidedError, match="its batch is undone"):
        live.push({"a": pa.table({"k": [9], "n": [1]})})
    assert live.end().num_rows == live.stats().results == 1


def test_an_old_reader_that_fails_after_a_restore_leaves_the_new_one_alone() -> None:
    live = unread_join()
    saved = live.snapshot()
    old = live.stream({"b": pa.table({"k": [2], "n": [2**62]})})
    live.restore(saved)
    live.stream({"b": pa.table({"k": [1], "n": [1]})})
    with pytest.raises(bd.BraidedError):
        list(old)
    assert live.end().num_rows == live.stats().results == 1


def test_kept_results_come_in_tables_of_the_size_asked_for() -> None:
    live = bd.LocalJoin(bd.JoinQuery([bd.Stream(n, key="k") for n in "ab"]))
    live.push({"a": pa.table({"k": [1] * 50})})
    live.stream({"b": pa.table({"k": [1]})}, chunk_rows=100)
    sizes = [t.num_rows for t in live.stream({"b": pa.table({"k": [1]})}, chunk_rows=20)]
    assert sum(sizes) == 100
    assert max(sizes) <= 20
