"""`where` against DuckDB: every snippet is either right or refused with a sentence that names it."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections import Counter
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import braided as bd
from braided.query import condition
from braided.query.errors import InvalidValue
from braided.testing.oracle import assert_same_bag, expected

LEAST = -(1 << 63)
DAY = dt.datetime(2024, 1, 1, 12)
A = pa.table(
    {
        "id": list(range(9)),
        "n": pa.array([0, 1, -7, 100, None, LEAST, (1 << 63) - 1, 5, 2], pa.int64()),
        "i": pa.array([3, None, -2, 40_000, 1, 7, 0, -100, 5], pa.int32()),
        "d": [0.5, math.nan, None, -0.0, math.inf, -math.inf, 2.5, 5.3, 1e300],
        "s": ["abc", "a%c", None, "", "ABC", "a_c", "xabcx", "a\nc", "!b"],
        "f": [True, False, None, True, False, True, None, True, False],
        "t": [None, *(DAY + dt.timedelta(hours=h) for h in range(8))],
        "day": [None, *(dt.date(2024, 1, 1) + dt.timedelta(days=h) for h in range(8))],
        "x": pa.array([Decimal("1.25"), None, *map(Decimal, range(-3, 4))], pa.decimal128(12, 2)),
    }
)
B = A.set_column(0, "id", pa.array(range(10, 19))).slice(0, 7)

RIGHT = [
    "a.s LIKE 'a%'",
    "a.s NOT LIKE 'a%'",
    "NOT a.s LIKE 'a%'",
    "NOT (a.s NOT LIKE 'a%')",
    "a.s LIKE 'a_c' AND b.s NOT LIKE '%b%' OR a.n = 1",
    "a.s LIKE 'a!%c' ESCAPE '!'",
    "a.s NOT LIKE 'a!_%' ESCAPE '!'",
    "a.s LIKE '!!b' ESCAPE '!'",
    "a.s LIKE ''",
    "a.s LIKE '%'",
    "a.s LIKE ('%abc%')",
    "a.n IN (1, 5, 100)",
    "a.n NOT IN (1, 5, 100)",
    "a.n IN (1, NULL)",
    "a.n NOT IN (1, NULL)",
    "a.s IN ('abc', '')",
    "a.n IN (b.n, b.i)",
    "a.d IN (0.5, b.d)",
    "a.n BETWEEN 1 AND 5",
    "a.n NOT BETWEEN 1 AND 5",
    "a.n BETWEEN 5 AND 1",
    "a.d BETWEEN b.d AND 3",
    "a.s BETWEEN 'a' AND 'b'",
    "a.n IS NULL",
    "a.n IS NOT NULL",
    "a.n ISNULL OR b.n NOTNULL",
    "(a.n = b.n) IS NULL",
    "a.n = NULL",
    "a.f",
    "NOT a.f",
    "a.f = b.f",
    "a.f <> TRUE",
    "a.f OR NULL",
    "a.f AND NULL OR b.f",
    "TRUE",
    "FALSE",
    "NULL",
    "a.d = b.d",
    "a.d <> b.d",
    "a.d < b.d",
    "a.d <= b.d",
    "a.d > b.d",
    "a.d >= b.d",
    "NOT a.d > b.d",
    "a.d > b.n",
    "a.d < b.i",
    "a.d <> 2.5",
    "a.d > b.x",
    "a.n = b.n",
    "a.n <> b.i",
    "a.n != 1",
    "a.n == 1",
    "a.n > -9223372036854775808",
    "a.n > -9223372036854775809",
    "a.n < 9223372036854775808",
    "a.n < 1e19",
    "a.i * 2 > b.i",
    "a.i + b.i < 0",
    "a.i - b.i < 0",
    "ABS(a.i) > 2",
    "-a.i > 2",
    "- -a.i > 2",
    "+a.i > 2",
    "a.i % 3 = 1",
    "MOD(a.i, 3) = 1",
    "a.n % 3 = -1",
    "a.n % b.i = 0",
    "a.n % 0 IS NULL",
    "a.n / 2 > 0.7",
    "a.i / b.i = 0.5",
    "a.d + 1 > b.i",
    "a.d * 0 = 0",
    "a.x * 2 = b.x",
    "a.x + b.n > 1",
    "a.x % 0.5 = 0.25",
    "a.x = 1.25",
    "a.n + 1.5 > 2",
    "a.i - 1 - 1 < 3",
    "a.i - (1 - 1) < 3",
    "(a.i + 2) * 3 - 4 > (b.i % 5) * 2",
    "a.i * 3 % 5 > b.i / 2 / 2 - 1 - 1",
    "a.i - 3 - b.i * 2 + 1 > -a.i",
    "(a.n = 1) = b.f",
    "(a.f IS NULL) = b.f",
    "(a.f = b.f) IS NULL",
    "a.f = (b.n IN (1, 5))",
    "NOT a.f IS NULL",
    "a.i + b.i IS NULL",
    "a.i + 1 IN (2, 4) AND b.f",
    "a.i + 1 BETWEEN b.i - 1 AND b.i * 2 AND a.f",
    "2 + 3 * 4 = 14",
    "a.t > b.t",
    "a.t > '2024-01-01 14:00:00'",
    "a.t > TIMESTAMP '2024-01-01 14:00:00'",
    "a.t = CAST('2024-01-01 14:00:00' AS TIMESTAMP)",
    "a.t > DATE '2024-01-01'",
    "a.day > DATE '2024-01-03'",
    "a.day > '2024-01-03'",
    "a.day = '2024-01-03'::date",
    "a.day < TIMESTAMP '2024-01-03 12:00:00'",
    "a.day <= b.t",
    "a.s = 'it''s' OR a.s = 'abc'",
    "a.s = 'abc' -- a comment",
    "a.s = /*+ no hint */ 'abc'",
    'a."n" = 1 AND "b".n = 1',
    "a.n > 5.",
    "a.n > .5",
    "a.n = 1;",
    "a.f = (b.n > 1)",
    "a.n = 1 OR a.n = 2 AND b.n = 3",
    "(a.n = 1 OR a.n = 2) AND b.n = 1",
    "NOT a.n = 1 AND b.n = 1",
    "a.n < 3 AND a.n > -10 AND b.s > 'a' AND b.s <> 'abc'",
]

REFUSED = [
    "a.s LIKE b.s",
    "a.s LIKE NULL",
    "a.s LIKE 'a' ESCAPE '!!'",
    "a.s LIKE 'a!b' ESCAPE '!'",
    "a.s LIKE 'ab!' ESCAPE '!'",
    "a.s LIKE 'ab' ESCAPE b.s",
    "a.s ILIKE 'A%'",
    "a.s NOT ILIKE 'A%'",
    "a.s ILIKE 'A%' ESCAPE '!'",
    "a.s SIMILAR TO 'a%'",
    "a.s NOT SIMILAR TO 'a%'",
    "a.s RLIKE 'a'",
    "a.s ~ 'a'",
    "a.s GLOB 'a*'",
    "a.s LIKE ANY ('a', 'b')",
    "a.s LIKE 'a' COLLATE nocase",
    "a.s COLLATE nocase = 'ABC'",
    "a.n BETWEEN SYMMETRIC 5 AND 1",
    "a.n NOT BETWEEN SYMMETRIC 5 AND 1",
    "a.n IS DISTINCT FROM b.n",
    "a.n IS NOT DISTINCT FROM b.n",
    "a.n <=> b.n",
    "a.f IS TRUE",
    "a.f IS NOT TRUE",
    "a.n IS NOT 1",
    "a.n IN (SELECT 1)",
    "a.n IN ()",
    "a.n IN b.n",
    "a.n IN UNNEST(b.n)",
    "(a.n, b.n) IN ((1, 1))",
    "(a.n, b.n) = (1, 1)",
    "EXISTS (SELECT 1)",
    "a.n = ANY (SELECT 1)",
    "a.n > ALL (SELECT 1)",
    "a.n = ANY ([1, 2])",
    "a.t AT TIME ZONE 'UTC' > b.t",
    "a.t > TIMESTAMP(3) '2024-01-01 14:00:00'",
    "a.t > b.t + INTERVAL '1' HOUR",
    "a.t > CURRENT_TIMESTAMP",
    "a.day = DATE(a.t)",
    "a.day = CAST(20240101 AS DATE)",
    "a.day = CAST(a.s AS DATE)",
    "a.day = CAST('2024-01-01' AS DATE FORMAT 'YYYY')",
    "a.day = TRY_CAST('2024-01-01' AS DATE)",
    "CAST(a.n AS DOUBLE) > 1",
    "a.n::double > 1",
    "COUNT(*) > 1",
    "COUNT(DISTINCT a.n) > 1",
    "SUM(a.n) FILTER (WHERE a.n > 1) > 1",
    "SUM(a.n) OVER (PARTITION BY a.s) > 1",
    "ROW_NUMBER() OVER (ORDER BY a.n) = 1",
    "CASE WHEN a.f THEN b.f ELSE FALSE END",
    "CASE a.n WHEN 1 THEN TRUE END",
    "IF(a.f, b.f, FALSE)",
    "COALESCE(a.f, FALSE)",
    "a.n DIV 2 = 1",
    "a.n // 2 = 1",
    "a.n ** 2 = 1",
    "a.n ^ 2 = 1",
    "a.n & 1 = 1",
    "a.n << 1 = 2",
    "~a.n = 1",
    "a.s || b.s = 'abc'",
    "a.s || NULL IS NULL",
    "a.s = 'a' 'bc'",
    "a.s = N'abc'",
    "a.s = x'00'",
    "a.n > 0x10",
    "a.n > 1_000",
    "a.n > 1e999",
    "a.n > " + "9" * 77,
    "a.n > " + "9" * 5000,
    "a.n = 1 AS c",
    "a.n = 1 c",
    "a.n > 1; a.n > 2",
    ";",
    "SELECT a.n > 1",
    "a.n > 1 QUALIFY a.n",
    "a.n > 1 ORDER BY a.n",
    "a.n > 1 LIMIT 1",
    "DISTINCT a.n > 1",
    "a.n = :p",
    "a.n = ?",
    "a.n = @p",
    "a.n = b.n (+)",
    "PRIOR a.n = b.n",
    "a.n.m = 1",
    "x.a.n = 1",
    "a.n[1] = 1",
    "a.* = 1",
    "n = 1",
    "UPPER(a.s) = 'ABC'",
    "a.n = DEFAULT",
    "a.s > DATE '2024-01-01'",
    "a.s > TIMESTAMP '2024-01-01 00:00:00'",
    "a.f = b.f IS NULL",
    "a.f = b.f IS NOT NULL",
    "a.f = (b.f IS NULL)",
    "a.n > 1 IS NULL",
    "a.i > 1 = a.f",
    "a.f = a.i > 1",
    "a.f = NOT b.f",
    "a.f = a.n IN (1)",
    "a.f = a.s NOT LIKE 'x'",
    "a.s LIKE 'x' IS NULL",
    "a.s = 1",
    "a.n = 'one'",
    "a.n + 1",
    "a.n AND b.n",
    "a.s % 2 = 1",
    "a.i < b.i < 3",
]


def joined(where: str) -> Counter[tuple[int, int]]:
    """The pairs of rows that pass."""
    query = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where=where, select={"a": "a.id", "b": "b.id"})
    found = bd.run_local(query, {"a": A, "b": B})
    assert_same_bag(found, expected(query, {"a": A, "b": B}))
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.sql("SET error_on_division_by_zero = false")
    connection.register("a", A)
    connection.register("b", B)
    return connection


@pytest.mark.parametrize("where", RIGHT)
def test_a_condition_means_what_duckdb_says(database: duckdb.DuckDBPyConnection, where: str) -> None:
    """`NOT LIKE` was evaluated as `LIKE`: sqlglot had begun to say it by a flag that nobody read."""
    text = f"SELECT a.id, b.id FROM a, b WHERE {where.rstrip(';')}"
    assert joined(where) == Counter(database.sql(text).fetchall())


@pytest.mark.parametrize("where", ["a.i % 5 * 2 > b.i", "a.i + b.i % 5 > 7", "a.i * 2 - b.i * 3 % 5 / 2 > 1"])
def test_a_remainder_binds_like_a_product(database: duckdb.DuckDBPyConnection, where: str) -> None:
    """Early versions of sqlglot read `a + b % c` as `(a + b) % c`; that is refused, and parentheses help."""
    wanted = Counter(database.sql(f"SELECT a.id, b.id FROM a, b WHERE {where}").fetchall())
    try:
        assert joined(where) == wanted
    except InvalidValue as wrong:
        assert "use parentheses" in str(wrong)  # noqa: PT017  (only of early versions)


@pytest.mark.parametrize("where", REFUSED)
def test_what_is_not_understood_is_refused_and_not_ignored(where: str) -> None:
    """Flags, nodes and a second statement were ignored, and the rest was taken for the condition."""
    with pytest.raises(bd.BraidedError, match="where") as raised:
        joined(where)
    assert len(str(raised.value)) < 6_000


@pytest.mark.parametrize("where", [*RIGHT, *REFUSED])
def test_sql_means_the_same_as_where(where: str) -> None:
    """bd.sql reads the same trees, and writes them again with the streams' own names."""

    def said(text: str) -> bd.JoinQuery:
        return bd.sql(f"SELECT * FROM a JOIN b ON a.id = b.id WHERE ({text.rstrip(';')}\n)")

    try:
        wanted = condition.parse(where)
    except bd.BraidedError:
        with pytest.raises(InvalidValue, match="sql, line 1, column"):
            said(where)
    else:
        assert said(where).condition == wanted


def test_a_flag_that_only_a_later_sqlglot_knows_is_refused() -> None:
    """The next version may say more by flags; whatever it adds to a node that is read is refused."""
    package = condition.sqlglot("where")
    for text in (
        "a.n = 1",
        "a.n IN (1)",
        "a.s LIKE 'x'",
        "a.n IS NULL",
        "ABS(a.n) = 1",
        "a.d = DATE '2024-01-01'",
    ):
        for node in list(package.parse_one(text).walk()):
            tree = package.parse_one(text)
            found = next(n for n in tree.walk() if type(n) is type(node))
            found.args["inverted"] = True
            with pytest.raises(InvalidValue, match=r"\(inverted\)|must name columns"):
                condition.read(tree, text)


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        (r"a\%c", {"a%c"}),
        (r"a\_c", {"a_c"}),
        (r"\\%", {"\\abc", "\\"}),
        (r"%\\abc", {"\\abc"}),
        (r"%\\%", {"\\abc", "\\"}),
        (r"\%\_%", {"%_."}),
        ("a_c", {"a%c", "a_c", "abc"}),
    ],
)
def test_a_backslash_escapes_in_like(pattern: str, matching: set[str]) -> None:
    r"""Arrow takes `\\` for two characters in patterns such as `%\\%`, and for one in others."""
    texts = pa.table({"s": ["a%c", "a_c", "abc", "\\abc", "\\", "%_.", "\n"]})
    query = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where=f"a.s LIKE '{pattern}'", select={"s": "a.s"})
    found = bd.run_local(query, {"a": texts, "b": texts.slice(0, 1)})
    assert set(found["s"].to_pylist()) == matching
    assert_same_bag(found, expected(query, {"a": texts, "b": texts.slice(0, 1)}))


@pytest.mark.parametrize("pattern", [r"a\b", "a\\", r"%\n%"])
def test_an_escape_before_an_ordinary_character_is_refused(pattern: str) -> None:
    """As in Spark; whether it means itself differs from engine to engine."""
    with pytest.raises(InvalidValue, match="must stand before %, _ or itself"):
        condition.parse(f"a.s LIKE '{pattern}'")
    assert condition.parse(f"a.s LIKE '{pattern}' ESCAPE ''")


WHOLE = [0, 1, -1, 7, -7, 2**62, LEAST, LEAST + 1, (1 << 63) - 1]


@pytest.mark.parametrize(
    "where",
    [
        "a.n % b.n = 0",
        "a.n % b.n < 0",
        "a.n * b.n * a.n * b.n > 1",
        "a.n * b.n * a.n * b.n = b.n * b.n * a.n * a.n",
        "a.n * b.n % 1000 > 500",
        "a.n + b.n > 9223372036854775807",
        "a.n - b.n < -9223372036854775808",
        "-a.n > b.n",
        "ABS(a.n) > b.n",
        "a.n * 2 > b.d",
        "a.u * b.u > b.n",
        "a.u - b.u < 0",
        "a.u > b.n",
        "a.u % b.n = 1",
        "a.u + b.n = 0",
        "a.n * a.n * 1.5 > b.d",
        "9223372036854775807 + 1 > a.n",
        "a.n / b.n > 0.5",
        "(a.n / b.n) IS NULL",
        "a.d / b.n > 0.5",
        "a.d % b.d > 0",
        "a.d % 0.3 > 0.1",
        "(a.n % b.n) IS NULL",
    ],
)
def test_whole_numbers_do_not_overflow(where: str) -> None:
    """The smallest integer modulo -1 was 0 minus nonsense, and a product of four columns failed the batch."""
    table = pa.table(
        {
            "n": pa.array([*WHOLE, None]),
            "d": [*map(float, WHOLE), None],
            "u": pa.array([*(abs(n) for n in WHOLE), (1 << 64) - 1], pa.uint64()),
        }
    )
    query = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where=where)
    tables = {"a": table, "b": table}
    assert_same_bag(bd.run_local(query, tables), expected(query, tables))


def test_more_digits_than_a_decimal_holds_raise_with_the_expression() -> None:
    table = pa.table({"n": [2**62]})
    query = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where="a.n * a.n * a.n * a.n * b.n > 0")
    with pytest.raises(InvalidValue, match=r"a\.n\) \* b\.n\) has more than 76 digits"):
        bd.run_local(query, {"a": table, "b": table})


def test_nan_is_larger_than_any_number_and_equal_to_itself() -> None:
    """The page said that comparing with NaN is false; `<>` was true, and keys took NaN for equal."""
    numbers = [math.nan, math.inf, 0.0, -0.0, None]
    table = pa.table({"d": numbers, "i": pa.array([1, None, 3, 4, 5], pa.int32())})
    for sign, other in itertools.product(("=", "<>", "<", "<=", ">", ">="), ("b.d", "b.i", "1", "NULL")):
        query = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where=f"a.d {sign} {other}")
        tables = {"a": table, "b": table}
        assert_same_bag(bd.run_local(query, tables), expected(query, tables))
    above = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where="a.d >= b.d AND b.i = 1")
    assert bd.run_local(above, {"a": table, "b": table}).num_rows == 1
