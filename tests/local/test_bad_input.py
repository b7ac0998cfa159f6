"""The table of mistakes: each gets one clear BraidedError that names what is wrong and what is right."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import braided
from tests.workloads import stream

bd: Any = braided  # mistakes have wrong types by design


def rows(**columns: Any) -> pa.Table:
    return pa.table({"k": pa.array([1, 2]), "t": pa.array([1, 2], pa.timestamp("us")), **columns})


def joined(*streams: Any, **options: Any) -> Any:
    return bd.JoinQuery(list(streams) or [stream("a"), stream("b")], **options)


def push(a: Any, b: Any | None = None, query: Any = None) -> None:
    bd.LocalJoin(query or joined()).push({"a": a, "b": rows() if b is None else b})


def ended() -> Any:
    live = bd.LocalJoin(joined())
    live.end()
    return live


def deep(terms: int) -> str:
    return "(" * terms + "a.k = 1" + ")" * terms


MISTAKES: list[tuple[str, Callable[[], Any], type[Exception], list[str]]] = [
    ("missing column", lambda: push(rows().drop_columns("k")), KeyError, ["'a'", "'k'", "known"]),
    ("missing time", lambda: push(rows().rename_columns(["k", "time"])), KeyError, ["'a'", "'t'", "'time'"]),
    (
        "key of a nested type",
        lambda: push(rows().set_column(0, "k", [[[1], [2]]])),
        TypeError,
        ["'a'", "list"],
    ),
    (
        "keys of different types",
        lambda: push(rows().set_column(0, "k", [["x", "y"]])),
        TypeError,
        ["a.k is string", "b.k is int64"],
    ),
    (
        "signed against 64-bit unsigned",
        lambda: push(rows().set_column(0, "k", pa.array([1, 2], pa.uint64()))),
        TypeError,
        ["a.k is uint64", "cast"],
    ),
    (
        "time of a wrong type",
        lambda: push(rows().set_column(1, "t", [["x", "y"]])),
        TypeError,
        ["'a'", "'t'"],
    ),
    (
        "times with and without zone",
        lambda: push(rows().set_column(1, "t", pa.array([1, 2], pa.timestamp("us", tz="UTC")))),
        TypeError,
        ["a.t is", "b.t is", "cast"],
    ),
    (
        "nanoseconds that are no microseconds",
        lambda: push(rows().set_column(1, "t", pa.array([1, 2], pa.timestamp("ns")))),
        ValueError,
        ["'a'", "'t'", "cast"],
    ),
    (
        "a time out of range",
        lambda: push(rows().set_column(1, "t", pa.array([1, 2**62], pa.timestamp("us")))),
        ValueError,
        ["'a'", "'t'", "36,000 years"],
    ),
    ("no table at all", lambda: push([1, 2]), TypeError, ["'a'", "list"]),
    ("a batch that is no mapping", lambda: bd.LocalJoin(joined()).push(rows()), TypeError, ["map", "Table"]),
    (
        "an unknown stream",
        lambda: bd.LocalJoin(joined()).push({"aa": rows()}),
        KeyError,
        ["'aa'", "mean 'a'"],
    ),
    (
        "a column twice",
        lambda: push(pa.table([[1], [1]], names=["k", "k"])),
        TypeError,
        ["'a'", "'k'", "twice"],
    ),
    (
        "negative window",
        lambda: stream("a", dt.timedelta(seconds=-1)),
        ValueError,
        ["'a'", "window must not be negative"],
    ),
    (
        "a window that is no duration",
        lambda: stream("a", "soon"),
        ValueError,
        ["'a'", "'soon'", "10 minutes"],
    ),
    ("a window of a wrong type", lambda: stream("a", 5), TypeError, ["'a'", "5"]),
    ("months", lambda: stream("a", "1 month"), ValueError, ["'1 month'"]),
    ("count window of zero", lambda: bd.CountWindow(0), ValueError, ["at least 1", "0"]),
    ("negative lateness", lambda: stream("a", lateness="-1 s"), ValueError, ["'a'", "lateness"]),
    ("a name with a dot", lambda: bd.Stream("a.b", key="k"), ValueError, ["'a.b'"]),
    ("an empty key", lambda: bd.Stream("a", key=[]), TypeError, ["'a'", "key"]),
    ("a key column twice", lambda: bd.Stream("a", key=["k", "k"]), ValueError, ["'a'", "'k'"]),
    ("no key", lambda: joined(bd.Stream("a"), stream("b")), ValueError, ["'a'", "key"]),
    (
        "keys of different length",
        lambda: joined(bd.Stream("a", key=["k", "n"]), bd.Stream("b", key="k")),
        ValueError,
        ["1 key column", "2", "'b'"],
    ),
    (
        "a window without time",
        lambda: joined(stream("a"), bd.Stream("b", key="k")),
        ValueError,
        ["'b'", "time"],
    ),
    ("one stream only", lambda: joined(stream("a")), ValueError, ["2 to 16", "'a'"]),
    (
        "seventeen streams",
        lambda: joined(*[stream(f"s{i}") for i in range(17)]),
        ValueError,
        ["16", "17"],
    ),
    ("duplicate names", lambda: joined(stream("a"), stream("a")), ValueError, ["'a'", "twice"]),
    (
        "contradictory within",
        lambda: joined(
            stream("a"),
            stream("b"),
            stream("c"),
            within={("a", "b"): ("5 us", "9 us"), ("b", "c"): ("5 us", "9 us"), ("a", "c"): "7 us"},
        ),
        ValueError,
        ["cycle", "a", "b", "c", "-> "],
    ),
    (
        "within turned round",
        lambda: joined(within={("a", "b"): ("5 us", "1 us")}),
        ValueError,
        ["'a'", "from"],
    ),
    ("within an unknown stream", lambda: joined(within={("a", "z"): "1 us"}), KeyError, ["'z'"]),
    ("within itself", lambda: joined(within={("a", "a"): "1 us"}), ValueError, ["'a'", "twice"]),
    ("within that is no mapping", lambda: joined(within="1 hour"), TypeError, ["within", "'1 hour'"]),
    (
        "an unknown option",
        lambda: bd.Stream.from_dict({"name": "a", "windo": "1 s"}),
        TypeError,
        ["'windo'", "mean 'window'"],
    ),
    (
        "an unknown choice",
        lambda: bd.Tuning.from_dict({"driver_stream": "initial-output"}),
        ValueError,
        ["mean 'initial-output-size'"],
    ),
    ("index of an unknown stream", lambda: joined(tuning=bd.Tuning(index={"z": "hash"})), KeyError, ["'z'"]),
    (
        "freshness without overload",
        lambda: joined(stream("a", freshness="1 h"), stream("b")),
        ValueError,
        ["'a'"],
    ),
    ("an unknown plan", lambda: joined(plan="tree"), ValueError, ["'tree'", "'mjoin'"]),
    (
        "clashing output names",
        lambda: bd.LocalJoin(joined(stream("a"), stream("a_b"))).push({"a": rows(b_k=[1, 2]), "a_b": rows()}),
        ValueError,
        ["'a_b_k'", "a.b_k", "a_b.k", "select"],
    ),
    (
        "a column named like the result's time",
        lambda: bd.run_local(
            joined(stream("a"), stream("result")), {"a": rows(), "result": rows(time=[1, 2])}
        ),
        ValueError,
        ["'result_time'", "result.time", "select"],
    ),
    ("select of an unknown stream", lambda: joined(select={"x": "z.k"}), KeyError, ["'z'", "'x'"]),
    ("select without stream", lambda: joined(select={"x": "k"}), ValueError, ["'x'", "'k'"]),
    ("select of result_time", lambda: joined(select={"result_time": "a.t"}), ValueError, ["result_time"]),
    (
        "select of a missing column",
        lambda: push(rows(), query=joined(select={"x": "a.z"})),
        KeyError,
        ["'z'", "'a'"],
    ),
    ("where that is no SQL", lambda: joined(where="a.k ==="), ValueError, ["a.k ==="]),
    ("where without stream", lambda: joined(where="k = 1"), ValueError, ["'k'", "stream.column"]),
    ("where of an unknown stream", lambda: joined(where="z.k = 1"), KeyError, ["z.k"]),
    (
        "where of a missing column",
        lambda: push(rows(), query=joined(where="a.z = 1")),
        KeyError,
        ["'z'", "where"],
    ),
    ("where that is no condition", lambda: push(rows(), query=joined(where="a.k + 1")), TypeError, ["int64"]),
    (
        "where of types that do not meet",
        lambda: push(rows(), query=joined(where="a.t + b.k > 1")),
        TypeError,
        ["a.t is"],
    ),
    ("where with a function", lambda: joined(where="upper(a.k) = 'X'"), ValueError, ["UPPER", "it can use"]),
    ("where that is a list", lambda: joined(where=["a.k = 1"]), TypeError, ["SQL text"]),
    ("where nested too deeply", lambda: joined(where=deep(2000)), ValueError, ["nested too deeply"]),
    (
        "where with symmetric",
        lambda: joined(where="a.k between symmetric 5 and 0"),
        ValueError,
        ["BETWEEN 5 AND 0"],
    ),
    ("an endless count window", lambda: bd.CountWindow(10**20), ValueError, ["2^31"]),
    ("an endless duration", lambda: stream("a", "9" * 5000 + " days"), ValueError, ["'a'", "duration"]),
    ("an endless decimal", lambda: stream("a", "9" * 90 + ".5 days"), ValueError, ["36,000 years"]),
    ("an index that is a list", lambda: joined(tuning=bd.Tuning(index=[1, 2])), TypeError, ["index"]),
    ("a query that is none", lambda: bd.run_local(None, {}), TypeError, ["JoinQuery"]),
    ("schemas that are none", lambda: bd.LocalJoin(joined(), schemas={"a": 5}), TypeError, ["'a'", "Schema"]),
    ("schemas that are a list", lambda: bd.LocalJoin(joined(), schemas=[1]), TypeError, ["map"]),
    ("an array instead of a table", lambda: push(pa.array([1])), TypeError, ["'a'", "Table"]),
    (
        "chunk_rows beyond all measure",
        lambda: bd.LocalJoin(joined()).stream({}, chunk_rows=10**12),
        ValueError,
        ["chunk_rows", "at most"],
    ),
    (
        "a column that cannot be gathered",
        lambda: push(rows(m=pa.array([[("x", 1)], None], pa.map_(pa.string_view(), pa.int64())))),
        TypeError,
        ["'a'", "'m'", "select"],
    ),
    ("push after end", lambda: ended().push({"a": rows()}), ValueError, ["push", "ended"]),
    ("end after end", lambda: ended().end(), ValueError, ["end", "ended"]),
    (
        "chunk_rows of zero",
        lambda: bd.LocalJoin(joined()).stream({}, chunk_rows=0),
        ValueError,
        ["chunk_rows", "0"],
    ),
    ("no table for a stream", lambda: bd.run_local(joined(), {"a": rows()}), KeyError, ["'b'"]),
    (
        "a table too many",
        lambda: bd.run_local(joined(), {"a": rows(), "b": rows(), "z": rows()}),
        KeyError,
        ["'z'"],
    ),
    (
        "batch_rows of zero",
        lambda: bd.run_local(joined(), {"a": rows(), "b": rows()}, batch_rows=0),
        ValueError,
        ["0"],
    ),
    (
        "batches by rows and by period",
        lambda: bd.run_local(joined(), {"a": rows(), "b": rows()}, batch_rows=1, batch_period="1 s"),
        ValueError,
        ["not both"],
    ),
    ("restoring nonsense", lambda: bd.LocalJoin(joined()).restore(b"nonsense"), ValueError, ["damaged"]),
    (
        "restoring another query's state",
        lambda: bd.LocalJoin(joined()).restore(
            bd.LocalJoin(joined(stream("a", "1 h"), stream("b"))).snapshot()
        ),
        ValueError,
        ["another query", "1 hour"],
    ),
]


@pytest.mark.parametrize(("act", "kind", "words"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(act: Callable[[], Any], kind: type[Exception], words: list[str]) -> None:
    with pytest.raises(bd.BraidedError) as raised:
        act()
    assert isinstance(raised.value, kind)
    for word in words:
        assert word in str(raised.value), str(raised.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (rows(n=[1, 2]), ["stream 'a'", "'n' is new"]),
        (rows().drop_columns("t"), ["'t' is missing"]),
        (rows().set_column(0, "k", pa.array([1, 2], pa.int32())), ["int64", "int32"]),
    ],
    ids=["a new column", "a missing column", "another type"],
)
def test_a_batch_whose_schema_changed(changed: pa.Table, words: list[str]) -> None:
    live = bd.LocalJoin(joined())
    live.push({"a": rows(), "b": rows()})
    with pytest.raises(bd.BraidedError, match="another schema") as raised:
        live.push({"a": changed})
    assert all(word in str(raised.value) for word in words)


def test_columns_in_another_order_are_no_change_of_schema() -> None:
    live = bd.LocalJoin(joined())
    live.push({"a": rows(n=[1, 2])})
    assert live.push({"a": rows(n=[1, 2]).select(["n", "t", "k"]), "b": rows()}).num_rows == 4
