"""Columns of any Arrow type come out as they went in, through the join and through a snapshot."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import assert_same_bag, expected
from tests.promised import batches_of
from tests.workloads import names_of, random_tables, with_odd_names

N = 40


def _values() -> dict[str, pa.Array]:
    def some(make: object, type_: pa.DataType) -> pa.Array:
        return pa.array([None if i % 5 == 0 else make(i) for i in range(N)], type_)  # type: ignore[operator]

    ints = pa.array(range(N), pa.int64())
    return {
        "bool": some(lambda i: i % 2 == 0, pa.bool_()),
        "int8": some(lambda i: i, pa.int8()),
        "int16": some(lambda i: i, pa.int16()),
        "int32": some(lambda i: i, pa.int32()),
        "uint64": some(lambda i: i + 2**63, pa.uint64()),
        "half": some(np.float16, pa.float16()),
        "float": some(float, pa.float32()),
        "double": some(lambda i: float("nan") if i == 3 else i / 3, pa.float64()),
        "decimal32": some(decimal.Decimal, pa.decimal32(5, 1)),
        "decimal128": some(decimal.Decimal, pa.decimal128(20, 2)),
        "decimal256": some(decimal.Decimal, pa.decimal256(60, 2)),
        "string": some(lambda i: "x" * i, pa.string()),
        "large_string": some(lambda i: "ü" * i, pa.large_string()),
        "string_view": some(lambda i: "view" * i, pa.string_view()),
        "binary": some(lambda i: bytes([i]) * i, pa.binary()),
        "binary_view": some(lambda i: bytes([i]) * i, pa.binary_view()),
        "fixed binary": some(lambda i: bytes([i]) * 3, pa.binary(3)),
        "date": some(lambda i: dt.date(2024, 1, 1 + i % 28), pa.date32()),
        "time": some(lambda i: dt.time(i % 24), pa.time64("ns")),
        "timestamp": some(lambda i: dt.datetime(2024, 1, 1, i % 24), pa.timestamp("ns", tz="Europe/Berlin")),
        "duration": some(lambda i: dt.timedelta(hours=i), pa.duration("ms")),
        "interval": some(lambda i: (i, 2 * i, 3 * i), pa.month_day_nano_interval()),
        "list": some(lambda i: [i] * (i % 4), pa.list_(pa.int32())),
        "large list": some(lambda i: [str(i)] * (i % 4), pa.large_list(pa.string())),
        "fixed list": some(lambda i: [i, None], pa.list_(pa.int16(), 2)),
        "list of views": some(lambda i: [str(i), None], pa.list_(pa.string_view())),
        "struct": some(lambda i: {"a": i, "b": None}, pa.struct([("a", pa.int8()), ("b", pa.string())])),
        "nested": some(
            lambda i: {"a": [{"b": i}]}, pa.struct([("a", pa.list_(pa.struct([("b", pa.int8())])))])
        ),
        "map": some(lambda i: [(str(i), i)], pa.map_(pa.string(), pa.int64())),
        "null": pa.nulls(N),
        "dictionary": some(lambda i: str(i % 7), pa.string()).dictionary_encode(),
        "run ends": pa.RunEndEncodedArray.from_arrays([10, 25, N], pa.array(["a", None, "c"])),
        "union": pa.UnionArray.from_sparse(
            pa.array([i % 2 for i in range(N)], pa.int8()), [ints, ints.cast("string")]
        ),
        "uuid": pa.ExtensionArray.from_storage(
            pa.uuid(), some(lambda i: uuid.UUID(int=i).bytes, pa.binary(16))
        ),
    }


VALUES = _values()


def table_of(values: pa.Array, seed: int) -> pa.Table:
    order = np.random.default_rng(seed).permutation(N)
    return pa.table(
        {"k": order % 10, "t": pa.array(np.arange(N)), "row": pa.array(np.arange(N)), "v": values}
    )


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("rows", [1, 7, N])
def test_any_type_passes_unchanged(name: str, rows: int) -> None:
    values = VALUES[name]
    tables = {"a": table_of(values, 1), "b": table_of(values, 2)}
    query = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="15 us") for n in tables])
    live = bd.LocalJoin(query)
    found = []
    for start in range(0, N, rows):
        found.append(live.push({n: t.slice(start, rows) for n, t in tables.items()}))
        if rows > 1 or start % 5 == 0:
            live = bd.LocalJoin(query).restore(live.snapshot())
    result = pa.concat_tables([f for f in found if f.num_rows])
    assert result.num_rows > 20
    originals = values.to_pylist()
    for stream in ("a", "b"):
        assert result[f"{stream}_v"].type == values.type
        out = zip(result[f"{stream}_row"].to_pylist(), result[f"{stream}_v"].to_pylist(), strict=True)
        for row, value in out:
            assert repr(value) == repr(originals[row])  # repr: NaN is not equal to itself


def test_dictionaries_may_differ_from_batch_to_batch() -> None:
    query = bd.JoinQuery([bd.Stream(n, key="k") for n in "ab"])
    live = bd.LocalJoin(query)
    for letters in (["x", "y"], ["y", "z"], ["q", "x"]):
        column = pa.array(letters).dictionary_encode()
        live.push({"a": pa.table({"k": pa.array(letters).dictionary_encode(), "v": column})})
        live = bd.LocalJoin(query).restore(live.snapshot())
    result = live.push({"b": pa.table({"k": ["x", "y", "z"], "v": ["X", "Y", "Z"]})})
    pairs = sorted(zip(result["a_v"].to_pylist(), result["b_v"].to_pylist(), strict=True))
    assert pairs == [("x", "X"), ("x", "X"), ("y", "Y"), ("y", "Y"), ("z", "Z")]


def test_sliced_and_chunked_tables_are_read_right() -> None:
    whole = pa.table({"k": list("abcdefgh"), "t": list(range(8)), "v": [None, 1, 2, None, 4, 5, 6, 7]})
    chunked = pa.concat_tables([whole.slice(1, 3), whole.slice(4, 1), whole.slice(5)])
    query = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="1 us") for n in "ab"])
    result = bd.run_local(query, {"a": chunked, "b": whole.slice(2, 4)})
    assert sorted(zip(result["a_k"].to_pylist(), result["a_v"].to_pylist(), strict=True)) == [
        ("c", 2), ("d", None), ("e", 4), ("f", 5),
    ]  # fmt: skip


def test_only_columns_that_are_needed_are_stored() -> None:
    wide = pa.table({"k": [1], "t": [1], "used": [1.0], "asked": ["x"], "idle": ["y" * 1_000_000]})
    query = bd.JoinQuery(
        [bd.Stream(n, key="k", time="t", window="1 us") for n in "ab"],
        where="a.used > 0",
        select={"asked": "b.asked"},
    )
    live = bd.LocalJoin(query)
    assert live.push({"a": wide, "b": wide}).to_pylist() == [{"asked": "x", "result_time": 1}]
    assert live.stats().streams["a"].live_bytes < 10_000


@pytest.mark.parametrize("window", [None, "1 hour", bd.CountWindow(3)])
@pytest.mark.parametrize("options", [{}, {"memory": bd.Memory(6_000)}, {"plan": "linear"}], ids=str)
def test_payload_columns_may_have_any_name(window: Any, options: Any) -> None:
    """Columns named as ours (`__braided_hashes`) came back from disk and snapshots as null, or raised."""
    if isinstance(window, bd.CountWindow) and options:
        pytest.skip("count windows take neither a memory budget nor a plan")
    names = names_of(3)
    tables = {n: with_odd_names(t) for n, t in random_tables(3, names, rows=60, keys=5).items()}
    query = bd.JoinQuery(
        [bd.Stream(n, "k", time="t", window=window, lateness="1 hour") for n in names], **options
    )
    live, found = bd.LocalJoin(query), []
    for batch in batches_of(tables, 9):
        found.append(live.push(batch))
        live = bd.LocalJoin(query).restore(live.snapshot())
    found.append(live.end())
    assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), expected(query, tables))
