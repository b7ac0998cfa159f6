"""The engine against the definition, over many seeds, batch sizes, stream counts and window kinds."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import assert_same_bag, expected
from tests.seeds import seeds, some_pairs
from tests.workloads import BATCH_ROWS, KEY_TYPES, names_of, random_table, random_tables, stream


def check(query: bd.JoinQuery, tables: dict[str, pa.Table], batch_rows: int) -> pa.Table:
    result = bd.run_local(query, tables, batch_rows=batch_rows)
    assert_same_bag(result, expected(query, tables))
    return result


@pytest.mark.parametrize(("streams", "batch_rows"), some_pairs([2, 3, 4, 5, 6], BATCH_ROWS))
def test_oracle_time_windows_of_different_length(streams: int, batch_rows: int) -> None:
    names = names_of(streams)
    found = 0
    for seed in seeds(2):
        rng = np.random.default_rng(seed)
        windows = [f"{w} us" for w in rng.integers(5 * streams, 30 * streams, streams)]
        query = bd.JoinQuery([stream(n, w) for n, w in zip(names, windows, strict=True)])
        tables = random_tables(seed, names, rows=100 // streams, keys=streams)
        found += check(query, tables, batch_rows).num_rows
    assert found > 0


@pytest.mark.parametrize("batch_rows", BATCH_ROWS)
def test_oracle_within_bounds(batch_rows: int) -> None:
    names = names_of(3)
    for seed in seeds(3):
        within = {("s0", "s1"): ("-5 us", "20 us"), ("s2", "s1"): ("3 us", "40 us")}
        for window in ("unbounded", "30 us"):
            query = bd.JoinQuery([stream(n, window) for n in names], within=within)
            check(query, random_tables(seed, names, keys=3), batch_rows)


@pytest.mark.parametrize("batch_rows", BATCH_ROWS)
def test_oracle_without_time(batch_rows: int) -> None:
    names = names_of(3)
    query = bd.JoinQuery([bd.Stream(n, key="k") for n in names])
    for seed in seeds(2):
        check(query, random_tables(seed, names, rows=30, keys=6), batch_rows)


@pytest.mark.parametrize("batch_rows", BATCH_ROWS)
def test_oracle_windows_on_some_streams_only(batch_rows: int) -> None:
    names = names_of(3)
    for seed in seeds(2):
        query = bd.JoinQuery([stream("s0", "20 us"), stream("s1", None), stream("s2", "unbounded")])
        check(query, random_tables(seed, names, rows=40, keys=6), batch_rows)


@pytest.mark.parametrize(("key_type", "batch_rows"), some_pairs(list(KEY_TYPES), [1, 7, 50]))
def test_oracle_key_types(key_type: str, batch_rows: int) -> None:
    names = names_of(3)
    query = bd.JoinQuery([stream(n) for n in names])
    counting = bd.JoinQuery([stream("s0", bd.CountWindow(2)), stream("s1"), stream("s2")])
    for seed in seeds(1):
        tables = random_tables(seed, names, rows=40, keys=6, key_type=key_type)
        assert check(query, tables, batch_rows).num_rows > 0
        check(counting, tables, batch_rows)


@pytest.mark.parametrize("batch_rows", BATCH_ROWS)
def test_oracle_composite_keys(batch_rows: int) -> None:
    names = ["a", "b"]
    query = bd.JoinQuery(
        [bd.Stream(n, key=("k", "s"), time="t", window="90 us", lateness="12 us") for n in names]
    )
    for seed in seeds(2):
        tables = {
            n: t.set_column(3, "s", pa.array([f"{v.as_py() % 3}" for v in t["n"]]))
            for n, t in random_tables(seed, names, keys=4).items()
        }
        assert check(query, tables, batch_rows).num_rows > 0


def test_oracle_integer_widths_and_text_encodings_widen() -> None:
    rng = np.random.default_rng(1)
    wide = {
        n: random_table(rng, 60, key_type=t) for n, t in (("s0", "int8"), ("s1", "uint32"), ("s2", "int64"))
    }
    wide = {n: t.set_column(0, "k", _absolute(t["k"])) for n, t in wide.items()}
    assert check(bd.JoinQuery([stream(n) for n in wide]), wide, 7).num_rows > 0
    text = {n: random_table(rng, 60, key_type=t) for n, t in (("s0", "string"), ("s1", "string_view"))}
    assert check(bd.JoinQuery([stream(n) for n in text]), text, 7).num_rows > 0


def _absolute(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array(
        [pa.array([None if v is None else abs(v) for v in column.to_pylist()], column.type)]
    )


@pytest.mark.parametrize("batch_rows", [1, 7, 51])
def test_oracle_where_and_select(batch_rows: int) -> None:
    names = names_of(3)
    conditions = [
        "s0.n + s1.n > 2 * s2.n",
        "s0.s = s1.s or s2.n between 10 and 30",
        "not (s0.n < s1.n) and s2.s is not null",
        "s0.n % 3 = 1 and s1.n / 2 >= 10.5",
        "s0.s like '%1%' and s1.n in (1, 2, 3, s2.n)",
        "s0.t < s1.t and s1.t < '1970-01-01 00:00:00.000100'",
        "abs(s0.n - s1.n) < 20 and -s2.n < -5",
        "s0.s <> 'text 3' or null",
    ]
    for seed, where in enumerate(conditions):
        query = bd.JoinQuery(
            [stream(n, "60 us") for n in names],
            where=where,
            select={"left": "s0.n", "text": "s1.s", "k": "s2.k"},
        )
        result = check(query, random_tables(seed, names, keys=3), batch_rows)
        assert result.column_names == ["left", "text", "k", "result_time"]
        assert result.num_rows > 0


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_duckdb_agrees(seed: int) -> None:
    names = names_of(4)
    windows = [20, 35, 50, 10]
    query = bd.JoinQuery(
        [stream(n, f"{w} us") for n, w in zip(names, windows, strict=True)],
        within={("s0", "s3"): ("0 us", "15 us")},
        where="s0.n >= s1.n",
    )
    tables = random_tables(seed, names, rows=300, keys=20, span_us=600)
    result = bd.run_local(query, tables, batch_rows=37)
    newest = "greatest(s0.t, s1.t, s2.t, s3.t)"
    inside = [f"epoch_us({newest}) - epoch_us({n}.t) <= {w}" for n, w in zip(names, windows, strict=True)]
    columns = [f"{n}.{c} as {n}_{c}" for n in names for c in tables[n].column_names]
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        wanted = db.sql(
            f"select {', '.join(columns)}, {newest} as result_time from s0 join s1 on s0.k = s1.k "
            f"join s2 on s0.k = s2.k join s3 on s0.k = s3.k where {' and '.join(inside)} "
            "and epoch_us(s3.t) - epoch_us(s0.t) between 0 and 15 and s0.n >= s1.n"
        ).to_arrow_table()
    assert result.num_rows > 0
    assert_same_bag(result, wanted)


def test_oracle_batches_by_period() -> None:
    names = names_of(3)
    query = bd.JoinQuery([stream(n) for n in names])
    for seed in seeds(2):
        tables = random_tables(seed, names)
        result = bd.run_local(query, tables, batch_period="17 us")
        assert_same_bag(result, expected(query, tables))


@pytest.mark.parametrize("expiry", ["active", "lazy"])
@pytest.mark.parametrize("probe_order", ["fixed", "selectivity"])
def test_the_law_no_tuning_changes_the_result(expiry: str, probe_order: str) -> None:
    names = names_of(4)
    tuning = bd.Tuning(expiry=expiry, probe_order=probe_order)  # type: ignore[arg-type]
    query = bd.JoinQuery([stream(n) for n in names], tuning=tuning)
    for seed in seeds(2):
        check(query, random_tables(seed, names, keys=4), 7)


@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_oracle_sixteen_streams(plan: Any) -> None:
    names = names_of(16)
    tables = random_tables(1, names, rows=2, keys=1, nulls=False)
    query = bd.JoinQuery([stream(n, "300 us") for n in names], plan=plan)
    wanted = expected(query, tables)
    assert wanted.num_rows > 0
    assert_same_bag(bd.run_local(query, tables, batch_rows=5), wanted)
