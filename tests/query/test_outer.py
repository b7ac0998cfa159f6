"""What optional streams may be, in words: kinds, plans, and one sentence for what cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import braided as bd


def stream(name: str, how: str = "inner", **options: Any) -> bd.Stream:
    return bd.Stream(name, **{"key": "k", "time": "t", "window": "1 hour", "how": how, **options})


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("left_outer", "left"),
        ("LEFTOUTER", "left"),
        ("leftsemi", "semi"),
        ("left_anti", "anti"),
        ("outer", "full"),
    ],
)
def test_kinds_are_spelled_as_pyspark_spells_them(given: str, kind: str) -> None:
    assert stream("b", given).how == kind
    query = bd.JoinQuery([stream("a"), stream("b", given)])
    assert bd.JoinQuery.from_dict(query.to_dict()) == query
    assert query.fingerprint() != bd.JoinQuery([stream("a"), stream("b")]).fingerprint()


def test_optional_streams_are_planned_above_the_core() -> None:
    def keyed(name: str, how: str = "inner") -> bd.Stream:
        return stream(name, how, key=None)

    one = bd.JoinQuery([stream("a"), stream("b", "left"), stream("c")])
    assert one.tree == (("a", "c"), "b")
    assert bd.JoinQuery([stream("a"), stream("b", "left"), stream("c", "anti")]).tree == ("a", "b", "c")
    several = [keyed("a"), keyed("b", "left"), keyed("c"), keyed("d", "semi")]
    on = [("a.x", "b.x"), ("a.y", "c.y"), ("c.z", "d.z")]
    assert bd.JoinQuery(several, on).tree == ((("a", "c"), "b"), "d")
    assert bd.JoinQuery(several, on, plan="linear").kinds.core_node == ("a", "c")


TWO: list[Any] = [stream("a"), stream("b", "left")]
THREE: list[Any] = [stream("a"), stream("b", "left"), stream("c", "left")]
ON: Any = [
    bd.Stream(n, time="t", window="1 hour", how=how)
    for n, how in zip("abc", ("inner", "left", "left"), strict=True)
]
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: stream("b", "lft"), "how must be one of 'inner', .* got 'lft'; did you mean 'left'"),
    (lambda: stream("b", "right"), "how='right' is a left join of the others; list this stream first"),
    (lambda: bd.Stream("b", how=1), "how must be a kind of join such as 'left'; got 1"),  # type: ignore[arg-type]
    (lambda: bd.JoinQuery([stream("a", "left"), stream("b")]), "the first stream is required"),
    (lambda: bd.JoinQuery([stream("a", "left"), stream("b", "left")]), "no stream is required"),
    (lambda: bd.JoinQuery([*TWO[:1], stream("b", "full"), stream("c")]), "the second of exactly two streams"),
    (
        lambda: bd.JoinQuery(THREE, within={("b", "c"): "1 minute"}),
        "within bounds it by 'c', optional too; bound it by a required stream",
    ),
    (lambda: bd.JoinQuery(ON, [("a.x", "b.x"), ("b.y", "c.y")]), "on joins it with 'c', optional too"),
    (
        lambda: bd.JoinQuery([ON[0], ON[1], stream("c", key=None)], [("a.x", "b.x"), ("b.y", "c.y")]),
        "stream 'c' is joined with the other required ones through 'b' alone",
    ),
    (lambda: bd.JoinQuery(THREE, where="b.v < c.v"), "a term names 'b' and 'c', both optional"),
    (
        lambda: bd.JoinQuery([TWO[0], stream("b", "semi")], select={"x": "b.v"}),
        r"'x' is b.v, and its columns are not in the result \(how='semi'\); leave it out, or use 'left'",
    ),
    (lambda: bd.JoinQuery([*TWO, stream("c")], plan=(("a", "b"), "c")), r"\(a b\): an optional stream joins"),
    (lambda: bd.JoinQuery(THREE, plan=("a", ("b", "c"))), r"\(b c\): .*"),
    (lambda: bd.JoinQuery(TWO, memory=bd.Memory("1 MB")), "memory does not go with optional streams yet"),
    (
        lambda: bd.JoinQuery(TWO, overload=bd.Overload(5, shed="input")),
        "shed='input' does not go with optional",
    ),
    (lambda: bd.JoinQuery(TWO, overload=bd.Overload(state_rows=5)), "state_rows does not go with optional"),
    (
        lambda: bd.JoinQuery([stream("a", freshness="2 hours"), TWO[1]], overload=bd.Overload(5)),
        "freshness of 'a' does not go with optional streams",
    ),
    (
        lambda: bd.JoinQuery(
            [stream("a"), stream("b", unique=True), stream("c", "left", key=None)],
            on=[("a.k", "b.k"), ("b.m", "c.m")],
        ),
        "stream 'b': what it promises is about one of several keys",
    ),
    (
        lambda: bd.JoinQuery([stream("a"), stream("b", "anti", window=bd.AsOf("1 hour"))]),
        "asks only whether there is a partner; use a time window, or how='left'",
    ),
    (
        lambda: bd.JoinQuery(
            [stream("a"), stream("b", window=bd.AsOf("1 hour"))], within={("a", "b"): "1 minute"}
        ),
        "says which row of 'b' counts; leave it out of within",
    ),
    (
        lambda: bd.JoinQuery([stream("a", window=bd.AsOf("1 hour")), stream("b")]),
        "list a required stream first",
    ),
    (lambda: bd.AsOf("soon"), "age must be a duration"),
    (
        lambda: bd.JoinQuery([stream("a", window=bd.CountWindow(3)), TWO[1]]),
        "counts rows: .*; use a time window",
    ),
]


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_what_cannot_be_is_one_sentence_with_a_remedy(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(bd.BraidedError, match=words) as raised:
        make()
    assert "\n" not in str(raised.value)


def test_explain_says_when_a_null_comes() -> None:
    text = bd.JoinQuery([stream("a"), stream("b", "left"), stream("c", "anti", window="5 minutes")]).explain()
    assert "A result is one row of each required stream" in text
    assert "left: a row of a comes with every partner of b; null where there is none" in text
    assert "  that there is none is known once the watermark is 1 hour after it" in text
    assert "anti: a row of a comes only if there is no partner of c" in text


def test_explain_says_that_a_null_comes_earlier_where_a_stream_closes_keys() -> None:
    text = bd.JoinQuery([stream("a"), stream("b", "left", unique=True)]).explain()
    assert (
        "that there is none is known once the watermark is 1 hour after it, earlier if b closes the key"
        in text
    )
    text = bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b", "k", punctuation="p", how="left")]).explain()
    assert "that there is none is known at the end, or earlier if b closes the key" in text


def test_as_of_streams_are_looked_up() -> None:
    query = bd.JoinQuery([stream("a"), stream("b", window=bd.AsOf("1 hour")), stream("c", "left")])
    assert bd.JoinQuery.from_dict(query.to_dict()) == query
    assert query.kinds.core == ("a",)
    text = query.explain()
    assert (
        "as of: a row of a comes with the newest row of b, at most 1 hour older (ties together); not at all"
        in text
    )
    assert "which one is known once the watermark has passed it" in text
    assert "nothing comes before that" in text
    sql = bd.sql(
        "SELECT * FROM a TIME t WINDOW '1 hour' JOIN b TIME t WINDOW AS OF '60 minutes' ON a.k = b.k"
    )
    assert sql.streams[1].as_of == bd.AsOf("1 hour")


SELECT = "SELECT * FROM a TIME t WINDOW '1 hour' "
B = "b TIME t WINDOW '1 hour' ON a.k = b.k"


@pytest.mark.parametrize(
    ("join", "kind"),
    [
        ("LEFT JOIN", "left"),
        ("left outer join", "left"),
        ("SEMI JOIN", "semi"),
        ("LEFT ANTI JOIN", "anti"),
        ("FULL JOIN", "full"),
    ],
)
def test_sql_has_all_kinds(join: str, kind: str) -> None:
    assert bd.sql(f"{SELECT} {join} {B} AND b.v > 1 WHERE a.v > 2") == bd.JoinQuery(
        [stream("a"), stream("b", kind)], where="b.v > 1 AND a.v > 2"
    )


def test_sql_turns_a_right_join_round() -> None:
    assert bd.sql(f"{SELECT} RIGHT JOIN {B}") == bd.JoinQuery([stream("b"), stream("a", "left")])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{SELECT} LEFT JOIN {B} WHERE b.v > 1", "WHERE comes after LEFT JOIN b; put this after its ON"),
        (f"{SELECT} LEFT JOIN {B} AND a.v > 1", "ON of LEFT JOIN b says only which rows of b match"),
        (
            f"{SELECT} LEFT JOIN {B} JOIN c TIME t ON b.k = c.k",
            "b is optional, so no other stream can depend on it",
        ),
        (f"{SELECT} RIGHT JOIN {B} JOIN c TIME t ON a.k = c.k", "RIGHT JOIN joins two streams"),
        (f"{SELECT} OUTER JOIN {B}", "write LEFT, RIGHT or FULL JOIN"),
    ],
)
def test_sql_refuses_what_would_mean_something_else(text: str, words: str) -> None:
    with pytest.raises(bd.BraidedError, match=words):
        bd.sql(text)
