"""What the conditions after ON and WHERE mean: equal columns, bounds on times, and the rest.

A condition is a conjunction. An equality of two streams' columns after ON joins them. A comparison of two
streams' time columns, with intervals added or not, is a bound on `time_second - time_first`; times are whole
microseconds, so `<` is `<=` with one microsecond less. Everything else is left to `where`.

A bound of one side only is closed by a window: `window` says how long after its own time a row of the first
stream may be met. Without a window a plain comparison of times is left to `where`, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from braided.query import condition
from braided.query.bounds import INFINITE_US, Pair
from braided.query.durations import to_us
from braided.query.errors import did_you_mean
from braided.query.sql.grammar import CLAUSES
from braided.query.sql.words import Words
from braided.query.stream import Stream

Range: TypeAlias = tuple[int, int]  # from, to; a side that is infinite is open
OPEN: Range = (-INFINITE_US, INFINITE_US)
_US = ""  # beside the streams: the microseconds of a sum of times
_FLIPPED = {"GT": "LT", "GTE": "LTE"}


@dataclass(frozen=True)
class Conjunct:
    """One of the conditions that all must hold."""

    node: Any
    at: int  # where in the text it stands
    joins: bool  # it stands after ON

    @property
    def kind(self) -> str:
        """What the parser calls it."""
        return type(self.node).__name__

    @property
    def streams(self) -> set[str]:
        """The streams that it names."""
        return {node.table for node in self.node.walk() if type(node).__name__ == "Column"}


def split(words: Words, span: tuple[int, int], *, joins: bool) -> list[Conjunct]:
    """Return the conditions of a part of the text, with the streams' own names in them."""
    tree = _parse(words, span)
    _rename(words, tree, span[0])
    _check_read(words, tree, span)
    return [Conjunct(node, _position(node, span[0]), joins) for node in _conjuncts(tree)]


def _conjuncts(node: Any) -> list[Any]:
    kind = type(node).__name__
    if kind == "And":
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    return _conjuncts(node.this) if kind == "Paren" else [node]


def _rename(words: Words, tree: Any, at: int) -> None:
    """Call the columns of an expression by the streams' own names."""
    for column in [c for c in tree.walk() if type(c).__name__ == "Column"]:
        place, table = _position(column, at), column.args.get("table")
        if table is None or column.args.get("db") or not column.name or column.name == "*":
            text = "; a text has single quotes" if column.this.args.get("quoted") else ""
            words.wrong(place, f"{column.sql()!r} is no column of a stream; write stream.column{text}")
        stream = words.stream(table.name, place)
        table.set("this", stream.text)
        table.set("quoted", not stream.plain)


def meaning(
    words: Words, streams: Sequence[Stream], conjuncts: Sequence[Conjunct], given: Mapping[Pair, Range]
) -> tuple[list[tuple[str, str]], dict[Pair, Range], str | None]:
    """Return which columns are equal, how far times may be apart (`given`, too), and what is left to `where`.

    Equal columns are pairs of "stream.column".
    """
    equal, timed, bounds = [], [], dict(given)
    for conjunct in conjuncts:
        if columns := _equality(conjunct):
            equal.append(columns)
            continue
        ranges = _bounds(words, conjunct, streams)
        timed.append((conjunct, ranges))
        for pair, bound in ranges:
            bounds[pair] = tighter(bounds.get(pair, OPEN), bound)
    closed = {pair: _close(bound, pair, streams) for pair, bound in bounds.items()}
    within = {p: (a, b) for p, (a, b) in closed.items() if a > -INFINITE_US and b < INFINITE_US}
    rest = [(c, ranges) for c, ranges in timed if not ranges or any(p not in within for p, _ in ranges)]
    return equal, within, " AND ".join(_checked(words, c, ranges) for c, ranges in rest) or None


def _parse(words: Words, span: tuple[int, int]) -> Any:
    """Parse a condition; all text before it is blanked, so that errors have its own line and column."""
    package = condition.sqlglot("sql")
    before = "".join(c if c == "\n" else " " for c in words.text[: span[0]])
    try:
        return package.parse_one(before + words.text[span[0] : span[1]], into=package.exp.Condition)
    except package.errors.SqlglotError as wrong:
        seen = (getattr(wrong, "errors", None) or [{}])[0]
        near, at = seen.get("highlight") or "", span[0]
        if near:
            lines = words.text.split("\n")[: seen["line"] - 1]
            at = sum(len(line) + 1 for line in lines) + max(0, seen["col"] - len(near))
        hint = did_you_mean(near.upper(), CLAUSES)
        hint = hint if near and hint.startswith("did") else "is a part missing, such as AND or a column?"
        words.wrong(at, f"the condition cannot be read{f' at {near!r}' if near else ''}; {hint}")


def _check_read(words: Words, tree: Any, span: tuple[int, int]) -> None:
    """Raise unless every node, and every argument of it, is one that `where` or the code below reads."""
    for node, argument in condition.unread(tree):
        place = node
        while place.parent and not any("start" in n.meta for n in place.walk()):
            place = place.parent
        message = str(condition.refusal(node, argument, words.text[slice(*span)]))
        words.wrong(_position(place, span[0]), message)


def _position(node: Any, otherwise: int) -> int:
    """Return where the leftmost name or literal of an expression stands."""
    return min((n.meta["start"] for n in node.walk() if "start" in n.meta), default=otherwise)


def _equality(conjunct: Conjunct) -> tuple[str, str] | None:
    """Return the columns of two streams that a condition after ON makes equal."""
    if not conjunct.joins or conjunct.kind != "EQ":
        return None
    left, right = conjunct.node.this, conjunct.node.expression
    if {type(left).__name__, type(right).__name__} != {"Column"} or left.table == right.table:
        return None
    return f"{left.table}.{left.name}", f"{right.table}.{right.name}"


def _bounds(words: Words, conjunct: Conjunct, streams: Sequence[Stream]) -> list[tuple[Pair, Range]]:
    """Return how a condition bounds the times of two streams; nothing if it is about something else."""
    node, times = conjunct.node, {s.name: s.time for s in streams}
    if conjunct.kind == "Between":
        steps = [("LTE", node.args["low"], node.this), ("LTE", node.this, node.args["high"])]
    elif conjunct.kind in ("EQ", "LT", "LTE"):
        steps = [(conjunct.kind, node.this, node.expression)]
    elif conjunct.kind in _FLIPPED:
        steps = [(_FLIPPED[conjunct.kind], node.expression, node.this)]
    else:
        return []
    ranges = []
    for kind, smaller, larger in steps:
        difference = Counter[Any]()
        for side, sign in ((smaller, 1), (larger, -1)):
            for term, n in _terms(words, side, conjunct.at, times, sign):
                difference[term] += n
        ranges.append(_bound(kind, difference, list(times)))
    return [bound for bound in ranges if bound] if all(ranges) else []


def _terms(
    words: Words, node: Any, at: int, times: Mapping[str, Any], sign: int
) -> Iterator[tuple[Any, int]]:
    """Yield what an expression is the sum of: streams' times and microseconds, and how often."""
    kind = type(node).__name__
    if kind == "Column" and times[node.table] == node.name:
        yield node.table, sign
    elif kind == "Interval":
        yield _US, sign * _interval_us(words, node, at)
    elif kind in ("Paren", "Neg"):
        yield from _terms(words, node.this, at, times, -sign if kind == "Neg" else sign)
    elif kind in ("Add", "Sub"):
        yield from _terms(words, node.this, at, times, sign)
        yield from _terms(words, node.expression, at, times, -sign if kind == "Sub" else sign)
    else:
        yield id(node), sign  # something else, which cancels with nothing


def _interval_us(words: Words, node: Any, at: int) -> int:
    number, unit, place = node.this, node.args.get("unit"), _position(node, at)
    if type(number).__name__ != "Literal":
        words.wrong(place, f"{node.sql()!r} is no INTERVAL '1 hour'; put a sign before INTERVAL")
    with words.blaming(place):
        return to_us(f"{number.name} {'' if unit is None else unit.name}".strip(), owner="INTERVAL")


def _bound(kind: str, difference: Counter[Any], order: Sequence[str]) -> tuple[Pair, Range] | None:
    """Return how two streams' times are bounded if `difference` is at most (or below, or equal to) zero."""
    signs = {term: n for term, n in difference.items() if n and term != _US}
    if sorted(signs.values()) != [-1, 1] or not signs.keys() <= set(order):
        return None
    first, second = sorted(signs, key=order.index)
    most = -difference[_US] - (kind == "LT")
    if kind == "EQ":
        exact = most * signs[second]
        return (first, second), (exact, exact)
    return (first, second), (OPEN[0], most) if signs[second] > 0 else (-most, OPEN[1])


def tighter(one: Range, other: Range) -> Range:
    """Return the bound that is both bounds together."""
    return max(one[0], other[0]), min(one[1], other[1])


def _close(bound: Range, pair: Pair, streams: Sequence[Stream]) -> Range:
    """Close an open side of a bound with the window of the stream that comes first there."""
    windows_us = {s.name: INFINITE_US if s.window_us is None else s.window_us for s in streams}
    first_us, second_us = (windows_us[name] for name in pair)
    return -second_us if bound[0] == OPEN[0] else bound[0], first_us if bound[1] == OPEN[1] else bound[1]


def _checked(words: Words, conjunct: Conjunct, ranges: Sequence[tuple[Pair, Range]]) -> str:
    """Write a condition as `where` takes it; `ranges` are its bounds on times that stay open."""
    sql: str = conjunct.node.sql(comments=False)
    text = f"({sql})" if conjunct.kind == "Or" else sql
    if any(type(n).__name__ == "Interval" for n in conjunct.node.walk()):
        for (first, second), (low, _) in ranges:
            remedy = f"bound the other side too, or give {second if low == OPEN[0] else first} a WINDOW"
            words.wrong(conjunct.at, f"{text!r} bounds {first} and {second} from one side only; {remedy}")
        only = "it only goes with the TIME columns of two streams, compared by <= …"
        words.wrong(conjunct.at, f"INTERVAL in {text!r}: {only}")
    with words.blaming(conjunct.at):
        same = condition.parse(text) == condition.read(conjunct.node, text)
    if not same:
        words.wrong(conjunct.at, f"{text!r} cannot be read back; write it with other words")
    return text
