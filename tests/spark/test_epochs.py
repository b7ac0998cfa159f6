"""Epochs on the driver, without Spark: what a start with another query makes of a checkpoint."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.query.layout import choose
from braided.spark import epochs
from braided.spark.plan import JoinPlan
from braided.spark.storage.cold import cold_pieces
from braided.spark.storage.store import Meta
from tests.spark.simulator import Simulator

SCHEMA = pa.schema([("k", pa.int64()), ("id", pa.int64()), ("t", pa.timestamp("us"))])


def query(window: str = "10 us", **options: Any) -> bd.JoinQuery:
    streams = [bd.Stream(n, key="k", time="t", window=window, lateness="2 us") for n in "ab"]
    return bd.JoinQuery(streams, **options)


def rows(*times: int) -> pa.Table:
    return pa.table({"k": [1] * len(times), "id": list(times), "t": list(times)}).cast(SCHEMA)


def begun(*times: int, asked: bd.JoinQuery | None = None) -> Simulator:
    simulator = Simulator(np.random.default_rng(0), dict.fromkeys("ab", SCHEMA))
    simulator.start(asked or query(), 2)
    simulator.batch({"a": rows(*times), "b": rows(*times)})
    return simulator


def metas(simulator: Simulator) -> dict[int, Meta]:
    return {n: Meta.decode(s.meta) for n, s in simulator.committed.items() if s.meta is not None}


def plan(asked: bd.JoinQuery, buckets: int = 2) -> JoinPlan:
    return JoinPlan(asked, (SCHEMA, SCHEMA), buckets, "flag", layout=choose(asked, buckets))


def test_a_new_epoch_begins_after_all_that_was_seen_and_both_spans() -> None:
    stored = metas(begun(5, 30))
    for asked in (query("25 us"), query("3 us")):
        later = epochs.resume(plan(asked), stored)
        longest = max(asked.bounds.span_us, 10)
        assert later.epoch.since_us == 30 + 1 + longest
        assert [live.epoch.until_us for live in later.live] == [None, later.epoch.since_us]
        assert later.live[1].query.streams[0].window == "10 microseconds"
    assert epochs.resume(plan(query()), stored).live[0].epoch.number == 0


def test_what_changes_without_an_epoch() -> None:
    stored = metas(begun(5, 30))
    streams = [dataclasses.replace(s, lateness="9 us", idle_after="1 minute") for s in query().streams]
    for asked in (bd.JoinQuery(streams), query(select={"k": "a.k"}), query(plan="linear")):
        assert len(epochs.resume(plan(asked), stored).live) == 1


def test_a_second_change_before_the_first_has_passed() -> None:
    simulator = begun(5, 30)
    simulator.start(query("20 us"), 4)
    simulator.batch({"a": rows(40), "b": rows(41)})
    later = epochs.resume(plan(query("7 us"), 8), metas(simulator))
    assert [live.epoch.number for live in later.live] == [2, 1, 0]
    starts = [live.epoch.since_us for live in later.live[:2]]
    assert starts[0] is not None
    assert starts[1] is not None
    assert starts[0] >= starts[1]


UNFIT: dict[str, tuple[bd.JoinQuery, str]] = {
    "another key": (
        bd.JoinQuery([bd.Stream(n, key="id", time="t", window="10 us", lateness="2 us") for n in "ab"]),
        "key of 'a' was",
    ),
    "a stream without a bound": (query("unbounded"), "joinable forever"),
    "another stream": (
        bd.JoinQuery([bd.Stream(n, key="k", time="t", window="10 us", lateness="2 us") for n in "ac"]),
        "joins the streams a, b",
    ),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_cannot_change_is_refused(what: str) -> None:
    asked, words = UNFIT[what]
    with pytest.raises(bd.BraidedError, match=words):
        epochs.resume(plan(asked), metas(begun(5, 30)))


def test_a_batch_that_another_query_planned_must_be_finished_first() -> None:
    stored, asked = metas(begun(5, 30)), plan(query("20 us"))
    with pytest.raises(
        bd.BraidedError, match=r"planned by another query \(the window of 'a' was .* is 20 microseconds"
    ):
        epochs.resume(asked, stored, epochs.fingerprint(plan(query())))
    assert epochs.resume(asked, stored, epochs.fingerprint(asked)).epoch.number == 1


def test_a_key_that_has_become_hot_waits_for_a_batch_that_is_pending() -> None:
    """A job that was killed could not be started again: the hot key it found made it another query."""
    stored, asked = metas(begun(5, 30)), plan(query())
    hot = epochs.resume(asked, stored, find_hot=True)
    assert (hot.epoch.number, len(hot.grid.hot_keys)) == (1, 1)
    same = epochs.resume(asked, stored, epochs.fingerprint(asked), find_hot=True)
    assert (same.epoch.number, len(same.grid.hot_keys)) == (0, 0)
    again = epochs.resume(asked, stored, epochs.fingerprint(hot), find_hot=True)
    assert again.epochs == hot.epochs


def test_a_row_from_the_future_is_warned_of() -> None:
    near = epochs.resume(plan(query("20 us")), metas(begun(5, 30)))
    assert epochs.far_ahead(near) == ""
    simulator = begun(5, 30)
    simulator.batch({"a": rows(1 << 40)})
    far = epochs.resume(plan(query("20 us")), metas(simulator))
    assert "a row from the future has pushed it there" in epochs.far_ahead(far)
    assert "1970-01-13" in epochs.explained(far)[-1]


def promised(window: str, memory: bd.Memory | None = None) -> bd.JoinQuery:
    streams = [bd.Stream(n, "k", time="t", window=window, lateness="2 us", unique=n == "a") for n in "ab"]
    return bd.JoinQuery(streams, memory=memory)


def keyed(keys: range, time: int) -> pa.Table:
    return pa.table({"k": keys, "id": keys, "t": [time] * len(keys)}).cast(SCHEMA)


@pytest.mark.parametrize("memory", [None, bd.Memory(4096, defer=False, groups=4, disk_rate=3e5)])
def test_an_old_epoch_does_not_store_what_it_is_only_told_for_promises(memory: bd.Memory | None) -> None:
    """All epochs see the rows of streams that promise something. The old one stored them as well; with a
    memory budget they were on disk when it should have gone, so it never went."""
    simulator = Simulator(np.random.default_rng(0), dict.fromkeys("ab", SCHEMA), calm=True)
    simulator.start(promised("10 us", memory), 2)
    simulator.batch({n: keyed(range(100), 5) for n in "ab"})
    simulator.start(promised("5 us", memory), 2)
    for i in (1, 2):
        simulator.batch({n: keyed(range(100 * i, 100 * i + 100), 1000 * i) for n in "ab"})
    old = [meta for meta in simulator.metas().values() if meta.epoch == 0]
    assert old
    assert all(not meta.by_input().get("a") and not cold_pieces(meta) for meta in old)
    simulator.start(promised("5 us", memory), 2)
    assert simulator.plan is not None
    assert len(simulator.plan.live) == 1
    simulator.batch({})
    simulator.check()


def test_copies_that_a_budget_leaves_out_are_not_counted_as_own_rows() -> None:
    """Of a row that goes to both epochs one bucket counts. After some were cut, the number of copies among
    them was still that of before: the sketch of heavy keys had fewer than no rows, and the batch failed."""
    simulator = Simulator(np.random.default_rng(0), dict.fromkeys("ab", SCHEMA), calm=True)
    overload = bd.Overload(6, state_rows=8)
    simulator.start(query("40 us", overload=overload), 1)
    simulator.batch({n: rows(*range(20)) for n in "ab"})
    simulator.start(query("45 us", overload=overload), 1)
    for since in (70, 66, 68):
        simulator.batch({n: rows(*range(since, since + 20)) for n in "ab"})
    simulator.check(exact=False)


def test_rows_that_wait_are_joined_though_a_start_with_less_lateness_has_passed_them() -> None:
    """They were taken for rows that had been joined before, and what they meet was forgotten at once."""

    def counting(lateness: str) -> bd.JoinQuery:
        windows: dict[str, Any] = {"a": bd.CountWindow(2), "b": "20 us"}
        return bd.JoinQuery(
            [bd.Stream(n, "k", time="t", window=w, lateness=lateness) for n, w in windows.items()]
        )

    simulator = Simulator(np.random.default_rng(0), dict.fromkeys("ab", SCHEMA), calm=True)
    simulator.start(counting("10 us"), 2)
    simulator.batch({"a": rows(35, 40), "b": rows(15, 40)})  # the watermark is 30
    assert not simulator.found
    simulator.start(counting("0 us"), 2)  # and now 40
    simulator.batch({"a": rows(50), "b": rows(50)})
    found = {(r["a_id"], r["b_id"]) for r in simulator.found[-1].to_pylist()}
    assert found == {(35, 15), (35, 40), (40, 40)}
    simulator.check()


def test_intermediates_stay_while_rows_wait_that_a_start_with_less_lateness_has_passed() -> None:
    """What is stored was forgotten by the new watermark, though rows that it had passed waited to meet it."""

    def counting(lateness: str) -> bd.JoinQuery:
        windows: dict[str, Any] = {"a": "5 us", "b": "5 us", "c": bd.CountWindow(2)}
        streams = [bd.Stream(n, "k", time="t", window=w, lateness=lateness) for n, w in windows.items()]
        return bd.JoinQuery(streams, plan="linear")

    simulator = Simulator(np.random.default_rng(0), dict.fromkeys("abc", SCHEMA), calm=True)
    simulator.start(counting("10 us"), 2)
    simulator.batch({"a": rows(28, 40), "b": rows(29, 40), "c": rows(31, 40)})  # the watermark is 30
    simulator.start(counting("0 us"), 2)  # and now 40
    simulator.batch({n: rows(50) for n in "abc"})
    found = {(r["a_id"], r["b_id"], r["c_id"]) for r in simulator.found[-1].to_pylist()}
    assert found == {(28, 29, 31), (40, 40, 31), (40, 40, 40)}
    simulator.check()


def test_a_new_epoch_knows_which_streams_are_idle() -> None:
    """Its buckets began without: less lateness then moved the watermark of the old epoch's alone."""

    def idling(window: str, lateness: str) -> bd.JoinQuery:
        options: dict[str, Any] = {"time": "t", "window": window, "lateness": lateness}
        return bd.JoinQuery(
            [bd.Stream("a", "k", **options), bd.Stream("b", "k", idle_after="5 seconds", **options)]
        )

    simulator = Simulator(np.random.default_rng(0), dict.fromkeys("ab", SCHEMA), calm=True)
    simulator.start(idling("10 us", "20 us"), 2)
    simulator.batch({n: rows(30) for n in "ab"}, beats_s=100)
    simulator.batch({"a": rows(60)}, beats_s=105)
    simulator.start(idling("5 us", "0 us"), 2)
    simulator.batch({"a": rows(61)}, beats_s=200)  # all buckets have the same watermark, or this raises
    assert {meta.watermark_us for meta in simulator.metas().values()} == {60}


def test_all_epochs_hear_what_a_stream_promises() -> None:
    """A key is unique over all epochs, and a closed key's rows go wherever they are."""
    simulator = Simulator(np.random.default_rng(0), dict.fromkeys("ab", SCHEMA), calm=True)
    simulator.start(promised("10 us"), 2)
    simulator.batch({n: keyed(range(4), 5) for n in "ab"})
    simulator.start(promised("50 us"), 2)
    with pytest.raises(bd.BraidedError, match="no key comes twice"):
        simulator.batch({"a": keyed(range(1), 100)})

    flagged = SCHEMA.append(pa.field("p", pa.bool_()))

    def closing(window: str) -> bd.JoinQuery:
        options: dict[str, Any] = {"time": "t", "window": window, "lateness": "2 us", "punctuation": "p"}
        tuning = bd.Tuning(purge="immediate")
        return bd.JoinQuery([bd.Stream(n, "k", **options) for n in "ab"], tuning=tuning)

    simulator = Simulator(np.random.default_rng(0), dict.fromkeys("ab", flagged), calm=True)
    simulator.start(closing("10 us"), 2)
    data = keyed(range(4), 5)
    simulator.batch({n: data.append_column("p", pa.array([False] * 4)) for n in "ab"})
    simulator.start(closing("50 us"), 2)
    over = data.set_column(1, "id", pa.nulls(4, SCHEMA.field("id").type))
    simulator.batch({n: over.append_column("p", pa.array([True] * 4)) for n in "ab"})
    assert not simulator.held()
