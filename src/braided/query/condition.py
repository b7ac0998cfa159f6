"""The residual condition (`where`): SQL text read into a small frozen tree.

The tree knows columns, literals and calls of a closed set of operations; the engine evaluates
it on columns (`operators.predicate`), the oracle on single rows (`testing.oracle`).

>>> sorted(parse("orders.amount > 2 * payments.amount").columns())
[('orders', 'amount'), ('payments', 'amount')]
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypeAlias

from braided.query.errors import InvalidType, InvalidValue, shown


@dataclass(frozen=True)
class Column:
    """A column of a stream."""

    stream: str
    column: str

    def columns(self) -> frozenset[tuple[str, str]]:
        """The (stream, column) pairs used."""
        return frozenset({(self.stream, self.column)})


@dataclass(frozen=True)
class Literal:
    """A constant: a number, text, truth value or NULL; `kind` marks dates and timestamps."""

    value: bool | int | float | str | None
    kind: str = ""

    def columns(self) -> frozenset[tuple[str, str]]:
        """None."""
        return frozenset()


@dataclass(frozen=True)
class Call:
    """An operation on its arguments."""

    operation: str
    arguments: tuple[Condition, ...]

    def columns(self) -> frozenset[tuple[str, str]]:
        """All that its arguments use."""
        return frozenset().union(*(a.columns() for a in self.arguments))


Condition: TypeAlias = Column | Literal | Call

_BINARY = {
    "And": "and",
    "Or": "or",
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "Like": "like",
}
_UNARY = {"Not": "not", "Neg": "neg", "Abs": "abs"}
_DATED = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamp"}
SUPPORTED = (
    "columns as stream.column, numbers, 'text', TRUE, FALSE, NULL, DATE '…', TIMESTAMP '…', "
    "= <> < <= > >=, AND OR NOT, + - * / %, IS NULL, IN (…), BETWEEN, LIKE, ABS"
)


def parse(text: str) -> Condition:
    """The condition a SQL text describes."""
    if not isinstance(text, str):
        raise InvalidType(f"where must be SQL text; got {shown(text)}", value=text)
    try:
        return _parse(text)
    except RecursionError:
        raise InvalidValue(f"where is nested too deeply: {text[:60]!r}...; simplify it") from None


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> Condition:
    try:
        import sqlglot  # noqa: PLC0415  (an optional dependency, and 0.1 s to import)
    except ImportError:
        raise InvalidValue(
            "where needs the package sqlglot; install it with: pip install 'braided[sql]'"
        ) from None
    try:
        tree = sqlglot.parse_one(text)
    except sqlglot.errors.SqlglotError as wrong:
        reason = str(wrong).splitlines()[0].rstrip(".")
        raise InvalidValue(f"where is not a SQL condition: {text!r} ({reason})") from None
    return _read(tree, text)


def _read(node: Any, text: str) -> Condition:
    kind = type(node).__name__
    if kind == "Column":
        return _column(node, text)
    if kind == "Paren":
        return _read(node.this, text)
    if kind in _BINARY:
        return Call(_BINARY[kind], (_read(node.this, text), _read(node.expression, text)))
    if kind in _UNARY:
        return Call(_UNARY[kind], (_read(node.this, text),))
    return _other(node, kind, text)


def _other(node: Any, kind: str, text: str) -> Condition:
    if kind == "Literal":
        return Literal(node.this if node.is_string else _number(node.this))
    if kind in ("Boolean", "Null"):
        return Literal(node.this if kind == "Boolean" else None)
    if kind == "Is" and type(node.expression).__name__ == "Null":
        return Call("is null", (_read(node.this, text),))
    if kind == "Between" and not node.args.get("symmetric"):
        value = _read(node.this, text)
        low, high = _read(node.args["low"], text), _read(node.args["high"], text)
        return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
    if kind == "In" and node.expressions:
        return Call("in", tuple(_read(e, text) for e in (node.this, *node.expressions)))
    if kind == "Cast" and node.to.this.name in _DATED and type(node.this).__name__ == "Literal":
        return Literal(node.this.this, _DATED[node.to.this.name])
    raise InvalidValue(f"where cannot use {node.sql()!r} in {text!r}; it can use: {SUPPORTED}")


def _column(node: Any, text: str) -> Column:
    if not node.args.get("table") or node.args.get("db"):
        raise InvalidValue(f"where must name columns as stream.column; got {node.sql()!r} in {text!r}")
    return Column(node.args["table"].name, node.this.name)


def _number(digits: str) -> int | float:
    return int(digits) if digits.isdigit() else float(digits)
