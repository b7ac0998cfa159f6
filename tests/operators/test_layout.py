"""Which columns are stored, by which a stream is keyed, and what the result's columns are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import braided as bd
from braided.engine.operators.layout import Layout, key_format_of, layout_of, output_of
from braided.query.errors import InvalidType, InvalidValue, UnknownName

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("s", pa.string()), ("x", pa.string_view())])


def join(**options: Any) -> bd.JoinQuery:
    return bd.JoinQuery([bd.Stream(n, key="k", time="t", window="1 hour") for n in "ab"], **options)


def layouts(query: bd.JoinQuery) -> list[Layout]:
    return [layout_of(query, stream, SCHEMA) for stream in query.streams]


@pytest.mark.parametrize(
    ("options", "stored"),
    [
        ({}, ("k", "t", "s", "x")),
        ({"select": {"text": "b.s"}}, ("k", "t")),
        ({"select": {"text": "a.s"}}, ("k", "t", "s")),
        ({"select": {"key": "b.k"}, "where": "a.x > b.s"}, ("k", "t", "x")),
    ],
)
def test_only_what_can_be_needed_is_stored(options: dict[str, Any], stored: tuple[str, ...]) -> None:
    first = layouts(join(**options))[0]
    assert first.columns == tuple(stored)
    assert first.stored_schema.names == list(stored)
    assert (first.key, first.joined, first.keys) == (("k",), ("k",), [0])


def test_views_are_stored_as_texts() -> None:
    assert layouts(join())[0].stored_schema.field("x").type == pa.large_string()


def test_a_query_that_names_no_column_stores_the_narrowest() -> None:
    query = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], select={"s": "b.s"}, where="b.k > 1")
    assert layouts(query)[0].columns == ("k",)


def test_an_operator_is_keyed_by_what_its_inputs_share() -> None:
    streams = [bd.Stream(n, time="t", window="1 hour") for n in "abc"]
    query = bd.JoinQuery(streams, on=[("a.k", "b.k"), ("b.s", "c.s")], plan=(("a", "b"), "c"))
    known = {layout.stream.name: layout for layout in layouts(query)}
    assert (known["a"].key, known["c"].key) == (("k",), ("s",))
    assert known["b"].joined == ("k", "s")
    assert key_format_of(query.graph.key(("a", "b")), known.values()).exact
    assert not key_format_of(query.graph.key((("a", "b"), "c")), known.values()).exact
    text = next(a for a in query.graph.attributes if ("c", "s") in a)
    assert key_format_of([text], known.values()).types == (pa.large_string(),)


def test_result_columns_are_named_by_stream_or_as_asked_for() -> None:
    query = join()
    made = output_of(query, tuple(layouts(query)))
    assert made.schema.names == [*(f"{s}_{c}" for s in "ab" for c in SCHEMA.names), "result_time"]
    assert made.schema.field("a_x").type == pa.string_view()
    chosen = join(select={"one": "b.s", "two": "a.k"})
    made = output_of(chosen, tuple(layouts(chosen)))
    assert made.schema == pa.schema([("one", pa.string()), ("two", pa.int64()), ("result_time", pa.int64())])
    assert made.sources == {"one": ("b", "s"), "two": ("a", "k")}


def test_what_does_not_fit_is_named() -> None:
    query = join()
    for schema, wrong, words in (
        (SCHEMA.remove(0), UnknownName, "no column 'k' .used as key"),
        (SCHEMA.set(0, pa.field("k", pa.list_(pa.int64()))), InvalidType, "key column 'k' has type list"),
        (SCHEMA.set(1, pa.field("t", pa.string())), InvalidType, "time column 't' has type string"),
        (SCHEMA.append(pa.field("m", pa.map_(pa.string_view(), pa.int8()))), InvalidType, "cannot gather"),
    ):
        with pytest.raises(wrong, match=words):
            layout_of(query, query.streams[0], schema)
    clashing = bd.JoinQuery([bd.Stream(n, key="k") for n in ("a", "a_b")])
    wide = pa.schema([("k", pa.int64()), ("b_k", pa.int64())])
    with pytest.raises(InvalidValue, match=r"output name 'a_b_k' is wanted by a\.b_k and by a_b\.k"):
        output_of(clashing, tuple(layout_of(clashing, s, wide) for s in clashing.streams))
