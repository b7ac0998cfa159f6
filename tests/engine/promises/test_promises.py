"""Promises let rows go early and never change the result; broken ones are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import assert_same_bag, expected
from tests.promised import KINDS, batches_of, data_of, plainly, promised_stream, promised_table
from tests.seeds import seeds
from tests.workloads import names_of

PURGES: list[dict[str, Any]] = [
    {"purge": "batch"},
    {"purge": "immediate"},
    {"purge": bd.BatchPurge(every=5)},
    {"goal": "memory"},
]


def workload(
    seed: int,
    kinds: tuple[str, ...],
    *,
    rows: int = 30,
    keys: int = 12,
    key_type: str = "int64",
    **options: Any,
) -> tuple[bd.JoinQuery, dict[str, pa.Table]]:
    """A join of streams of some kinds, and rows that keep the promises."""
    rng = np.random.default_rng(seed)
    names = names_of(len(kinds))
    stream_options = options.pop("stream", {})
    streams = [promised_stream(n, kind, **stream_options) for n, kind in zip(names, kinds, strict=True)]
    tables = {
        n: promised_table(
            rng, kind, rows=rows, keys=keys, key_type=key_type, compound="key" in stream_options
        )
        for n, kind in zip(names, kinds, strict=True)
    }
    used = {s.name: (s.flag, s.upto) for s in streams}
    tables = {n: t.drop_columns([c for c in ("p", "upto") if c not in used[n]]) for n, t in tables.items()}
    return bd.JoinQuery(streams, **options), tables


def bare(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    return {n: data_of(t) for n, t in tables.items()}


def run(query: bd.JoinQuery, tables: dict[str, pa.Table], rows: int) -> tuple[pa.Table, bd.LocalJoin]:
    live = bd.LocalJoin(query)
    found = [live.push(b) for b in batches_of(tables, rows)]
    found = [t for t in found if t.num_columns]
    return pa.concat_tables(found), live


def the_oracle(query: bd.JoinQuery, tables: dict[str, pa.Table]) -> pa.Table:
    return expected(plainly(query), bare(tables))


@pytest.mark.parametrize(("seed", "options"), list(enumerate([*PURGES, *PURGES[:2]])), ids=str)
def test_oracle_every_pair_of_promises_changes_nothing(seed: int, options: dict[str, Any]) -> None:
    for one in KINDS:
        for other in KINDS:
            if (one, other) == ("any", "any"):
                continue
            query, tables = workload(seed, (one, other), tuning=bd.Tuning(**options))
            exact = the_oracle(query, tables)
            for rows in (1, 7, 1000)[seed % 3 :]:
                assert_same_bag(run(query, tables, rows)[0], exact)


@pytest.mark.parametrize("streams", [3, 4, 5])
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_several_streams_in_any_plan(seed: int, plan: Any, streams: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = tuple(rng.choice(KINDS[1:], streams).tolist())
    query, tables = workload(seed, kinds, rows=18, keys=9, plan=plan, tuning=bd.Tuning(purge="immediate"))
    exact = the_oracle(query, tables)
    for rows in (1, 5, 1000):
        assert_same_bag(run(query, tables, rows)[0], exact)


@pytest.mark.parametrize("key_type", ["uint64", "int8", "string", "timestamp", "decimal128"])
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_keys_of_every_kind(seed: int, key_type: str) -> None:
    ordered = key_type not in ("string", "decimal128")
    for kinds in [("unique", "punctuated"), ("clustered", "punctuated", "any"), ("ordered", "range")]:
        if not ordered and "range" in kinds:
            continue
        query, tables = workload(seed, kinds, rows=14, keys=9, key_type=key_type)
        for rows in (1, 6):
            assert_same_bag(run(query, tables, rows)[0], the_oracle(query, tables))


@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_keys_of_two_columns_windows_and_scans(seed: int) -> None:
    for index in ("auto", "scan"):
        query, tables = workload(
            seed,
            ("unique", "punctuated", "clustered"),
            stream={"key": ("k", "k2"), "window": "60 us"},
            tuning=bd.Tuning(index=index, purge="immediate"),
        )
        for rows in (1, 6):
            assert_same_bag(run(query, tables, rows)[0], the_oracle(query, tables))


@pytest.mark.parametrize(
    "kinds", [("unique", "punctuated"), ("punctuated",) * 3, ("ordered", "range", "clustered")]
)
def test_oracle_a_snapshot_in_between_changes_nothing(kinds: tuple[str, ...]) -> None:
    query, tables = workload(3, kinds)
    stopped, found = bd.LocalJoin(query), []
    for batch in batches_of(tables, 4):
        found.append(stopped.push(batch))
        before = stopped.stats()
        stopped = bd.LocalJoin(query).restore(stopped.snapshot())
        for name, seen in stopped.stats().streams.items():
            assert seen.live_rows == before.streams[name].live_rows
            assert seen.closed_keys == before.streams[name].closed_keys
    assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), the_oracle(query, tables))


def keyed(*keys: int, **columns: Any) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), **columns})


def one_to_many(**tuning: Any) -> bd.LocalJoin:
    """News items one-to-many access records, as in the paper."""
    return bd.LocalJoin(
        bd.JoinQuery(
            [bd.Stream("news", "k", unique=True), bd.Stream("access", "k", punctuation="p")],
            tuning=bd.Tuning(**tuning),
        )
    )


def access(*items: int) -> pa.Table:
    """Access records; a negative number is the punctuation of its key."""
    return keyed(*(abs(i) for i in items), p=pa.array([i < 0 for i in items], pa.bool_()))


def live_rows(live: bd.LocalJoin) -> dict[str, int]:
    return {n: s.live_rows for n, s in live.stats().streams.items()}


def test_one_to_many_with_punctuations_forgets_as_the_paper_says() -> None:
    live = one_to_many(purge="immediate")
    live.push({"news": keyed(1, 2), "access": access(1, 1, 3)})
    assert live_rows(live) == {"news": 2, "access": 1}  # joined records are dropped, 3 waits for its news
    live.push({"news": keyed(3), "access": access(-1)})
    assert live_rows(live) == {"news": 2, "access": 0}  # news item 1 is complete
    assert {n: s.closed_keys for n, s in live.stats().streams.items()} == {"news": 2, "access": 0}
    live.push({"access": access(-2, -3, -9)})
    assert live_rows(live) == {"news": 0, "access": 0}
    seen = live.stats().streams
    assert (seen["news"].closed_keys, seen["access"].closed_keys) == (0, 1)  # of 9 there may be news
    assert (seen["news"].purged_rows, seen["access"].purged_rows) == (3, 3)
    assert seen["access"].punctuations == 4
    assert live.push({"news": keyed(9)}).num_rows == 0
    assert live_rows(live) == {"news": 0, "access": 0}


def test_the_papers_own_example() -> None:
    """Figures 2 and 3: two results, the news item goes, and record 81 waits (golden M2)."""
    live = one_to_many(purge="immediate")
    assert live.push({"news": keyed(79), "access": access(79, 81, 79, -79)}).num_rows == 2
    assert live_rows(live) == {"news": 0, "access": 1}


def test_batch_purging_waits_for_enough_closures_or_idle_inputs() -> None:
    live = one_to_many(purge=bd.BatchPurge(every=3))
    live.push({"news": keyed(*range(10))})
    assert live_rows(live)["news"] == 10
    live.push({"access": access(5, -1, -2)})
    assert live_rows(live) == {"news": 10, "access": 0}
    live.push({"access": access(5, -3)})
    assert live_rows(live)["news"] == 7
    live.push({"access": access(5, -4)})
    assert live_rows(live)["news"] == 7
    live.push({"access": access()})
    assert live_rows(live)["news"] == 6


def test_rule_b_nothing_held_and_nothing_to_come() -> None:
    streams = [bd.Stream("a", "k"), bd.Stream("b", "k", punctuation="p"), bd.Stream("c", "k")]
    live = bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate")))
    live.push({"a": keyed(1, 2), "b": access(2, -1, -2), "c": keyed(1, 2)})
    assert live_rows(live) == {"a": 1, "b": 1, "c": 1}  # no b of key 1 was there or is to come
    live.push({"a": keyed(1)})
    assert live_rows(live)["a"] == 1  # dropped on the fly


def test_ordered_streams_need_no_memory_of_single_keys() -> None:
    streams = [bd.Stream("a", "k", arrival="ordered"), bd.Stream("b", "k", arrival="ordered")]
    live = bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate")))
    for n in range(0, 1000, 10):
        live.push({"a": keyed(*range(n, n + 10)), "b": keyed(*range(n, n + 10))})
        assert sum(live_rows(live).values()) <= 2
    assert live.stats().results == 1000
    assert [s.closed_keys for s in live.stats().streams.values()] == [0, 0]


@pytest.mark.parametrize(
    ("options", "first", "second", "told"),
    [
        (
            {"unique": True},
            [1, 2],
            [2],
            "a row with key 2 came, but unique=True says that no key comes twice",
        ),
        (
            {"unique": True},
            [1],
            [3, 3],
            "a row with key 3 came, but unique=True says that no key comes twice",
        ),
        (
            {"arrival": "ordered"},
            [5],
            [4],
            "a row with key 4 came, but arrival='ordered' says that no key comes below",
        ),
        ({"arrival": "descending"}, [5], [6], "no key comes above an earlier batch's"),
        ({"punctuation": "p"}, [1, -1], [1], "a punctuation had said that no more of them would come"),
        ({"punctuation": bd.RangePunctuation("p", "k")}, [7, -7], [6], "closed all keys up to a larger k"),
    ],
)
def test_a_broken_promise_raises_or_is_counted(
    options: dict[str, Any], first: list[int], second: list[int], told: str
) -> None:
    streams = [bd.Stream("a", "k", **options), bd.Stream("b", "k")]
    live = bd.LocalJoin(bd.JoinQuery(streams))
    live.push({"a": access(*first), "b": keyed(1)})
    before = live.stats()
    with pytest.raises(bd.BraidedError) as raised:
        live.push({"a": access(*second)})
    assert str(raised.value).startswith("stream 'a': ")
    assert told in str(raised.value)
    assert live.stats() == before
    live = bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(on_violation="count")))
    live.push({"a": access(*first), "b": keyed(1, 2, 3, 4, 5, 6)})
    live.push({"a": access(*second)})
    assert live.stats().streams["a"].violations == 1


def test_a_broken_cluster_is_told_in_the_batch_after() -> None:
    streams = [bd.Stream("a", "k", arrival="clustered"), bd.Stream("b", "k")]
    live = bd.LocalJoin(bd.JoinQuery(streams))
    live.push({"a": keyed(1), "b": keyed(1)})
    live.push({"a": keyed(1, 2)})
    live.push({"b": keyed(2)})
    live.push({"a": keyed(2, 3)})
    live.push({"a": keyed(3)})
    with pytest.raises(bd.BraidedError, match="arrival='clustered' says that rows of a key come together"):
        live.push({"a": keyed(2)})


def test_a_key_is_forgotten_when_all_streams_are_closed_for_it() -> None:
    streams = [bd.Stream(n, "k", punctuation="p") for n in "abc"]
    live = bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate")))
    for n in range(1, 200, 2):
        live.push({s: access(n, -n) for s in "abc"})
        assert sum(live_rows(live).values()) == 0
        assert sum(s.closed_keys for s in live.stats().streams.values()) == 0
    live.push({"a": access(-1000, -3000), "b": access(-1000)})
    assert [s.closed_keys for s in live.stats().streams.values()] == [2, 1, 0]
    live.push({"c": access(*range(-2000, -1500))})
    assert [s.closed_keys for s in live.stats().streams.values()] == [2, 1, 500]
    assert [s.closed_entries for s in live.stats().streams.values()] == [2, 1, 1]  # neighbours are one


@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_promises_that_cannot_be_used_do_no_harm(seed: int) -> None:
    counted, tables = workload(seed, ("unique", "punctuated"), stream={"window": bd.CountWindow(2)})
    streams = [promised_stream("s0", "unique", key=None), promised_stream("s1", "punctuated", key=None)]
    keyless = bd.JoinQuery(streams, where="s0.k = s1.k")
    assert "What streams promise is not used, because windows count rows." in counted.explain()
    assert "not used, because streams have no key." in keyless.explain()
    data = {n: data_of(t) for n, t in tables.items()}
    for query in (counted, keyless):
        found = bd.run_local(query, tables, batch_rows=5)
        assert_same_bag(found, bd.run_local(plainly(query), data))
        assert found.num_rows
    ends = pa.table({"k": pa.array([1, None], pa.int64()), "p": [False, True]})  # it failed without a key
    live = bd.LocalJoin(bd.JoinQuery([bd.Stream("a", punctuation="p"), bd.Stream("b")], where="a.k = b.k"))
    assert live.push({"a": ends, "b": pa.table({"k": [1]})}).num_rows == 1
    assert live.stats().streams["a"].punctuations == 1


def test_mistakes_about_punctuations_are_named() -> None:
    with pytest.raises(bd.BraidedError, match="punctuation column 'k' is its key or time"):
        bd.Stream("a", "k", punctuation="k")
    with pytest.raises(bd.BraidedError, match="RangePunctuation needs a key of one column; it has 0"):
        range_only = bd.Stream("a", punctuation=bd.RangePunctuation("p", "k"))
        bd.JoinQuery([range_only, bd.Stream("b")], where="a.k = b.k")
    with pytest.raises(bd.BraidedError, match="RangePunctuation needs a key of one column"):
        bd.JoinQuery(
            [
                bd.Stream("a", ("k", "l"), punctuation=bd.RangePunctuation("p", "k")),
                bd.Stream("b", ("k", "l")),
            ]
        )
    flagged = bd.JoinQuery([bd.Stream("a", "k", punctuation="p"), bd.Stream("b", "k")])
    with pytest.raises(bd.BraidedError, match="punctuation column 'p' has type int64; it must be boolean"):
        bd.LocalJoin(flagged).push({"a": keyed(1, p=pa.array([1]))})
    with pytest.raises(bd.BraidedError, match=r"no column 'p' \(used as punctuation\)"):
        bd.LocalJoin(flagged).push({"a": keyed(1)})
    ranged = bd.JoinQuery(
        [bd.Stream("a", "k", punctuation=bd.RangePunctuation("p", "k")), bd.Stream("b", "k")]
    )
    with pytest.raises(bd.BraidedError, match="a RangePunctuation needs a key of numbers, dates or times"):
        bd.LocalJoin(ranged).push({"a": pa.table({"k": ["x"], "p": [True]})})


def test_results_leave_punctuation_columns_out_and_null_flags_are_data() -> None:
    streams = [bd.Stream("a", "k", punctuation=bd.RangePunctuation("p", "upto")), bd.Stream("b", "k")]
    found = bd.run_local(
        bd.JoinQuery(streams),
        {
            "a": keyed(1, 1, p=pa.array([None, True]), upto=pa.array([0, 1])),
            "b": keyed(1),
        },
    )
    assert found.column_names == ["a_k", "b_k"]
    assert found.num_rows == 1


# what a review found


def times(*us: int | None) -> pa.Array:
    return pa.array(us, pa.timestamp("us"))


def test_ranges_and_orders_are_purged_in_batches_too() -> None:
    """Moved ranges were counted once, however often they moved, so batch purging never came."""
    ranged = [bd.Stream(n, "k", punctuation=bd.RangePunctuation("p", "k")) for n in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(ranged, tuning=bd.Tuning(purge=bd.BatchPurge(every=8))))
    ordered = [bd.Stream(n, "k", arrival="ordered") for n in "ab"]
    other = bd.LocalJoin(bd.JoinQuery(ordered))
    for n in range(0, 500, 10):
        rows = access(*range(n + 1, n + 11), -n)
        live.push({"a": rows, "b": rows})
        assert sum(live_rows(live).values()) <= 2 * 10 * 5
        other.push({"a": keyed(*range(n, n + 10)), "b": keyed(*range(n, n + 10))})
        assert sum(live_rows(other).values()) <= 2 * 10 * 11


@pytest.mark.parametrize("lost", ["late", "null time", "null key"])
@pytest.mark.parametrize("key_type", [pa.int64(), pa.string()])
def test_rows_that_cannot_join_do_not_end_a_cluster(lost: str, key_type: pa.DataType) -> None:
    streams = [
        bd.Stream("a", "k", time="t", window="10 us", arrival="clustered"),
        bd.Stream("b", "k", time="t", window="10 us"),
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams))

    def rows(key: int | None, at: int | None) -> pa.Table:
        return pa.table({"k": pa.array([None if key is None else key]).cast(key_type), "t": times(at)})

    live.push({"a": rows(5, 100), "b": rows(5, 100)})
    key, at = {"late": (5, 3), "null time": (5, None), "null key": (None, 101)}[lost]
    live.push({"a": rows(key, at), "b": rows(5, 101)})
    assert live.push({"a": rows(5, 102)}).num_rows == 2


def test_types_of_keys_that_get_known_later() -> None:
    """What small unsigned keys closed must mean the same once 64-bit ones are known."""
    ordered = bd.LocalJoin(bd.JoinQuery([bd.Stream("a", "k", arrival="ordered"), bd.Stream("b", "k")]))
    narrow, wide = pa.uint32(), pa.uint64()
    ordered.push({"a": pa.table({"k": pa.array([0], narrow)})})
    ordered.push({"b": pa.table({"k": pa.array([0, 1, 2], wide)})})
    assert ordered.push({"a": pa.table({"k": pa.array([0, 1, 2], narrow)})}).num_rows == 3
    ranged = bd.LocalJoin(
        bd.JoinQuery(
            [bd.Stream("a", "k", punctuation=bd.RangePunctuation("p", "u")), bd.Stream("b", "k")],
            tuning=bd.Tuning(purge="immediate"),
        )
    )

    def closing(key: int, upto: int, *, closes: bool) -> pa.Table:
        columns = {"k": pa.array([key], narrow), "u": pa.array([upto], narrow)}
        return pa.table({**columns, "p": pa.array([closes])})

    ranged.push({"a": closing(10, 0, closes=False)})
    ranged.push({"b": pa.table({"k": pa.array([7, 3], wide)})})
    ranged.push({"a": closing(0, 5, closes=True)})
    assert live_rows(ranged) == {"a": 1, "b": 1}
    assert ranged.push({"a": closing(7, 0, closes=False)}).num_rows == 1


@pytest.mark.parametrize(
    "case", ["unique clustered", "clustered punctuated", "repeated", "passed by an order"]
)
def test_closed_keys_are_forgotten_however_often_they_are_closed(case: str) -> None:
    text = case == "unique clustered"
    options: dict[str, dict[str, Any]] = {
        "unique clustered": {"unique": True, "arrival": "clustered"},
        "clustered punctuated": {"arrival": "clustered", "punctuation": "p"},
        "repeated": {"punctuation": "p"},
        "passed by an order": {"punctuation": "p"},
    }
    other: dict[str, Any] = {"arrival": "ordered"} if case == "passed by an order" else {"punctuation": "p"}
    streams = [bd.Stream("a", "k", **options[case]), bd.Stream("b", "k", **other)]
    live = bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate")))

    def rows(*items: int) -> pa.Table:
        table = access(*items)
        return table.set_column(0, "k", table["k"].cast(pa.string())) if text else table

    for n in range(2, 200, 2):
        if case == "passed by an order":
            live.push({"a": rows(-n), "b": keyed(n + 1)})
        else:
            live.push({"a": rows(n, -n) if not text else rows(n), "b": rows(n, -n)})
            live.push({"a": rows(-n) if case == "repeated" else rows(), "b": rows()})
    assert sum(s.closed_keys for s in live.stats().streams.values()) <= 2
    assert sum(live_rows(live).values()) <= (99 if case == "passed by an order" else 2)


def test_where_rows_expire_closed_keys_do_too() -> None:
    streams = [
        bd.Stream("a", "k", time="t", window="10 us", unique=True),
        bd.Stream("b", "k", time="t", window="10 us"),
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams))
    for n in range(300):
        rows = keyed(7 * n, t=times(n))
        assert live.push({"a": rows, "b": rows}).num_rows == 1
        assert live.stats().streams["a"].closed_keys <= 40
        if n % 50 == 20:
            live = bd.LocalJoin(live.query).restore(live.snapshot())


@pytest.mark.parametrize(
    ("type_", "key"), [(pa.uint64(), 0), (pa.int64(), -(2**63)), (pa.int64(), 2**63 - 1)]
)
def test_the_smallest_and_the_largest_key_are_closed_like_others(type_: pa.DataType, key: int) -> None:
    live = bd.LocalJoin(
        bd.JoinQuery(
            [bd.Stream("a", "k", unique=True), bd.Stream("b", "k", punctuation="p")],
            tuning=bd.Tuning(purge="immediate"),
        )
    )

    def rows(*, closes: bool | None = None) -> pa.Table:
        table = pa.table({"k": pa.array([key], type_)})
        return table if closes is None else table.append_column("p", pa.array([closes]))

    live.push({"a": rows(), "b": rows(closes=False)})
    with pytest.raises(bd.BraidedError, match="unique=True says that no key comes twice"):
        live.push({"a": rows()})
    live.push({"b": rows(closes=True)})
    assert live_rows(live) == {"a": 0, "b": 0}


def test_a_range_may_close_everything() -> None:
    ranged = [bd.Stream(n, "k", punctuation=bd.RangePunctuation("p", "k")) for n in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(ranged, tuning=bd.Tuning(purge="immediate")))
    live.push({n: access(1, 2, 3) for n in "ab"})
    everything = keyed(2**63 - 1, p=pa.array([True]))
    live.push(dict.fromkeys("ab", everything))
    assert live_rows(live) == {"a": 0, "b": 0}
    with pytest.raises(bd.BraidedError, match="closed all keys up to a larger k"):
        live.push({"a": access(5)})


def test_rows_purged_from_intermediates_do_not_come_back() -> None:
    """Intermediates made anew after rationing held keys that were complete."""
    streams = [bd.Stream(n, "k", punctuation="p") for n in "abc"]
    tuning = bd.Tuning(purge="immediate")
    live = bd.LocalJoin(bd.JoinQuery(streams, plan="linear", overload=bd.Overload(30), tuning=tuning))
    live.push({"a": access(*range(1, 41)), "b": access(*range(1, 41)), "c": access(99)})
    live.push({n: access(*range(-15, 0)) for n in "abc"})
    for _ in range(6):
        live.push({n: access(100) if n == "a" else access() for n in "abc"})
    held = live.stats().intermediates["(a b)"].live_rows
    assert held <= 25


@pytest.mark.parametrize("of", ["a key", "a range"])
def test_a_punctuation_that_names_a_value_of_another_column_closes_nothing(of: str) -> None:
    """It closed the whole key, and rows with other values, which it does not speak of, were refused."""
    punctuation: Any = "p" if of == "a key" else bd.RangePunctuation("p", "k")
    streams = [
        bd.Stream("a", "k", time="t", window="9 s", punctuation=punctuation),
        bd.Stream("b", "k", time="t", window="9 s"),
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate")))

    def rows(user: list[str | None], p: list[bool]) -> pa.Table:
        times = pa.array([1] * len(p)).cast(pa.timestamp("us"))
        return pa.table({"k": [7] * len(p), "user": pa.array(user, pa.string()), "p": p, "t": times})

    partner = rows(["x"], [False]).drop_columns(["p"])
    live.push({"a": rows(["bob", "bob", None], [False, True, False]), "b": partner})
    assert live.push({"a": rows(["eve"], [False])}).num_rows == 1
    seen = live.stats().streams["a"]
    assert (seen.rows_in, seen.punctuations, seen.partial_punctuations, seen.violations) == (3, 1, 1, 0)
    live.push({"a": rows([None], [True])})
    a, b = (live.stats().streams[n] for n in "ab")
    assert (a.punctuations, a.partial_punctuations, b.live_rows) == (2, 1, 0)
    with pytest.raises(bd.BraidedError, match="a row with key 7 came"):
        live.push({"a": rows(["eve"], [False])})
