"""Trees of operators and join graphs: every plan gives the bag of the definition."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.policies.driver import DRIVER_POLICIES
from braided.query.plan_tree import Plan
from braided.testing import assert_same_bag, bag, expected
from tests.seeds import seeds
from tests.workloads import KEY_TYPES, names_of, random_table, random_tables, stream

FOUR = names_of(4)
PLANS: dict[str, Any] = {
    "linear": "linear",
    "bushy": (("s0", "s1"), ("s2", "s3")),
    "right-deep": ("s3", ("s1", ("s2", "s0"))),
    "wide below": (("s0", "s1", "s2"), "s3"),
    "wide above": (("s0", "s3"), "s1", "s2"),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_every_plan_gives_the_same_bag(plan: str, seed: int) -> None:
    tables = random_tables(seed, FOUR, rows=45, keys=3)
    driver: Any = list(DRIVER_POLICIES)[seed % 5]
    windows = np.random.default_rng(seed).permutation([6, 14, 25, 60])
    query = bd.JoinQuery(
        [stream(n, f"{w} us") for n, w in zip(FOUR, windows, strict=True)],
        within={("s0", "s2"): ("-5 us", "20 us")} if seed % 2 else None,
        where="s0.n > s2.n" if seed % 3 == 0 else None,
        plan=PLANS[plan],
        tuning=bd.Tuning(driver, index=("auto", "hash", "scan")[seed % 3]),
    )
    wanted = expected(query, tables)
    for batch_rows in (1, 7, 1000):
        assert_same_bag(bd.run_local(query, tables, batch_rows=batch_rows), wanted)


@pytest.mark.parametrize("window", [None, "unbounded"])
def test_oracle_a_tree_without_windows(window: Any) -> None:
    tables = random_tables(3, FOUR, rows=14, keys=4)
    query = bd.JoinQuery([bd.Stream(n, key="k", window=window) for n in FOUR], plan="linear")
    assert_same_bag(bd.run_local(query, tables, batch_rows=5), expected(query, tables))


@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_oracle_a_tree_on_any_key_type(key_type: str) -> None:
    tables = random_tables(5, FOUR[:3], rows=40, key_type=key_type)
    query = bd.JoinQuery([stream(n) for n in FOUR[:3]], plan="linear")
    assert_same_bag(bd.run_local(query, tables, batch_rows=9), expected(query, tables))


def graph_tables(seed: int, names: list[str], **options: Any) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    tables = {n: random_table(rng, int(rng.integers(20, 46)), keys=4, **options) for n in names}
    return {
        n: t.append_column("m", pa.array(rng.integers(0, 4, t.num_rows), mask=rng.random(t.num_rows) < 0.04))
        for n, t in tables.items()
    }


GRAPHS: dict[str, tuple[list[tuple[str, str]], list[Any]]] = {
    "chain": ([("s0.k", "s1.k"), ("s1.m", "s2.m"), ("s2.k", "s3.k")], ["mjoin", "linear"]),
    "star": ([("s0.k", "s1.k"), ("s0.m", "s2.m"), ("s0.n", "s3.n")], ["mjoin", "linear"]),
    "cycle": ([("s0.k", "s1.k"), ("s1.m", "s2.m"), ("s2.k", "s3.k"), ("s3.m", "s0.m")], ["mjoin", "linear"]),
    "two columns": ([("s0.k", "s1.k"), ("s0.m", "s1.m"), ("s1.k", "s2.k"), ("s2.m", "s3.m")], ["mjoin"]),
    "one column twice": (
        [("s0.k", "s1.k"), ("s0.m", "s1.k"), ("s1.k", "s2.k"), ("s2.m", "s3.m")],
        ["mjoin", (("s3", "s2"), ("s1", "s0"))],
    ),
    "implied": (
        [("s0.k", "s1.k"), ("s1.k", "s2.k"), ("s2.k", "s3.k")],
        [(("s0", "s3"), ("s1", "s2")), "mjoin"],
    ),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_join_graphs_with_several_keys(graph: str, seed: int) -> None:
    on, plans = GRAPHS[graph]
    tables = graph_tables(seed, FOUR)
    streams = [
        bd.Stream(n, time="t", window=f"{20 + 9 * i} us", lateness="12 us") for i, n in enumerate(FOUR)
    ]
    wanted = expected(bd.JoinQuery(streams, on=on), tables)
    for plan in plans:
        query = bd.JoinQuery(streams, on=on, plan=plan)
        for batch_rows in (3, 1000):
            assert_same_bag(bd.run_local(query, tables, batch_rows=batch_rows), wanted)


def test_oracle_a_join_graph_with_text_keys_that_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braided.engine.sides.keys._COLLISION_MASK", 1)
    tables = graph_tables(1, FOUR, key_type="string")
    streams = [bd.Stream(n, time="t", window="40 us", lateness="12 us") for n in FOUR]
    for on, plans in GRAPHS.values():
        if ("s0.m", "s1.k") in on:
            continue  # compares text with numbers
        for plan in plans:
            query = bd.JoinQuery(streams, on=on, plan=plan)
            assert_same_bag(bd.run_local(query, tables, batch_rows=11), expected(query, tables))


def test_on_with_one_attribute_is_the_flat_join_by_key() -> None:
    tables = random_tables(2, FOUR[:3])
    by_key = bd.JoinQuery([stream(n) for n in FOUR[:3]])
    by_on = bd.JoinQuery([stream(n) for n in FOUR[:3]], on=[("s0.k", "s1.k"), ("s2.k", "s1.k")])
    assert by_on.tree == ("s0", "s1", "s2")
    assert bag(bd.run_local(by_on, tables)) == bag(bd.run_local(by_key, tables))


def test_a_self_join_is_one_table_under_two_names() -> None:
    rows = pa.table({"id": [1, 2, 3], "parent": pa.array([None, 1, 1]), "t": pa.array([0, 1, 2])})
    streams = [bd.Stream(n, time="t", window="10 us") for n in ("child", "parent")]
    query = bd.JoinQuery(
        streams, on=[("child.parent", "parent.id")], select={"c": "child.id", "p": "parent.id"}
    )
    found = bd.run_local(query, {"child": rows, "parent": rows}, batch_rows=2)
    assert bag(found.select(["c", "p"])) == bag(pa.table({"c": [2, 3], "p": [1, 1]}))


@pytest.mark.parametrize("plan", PLANS)
def test_oracle_streams_may_come_one_after_the_other(plan: str) -> None:
    tables = random_tables(8, FOUR, rows=25, keys=2)
    query = bd.JoinQuery([bd.Stream(n, key="k") for n in FOUR], plan=PLANS[plan])
    live = bd.LocalJoin(query)
    found = [live.push({n: tables[n].slice(0, 20)}) for n in FOUR]
    found += [live.push({n: tables[n].slice(20)}) for n in FOUR]
    assert_same_bag(pa.concat_tables([t for t in found if t.num_rows]), expected(query, tables))


@pytest.mark.parametrize("after", PLANS)
@pytest.mark.parametrize("before", ["mjoin", *PLANS])
def test_oracle_a_saved_state_goes_on_in_any_plan(before: str, after: str) -> None:
    tables = random_tables(4, FOUR, rows=40, keys=3)
    streams = [stream(n, "60 us") for n in FOUR]
    cut = {n: t.num_rows // 2 for n, t in tables.items()}
    first = bd.LocalJoin(bd.JoinQuery(streams, plan=PLANS.get(before, before)))
    found = [first.push({n: t.slice(0, cut[n]) for n, t in tables.items()})]
    second = bd.LocalJoin(bd.JoinQuery(streams, plan=PLANS[after])).restore(first.snapshot())
    found += [second.push({n: t.slice(cut[n]) for n, t in tables.items()}), second.end()]
    assert_same_bag(pa.concat_tables(found), expected(second.query, tables))


def held(live: bd.LocalJoin) -> Any:
    """All that is known of a join but how much room it has."""
    seen = live.stats().to_dict()
    for part in ("streams", "intermediates"):
        for said in seen[part].values():
            del said["live_bytes"]
    return seen


@pytest.mark.parametrize("fail_at", range(1, 8))
def test_a_batch_that_fails_in_a_tree_leaves_nothing_behind(
    fail_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = random_tables(6, FOUR, rows=40, keys=6)
    query = bd.JoinQuery([stream(n, "200 us") for n in FOUR], plan=PLANS["bushy"])
    live = bd.LocalJoin(query)
    half = {n: t.slice(0, 10) for n, t in tables.items()}
    found = [live.push(half)]
    before = held(live)
    calls = iter(range(1, 100))
    from braided.engine.sides.side import SideState

    plain = SideState.append

    def failing(side: SideState, rows: Any) -> None:
        plain(side, rows)
        if next(calls) == fail_at:
            raise MemoryError("no room")

    rest = {n: t.slice(10) for n, t in tables.items()}
    with monkeypatch.context() as patch:
        patch.setattr(SideState, "append", failing)
        if fail_at <= 6:
            with pytest.raises(MemoryError):
                live.push(rest)
            assert held(live) == before
            patch.undo()
            found.append(live.push(rest))
        else:
            found.append(live.push(rest))
    assert_same_bag(pa.concat_tables(found), expected(query, tables))


def test_intermediates_expire_with_their_first_component() -> None:
    streams = [
        bd.Stream(n, key="k", time="t", window=w)
        for n, w in (("a", "10 us"), ("b", "100 us"), ("c", "100 us"))
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams, plan="linear"))

    def push(at: int) -> int:
        rows = pa.table({"k": [1], "t": [at]})
        live.push(dict.fromkeys("abc", rows))
        return live.stats().intermediates["(a b)"].live_rows

    assert push(0) == 1
    assert push(5) == 4
    held = [push(at) for at in (30, 31, 32)]
    assert held[0] < 10  # pairs with the first two rows of a are gone once the watermark passed 15
    seen = live.stats()
    assert seen.intermediates["(a b)"].expired_rows >= 4
    assert seen.half_joins["(a b)", "c"].probes > 0
    assert seen.to_dict()["intermediates"]["(a b)"]["live_rows"] == held[-1]


def test_state_windows_on_intermediates_give_a_subset() -> None:
    from braided.engine.engine import Engine
    from braided.engine.site import Site

    tables = random_tables(9, FOUR[:3], rows=60, keys=2)
    query = bd.JoinQuery([stream(n, "80 us") for n in FOUR[:3]], plan="linear")
    exact = bag(expected(query, tables))
    node: Plan = ("s0", "s1")
    for rows in (1, 8, 10_000):
        engine = Engine(query, Site(state_windows={node: rows}))
        pieces = []
        for at in range(0, 60, 6):
            batch = {n: t.slice(at, 6) for n, t in tables.items()}
            pieces += list(engine.step(engine.accept(batch)))
        found = bag(pa.concat_tables(pieces))
        assert not found - exact
        assert (found == exact) == (rows == 10_000)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"plan": "bushy"}, "plan must be 'mjoin', 'linear' or nested tuples"),
    ({"plan": (("a", "b"), "c")}, "stream 'd' is missing"),
    ({"plan": (("a", "b"), "c", "x", "d")}, "no stream 'x'"),
    ({"plan": (("a", "b"), ("c", "d", "a"))}, "two names"),
    ({"plan": (("a",), "b", "c", "d")}, "at least two inputs"),
    ({"plan": (1, "b")}, "a node must be a stream's name"),
    ({"on": "a.k"}, "pairs such as"),
    ({"on": []}, "names no pair"),
    ({"on": [("a.k", "b.k", "c.k")]}, "each entry is a pair"),
    ({"on": [("a.k", "b")]}, "each entry is a pair"),
    ({"on": [("a.k", "a.m")]}, "two different streams"),
    ({"on": [("a.k", "z.m")]}, "no stream 'z'"),
    ({"on": [("a.k", "b.k"), ("c.k", "d.k")]}, "no equality joins stream 'c'"),
    (
        {"on": [("a.k", "b.k"), ("b.m", "c.m"), ("c.k", "d.k")], "plan": (("a", "c"), ("b", "d"))},
        "the inputs a, c of one operator have no key in common",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_plans_and_graphs_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    streams = [bd.Stream(n, key="k", time="t", window="1 second") for n in "abcd"]
    with pytest.raises(bd.BraidedError, match=message):
        bd.JoinQuery(streams, **options)


def test_count_windows_in_a_tree_do_not_go_with_memory() -> None:
    streams = [bd.Stream(n, key="k", time="t", window=bd.CountWindow(5)) for n in "abc"]
    with pytest.raises(bd.BraidedError, match=r"'a': memory does not go with .* several operators"):
        bd.JoinQuery(streams, plan="linear", memory=bd.Memory(10_000))
    pairs = [("a.k", "b.k"), ("b.k", "c.k"), ("a.m", "b.m")]  # one operator, and two keys of a and b
    both = [dataclasses.replace(s, key=None) for s in streams]
    with pytest.raises(bd.BraidedError, match=r"counts rows by \('k', 'm'\).* to disk by \('k',\)"):
        bd.JoinQuery(both, pairs, memory=bd.Memory(10_000))


def test_a_plan_is_no_meaning_but_on_is() -> None:
    streams = [bd.Stream(n, key="k") for n in "abc"]
    flat, linear = bd.JoinQuery(streams), bd.JoinQuery(streams, plan="linear")
    assert flat.fingerprint() == linear.fingerprint()
    assert bd.JoinQuery.from_dict(linear.to_dict()) == linear
    graph = bd.JoinQuery(streams, on=[("b.k", "a.k"), ("b.m", "c.m")], plan=(("a", "b"), "c"))
    assert graph.fingerprint() != flat.fingerprint()
    assert bd.JoinQuery.from_dict(graph.to_dict()) == graph
    assert "on was None" in str(graph.difference(flat.meaning()))


def test_key_types_of_a_graph_must_meet() -> None:
    query = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], on=[("a.x", "b.y")])
    with pytest.raises(bd.BraidedError, match=r"a\.x is int64, b\.y is string"):
        bd.run_local(query, {"a": pa.table({"x": [1]}), "b": pa.table({"y": ["1"]})})
