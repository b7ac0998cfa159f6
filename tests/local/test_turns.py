"""A LocalJoin that reads each push in turns: the same results in less room; a push is whole or nothing."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.engine.operators import predicate
from braided.testing import assert_same_bag, expected
from tests.engine.promises.test_announcements import parted
from tests.engine.promises.test_promises import the_oracle, workload
from tests.local.test_local_join import everything
from tests.local.test_scheduling import schedules
from tests.promised import KINDS, batches_of
from tests.seeds import seeds
from tests.workloads import LATENESS_US, names_of, random_tables


def pushed(live: bd.LocalJoin, batches: list[dict[str, pa.Table]], restart: int = 0) -> pa.Table:
    """All results; with `restart` every so many pushes a new join goes on from the saved state."""
    found = []
    for i, batch in enumerate(batches, 1):
        found.append(live.push(batch))
        if restart and i % restart == 0:
            live = bd.LocalJoin(live.query, scheduling=live.scheduling).restore(live.snapshot())
    found.append(live.end())
    return pa.concat_tables([t for t in found if t.num_columns])


@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_pushes_in_turns_give_the_same_for_every_pair_of_promises(seed: int) -> None:
    for n, kinds in enumerate(itertools.product(KINDS, KINDS)):
        purge: Any = ("immediate", "batch")[(seed + n) % 2]
        query, tables = workload(seed, kinds, rows=20, tuning=bd.Tuning(purge=purge))
        exact = the_oracle(query, tables)
        for scheduling in schedules(seed)[(seed + n) % 6 :: 6]:
            rows, restart = (7, 1000)[n % 2], n // 2 % 3
            live = bd.LocalJoin(query, scheduling=scheduling)
            assert_same_bag(pushed(live, batches_of(tables, rows), restart), exact)


@pytest.mark.parametrize("plan", ["mjoin", "linear"])
@pytest.mark.parametrize("key_type", ["uint64", "string", "timestamp"])
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_pushes_of_three_streams_in_turns(seed: int, key_type: str, plan: Any) -> None:
    for options in ({}, {"stream": {"window": "60 us"}}, {"stream": {"key": ("k", "k2")}}):
        kinds = ("unique", "punctuated", "any")
        if key_type != "string" and "key" not in options.get("stream", {}):  # ranges need ordered keys
            kinds = tuple(np.random.default_rng(seed).choice(KINDS, 3).tolist())
        query, tables = workload(seed, kinds, rows=18, keys=9, key_type=key_type, plan=plan, **options)
        for scheduling in schedules(seed)[seed::4]:
            live = bd.LocalJoin(query, scheduling=scheduling)
            assert_same_bag(pushed(live, batches_of(tables, 6), restart=2), the_oracle(query, tables))


QUERIES: dict[str, dict[str, Any]] = {
    "windows": {"stream": {"window": "40 us"}},
    "count windows": {"stream": {"window": bd.CountWindow(2)}},
    "within": {"within": {("s0", "s1"): "30 us"}},
    "on": {"stream": {"key": None}, "on": [("s0.k", "s1.k"), ("s1.n", "s2.n")]},
    "where": {"where": "s0.n <= s1.n"},
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_rows_out_of_order_are_judged_as_in_one_batch(seed: int, name: str) -> None:
    """Turns within a push do not move the watermark: what is not late in the push is late in no turn."""
    options = dict(QUERIES[name])
    of_stream = {"key": "k", "time": "t", "lateness": f"{LATENESS_US} us", **options.pop("stream", {})}
    names = names_of(3)
    query = bd.JoinQuery([bd.Stream(n, **of_stream) for n in names], **options)
    tables = random_tables(seed, names, keys=3)
    for scheduling in schedules(seed)[seed % 3 :: 3]:
        live = bd.LocalJoin(query, scheduling=scheduling)
        assert_same_bag(pushed(live, batches_of(tables, 20), restart=2), expected(query, tables))
        seen = {n: s.late_rows for n, s in live.stats().streams.items()}
        assert seen == dict.fromkeys(names, 0)


def test_rows_that_are_late_are_the_same_with_and_without_turns() -> None:
    query = bd.JoinQuery([bd.Stream(n, "k", time="t", window="10 us") for n in "ab"])
    rng = np.random.default_rng(3)
    tables = {n: pa.table({"k": rng.integers(0, 3, 60), "t": rng.integers(0, 100, 60)}) for n in "ab"}
    plain = bd.LocalJoin(query)
    turns = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=4))
    for batch in batches_of(tables, 20):
        assert_same_bag(turns.push(batch), plain.push(batch))
        assert turns.late() == plain.late()
        assert turns.stats().watermark_us == plain.stats().watermark_us
    assert sum(s.late_rows for s in turns.stats().streams.values()) > 20


def test_a_stream_is_idle_by_what_the_whole_push_brings() -> None:
    streams = [bd.Stream(n, "k", time="t", window="10 us", idle_after="5 s") for n in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(streams), scheduling=bd.Scheduling(quota=1))
    rows = pa.table({"k": [1, 2], "t": [100, 100]})
    live.push({"a": rows, "b": rows.slice(0, 1)}, now=1000.0)
    live.push({"a": pa.table({"k": [1, 2], "t": [500, 600]}), "b": rows.slice(0, 1)}, now=1004.0)
    assert [s.idle for s in live.stats().streams.values()] == [False, False]
    assert live.stats().watermark_us == 100
    live.push({"a": pa.table({"k": [1], "t": [700]})}, now=1009.0)
    assert [s.idle for s in live.stats().streams.values()] == [False, True]
    assert live.stats().watermark_us == 700


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_the_output_is_told_of_the_same_keys(seed: int) -> None:
    kinds = ("unique", "punctuated", "unique-punctuated")[: 2 + seed % 2]
    query, tables = workload(seed, kinds, rows=16, keys=8, emit_punctuations=True)
    plain, told = parted(pushed(bd.LocalJoin(query), batches_of(tables, 7)))
    for scheduling in schedules(seed):
        results, keys = parted(pushed(bd.LocalJoin(query, scheduling=scheduling), batches_of(tables, 7), 2))
        assert_same_bag(results, plain)
        assert sorted(keys) == sorted(told)


def news(records: int) -> tuple[bd.JoinQuery, dict[str, pa.Table]]:
    """News items and who read them: ten records an item, its punctuation behind the last of them."""
    items = np.arange(records // 10)
    sno = np.repeat(items, 11)
    over = np.tile([False] * 10 + [True], len(items))
    streams = [bd.Stream("news", "sno", unique=True), bd.Stream("access", "sno", punctuation="over")]
    query = bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate"))
    return query, {"news": pa.table({"sno": items}), "access": pa.table({"sno": sno, "over": over})}


def test_turns_hold_less_at_a_time_and_stats_show_it() -> None:
    """One push of everything: without turns all rows are stored before the first one may go."""
    query, tables = news(20_000)
    plain, turns = bd.LocalJoin(query), bd.LocalJoin(query, scheduling=bd.Scheduling(quota=500))
    assert_same_bag(turns.push(tables), plain.push(tables))
    held = [sum(s.live_bytes for s in live.stats().streams.values()) for live in (plain, turns)]
    assert held[1] * 8 < held[0]  # arrays are as large as they once had to be
    for live in (plain, turns):
        seen = live.stats().streams
        assert {n: (s.live_rows, s.purged_rows) for n, s in seen.items()} == {
            "news": (0, 2_000), "access": (0, 20_000),
        }  # fmt: skip
    probes = {pair: h.probes for pair, h in turns.stats().half_joins.items()}
    assert probes == {("news", "access"): 0, ("access", "news"): 20_000}  # no news item looks for records


def test_rows_with_closed_keys_come_first_also_after_a_restart() -> None:
    """The saved state knows which keys are closed: 2 and 9 finish before the rest of their turn."""
    query = bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b", "k", punctuation="p")])
    live = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=4))
    live.push({"b": pa.table({"k": [1, 2, 9, 2, 9], "p": [False, False, False, True, True]})})
    again = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=4)).restore(live.snapshot())
    found = again.push({"a": pa.table({"k": [1, 2, 9, 1]})})
    assert found["a_k"].to_pylist() == [2, 9, 1, 1]
    assert again.stats().batches == 4  # a turn is a batch; that of `b` was of five rows


@pytest.mark.parametrize("counting", [False, True])
def test_a_push_that_fails_in_a_later_turn_changes_nothing(
    counting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    window: Any = bd.CountWindow(2) if counting else "30 us"
    streams = [
        bd.Stream("s0", "k", time="t", window=window),
        bd.Stream("s1", "k", time="t", lateness="12 us"),
    ]
    query = bd.JoinQuery(streams, where="s0.n >= 0")
    tables = random_tables(1, names_of(2), keys=2)
    rest = {n: t.slice(25) for n, t in tables.items()}
    live = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=5))
    live.push({n: t.slice(0, 25) for n, t in tables.items()})
    live = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=5)).restore(live.snapshot())
    before, steps, step = everything(live), itertools.count(), Engine.step

    def fails_late(self: Engine, *given: Any, **options: Any) -> Any:
        if next(steps) == 3:
            monkeypatch.setattr(predicate, "passes", _fail)
            monkeypatch.setattr(Engine, "accept", _fail)
        return step(self, *given, **options)

    with monkeypatch.context() as broken, pytest.raises(bd.BraidedError, match="broken"):
        broken.setattr(Engine, "step", fails_late)
        live.push(rest)
    monkeypatch.undo()
    assert everything(live) == before
    with pytest.raises(bd.BraidedError, match="another schema"):
        live.push({"s0": rest["s0"], "s1": rest["s1"].drop_columns("s")})
    with pytest.raises(bd.BraidedError, match="no stream 'z'"):
        live.push({"s0": rest["s0"], "z": rest["s1"]})
    assert everything(live) == before
    plain = bd.LocalJoin(query).restore(live.snapshot())
    assert_same_bag(live.push(rest), plain.push(rest))


def _fail(*_: Any, **__: Any) -> Any:
    raise bd.BraidedError("broken")


def test_a_first_push_that_fails_teaches_no_schema() -> None:
    live = bd.LocalJoin(news(10)[0], scheduling=bd.Scheduling())
    with pytest.raises(bd.BraidedError, match="sno"):
        live.push({"news": pa.table({"sno": [1]}), "access": pa.table({"sno": ["x"], "over": [False]})})
    assert live.push({"news": pa.table({"sno": ["x"]})}).num_rows == 0
    assert live.push({"access": pa.table({"sno": ["x"], "over": [False]})}).num_rows == 1


def test_a_promise_broken_inside_a_push_is_noticed_between_turns_and_undone() -> None:
    """Without turns nothing of a push is closed before its end, and such a row still joins."""
    query, _ = news(10)
    bad = {
        "news": pa.table({"sno": [1]}),
        "access": pa.table({"sno": [1, 1, 1], "over": [False, True, False]}),
    }
    assert bd.LocalJoin(query).push(bad).num_rows == 2
    live = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=2))
    with pytest.raises(bd.BraidedError, match=r"stream 'access': a row with key 1 came"):
        live.push(bad)
    assert {n: s.rows_in for n, s in live.stats().streams.items()} == {"news": 0, "access": 0}
    counting = bd.JoinQuery(query.streams, tuning=bd.Tuning(on_violation="count"))
    live = bd.LocalJoin(counting, scheduling=bd.Scheduling(quota=2))
    assert live.push(bad).num_rows == 1
    assert live.stats().streams["access"].violations == 1


def test_what_is_not_read_of_a_stream_in_turns_is_handed_out_first_by_the_next_call() -> None:
    query, tables = news(200)
    live = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=7))
    reader = live.stream({n: t.slice(0, 110) for n, t in tables.items()}, chunk_rows=3)
    got = [next(reader), next(reader)]
    assert all(table.num_rows <= 3 for table in got)
    got += [live.push({"access": tables["access"].slice(110)}), live.push({}), live.end()]
    assert_same_bag(pa.concat_tables(got), bd.run_local(query, tables))


def test_a_stream_given_up_by_a_restore_does_not_come_back() -> None:
    """The reader of a batch in turns, closed after restore(), put the state from before it in place."""
    query, tables = news(200)
    live = bd.LocalJoin(query, scheduling=bd.Scheduling(quota=7))
    live.push({"news": tables["news"]})
    saved = live.snapshot()
    fresh = bd.LocalJoin(query, scheduling=live.scheduling)
    reader = fresh.stream({"news": tables["news"].slice(0, 9), "access": tables["access"]}, chunk_rows=3)
    next(reader)
    fresh.restore(saved)
    del reader
    gc.collect()
    assert fresh.push({"access": tables["access"]}).num_rows == 200


@pytest.mark.parametrize(
    ("option", "value"), [("memory", bd.Memory("1 MB")), ("overload", bd.Overload(probes=9))]
)
def test_budgets_are_refused_with_turns(option: str, value: Any) -> None:
    streams = [bd.Stream(n, "k", time="t", window="1 s") for n in "ab"]
    query = bd.JoinQuery(streams, **{option: value})
    with pytest.raises(
        bd.BraidedError, match=f"{option}= counts each of them as a batch; leave one of both out"
    ):
        bd.LocalJoin(query, scheduling=bd.Scheduling())


def test_other_values_and_names_are_refused() -> None:
    query, tables = news(10)
    with pytest.raises(
        bd.BraidedError, match=r"LocalJoin: scheduling must be a bd\.Scheduling; got 'priority'"
    ):
        bd.LocalJoin(query, scheduling="priority")  # type: ignore[arg-type]
    with pytest.raises(bd.BraidedError, match="Scheduling: no stream 'new'"):
        bd.LocalJoin(query, scheduling=bd.Scheduling(order=["new"]))
    assert bd.LocalJoin(query, scheduling=bd.Scheduling(order=["access"])).push(tables).num_rows == 10
