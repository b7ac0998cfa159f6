"""`LocalJoin`: late rows, reading piece by piece, failed pushes, snapshots, statistics."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.operators import predicate
from braided.engine.sides.payload import Payload
from braided.testing import (
    assert_same_bag,
    expect_late,
    expect_results,
    expect_state,
    expected,
    push,
    run_script,
)
from tests.workloads import names_of, random_tables, stream


def pair(**options: Any) -> bd.JoinQuery:
    return bd.JoinQuery([bd.Stream(n, key="k", time="t", window="10 us", **options) for n in ("a", "b")])


def row(k: int | None, t: int | None) -> dict[str, Any]:
    return {"k": k, "t": t}


SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])


def test_late_rows_are_judged_by_the_watermark_of_the_batch_start() -> None:
    run_script(
        pair(lateness="5 us"),
        push(a=[row(1, 0)], b=[row(1, 100)]),
        expect_results(),  # 100 us apart
        push(a=[row(1, 100), row(1, 3)]),  # a's maximum was 0, so the watermark is -5: 3 is not late
        expect_results({"a_t": 100, "b_t": 100}),
        expect_late(a=0),
        push(a=[row(1, 94), row(1, 95)], b=[row(1, 94), row(1, 96)]),  # the watermark is 95
        expect_late(a=1, b=1),
        expect_results({"a_t": 100, "b_t": 96}, {"a_t": 95, "b_t": 100}, {"a_t": 95, "b_t": 96}),
        expect_late(a=0, b=0),  # handed back once
    )


def test_a_stream_that_never_brought_a_row_holds_the_watermark() -> None:
    run_script(
        pair(),
        push(a=[row(1, 1000)]),
        push(a=[row(1, 0)]),
        expect_late(a=0),
        push(b=[row(1, 5)]),
        expect_results({"a_t": 0}),
        push(a=[row(1, 4)]),
        expect_late(a=1),
    )


def test_rows_are_never_late_without_a_window() -> None:
    query = bd.JoinQuery([bd.Stream(n, key="k", time="t") for n in ("a", "b")])
    run_script(
        query,
        push(a=[row(1, 1000)], b=[row(1, 1000)]),
        push(a=[row(1, 0)]),
        expect_late(a=0),
        expect_results(
            {"a_t": 1000, "b_t": 1000, "result_time": 1000}, {"a_t": 0, "b_t": 1000, "result_time": 1000}
        ),
    )


def test_state_expires_when_the_watermark_passes_it_by_more_than_the_window() -> None:
    run_script(
        pair(),
        push(a=[row(1, 0)], b=[row(2, 0)]),
        push(a=[row(1, 10)], b=[row(2, 10)]),
        expect_state(a=2, b=2),  # a row at 10 can still meet the row at 0
        push(a=[row(1, 11)], b=[row(2, 11)]),
        expect_state(a=2, b=2),
    )


def test_a_row_meets_one_exactly_its_window_later() -> None:
    run_script(
        pair(),
        push(a=[row(1, 0)], b=[row(9, 0)]),
        push(a=[row(8, 10)], b=[row(1, 10)]),
        expect_results({"a_t": 0, "b_t": 10}),
    )


def test_null_keys_and_null_times_join_nothing_and_are_counted() -> None:
    live = bd.LocalJoin(pair())
    table = pa.Table.from_pylist([row(None, 1), row(1, None), row(1, 1)], SCHEMA)
    assert live.push({"a": table, "b": table}).num_rows == 1
    seen = live.stats().streams["a"]
    assert (seen.rows_in, seen.null_keys, seen.null_times, seen.live_rows) == (3, 1, 1, 1)


@pytest.mark.parametrize("chunk_rows", [1, 3, 7, 1000])
def test_stream_yields_tables_of_at_most_chunk_rows(chunk_rows: int) -> None:
    names = names_of(3)
    query = bd.JoinQuery([stream(n) for n in names])
    tables = random_tables(5, names, keys=2)
    live = bd.LocalJoin(query)
    pieces = list(live.stream(tables, chunk_rows=chunk_rows))
    assert max(p.num_rows for p in pieces) <= chunk_rows
    assert_same_bag(pa.concat_tables(pieces), expected(query, tables))


def test_a_hot_key_costs_time_but_no_memory() -> None:
    """3000 x 3000 rows of one key: nine million results, read in pieces of a thousand rows."""
    live = bd.LocalJoin(pair())
    hot = pa.table({"k": np.zeros(3000, np.int64), "t": np.zeros(3000, np.int64)})
    before = pa.total_allocated_bytes()
    rows, peak = 0, 0
    for table in live.stream({"a": hot, "b": hot}, chunk_rows=1000):
        rows += table.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert rows == 9_000_000
    assert peak < 4_000_000


def test_what_is_not_read_of_a_stream_is_handed_out_first_by_the_next_call() -> None:
    names = names_of(2)
    query = bd.JoinQuery([stream(n) for n in names])
    tables = random_tables(3, names, keys=2)
    for how in ("push", "stream", "end", "unstarted"):
        live = bd.LocalJoin(query)
        reader = live.stream({n: t.slice(0, 30) for n, t in tables.items()}, chunk_rows=2)
        got = [] if how == "unstarted" else [next(reader), next(reader)]
        with pytest.raises(bd.BraidedError, match="not read to its end"):
            live.snapshot()
        reader.close()  # type: ignore[attr-defined]
        rest = {n: t.slice(30) for n, t in tables.items()}
        if how == "stream":
            got += list(live.stream(rest))
        else:
            got += [live.push(rest)] if how != "end" else []
        got.append(live.end())
        wanted = tables if how != "end" else {n: t.slice(0, 30) for n, t in tables.items()}
        assert_same_bag(pa.concat_tables(got), expected(query, wanted))


def everything(live: bd.LocalJoin) -> tuple[bytes, dict[str, Any]]:
    """All that a user can see, but for the room that arrays take."""
    seen = live.stats().to_dict()
    for counts in seen["streams"].values():
        del counts["live_bytes"]
    return live.snapshot(), seen


@pytest.mark.parametrize("counting", [False, True])
def test_a_failed_push_leaves_the_state_as_before_it(counting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    window: Any = bd.CountWindow(2) if counting else "30 us"
    query = bd.JoinQuery([stream("s0", window), stream("s1")], where="s0.n >= 0")
    tables = random_tables(1, names_of(2), keys=2)
    half = {n: t.slice(0, 25) for n, t in tables.items()}
    rest = {n: t.slice(25) for n, t in tables.items()}
    live = bd.LocalJoin(query)
    first = live.push(half)
    before = everything(live)
    with monkeypatch.context() as broken, pytest.raises(bd.BraidedError, match="broken"):
        broken.setattr(predicate, "passes", _fail)  # among the results, after rows were stored
        live.push(rest)
    assert everything(live) == before
    with monkeypatch.context() as broken, pytest.raises(bd.BraidedError, match="broken"):
        broken.setattr(Payload, "append", _fail)  # while rows are stored
        live.push(rest)
    assert everything(live) == before
    with pytest.raises(bd.BraidedError, match="another schema"):  # the second stream is bad
        live.push({"s0": rest["s0"], "s1": rest["s1"].drop_columns("s")})
    assert everything(live) == before
    with pytest.raises(bd.BraidedError, match="no stream 'z'"):
        live.push({"s0": rest["s0"], "z": rest["s1"]})
    assert everything(live) == before
    got = [first, live.push(rest), live.end()]
    assert_same_bag(pa.concat_tables(got), expected(query, tables))


def _fail(*_: Any, **__: Any) -> Any:
    raise bd.BraidedError("broken")


def test_a_first_batch_that_fails_teaches_no_schema() -> None:
    live = bd.LocalJoin(pair())
    bad = pa.table({"k": [1], "t": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(bd.BraidedError, match="whole microseconds"):
        live.push({"a": bad})
    good = pa.table({"k": [1], "t": pa.array([1], pa.timestamp("us"))})
    live.push({"a": good})
    assert live.push({"b": good}).num_rows == 1


def test_statistics_are_immutable_complete_and_add_up() -> None:
    names = names_of(3)
    query = bd.JoinQuery([stream(n) for n in names])
    tables = random_tables(2, names)
    live = bd.LocalJoin(query)
    results = live.push(tables).num_rows
    seen = live.stats()
    with pytest.raises(AttributeError):
        seen.results = 0  # type: ignore[misc]
    assert seen.results == results
    assert seen.spilled_bytes == 0
    assert set(seen.half_joins) == {(a, b) for a in names for b in names if a != b}
    for name, s in seen.streams.items():
        assert s.rows_in == tables[name].num_rows
        assert s.rows_in == s.live_rows + s.expired_rows + s.null_keys + s.late_rows
        assert s.live_bytes > 0
        assert s.purged_rows == 0
    assert sum(h.matches for h in seen.half_joins.values()) >= results
    assert all(h.allowance is None for h in seen.half_joins.values())
    plain = seen.to_dict()
    assert plain["half_joins"]["s0->s1"].keys() == {"probes", "matches", "allowance", "same_key"}
    assert "driver streams" in live.explain()
    assert "expected state" in live.explain(rates=dict.fromkeys(tables, 10.0))


def test_statistics_can_be_read_from_another_thread_while_the_join_runs() -> None:
    live = bd.LocalJoin(pair())
    failed: list[BaseException] = []
    done = threading.Event()

    def watch() -> None:
        try:
            while not done.is_set():
                live.stats().to_dict()
        except BaseException as wrong:
            failed.append(wrong)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for n in range(50):
        t = np.arange(n * 100, n * 100 + 100)
        live.push({name: pa.table({"k": t % 7, "t": t}) for name in "ab"})
    done.set()
    watcher.join()
    assert not failed


def test_the_streams_of_a_query_may_come_one_at_a_time_with_empty_batches_between() -> None:
    names = names_of(3)
    query = bd.JoinQuery([stream(n) for n in names])
    tables = random_tables(8, names)
    live = bd.LocalJoin(query)
    got = []
    for name in names:
        got.append(live.push({}))
        got.append(live.push({name: tables[name].slice(0, 0)}))
        got.append(live.push({name: tables[name]}))
    got.append(live.end())
    got = [t for t in got if t.num_columns]
    assert_same_bag(pa.concat_tables(got), expected(query, tables))


def test_any_data_frame_that_exports_arrow_is_taken() -> None:
    import polars as pl

    frame = pl.DataFrame({"k": ["x", "y"], "t": [1, 2]})
    assert bd.run_local(pair(), {"a": frame, "b": frame}).num_rows == 2


def test_importing_braided_does_not_import_pyspark() -> None:
    import subprocess

    code = "import braided, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
