"""Promises about one of several keys (`on`): rows go once they can be in no result to come, and no sooner."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.sides.keys import keys_in
from braided.query.errors import BrokenPromise
from braided.testing import assert_same_bag, bag, expected
from tests.promised import KINDS, batches_of, data_of, plainly, promised_stream, promised_table
from tests.seeds import seeds
from tests.workloads import KEY_TYPES

On = Sequence[tuple[str, str]]

STAR: On = [("orders.customer", "customers.id"), ("orders.item", "items.id")]
CHAIN: On = [("a.x", "b.x"), ("b.y", "c.y"), ("c.z", "d.z")]
TRIANGLE: On = [("a.x", "b.x"), ("b.y", "c.y"), ("a.z", "c.z")]
PAIR: On = [("a.x", "b.x"), ("a.y", "b.y"), ("b.z", "c.z")]
WIDE: On = [("a.x", "b.x"), ("a.x", "c.x"), ("c.y", "d.y"), ("b.y", "d.y")]
SHAPES = {"star": STAR, "chain": CHAIN, "triangle": TRIANGLE, "pair": PAIR, "wide": WIDE}


def columns_of(on: On) -> dict[str, list[str]]:
    """The joined columns of each stream."""
    columns: dict[str, list[str]] = {}
    for stream, column in (text.split(".") for pair in on for text in pair):
        if column not in columns.setdefault(stream, []):
            columns[stream].append(column)
    return columns


def workload(
    seed: int,
    on: On,
    *,
    rows: int = 14,
    keys: int = 5,
    key_type: str = "int64",
    kinds: Mapping[str, str] | None = None,
    stream: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[bd.JoinQuery, dict[str, pa.Table]]:
    """A join of streams that each promise something about one of their columns, or nothing."""
    rng = np.random.default_rng(seed)
    allowed = [k for k in KINDS if key_type in ("int64", "timestamp") or k != "range"]
    streams, tables = [], {}
    for name, columns in columns_of(on).items():
        kind = kinds[name] if kinds else str(rng.choice(allowed))
        promised = columns[int(rng.integers(len(columns)))]
        made = promised_stream(name, kind, key=promised, **(stream or {}))
        streams.append(made)
        table = promised_table(rng, kind, rows=rows, keys=keys, key_type=key_type).drop_columns(["k2"])
        table = table.rename_columns([promised if c == "k" else c for c in table.column_names])
        closing = table["p"].to_numpy(zero_copy_only=False)
        for column in columns:
            if column != promised:
                values = KEY_TYPES[key_type](rng.integers(0, keys, table.num_rows))
                masked = pa.array(
                    [None if p else v for p, v in zip(closing, values, strict=True)], values.type
                )
                table = table.append_column(column, masked)
        tables[name] = table.drop_columns([c for c in ("p", "upto") if c not in (made.flag, made.upto)])
    return bd.JoinQuery(streams, on, **options), tables


def run(query: bd.JoinQuery, tables: Mapping[str, pa.Table], rows: int) -> tuple[pa.Table, bd.LocalJoin]:
    live = bd.LocalJoin(query)
    found = [live.push(batch) for batch in batches_of(dict(tables), rows)]
    return pa.concat_tables([t for t in found if t.num_columns]), live


def the_oracle(query: bd.JoinQuery, tables: Mapping[str, pa.Table]) -> pa.Table:
    return expected(plainly(query), {n: data_of(t) for n, t in tables.items()})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
@pytest.mark.parametrize("seed", seeds(4))
def test_oracle_promises_about_any_column_change_nothing(seed: int, plan: Any, shape: str) -> None:
    purges: list[Any] = ["immediate", "batch", bd.BatchPurge(every=5)]
    tuning = bd.Tuning(purge=purges[seed % 3])
    query, tables = workload(seed, SHAPES[shape], plan=plan, tuning=tuning)
    exact = the_oracle(query, tables)
    for rows in (1, 4, 1000):
        assert_same_bag(run(query, tables, rows)[0], exact)


@pytest.mark.parametrize("key_type", ["uint64", "string", "timestamp", "decimal128"])
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_keys_of_every_type_and_windows(seed: int, key_type: str) -> None:
    for on in SHAPES.values():
        window = {"window": "70 us", "lateness": "5 us"} if seed % 2 else {}
        query, tables = workload(
            seed, on, key_type=key_type, stream=window, tuning=bd.Tuning(purge="immediate")
        )
        for rows in (2, 5):
            assert_same_bag(run(query, tables, rows)[0], the_oracle(query, tables))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_a_state_goes_on_with_any_plan(seed: int, shape: str) -> None:
    """What operators made is made again from rows of streams: these must live as long."""
    query, tables = workload(seed, SHAPES[shape], tuning=bd.Tuning(purge="immediate"))
    plans: list[Any] = ["linear", "mjoin"]
    for changes in itertools.product((True, False), repeat=2):
        live, found = bd.LocalJoin(query), []
        for at, batch in enumerate(batches_of(tables, 3)):
            found.append(live.push(batch))
            before = live.stats().streams
            if changes[at % 2]:
                changed = dataclasses.replace(query, plan=plans[at % 2])
                live = bd.LocalJoin(changed).restore(live.snapshot())
            for name, of_stream in live.stats().streams.items():
                assert of_stream.live_rows == before[name].live_rows
                assert of_stream.closed_keys == before[name].closed_keys
        assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), the_oracle(query, tables))


# what is needed, by definition


def needed_rows(
    query: bd.JoinQuery, live: bd.LocalJoin, came: Mapping[str, list[dict[str, Any]]]
) -> dict[str, int]:
    """How many rows of each stream may be in a result to come, by trying everything.

    A result to come has a row to come of one stream at least. Such a row may have any value that its stream
    is not closed for; where no other row decides the value, it is one that never came.
    """
    feature, core = live._engine.core.features.get("promises"), live._engine.core
    graph, names = query.graph, query.names
    having = {n: {i: c for i, a in enumerate(graph.attributes) for s, c in a if s == n} for n in names}
    needed: dict[str, set[int]] = {n: set() for n in names}

    def closed(name: str, values: Mapping[int, Any]) -> bool:
        intake = core.streams[names.index(name)]
        assert intake is not None
        promised = [graph.attributes.index(a) for a in query.promised(intake.layout.stream)]
        if not promised or any(i not in values for i in promised):
            return False
        types = [intake.layout.schema.field(having[name][i]).type for i in promised]
        columns = [pa.array([values[i]], type_) for i, type_ in zip(promised, types, strict=True)]
        return bool(feature._is_closed(name, keys_in(intake._promised, columns))[0])

    def extend(at: int, chosen: dict[str, int | None], values: dict[int, Any]) -> None:
        if at < len(names):
            name = names[at]
            extend(at + 1, {**chosen, name: None}, values)
            for number, row in enumerate(came[name]):
                own = {i: row[column] for i, column in having[name].items()}
                if all(values.get(i, value) == value for i, value in own.items()):
                    extend(at + 1, {**chosen, name: number}, {**values, **own})
            return
        coming = [n for n, place in chosen.items() if place is None]
        if coming and not any(closed(n, values) for n in coming):
            for name, place in chosen.items():
                if place is not None:
                    needed[name].add(place)

    extend(0, {}, {})
    return {name: len(rows) for name, rows in needed.items()}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
@pytest.mark.parametrize("seed", seeds(3))
def test_what_is_stored_is_what_may_still_join(seed: int, plan: Any, shape: str) -> None:
    """Exactly, but for keys that go round in a circle: there some rows stay longer."""
    query, tables = workload(
        seed, SHAPES[shape], rows=7, keys=4, plan=plan, tuning=bd.Tuning(purge="immediate")
    )
    live = bd.LocalJoin(query)
    came: dict[str, list[dict[str, Any]]] = {name: [] for name in query.names}
    for batch in batches_of(tables, 3):
        live.push(batch)
        for name, table in batch.items():
            came[name] += data_of(table).to_pylist()
        needed, streams = needed_rows(query, live, came), live.stats().streams
        stored = {name: of_stream.live_rows for name, of_stream in streams.items()}
        if shape in ("star", "chain", "pair"):
            assert stored == needed
        assert all(needed[name] <= stored[name] for name in needed)
        assert sum(stored.values()) <= 1.3 * sum(needed.values()) + 3


def shop(**tuning: Any) -> bd.JoinQuery:
    """Orders of customers and items; orders say when a customer orders no more."""
    streams = [
        bd.Stream("orders", "customer", punctuation="over"),
        bd.Stream("customers", unique=True),
        bd.Stream("items", unique=True),
    ]
    return bd.JoinQuery(streams, STAR, tuning=bd.Tuning(**tuning))


def orders(*pairs: tuple[int, int | None]) -> pa.Table:
    customers, items = zip(*pairs, strict=True)
    over = [item is None for item in items]
    return pa.table(
        {"customer": pa.array(customers, pa.int64()), "item": pa.array(items, pa.int64()), "over": over}
    )


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def held(live: bd.LocalJoin) -> dict[str, int]:
    return {name: of_stream.live_rows for name, of_stream in live.stats().streams.items()}


def test_a_promise_closes_values_of_its_own_column_only() -> None:
    live = bd.LocalJoin(shop(purge="immediate"))
    live.push({"orders": orders((1, 7), (1, 8), (2, 7)), "customers": ids(1, 2), "items": ids(7)})
    assert held(live) == {"orders": 1, "customers": 2, "items": 1}  # order (1, 8) waits for its item
    live.push({"orders": orders((1, None), (2, None))})
    assert held(live) == {"orders": 1, "customers": 1, "items": 1}  # so does its customer
    assert live.push({"items": ids(8)}).num_rows == 1
    assert held(live) == {"orders": 0, "customers": 0, "items": 2}  # nothing is known of orders of an item
    assert live.stats().intermediates["(orders customers)"].live_rows == 0
    assert live.stats().streams["orders"].purged_rows == 3
    assert live.stats().streams["orders"].closed_keys == 0  # customers 1 and 2 are done


def test_rows_for_closed_values_are_told_and_change_nothing() -> None:
    live = bd.LocalJoin(shop())
    live.push({"orders": orders((1, 7), (2, None)), "customers": ids(1, 2), "items": ids(7)})
    before = live.snapshot()
    with pytest.raises(BrokenPromise, match="stream 'orders': a row with key 2 came, but a punctuation"):
        live.push({"orders": orders((2, 7))})
    with pytest.raises(BrokenPromise, match="stream 'items': a row with key 7 came, but unique=True"):
        live.push({"items": ids(7)})
    assert live.snapshot() == before
    live = bd.LocalJoin(shop(on_violation="count")).restore(before)
    assert live.push({"orders": orders((2, 7), (1, 7)), "items": ids(7)}).num_rows == 1
    assert [s.violations for s in live.stats().streams.values()] == [1, 0, 1]


@pytest.mark.parametrize("purge", ["batch", "immediate"])
def test_a_long_run_is_bounded_as_with_one_key(purge: Any) -> None:
    """Rows, rows that operators made and closed keys: all follow what is open, not what has come."""
    live = bd.LocalJoin(shop(purge=purge))
    items = np.arange(1000, 1050)
    results = live.push({"items": ids(*items.tolist())}).num_rows
    for batch in range(80):
        customers = np.arange(batch * 50, batch * 50 + 50)
        came = [(int(c), int(i)) for c, i in zip(np.repeat(customers, 2), np.tile(items, 2), strict=True)]
        over = [(int(c), None) for c in customers - 50]  # a batch later
        results += live.push({"orders": orders(*came, *over), "customers": ids(*customers.tolist())}).num_rows
        stats = live.stats()
        made = sum(of_node.live_rows for of_node in stats.intermediates.values())
        assert sum(held(live).values()) + made <= (100 if purge == "immediate" else 450) + 50
        assert sum(of_stream.closed_keys for of_stream in stats.streams.values()) <= 50 + 3 * 50
    assert results == 80 * 100


def test_values_that_never_had_a_row_are_forgotten_when_all_have_closed_them() -> None:
    """No row comes, so the state does not grow; what is closed must not grow either."""
    streams = [bd.Stream("a", punctuation="p"), bd.Stream("b", "x", punctuation="p"), bd.Stream("c")]
    live = bd.LocalJoin(bd.JoinQuery(streams, [("a.x", "b.x"), ("b.y", "c.y")]))
    live.push({"c": pa.table({"y": np.arange(200)})})
    for batch in range(30):
        numbers = np.arange(batch * 40, batch * 40 + 40) * 7
        over = {"x": numbers, "p": np.ones(40, np.bool_)}
        live.push({"a": pa.table(over), "b": pa.table({**over, "y": pa.nulls(40, pa.int64())})})
        assert max(of_stream.closed_keys for of_stream in live.stats().streams.values()) <= 160
    assert held(live) == {"a": 0, "b": 0, "c": 200}


def test_one_key_by_on_is_one_key() -> None:
    """With `on`, too, one key that all streams have goes with a budget, and purging finds rows by key."""
    streams = [bd.Stream(name, time="t", punctuation="p") for name in "abc"]
    query = bd.JoinQuery(streams, [("a.x", "b.y"), ("b.y", "c.z")], memory=bd.Memory("1 MB"))
    assert query.one_key
    assert [s.key for s in query.streams] == [("x",), ("y",), ("z",)]
    assert bd.JoinQuery.from_dict(query.to_dict()) == query
    live = bd.LocalJoin(dataclasses.replace(query, tuning=bd.Tuning(purge="immediate")))
    times = pa.array([0, 0], pa.timestamp("us"))
    columns = zip("abc", "xyz", strict=True)
    closing = {n: pa.table({c: [1, 1], "t": times, "p": [False, True]}) for n, c in columns}
    assert live.push(closing).num_rows == 1
    assert held(live) == {"a": 0, "b": 0, "c": 0}


def test_promises_about_two_columns_together_and_about_a_second_equal_column() -> None:
    """A pair of values is closed, not each; of two columns that must be equal either may be promised."""
    pairs = [("a.x", "b.x"), ("a.y", "b.y"), ("b.z", "c.z")]
    streams = [bd.Stream("a", ("y", "x"), unique=True), bd.Stream("b", "z", unique=True), bd.Stream("c")]
    live = bd.LocalJoin(bd.JoinQuery(streams, pairs, tuning=bd.Tuning(purge="immediate")))
    live.push({"a": pa.table({"x": [1, 1], "y": [1, 2]})})
    with pytest.raises(BrokenPromise, match=r"key \(2, 1\) came"):
        live.push({"a": pa.table({"x": [1], "y": [2]})})
    live.push({"b": pa.table({"x": [1, 1], "y": [2, 3], "z": [5, 6]}), "c": pa.table({"z": [5, 6]})})
    assert held(live) == {"a": 2, "b": 2, "c": 1}  # (1, 2) is closed, so what c has of it has met all
    equal = [("a.x", "b.k"), ("a.y", "b.k"), ("b.m", "c.m")]
    streams = [bd.Stream("a", "y", unique=True), bd.Stream("b"), bd.Stream("c", unique=True)]
    live = bd.LocalJoin(bd.JoinQuery(streams, equal, tuning=bd.Tuning(purge="immediate")))
    rows = {"a": pa.table({"x": [1, 5], "y": [1, 2]}), "b": pa.table({"k": [1, 2], "m": [3, 3]})}
    assert live.push({**rows, "c": pa.table({"m": [3]})}).num_rows == 1
    assert held(live)["b"] == 0


def test_overload_beside_promises_gives_a_part_of_the_results() -> None:
    query, tables = workload(3, STAR, rows=60, keys=9, overload=bd.Overload(20), plan="linear")
    exact, lossy = bag(the_oracle(query, tables)), bag(run(query, tables, 10)[0])
    assert not lossy - exact


def test_queues_by_value_need_one_key() -> None:
    query, tables = workload(
        1, STAR, kinds={"orders": "punctuated", "customers": "clustered", "items": "any"}
    )
    scheduling = bd.Scheduling(streams="priority", tuples="value")
    found = bd.run_local(query, tables, scheduling=scheduling)
    assert_same_bag(found, the_oracle(query, tables))


def test_what_cannot_be_is_refused_with_a_remedy() -> None:
    def query(key: Any = None, **options: Any) -> bd.JoinQuery:
        first = bd.Stream("orders", key, unique=True)
        return bd.JoinQuery([first, bd.Stream("customers"), bd.Stream("items")], STAR, **options)

    with pytest.raises(bd.BraidedError, match="say which they are about: key='customer' or 'item'"):
        query()
    with pytest.raises(bd.BraidedError, match="key='number' is none of them; use 'customer' or 'item'"):
        query("number")
    with pytest.raises(bd.BraidedError, match="memory does not go with promises about one of several keys"):
        query("item", memory=bd.Memory("1 MB"))
    with pytest.raises(bd.BraidedError, match="emit_punctuations=True needs"):
        query("item", emit_punctuations=True)
    with pytest.raises(bd.BraidedError, match="RangePunctuation needs a key of one column"):
        ranged = bd.Stream("orders", ("customer", "item"), punctuation=bd.RangePunctuation("p", "item"))
        bd.JoinQuery([ranged, bd.Stream("customers"), bd.Stream("items")], STAR)
    equal = [("a.x", "b.k"), ("a.y", "b.k")]
    with pytest.raises(bd.BraidedError, match="must be equal by `on`; name one of them"):
        bd.JoinQuery([bd.Stream("a", ("x", "y"), unique=True), bd.Stream("b")], equal)


def test_explain_says_what_closes_what() -> None:
    text = shop().explain()
    assert "a row with over closes its customer" in text
    assert "values of id are unique (promised)" in text
    assert "promises: values of customers.id = orders.customer are closed by orders, customers" in text
    assert "promises: values of items.id = orders.item are closed by items, not by orders" in text
    why = "rows stay forever, because no other stream promises anything about items.id alone"
    assert f"Warning: stream 'items' (window=None): {why}" in text
    assert "on Spark: a grid" in text
