"""The residual condition (`where`): SQL text read into a small frozen tree.

The tree knows columns, literals and calls of a closed set of operations; the engine evaluates
it on columns (`operators.predicate`), the oracle on single rows (`testing.oracle`).

sqlglot parses the text, and its trees change between versions: `NOT LIKE` was `Not(Like)` and became
`Like(negate=True)`. So `_READ` lists every argument of every node that is read here, and a node or an
argument that is not listed is refused, never ignored.

>>> sorted(parse("orders.amount > 2 * payments.amount").columns())
[('orders', 'amount'), ('payments', 'amount')]
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from braided.query.errors import InvalidType, InvalidValue, shown


@dataclass(frozen=True)
class Column:
    """A column of a stream."""

    stream: str
    column: str

    def columns(self) -> frozenset[tuple[str, str]]:
        """Return the (stream, column) pairs used."""
        return frozenset({(self.stream, self.column)})


@dataclass(frozen=True)
class Literal:
    """A constant: a number, text, truth value or NULL; `kind` marks dates and timestamps."""

    value: bool | int | float | str | None
    kind: str = ""

    def columns(self) -> frozenset[tuple[str, str]]:
        """Return no pair."""
        return frozenset()


@dataclass(frozen=True)
class Call:
    """An operation on its arguments."""

    operation: str
    arguments: tuple[Condition, ...]

    def columns(self) -> frozenset[tuple[str, str]]:
        """Return all pairs that its arguments use."""
        return frozenset().union(*(a.columns() for a in self.arguments))


Condition: TypeAlias = Column | Literal | Call


def show(condition: Condition) -> str:
    """Write an expression as SQL, for messages."""
    if isinstance(condition, Column):
        return f"{condition.stream}.{condition.column}"
    if isinstance(condition, Literal):
        return repr(condition.value)
    inner = [show(a) for a in condition.arguments]
    named = f"{condition.operation.upper()}({', '.join(inner)})"
    return f"({inner[0]} {condition.operation} {inner[1]})" if len(inner) == 2 else named


_COMPARED = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_BINARY = {"And": "and", "Or": "or", "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", **_COMPARED}
_UNARY = {"Not": "not", "Neg": "neg", "Abs": "abs"}
_TESTS = (*_COMPARED, "Is", "In", "Between", "Like")
_PREDICATES = (*_TESTS, "Not", "Escape")
_DATED = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamp"}
_READ = {
    **dict.fromkeys((*_BINARY, "Is", "Escape"), ("this", "expression")),
    **dict.fromkeys((*_UNARY, "Paren", "Boolean", "DataType", "Var"), ("this",)),
    "Like": ("this", "expression", "negate"),
    "Between": ("this", "low", "high"),
    "In": ("this", "expressions"),
    "Column": ("this", "table"),
    "Identifier": ("this", "quoted"),
    "Literal": ("this", "is_string"),
    "Null": (),
    "Cast": ("this", "to"),
    "Interval": ("this", "unit", "fraction_in_string"),  # read by sql.conditions alone, fraction and all
}
MOST_DIGITS = 76
SUPPORTED = (
    "columns as stream.column, numbers, 'text', TRUE, FALSE, NULL, DATE '…', TIMESTAMP '…', "
    "= <> < <= > >=, AND OR NOT, + - * / %, IS NULL, IN (…), BETWEEN, LIKE '…' [ESCAPE '…'], ABS"
)


def parse(text: str) -> Condition:
    """Read the condition that a SQL text describes."""
    if not isinstance(text, str):
        raise InvalidType(f"where must be SQL text; got {shown(text)}", value=text)
    try:
        return _parse(text)
    except RecursionError:
        raise InvalidValue(f"where is nested too deeply: {text[:60]!r}...; simplify it") from None


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> Condition:
    package = sqlglot("where")
    try:
        trees = package.parse(text)
    except package.errors.SqlglotError as wrong:
        reason = str(wrong).splitlines()[0].rstrip(".")
        raise InvalidValue(f"where is not a SQL condition: {text!r} ({reason})") from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidValue(f"where must be one SQL condition; got {text!r}; join several with AND")
    return read(trees[0], text)


def sqlglot(owner: str) -> Any:
    """Import the package when the first text is read."""
    try:
        import sqlglot as package  # noqa: PLC0415  (an optional dependency, and 0.1 s to import)
    except ImportError:
        remedy = "install it with: pip install 'braided[sql]'"
        raise InvalidValue(f"{owner} needs the package sqlglot; {remedy}") from None
    return package


def read(tree: Any, text: str) -> Condition:
    """Read a parsed text; a node or an argument that is not understood raises."""
    for node, argument in unread(tree):
        raise refusal(node, argument, text)
    return _read(tree, text)


def unread(tree: Any) -> Iterator[tuple[Any, str]]:
    """Yield the nodes that are not understood, and which argument of each; all of it if that is empty."""
    for node in tree.walk():
        kind = type(node).__name__
        if kind not in _READ:
            yield node, ""
            continue
        for name, value in node.args.items():
            if name not in _READ[kind] and value is not None and value is not False and value != []:
                yield node, name


def refusal(node: Any, argument: str, text: str) -> InvalidValue:
    """Build the error about a part of a condition that is not understood."""
    if type(node).__name__ == "Column":
        return InvalidValue(f"where must name columns as stream.column; got {node.sql()!r} in {text!r}")
    part = f"{node.sql()!r} ({argument})" if argument else repr(node.sql())
    return InvalidValue(f"where cannot use {part} in {text!r}; it can use: {SUPPORTED}")


def _read(node: Any, text: str) -> Condition:
    kind = type(node).__name__
    _check_grouping(node, kind, text)
    if kind in _BINARY:
        return Call(_BINARY[kind], (_read(node.this, text), _read(node.expression, text)))
    if kind in _UNARY:
        return Call(_UNARY[kind], (_read(node.this, text),))
    if kind == "Paren":
        return _read(node.this, text)
    return _other(node, kind, text)


def _check_grouping(node: Any, kind: str, text: str) -> None:
    """Raise for what engines, or versions of sqlglot, group in different ways.

    `a.x = b.x IS NULL` tests `a.x = b.x` in most engines, and `b.x` in sqlglot, which adds parentheses there.
    """
    left, right = type(node.this).__name__, type(node.args.get("expression")).__name__
    loose = kind == "Mod" and (left in ("Add", "Sub") or right in ("Mul", "Div"))
    if kind in _TESTS:
        loose = (
            left in _PREDICATES or right in _PREDICATES or (right == "Paren" and _is_test(node.expression))
        )
    if loose:
        unclear = f"where: it is unclear what belongs together in {node.sql()!r} in {text!r}"
        example = "(a.x IS NULL) = b.y"
        raise InvalidValue(f"{unclear}; use parentheses, on the left of a comparison: {example}")


def _is_test(node: Any) -> bool:
    while type(node).__name__ in ("Paren", "Not"):
        node = node.this
    return type(node).__name__ == "Is"


def _other(node: Any, kind: str, text: str) -> Condition:
    if kind == "Column" and node.args.get("table"):
        return Column(node.args["table"].name, node.this.name)
    if kind == "Literal":
        return Literal(node.this if node.is_string else _number(node.this, text))
    if kind in ("Boolean", "Null"):
        return Literal(node.this if kind == "Boolean" else None)
    if kind == "Is" and type(node.expression).__name__ == "Null":
        return Call("is null", (_read(node.this, text),))
    if kind == "Between":
        value = _read(node.this, text)
        low, high = _read(node.args["low"], text), _read(node.args["high"], text)
        return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
    if kind == "In" and node.expressions:
        return Call("in", tuple(_read(e, text) for e in (node.this, *node.expressions)))
    if kind == "Cast" and node.to.this.name in _DATED and node.this.is_string:
        return Literal(node.this.this, _DATED[node.to.this.name])
    if kind == "Like":
        return _like(node, Literal("\\"), text)
    if kind == "Escape" and type(node.this).__name__ == "Like":
        return _like(node.this, _read(node.expression, text), text)
    raise refusal(node, "", text)


def _like(node: Any, escape: Condition, text: str) -> Condition:
    """Read LIKE; a backslash escapes in the tree's pattern, whatever escapes in the text."""
    pattern = _read(node.expression, text)
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or pattern.kind:
        raise InvalidType(f"where: LIKE needs a pattern in quotes; got {node.sql()!r} in {text!r}")
    if not isinstance(escape, Literal) or not isinstance(escape.value, str) or len(escape.value) > 1:
        raise InvalidValue(f"where: ESCAPE needs one character in quotes; got {text!r}")
    pieces = _escaped(pattern.value, escape.value)
    call = Call("like", (_read(node.this, text), Literal("".join(pieces))))
    return Call("not", (call,)) if node.args.get("negate") else call


def _escaped(pattern: str, escape: str) -> Iterator[str]:
    """Yield the pieces of a pattern with a backslash, instead of `escape`, before what means itself."""
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            yield "\\\\" if character == "\\" else character
            continue
        literal = next(characters, "")
        if literal not in ("%", "_", escape):
            wrong = f"where: in the pattern {pattern!r} {escape!r} must stand before %, _ or itself"
            remedy = "write it twice to mean itself, or choose another with ESCAPE"
            raise InvalidValue(f"{wrong}; {remedy}")
        yield f"\\{literal}" if literal in "%_\\" else literal


def _number(digits: str, text: str) -> int | float:
    if len(digits) > MOST_DIGITS or float(digits) == math.inf:
        raise InvalidValue(
            f"where: a number in {text[:60]!r} is too large; it has {MOST_DIGITS} digits at most"
        )
    return int(digits) if digits.isdigit() else float(digits)
