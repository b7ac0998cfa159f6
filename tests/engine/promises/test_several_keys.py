"""Promises about one of several keys (`on`): rows go as soon as they can be in no result to come, and no sooner."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import assert_same_bag, expected
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
                masked = pa.array([None if p else v for p, v in zip(closing, values, strict=True)], values.type)
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
@pytest.mark.parametrize("seed", seeds(12))
def test_oracle_promises_about_any_column_change_nothing(seed: int, plan: Any, shape: str) -> None:
    tuning = bd.Tuning(**[{"purge": "immediate"}, {}, {"purge": bd.BatchPurge(every=5)}][seed % 3])
    query, tables = workload(seed, SHAPES[shape], plan=plan, tuning=tuning)
    exact = the_oracle(query, tables)
    for rows in (1, 4, 1000):
        assert_same_bag(run(query, tables, rows)[0], exact)


# what is needed, by definition


def needed_rows(query: bd.JoinQuery, live: bd.LocalJoin, came: Mapping[str, list[dict[str, Any]]]) -> dict[str, int]:
    """How many rows of each stream may be in a result to come, by trying everything.

    A result to come has a row to come of one stream at least. Such a row may have any value in a column that
    its stream has not closed it for; what no other row decides is a value that never came.
    """
    feature, core = live._engine.core.features.get("promises"), live._engine.core
    graph, names = query.graph, query.names
    having = {n: {i: c for i, a in enumerate(graph.attributes) for s, c in a if s == n} for n in names}

    def closed(name: str, values: Mapping[int, Any]) -> bool:
        stream = query.streams[names.index(name)]
        promised = [graph.attributes.index(a) for a in query.promised(stream)]
        if not promised or any(i not in values for i in promised):
            return False
        intake = core.streams[names.index(name)]
        assert intake is not None
        schema = intake.layout.schema
        columns = [pa.array([values[i]], schema.field(having[name][i]).type) for i in promised]
        from braided.engine.sides.keys import keys_in

        return bool(feature._is_closed(name, keys_in(intake._promised, columns))[0])

    needed: dict[str, set[int]] = {n: set() for n in names}

    def extend(at: int, chosen: dict[str, int | None], values: dict[int, Any]) -> None:
        if at == len(names):
            coming = [n for n, row in chosen.items() if row is None]
            if coming and not any(closed(n, values) for n in coming):
                for name, row in chosen.items():
                    if row is not None:
                        needed[name].add(row)
            return
        name = names[at]
        extend(at + 1, {**chosen, name: None}, values)
        for number, row in enumerate(came[name]):
            own = {i: row[column] for i, column in having[name].items()}
            if all(values.get(i, value) == value for i, value in own.items()):
                extend(at + 1, {**chosen, name: number}, {**values, **own})

    extend(0, {}, {})
    return {name: len(rows) for name, rows in needed.items()}
