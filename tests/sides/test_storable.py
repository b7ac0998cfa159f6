"""Types that cannot be gathered are stored plainer, and come back as they went in."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from braided.engine.sides.storable import (
    check_storable,
    conform,
    from_storable,
    no_results,
    storable_type,
    to_storable,
)

TEXTS = ["x", None, "yy", "x", "", "zzz"]
COLUMNS = {
    "text": pa.array(TEXTS),
    "view": pa.array(TEXTS, pa.string_view()),
    "binary view": pa.array([b"a", None, b""], pa.binary_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "dictionary of views": pa.array(TEXTS).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    "run-end encoded": pc.run_end_encode(pa.array([1, 1, None, 3])),
    "list of views": pa.array([["x"], None, [], ["y", None]], pa.list_(pa.string_view())),
    "large list": pa.array([["x"], None], pa.large_list(pa.string_view())),
    "fixed list": pa.array([["x", "y"], None], pa.list_(pa.string_view(), 2)),
    "struct": pa.array([{"a": "x", "b": 1}, None], pa.struct([("a", pa.string_view()), ("b", pa.int8())])),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_stored_and_comes_back(name: str) -> None:
    column = COLUMNS[name]
    stored = to_storable(column)
    assert stored.type == storable_type(column.type)
    assert storable_type(stored.type) == stored.type
    places = pa.array([len(column) - 1, 0, 0])
    back = from_storable(stored.take(places), column.type)
    assert back.type == column.type
    assert back.to_pylist() == [column.to_pylist()[p] for p in places.to_pylist()]
    assert check_storable(column.type) is None


def test_a_dictionary_with_narrow_numbers_comes_in_pieces() -> None:
    """Indices of eight bits name 128 values: a batch of more needs more than one dictionary."""
    values = pa.array([f"value {i}" for i in range(1_000)])
    type_ = pa.dictionary(pa.int8(), pa.string())
    back = from_storable(values, type_)
    assert isinstance(back, pa.ChunkedArray)
    assert back.type == type_
    assert back.to_pylist() == values.to_pylist()
    assert max(len(c.dictionary) for c in back.chunks) <= 128


def test_what_cannot_be_gathered_says_why() -> None:
    assert "array_take" in str(check_storable(pa.map_(pa.string_view(), pa.int64())))
    assert "array_take" in str(check_storable(pa.sparse_union([pa.field("a", pa.string_view())])))


def test_older_rows_get_todays_columns() -> None:
    batch = pa.record_batch({"a": [1, 2], "gone": ["x", "y"]})
    schema = pa.schema([("new", pa.string()), ("a", pa.int64())])
    assert conform(batch, schema).to_pylist() == [{"new": None, "a": 1}, {"new": None, "a": 2}]
    assert conform(batch, batch.schema) is batch
    unions = pa.schema([("u", pa.dense_union([pa.field("a", pa.int8())]))])
    assert no_results(unions).schema == unions
