"""What explain says of the size of the state and of what may go wrong; the plan as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

import braided as bd
from braided.query.explain.svg import diagram_svg
from braided.query.explain.warnings import warnings

HOUR: dict[str, Any] = {"time": "t", "window": "1 hour"}


def join(*options: dict[str, Any], **query: Any) -> bd.JoinQuery:
    """A join of streams a, b, ... with these options."""
    streams = [bd.Stream(name, **{"key": "k", **said}) for name, said in zip("abcd", options, strict=False)]
    return bd.JoinQuery(streams, **query)


def test_a_sound_query_has_no_warnings() -> None:
    query = join(HOUR, HOUR)
    assert warnings(query) == []
    assert "Warning" not in query.explain()
    assert "expected state" not in query.explain()


@pytest.mark.parametrize(
    ("query", "sentences"),
    [
        (
            join({}, {"window": "unbounded"}),
            ["rows of 'a' (window=None) and 'b' (window='unbounded') stay for"],
        ),
        (join(HOUR, {"time": "t"}), ["rows of 'b' (window=None) stay forever"]),
        (
            join({"unique": True}, {}),
            ["stream 'a' (window=None): rows with partners stay forever, because 'b'"],
        ),
        (join({"unique": True}, {"punctuation": "p"}), []),
        (join({"time": "t"}, {"time": "t"}, overload=bd.Overload(state_rows=9)), []),
        (join({"time": "t"}, {"time": "t"}, within={("a", "b"): "1 hour"}), []),
        (join({"time": "t", "window": bd.CountWindow(3)}, HOUR), []),
        (
            join({"key": None}, {"key": None}, where="a.x < b.x"),
            ["without a key every pair of rows of 'a' and 'b'", "stay forever"],
        ),
        (
            join(HOUR, HOUR, within={("a", "b"): ("0 s", "5 minutes")}),
            [
                "stream 'a': window='1 hour' is longer than any pair of rows can use, because within lets "
                "its rows wait for 5 minutes only; shorten it to '5 minutes'",
                "stream 'b': window='1 hour' is longer than any pair of rows can use, because within lets "
                "its rows wait for 0 seconds only; shorten it to '0 seconds'",
            ],
        ),
        (  # the last one to come has the shortest window: no shorter one could be meant
            join(HOUR, {**HOUR, "window": "1 minute"}, within={("a", "b"): ("0 s", "1 hour")}),
            [],
        ),
        (join({"time": "t", "window": "0 s", "lateness": "1 s"}, {"time": "t", "window": "0 s"}), []),
        (
            join({**HOUR, "lateness": "2 hours"}, {**HOUR, "lateness": "1 hour"}),
            ["stream 'a': lateness='2 hours' is longer than window='1 hour'"],
        ),
        (
            join(
                {"time": "t", "freshness": "1 minute"},
                {"time": "t"},
                within={("a", "b"): "1 hour"},
                overload=bd.Overload(9),
            ),
            ["stream 'a': freshness='1 minute' is shorter than the 1 hour that within lets its rows wait"],
        ),
    ],
)
def test_warnings_name_the_stream_the_value_and_the_remedy(query: bd.JoinQuery, sentences: list[str]) -> None:
    found = warnings(query)
    assert len(found) == len(sentences), found
    for said, start in zip(found, sentences, strict=True):
        assert start in said
        assert ";" in said  # what follows is the remedy
        assert f"Warning: {said}." in query.explain()


def test_shortening_a_window_as_advised_changes_no_bound() -> None:
    query = join(HOUR, HOUR, HOUR, within={("a", "b"): ("0 s", "5 minutes"), ("a", "c"): "7 minutes"})
    short = join(
        {"time": "t", "window": "7 minutes"},
        HOUR,
        HOUR,
        within={("a", "b"): ("0 s", "5 minutes"), ("a", "c"): "7 minutes"},
    )
    assert "shorten it to '7 minutes'" in query.explain()
    assert query.bounds == short.bounds


def test_expected_state_is_rate_times_how_long_rows_stay() -> None:
    query = join({**HOUR, "lateness": "1 minute"}, {**HOUR, "window": "10 seconds"})
    said = query.explain(rates={"a": 1000.0, "b": 2}, row_bytes={"a": 80, "b": 36}, buckets=2)
    for line in (
        "expected state:",
        "  a: 3,660,000 rows, 527.04 MB (1,000 a second for 1 hour and 1 minute of lateness)",
        "  b: 140 rows, 14 kB (2 a second for 10 seconds and 1 minute of lateness)",  # as a's
        "  total: 3,660,140 rows, 527.05 MB; in each of 2 buckets 1,830,070 rows, 263.53 MB, if keys are "
        "spread evenly",
    ):
        assert line in said.splitlines(), said
    assert "Warning" not in said


def test_what_is_not_known_is_said() -> None:
    query = join(HOUR, {"time": "t"}, {"time": "t", "window": bd.CountWindow(5)})
    said = query.explain(rates={"a": 1, "b": 10, "c": 1})
    assert "  b: 864,000 rows more a day (10 a second), and none is ever forgotten" in said
    assert "  c: 5 rows of each key; how many keys is not known" in said
    assert "  total: at least 3,600 rows" in said
    assert "  a: not known, because its rate is not given" in query.explain(rates={"b": 10})
    counted = join(HOUR, {"time": "t", "window": bd.CountWindow(50, per="stream")}).explain(rates={"b": 3.5})
    assert "  b: 50 rows (its window counts 50 rows)" in counted


def test_a_budget_that_cannot_be_met_is_a_warning() -> None:
    rates, row_bytes = {"a": 100, "b": 100}, {"a": 36, "b": 36}  # 720,000 rows of 100 bytes
    large, small = (join(HOUR, HOUR, memory=bd.Memory(limit)) for limit in ("97 MB", "95 MB"))
    assert "Warning" not in large.explain(rates=rates, row_bytes=row_bytes)
    said = small.explain(rates=rates, row_bytes=row_bytes)
    assert "Warning: memory: the limit of 95 MB" in said
    assert "raise it to 96 MB" in said
    lossy = join(HOUR, HOUR, overload=bd.Overload(state_rows=72_000)).explain(rates=rates)
    assert "Warning: overload: state_rows=72,000 is 10.0% of the expected 720,000" in lossy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rates": {"x": 1}}, "no stream 'x'; known: 'a', 'b'"),
        ({"rates": 5}, "rates must map streams to rows a second; got 5"),
        ({"rates": {"a": "fast"}}, "rates of 'a' must be a number"),
        ({"rates": {"a": -1}}, "must be 0 or more rows a second; got -1"),
        ({"rates": {"a": float("nan")}}, "got nan"),
        ({"rates": {"a": 1}, "row_bytes": {"b": True}}, "row_bytes of 'b' must be a number"),
        ({"rates": {"a": 1}, "buckets": 0}, "buckets must be a whole number from 1 on; got 0"),
        ({"row_bytes": {"a": 1}}, "row_bytes says nothing without rates"),
    ],
)
def test_wrong_rates_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(bd.BraidedError, match=message.replace("(", r"\(")):
        join(HOUR, HOUR).explain(**options)


def tree() -> bd.JoinQuery:
    odd = 'x <1> & "2" #3'
    return bd.JoinQuery(
        [bd.Stream(name, time="t", window="1 hour") for name in "abc"],
        on=[(f"a.{odd}", "b.k"), ("b.m", "c.m")],
        plan=(("a", "b"), "c"),
    )


def test_the_diagram_is_mermaid_with_names_escaped() -> None:
    assert tree().diagram().splitlines() == [
        "flowchart LR",
        '    n0["results"]',
        '    n1["join of 2<br>b.m = c.m"]',
        '    n2["join of 2<br>a.x #lt;1#gt; #amp; #quot;2#quot; #35;3 = b.k"]',
        '    n3(["a<br>kept 1 hour"])',
        "    n3 --> n2",
        '    n4(["b<br>kept 1 hour"])',
        "    n4 --> n2",
        "    n2 --> n1",
        '    n5(["c<br>kept 1 hour"])',
        "    n5 --> n1",
        "    n1 --> n0",
    ]
    counted = join({"time": "t", "window": bd.CountWindow(3)}, {"time": "t"}).diagram()
    assert "kept for 3 rows of its key" in counted
    assert "kept forever" in counted
    assert "no key" in join({"key": None}, {"key": None}, where="a.x < b.x").diagram()


@pytest.mark.parametrize(
    "query", [tree(), join(HOUR, HOUR, HOUR, HOUR), join(HOUR, HOUR, HOUR, plan="linear")]
)
def test_the_svg_holds_every_box_once_and_none_overlap(query: bd.JoinQuery) -> None:
    root = ET.fromstring(diagram_svg(query))  # also: it is well-formed
    assert diagram_svg(query) == diagram_svg(query)
    rects = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if "x" in r.attrib]
    boxes = [tuple(float(r.attrib[side]) for side in ("x", "y", "width", "height")) for r in rects]
    assert len(boxes) == query.diagram().count('["') == query.diagram().count("-->") + 1
    for i, (x, y, width, height) in enumerate(boxes):
        assert 0 < x < x + width < float(root.attrib["width"])
        assert 0 < y < y + height < float(root.attrib["height"])
        for left, top, wide, high in boxes[:i]:
            assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(name in texts for name in query.names)
    if query == tree():
        assert 'a.x <1> & "2" #3 = b.k' in texts
