"""A query in words is the query one would write by hand; what cannot be meant says where and what to do."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import braided as bd
from braided.query.errors import InvalidType, InvalidValue
from braided.testing import assert_same_bag

SHOP = """
  SELECT o.order_id, o.amount AS amount, p.method, s.carrier -- a comment; FROM nothing
  FROM orders AS o WINDOW '2 hours' LATENESS '1 minute' TIME placed_at
  JOIN payments AS p WINDOW '2 hours' LATENESS '1 minute' TIME paid_at
    ON o.order_id = p.order_id AND p.paid_at BETWEEN o.placed_at AND o.placed_at + INTERVAL '1 hour'
  JOIN shipments AS s WINDOW '10 minutes' LATENESS '1 minute' TIME sent_at ON o.order_id = s.order_id
  WHERE o.amount > 10
  MEMORY '512 MB';
"""


def streams(*names: str, key: Any = "k", **options: Any) -> list[bd.Stream]:
    return [bd.Stream(name, key=key, **options) for name in names]


def test_a_whole_query() -> None:
    by_hand = bd.JoinQuery(
        [
            bd.Stream("orders", "order_id", time="placed_at", window="2 hours", lateness="1 minute"),
            bd.Stream("payments", "order_id", time="paid_at", window="2 hours", lateness="1 minute"),
            bd.Stream("shipments", "order_id", time="sent_at", window="10 minutes", lateness="1 minute"),
        ],
        within={("orders", "payments"): ("0 seconds", "1 hour")},
        where="orders.amount > 10",
        select={
            "order_id": "orders.order_id",
            "amount": "orders.amount",
            "method": "payments.method",
            "carrier": "shipments.carrier",
        },
        memory=bd.Memory("512 MB"),
    )
    assert bd.sql(SHOP) == by_hand
    assert bd.sql(SHOP).fingerprint() == by_hand.fingerprint()
    assert bd.sql(SHOP.lower().replace("'512 mb'", "'512 MB'")) == by_hand


def test_without_short_names_and_all_columns() -> None:
    assert bd.sql("SELECT * FROM a JOIN b ON a.k = b.k") == bd.JoinQuery(streams("a", "b"))
    assert bd.sql("SELECT * FROM a INNER JOIN b USING (k)") == bd.JoinQuery(streams("a", "b"))


def test_options_of_a_stream() -> None:
    query = bd.sql("""
        SELECT * FROM a WINDOW ROWS 100 PER STREAM TIME time UNIQUE ARRIVAL ORDERED
        PUNCTUATION done UPTO "up to"
        JOIN b WINDOW ROWS 7 TIME "when" PUNCTUATION punctuation ON a.k = b.k
        JOIN c WINDOW UNBOUNDED TIME t ON a.k = c.k""")
    assert query == bd.JoinQuery(
        [
            bd.Stream(
                "a",
                "k",
                time="time",
                window=bd.CountWindow(100, per="stream"),
                unique=True,
                arrival="ordered",
                punctuation=bd.RangePunctuation("done", "up to"),
            ),
            bd.Stream("b", "k", time="when", window=bd.CountWindow(7), punctuation="punctuation"),
            bd.Stream("c", "k", time="t", window="unbounded"),
        ]
    )


@pytest.mark.parametrize(
    ("on", "keys"),
    [
        ("a.x = b.y JOIN c ON b.y = c.z", {"a": ("x",), "b": ("y",), "c": ("z",)}),
        ("a.x = b.x AND b.y = a.y JOIN c ON a.y = c.q AND c.p = b.x", {"a": "xy", "b": "xy", "c": "pq"}),
    ],
)
def test_columns_that_are_equal_in_all_streams_are_keys(on: str, keys: dict[str, str]) -> None:
    by_hand = bd.JoinQuery([bd.Stream(name, tuple(key)) for name, key in keys.items()])
    assert bd.sql(f"SELECT * FROM a JOIN b ON {on}") == by_hand


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y", [("a.x", "b.x"), ("b.y", "c.y")]),
        ("FROM a JOIN b ON a.x = b.x AND a.y = b.x", [("a.x", "b.x"), ("a.y", "b.x")]),
        ("FROM a JOIN b USING (x) JOIN c ON a.y = c.y", [("a.x", "b.x"), ("a.y", "c.y")]),
        ('FROM a JOIN b ON a."ship to" = b.x AND a.z = b.x', [("a.ship to", "b.x"), ("a.z", "b.x")]),
    ],
)
def test_other_equalities_are_pairs(text: str, on: list[tuple[str, str]]) -> None:
    names = "abc" if "JOIN c" in text else "ab"
    assert bd.sql(f"SELECT * {text}") == bd.JoinQuery([bd.Stream(n) for n in names], on=on)


def test_a_promise_names_its_column_where_there_are_several() -> None:
    text = "SELECT * FROM a KEY y UNIQUE JOIN b ON a.x = b.x{more} JOIN c PUNCTUATION p ON a.y = c.y"
    streams = [bd.Stream("a", "y", unique=True), bd.Stream("b"), bd.Stream("c", "y", punctuation="p")]
    on = [("a.x", "b.x"), ("a.y", "c.y")]
    assert bd.sql(text.format(more="")) == bd.JoinQuery(streams, on)
    both = bd.sql(text.format(more=" AND a.y = b.y AND b.x = c.x").replace("PUNCTUATION p ", ""))
    assert both.promised(both.streams[0]) == ((("a", "y"), ("b", "y"), ("c", "y")),)
    assert not both.one_key
    assert bd.sql("SELECT * FROM a KEY x UNIQUE JOIN b ON a.x = b.x").streams[1].key == ("x",)
    with pytest.raises(bd.BraidedError, match="say which they are about: key='x' or 'y'"):
        bd.sql(text.format(more="").replace("KEY y", ""))


H = "1 hour"
TIMES = [
    ("b.t BETWEEN a.t AND a.t + INTERVAL '1 hour'", ("0 s", H)),
    ("b.t BETWEEN a.t - INTERVAL '5' MINUTE AND a.t + INTERVAL 1 HOUR", ("-5 minutes", H)),
    ("a.t BETWEEN b.t - INTERVAL '1 hour' AND b.t", ("0 s", H)),
    ("b.t >= a.t AND b.t <= a.t + INTERVAL '1 hour 30 minutes'", ("0 s", "90 minutes")),
    ("a.t < b.t AND b.t - a.t <= INTERVAL '1 hour'", ("1 us", H)),
    ("b.t - INTERVAL '1 hour' < a.t AND NOT a.x = 1 AND a.t <= b.t", ("0 s", "3599999999 us")),
    ("b.t > a.t + INTERVAL '2 ms' AND (b.t < a.t + INTERVAL '3 ms')", ("2001 us", "2999 us")),
    ("b.t = a.t + INTERVAL '1 hour'", (H, H)),
    ("a.t = INTERVAL '5 minutes' + b.t", ("-5 minutes", "-5 minutes")),
    ("b.t - a.t BETWEEN -INTERVAL '1 hour' AND INTERVAL '1 hour'", ("-1 hour", H)),
    ("b.t >= a.t", ("0 s", "2 hours")),  # the other side is a's window
    ("b.t <= a.t + INTERVAL '1 hour'", ("-10 minutes", H)),  # and here b's
]


@pytest.mark.parametrize(("condition", "bound"), TIMES)
@pytest.mark.parametrize("clause", ["AND", "WHERE"])
def test_comparisons_of_times_are_bounds(condition: str, bound: tuple[str, str], clause: str) -> None:
    query = bd.sql(f"""SELECT * FROM a WINDOW '2 hours' TIME t JOIN b WINDOW '10 minutes' TIME t
                       ON a.k = b.k {clause} {condition}""")
    by_hand = bd.JoinQuery(
        [
            bd.Stream("a", "k", time="t", window="2 hours"),
            bd.Stream("b", "k", time="t", window="10 minutes"),
        ],
        within={("a", "b"): bound},
        where="NOT a.x = 1" if "NOT" in condition else None,
    )
    assert query == by_hand


def test_a_bound_of_one_side_without_a_window_is_where() -> None:
    query = bd.sql("SELECT * FROM a TIME t JOIN b TIME u ON a.k = b.k AND b.u >= a.t")
    assert query.within is None
    assert query.where == "b.u >= a.t"


def test_within_bounds_pairs_and_keeps_the_tightest() -> None:
    text = """SELECT * FROM orders o TIME t JOIN payments p TIME t ON o.k = p.k
              {}WITHIN '1 hour' BETWEEN p AND o WITHIN '0 seconds' TO '2 hours' BETWEEN orders AND p
              WITHIN '1 day' BETWEEN o AND payments"""
    by_hand = bd.JoinQuery(
        streams("orders", "payments", time="t"), within={("orders", "payments"): ("0 s", H)}
    )
    assert bd.sql(text.format("")) == by_hand
    assert bd.sql(text.format("WHERE o.t >= p.t - INTERVAL '1 minute' ")).pairs[0][1] == (
        "0 seconds",
        "1 minute",
    )


@pytest.mark.parametrize(
    ("conditions", "where"),
    [
        ("WHERE x.a > 1 OR x.b < 2", "(one.a > 1 OR one.b < 2)"),
        ("AND x.a <> two.a WHERE x.a > 1 AND (x.b = 1 OR y.c = 2)", None),
        ("AND x.a = x.b", "one.a = one.b"),
        ("AND x.paid", "one.paid"),
        ("AND x.a = 5 WHERE x.s LIKE 'JOIN ; WHERE' AND x.window IN (1, 2)", None),
        ("WHERE x.a = y.a", "one.a = two.a"),  # after WHERE an equality is a filter, no key
        ('WHERE x."ship to" IS NOT NULL AND NOT x.left BETWEEN 1 AND 2', None),
        ("WHERE x.d > DATE '2024-01-01'", "one.d > CAST('2024-01-01' AS DATE)"),
    ],
)
def test_everything_else_is_where(conditions: str, where: str | None) -> None:
    expected = {
        "AND x.a <> two.a WHERE": "one.a <> two.a AND one.a > 1 AND (one.b = 1 OR two.c = 2)",
        "AND x.a = 5 WHERE x.s ": "one.a = 5 AND one.s LIKE 'JOIN ; WHERE' AND one.window IN (1, 2)",
        'WHERE x."ship to" IS N': 'NOT one."ship to" IS NULL AND NOT one.left BETWEEN 1 AND 2',
    }
    query = bd.sql(f"SELECT * FROM one x JOIN two AS y ON x.k = y.k {conditions}")
    assert query == bd.JoinQuery(streams("one", "two"), where=where or expected[conditions[:22]])


def test_short_names_may_cross_over() -> None:
    query = bd.sql("SELECT a.x FROM a AS b JOIN b AS a ON b.k = a.k WHERE a.y > b.y")
    assert query == bd.JoinQuery(streams("a", "b"), where="b.y > a.y", select={"x": "b.x"})


def test_names_that_are_words_of_sql() -> None:
    query = bd.sql("""SELECT "order".plan memory, w.window AS "a b"
                      FROM "order" JOIN "window" w ON "order".k = w.k
                      WHERE "order".memory > w.limit PLAN LINEAR""")
    assert query.selected == (("memory", "order", "plan"), ("a b", "window", "window"))
    assert query.condition is not None
    assert query.condition.columns() == {("order", "memory"), ("window", "limit")}


def test_budgets_plans_and_announcements() -> None:
    text = "SELECT * FROM a TIME t FRESHNESS '1 hour' JOIN b TIME t ON a.k = b.k JOIN c TIME t ON c.k = b.k "
    overload = bd.sql(text + "PLAN ((a, b) c) OVERLOAD PROBES 100 ALLOCATION 'greedy-path'")
    by_hand = [bd.Stream("a", "k", time="t", freshness="1 hour"), *streams("b", "c", time="t")]
    budget = bd.Overload(100, allocation="greedy-path")
    assert overload == bd.JoinQuery(by_hand, plan=(("a", "b"), "c"), overload=budget)
    shed = bd.sql(
        text
        + "OVERLOAD PROBES 9 SHED 'input' ALLOCATION 'equal' STATE ROWS 10 WINDOW SPLIT 'equal' PLAN MJOIN"
    )
    assert shed.overload == bd.Overload(
        9, shed="input", allocation="equal", state_rows=10, window_split="equal"
    )
    assert bd.sql(text + "OVERLOAD TARGET BATCH '2 s'").overload == bd.Overload(target_batch="2 seconds")
    lossy = bd.sql(text + "PLAN LINEAR OVERLOAD STATE BYTES '2 MB' INTERMEDIATE ROWS 9 CLOCK 'wall'").overload
    assert lossy == bd.Overload(state_bytes="2 MB", intermediate_rows=9, clock="wall")
    told = bd.sql("SELECT * FROM a UNIQUE JOIN b ON a.k = b.k EMIT PUNCTUATIONS PLAN LINEAR")
    assert told.emit_punctuations
    assert told.plan == "linear"


def test_a_join_without_a_key() -> None:
    by_hand = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where="a.x < b.x")
    assert bd.sql("SELECT * FROM a JOIN b ON a.x < b.x") == by_hand


FROM = "SELECT * FROM orders AS o TIME t JOIN payments p TIME t ON o.k = p.k "
WRONG = [
    ("", 1, 1, "unexpected the end; known: 'SELECT'"),
    ("SELEC * FROM a", 1, 1, "did you mean 'SELECT'?"),
    ("UPDATE a SET x = 1", 1, 1, "unexpected 'UPDATE'"),
    ("WITH x AS (SELECT 1) SELECT * FROM x", 1, 1, "WITH is not supported"),
    ("SELECT DISTINCT a.x FROM a", 1, 8, "DISTINCT is not supported"),
    ("SELECT x FROM a", 1, 8, "'x' has no stream"),
    ("SELECT a.* FROM a", 1, 8, "a.* is not supported; name its columns"),
    ("SELECT *, a.x FROM a", 1, 9, "SELECT * is all columns already"),
    ("SELECT a.x + 1 FROM a", 1, 12, "no expressions"),
    ("SELECT COUNT(*) FROM a", 1, 8, "no expressions"),
    ("SELECT result_time FROM a", 1, 8, "comes out by itself"),
    ("SELECT a.x, b.x FROM a JOIN b ON a.k = b.k", 1, 15, "two columns are called 'x'; rename one of them"),
    ("SELECT c.x FROM a JOIN b ON a.k = b.k", 1, 8, "no stream 'c'; known: 'a', 'b'"),
    ("SELECT * FROM (SELECT 1)", 1, 15, "a subquery is not supported"),
    ("SELECT * FROM db.a", 1, 15, "db.… is no stream"),
    ("SELECT * FROM a, b", 1, 16, "a comma between streams is not supported; write JOIN"),
    ("SELECT * FROM a JOIN b", 1, 22, "JOIN b has no ON"),
    ("SELECT * FROM a CROSS JOIN b", 1, 17, "CROSS JOIN is not supported"),
    ("SELECT * FROM a\n  OUTER JOIN b ON a.k = b.k", 2, 3, "OUTER JOIN is not supported; write LEFT"),
    ("SELECT * FROM a JOIN a ON a.k = a.k", 1, 22, "'a' is the name of two streams"),
    ("SELECT * FROM a x JOIN a y ON x.k = y.k", 1, 24, "stream 'a' is joined twice"),
    ("SELECT * FROM a JOIN b ON a.k = b.k JOIN c ON c.x > b.x", 1, 42, "no equality joins stream 'c'"),
    ("SELECT * FROM a WINDW '2 hours' JOIN b ON a.k = b.k", 1, 17, "did you mean 'WINDOW'?"),
    ("SELECT * FROM a x LATNESS '2 hours' JOIN b ON x.k = b.k", 1, 19, "did you mean 'LATENESS'?"),
    ("SELECT * FROM a WINDOW 2 hours", 1, 24, "WINDOW needs '2 hours'"),
    ("SELECT * FROM a WINDOW '2 hurs' JOIN b USING (k)", 1, 15, "window must be a duration"),
    ("SELECT * FROM a WINDOW ROWS 0 JOIN b USING (k)", 1, 24, "at least 1"),
    ("SELECT * FROM a WINDOW ROWS 5 PER KY JOIN b USING (k)", 1, 35, "PER must be KEY or STREAM"),
    ("SELECT * FROM a ARRIVAL SORTED JOIN b USING (k)", 1, 25, "ARRIVAL must be ANY or CLUSTERED"),
    ("SELECT * FROM a UNIQUE UNIQUE JOIN b USING (k)", 1, 24, "UNIQUE is given twice"),
    (FROM + "WINDOW '2 hours'", 1, 70, "before ON"),
    (FROM + "GROUP BY o.x", 1, 70, "GROUP BY is not supported"),
    (FROM + "WHERE o.x > 1 ORDER BY o.x", 1, 84, "ORDER BY is not supported"),
    (FROM + "LIMIT 5", 1, 70, "LIMIT is not supported"),
    (FROM + "UNION ALL SELECT 1", 1, 70, "UNION is not supported"),
    (FROM + "; SELECT 1", 1, 72, "one query at a time"),
    (FROM + "WHERE o.x IN (SELECT 1)", 1, 84, "a subquery is not supported"),
    (FROM + "WHERE", 1, 75, "WHERE needs a condition"),
    (FROM + "WHERE o.x >", 1, 80, "cannot be read at '>'"),
    (FROM + "WHERE x > 1", 1, 76, "'x' is no column of a stream"),
    (FROM + "WHERE q.x > 1", 1, 76, "no stream 'q'"),
    (FROM + "WHERE o.a > 1 AND UPPER(o.x) = 'A'", 1, 88, "where cannot use"),
    (FROM + "WHERE o.t > p.t + INTERVAL '1 month'", 1, 76, "INTERVAL must be a duration"),
    (FROM + "WHERE o.t > p.t + INTERVAL '1' HOUR TO MINUTE", 1, 97, "where cannot use 'HOUR TO MINUTE'"),
    (FROM + "WHERE o.t > p.t + INTERVAL - '1' HOUR", 1, 99, "put a sign before INTERVAL"),
    (FROM + "WHERE o.t BETWEEN SYMMETRIC p.t AND o.t", 1, 76, "(symmetric)"),
    (FROM + "WHERE o.x = p.x COLLATE nocase", 1, 82, "where cannot use 'payments.x COLLATE nocase'"),
    (
        FROM + "WHERE o.u > p.t + INTERVAL '1 hour'",
        1,
        76,
        "it only goes with the TIME columns",
    ),
    (
        FROM + "WHERE o.t > p.t + INTERVAL '1 hour'",
        1,
        76,
        "from one side only; bound the other side too, or give payments a WINDOW",
    ),
    (FROM + "WHERE o.t <= p.t - INTERVAL '1 hour'", 1, 76, "or give orders a WINDOW"),
    (FROM + "WHERE o.t >= p.t - INTERVAL '1 hour'", 1, 76, "or give payments a WINDOW"),
    (FROM + "WHERE o.x > :limit", 1, 76, "where cannot use"),
    (FROM + 'WHERE o.x = "bob"', 1, 82, "a text has single quotes"),
    (FROM + "PLAN (o)", 1, 70, "at least two inputs"),
    ("SELECT * FROM a", 1, 16, "two streams or more; add JOIN"),
    ("SELECT * FROM a UNIQUE, TIME t JOIN b USING (k)", 1, 23, "no commas between them"),
    ("SELECT * FROM a WINDOW '1 h' TIME t\nJOIN b USING (k)", 2, 6, "stream 'b': time is missing"),
    (FROM + "WITHIN '1 hour'", 1, 85, "expected BETWEEN"),
    (FROM + "WITHIN '1 hour' BETWEEN o AND x", 1, 100, "no stream 'x'"),
    (FROM + "WITHIN '1 hour' BETWEEN o AND o", 1, 100, "two different streams"),
    (FROM + "WITHIN '1 hour' TO '0 s' BETWEEN o AND p", 1, 70, "from must not be above to"),
    (FROM + "WITHIN 'soon' BETWEEN o AND p", 1, 70, "must be a duration"),
    (FROM + "MEMORY 512", 1, 77, "MEMORY needs a text in single quotes such as '512 MB'"),
    (FROM + "MEMORY '5 potatoes'", 1, 70, "a size such as '512 MB'"),
    (FROM + "MEMRY '5 MB'", 1, 70, "did you mean 'MEMORY'?"),
    (FROM + "OVERLOAD", 1, 78, "OVERLOAD needs PROBES 1000"),
    (FROM + "OVERLOAD PROBES many", 1, 86, "PROBES needs a whole number"),
    (FROM + "OVERLOAD PROBES 5 PROBES 6", 1, 88, "PROBES is given twice"),
    (FROM + "OVERLOAD STATE 6", 1, 85, "write STATE ROWS 1000"),
    (FROM + "OVERLOAD PROBES 5 ALLOCATION 'jackpot'", 1, 70, "did you mean 'jaqpot'?"),
    (FROM + "PLAN LINAER", 1, 75, "did you mean 'LINEAR'?"),
    (FROM + "PLAN (o, x)", 1, 79, "no stream 'x'"),
    (FROM + "PLAN (o, p", 1, 75, "not closed"),
    (FROM + "PLAN MJOIN PLAN LINEAR", 1, 81, "PLAN is given twice"),
]


@pytest.mark.parametrize(("text", "line", "column", "words"), WRONG)
def test_what_is_wrong_says_where_and_what_to_do(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        bd.sql(text)
    assert words in str(raised.value), raised.value
    assert str(raised.value).startswith(f"sql, line {line}, column {column}: "), raised.value


def test_what_only_the_query_can_see_is_said_by_it() -> None:
    with pytest.raises(InvalidValue, match="contradict each other along the cycle"):
        bd.sql("""SELECT * FROM a TIME t JOIN b TIME t USING (k) JOIN c TIME t USING (k)
                  WITHIN '1 s' TO '2 s' BETWEEN a AND b WITHIN '1 s' TO '2 s' BETWEEN b AND c
                  WITHIN '1 s' BETWEEN a AND c""")
    with pytest.raises(InvalidType, match="sql must be a query as text"):
        bd.sql(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("SELECT * FROM a\nWHERE a.x = 'open", "line 2, column 13", "a quote (') that is not closed"),
        ("SELECT * FROM a WINDOW '2 hours\nJOIN b", "line 1, column 24", "a quote (') that is not closed"),
        ('SELECT a."x FROM a', "line 1, column 10", 'a quote (") that is not closed'),
        ("SELECT 'it''s' -- isn't\n '", "line 2, column 2", "a quote (') that is not closed"),
        ("SELECT *\n  /* from", "line 2, column 3", "a comment that is not closed"),
    ],
)
def test_what_is_not_closed_is_named_with_its_place(text: str, place: str, what: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        bd.sql(text)
    assert str(raised.value).startswith(f"sql, {place}: {what}")


def test_deep_nesting_is_refused() -> None:
    deep = "(" * 5000 + "o.x > 1" + ")" * 5000
    with pytest.raises(bd.BraidedError):
        bd.sql(FROM + f"WHERE {deep}")
    with pytest.raises(bd.BraidedError):
        bd.sql(FROM + "WHERE " + "NOT " * 5000 + "o.x > 1")


PLAIN = SHOP.replace("-- a comment; FROM nothing", "").split()
EXTRA = [
    *PLAIN, "(", ")", ",", ".", "*", "'", '"', ";", "--", "/*", "JOIN", "LEFT", "ON", "USING",
    "WITHIN", "BETWEEN", "AND", "OR", "NOT", "OVERLOAD", "PROBES", "5", "PLAN", "EMIT", "ROWS", "PER", "KEY",
    "UNIQUE", "INTERVAL", "'1 day'", "1e999", "0x1F", "$1", "@x", "?", "::", "[1]", "{{", "é", "\x00", "N'a'",
    "CASE", "o.*",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_garbage_raises_braided_errors_only(seed: int) -> None:
    dice = random.Random(seed)
    read = 0
    for _ in range(150):
        words = list(PLAIN)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(words))
            words[at : at + dice.randint(0, 2)] = dice.choices(EXTRA, k=dice.randint(0, 2))
        if dice.random() < 0.1:
            words = dice.choices(EXTRA, k=dice.randint(1, 30))
        try:
            bd.sql(" ".join(words))
            read += 1
        except bd.BraidedError:
            continue
    assert 0 < read < 100


def test_results_are_those_of_the_query_by_hand() -> None:
    dice = random.Random(7)

    def table(time: str, **columns: list[Any]) -> pa.Table:
        at = pa.array(sorted(dice.randrange(3_600_000_000) for _ in range(200)), pa.int64())
        return pa.table({"k": [dice.randrange(20) for _ in range(200)], time: at, **columns})

    amounts = [dice.randrange(30) for _ in range(200)]
    tables = {"orders": table("placed_at", amount=amounts), "payments": table("paid_at", fee=amounts)}
    query = bd.sql("""
        SELECT o.k, o.placed_at, p.paid_at, p.fee
        FROM orders o WINDOW '1 hour' TIME placed_at JOIN payments p WINDOW '1 hour' TIME paid_at
          ON p.k = o.k AND p.paid_at > o.placed_at AND p.paid_at < o.placed_at + INTERVAL '10 minutes'
        WHERE o.amount > p.fee AND o.amount <> 7""")
    by_hand = bd.JoinQuery(
        [
            bd.Stream("orders", "k", time="placed_at", window="1 hour"),
            bd.Stream("payments", "k", time="paid_at", window="1 hour"),
        ],
        # all of it as a filter: nothing that `sql` made of the times is used
        where="payments.paid_at > orders.placed_at AND payments.paid_at - orders.placed_at < 600000000 "
        "AND orders.amount > payments.fee AND orders.amount <> 7",
        select={
            "k": "orders.k",
            "placed_at": "orders.placed_at",
            "paid_at": "payments.paid_at",
            "fee": "payments.fee",
        },
    )
    found = bd.run_local(query, tables, batch_rows=50)
    assert found.num_rows > 20
    assert_same_bag(found, bd.run_local(by_hand, tables, batch_rows=70))


def test_a_join_graph_runs() -> None:
    tables = {
        "orders": pa.table({"customer": [1, 2, 3], "item": [7, 7, 8]}),
        "customers": pa.table({"id": [1, 2, 2], "name": ["x", "y", "z"]}),
        "items": pa.table({"id": [7, 9]}),
    }
    query = bd.sql("""SELECT c.name, i.id FROM orders o JOIN customers c ON o.customer = c.id
                      JOIN items i ON i.id = o.item PLAN ((orders customers) items)""")
    found = bd.run_local(query, tables)
    assert sorted(found.to_pylist(), key=str) == [{"name": n, "id": 7} for n in "xyz"]


def test_importing_braided_does_not_import_the_parser() -> None:
    code = "import sys, braided; assert callable(braided.JoinQuery); print('sqlglot' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
