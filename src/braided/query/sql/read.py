"""A query as text: SQL's SELECT … FROM … JOIN, and a few words for what only streams have.

The result is the `JoinQuery` that one would write by hand.

>>> query = sql('''
...     SELECT o.order_id, p.method
...     FROM orders AS o WINDOW '2 hours' TIME placed_at
...     JOIN payments AS p WINDOW '2 hours' TIME paid_at
...       ON o.order_id = p.order_id AND p.paid_at BETWEEN o.placed_at AND o.placed_at + INTERVAL '1 hour'
...     WHERE o.amount > 10
... ''')
>>> query.streams[1].key, query.pairs, query.where
(('order_id',), ((('orders', 'payments'), ('0 seconds', '1 hour')),), 'orders.amount > 10')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from braided.query.bounds import Pair
from braided.query.durations import to_text, to_us
from braided.query.errors import BraidedError, InvalidValue
from braided.query.join_graph import JoinGraph, attributes
from braided.query.join_query import JoinQuery
from braided.query.memory import Memory
from braided.query.overload import Overload
from braided.query.plan_tree import Plan
from braided.query.sql import grammar as sql_grammar
from braided.query.sql.conditions import Meaning, Names, Range, conjuncts, meaning, tighter
from braided.query.sql.grammar import Clauses
from braided.query.sql.words import Word, Words
from braided.query.stream import Stream

T = TypeVar("T")


def sql(text: str) -> JoinQuery:
    """Read the query that a text describes; the grammar is in docs/howto/sql.md.

    What is wrong raises with its line and column. What has no clause is set afterwards, with
    `dataclasses.replace`.
    """
    words = Words(text)
    try:
        return _query(words, sql_grammar.read(words))
    except RecursionError:
        raise InvalidValue("sql: a condition is nested too deeply; simplify it") from None


def _query(words: Words, clauses: Clauses) -> JoinQuery:
    names = _names(words, clauses)
    streams = [
        _made(words, source.name, Stream, source.name.text, **source.options) for source in clauses.sources
    ]
    found = [
        part
        for source in clauses.sources
        if source.on
        for part in conjuncts(words, source.on, names, joins=True)
    ]
    if clauses.where:
        found += conjuncts(words, clauses.where, names, joins=False)
    said = meaning(words, streams, found, _within(words, clauses, names))
    equal = [*_using(clauses), *said.equal]
    _check_connected(words, clauses, equal, said)
    keyed = _keyed(streams, equal)
    options = {"select": _select(words, clauses, names), **_ends(words, clauses, names)}
    try:
        return JoinQuery(
            keyed or streams,
            None if keyed or not equal else equal,
            within={pair: (to_text(a), to_text(b)) for pair, (a, b) in said.within.items()} or None,
            where=said.where,
            **options,
        )
    except BraidedError as wrong:
        words.wrong(_blamed(clauses, wrong), str(wrong))


def _blamed(clauses: Clauses, wrong: BraidedError) -> Word | int:
    """The stream that an error is about, or the beginning of the text."""
    return next((source.name for source in clauses.sources if source.name.text == wrong.stream), 0)


def _made(words: Words, at: Word, make: Callable[..., T], *values: Any, **options: Any) -> T:
    """Build a part of the query; an error names its place in the text."""
    try:
        return make(*values, **options)
    except BraidedError as wrong:
        words.wrong(at, str(wrong))


def _names(words: Words, clauses: Clauses) -> Names:
    """Streams by their short names, and by their own unless these are another's short name."""
    called: dict[str, str] = {}
    for source in clauses.sources:
        if source.alias.text in called:
            words.wrong(
                source.alias, f"{source.alias.text!r} is the name of two streams; choose another with AS"
            )
        called[source.alias.text] = source.name.text
    streams = [source.name for source in clauses.sources]
    for i, name in enumerate(streams):
        if name.text in [before.text for before in streams[:i]]:
            words.wrong(
                name,
                f"stream {name.text!r} is joined twice; give the same rows twice, under two names, such as "
                f"{name.text}_a and {name.text}_b",
            )
    quoted = frozenset(name.text for name in streams if name.kind == "name" or not name.plain)
    return Names(words, {name.text: name.text for name in streams} | called, quoted)


def _within(words: Words, clauses: Clauses, names: Names) -> dict[Pair, Range]:
    """The bounds of WITHIN clauses, streams in order."""
    order = [source.name.text for source in clauses.sources]
    bounds: dict[Pair, Range] = {}
    for said in clauses.within:
        first, second = names.stream(said.first), names.stream(said.second)
        ends = [_made(words, said.at, to_us, text, owner="WITHIN") for text in said.bound]
        low, high = (-ends[0], ends[0]) if len(ends) == 1 else ends
        if first == second:
            words.wrong(said.second, f"WITHIN needs two different streams; got {first!r} twice")
        if low > high:
            words.wrong(said.at, f"WITHIN: from must not be above to; got {to_text(low)} to {to_text(high)}")
        if order.index(first) > order.index(second):
            first, second, low, high = second, first, -high, -low
        pair = first, second
        bounds[pair] = tighter(bounds.get(pair, (low, high)), (low, high))
    return bounds


def _using(clauses: Clauses) -> list[tuple[str, str]]:
    """USING (k) means the column k of the stream after FROM."""
    first = clauses.sources[0].name.text
    return [
        (f"{first}.{column.text}", f"{source.name.text}.{column.text}")
        for source in clauses.sources
        for column in source.using
    ]


def _check_connected(words: Words, clauses: Clauses, equal: Sequence[tuple[str, str]], said: Meaning) -> None:
    """Raise if equalities join some streams and not others; without any, `where` must say what joins."""
    streams = [source.name for source in clauses.sources]
    joined = JoinGraph(attributes(equal)).connected([s.text for s in streams])
    apart = next((s for s in streams if s.text not in joined), None)
    if apart is not None and (equal or said.where is None):
        words.wrong(
            apart,
            f"no equality joins stream {apart.text!r} with {', '.join(map(repr, joined))}; add one after ON, "
            f"such as {joined[0]}.id = {apart.text}.id",
        )


def _keyed(streams: Sequence[Stream], equal: Sequence[tuple[str, str]]) -> list[Stream] | None:
    """The streams with their keys, if every class of equal columns has one column of each stream."""
    texts = [text for pair in equal for text in pair]
    classes = sorted(attributes(equal), key=lambda columns: min(texts.index(f"{s}.{c}") for s, c in columns))
    names = sorted(stream.name for stream in streams)
    if not classes or any(sorted(s for s, _ in columns) != names for columns in classes):
        return None
    keys = {name: tuple(dict(columns)[name] for columns in classes) for name in names}
    return [dataclasses.replace(stream, key=keys[stream.name]) for stream in streams]


def _select(words: Words, clauses: Clauses, names: Names) -> dict[str, str] | None:
    if clauses.select is None:
        return None
    chosen: dict[str, str] = {}
    for item in clauses.select:
        if item.name.text in chosen:
            words.wrong(item.name, f"two columns are called {item.name.text!r}; rename one of them with AS")
        chosen[item.name.text] = f"{names.stream(item.stream)}.{item.column.text}"
    return chosen


def _ends(words: Words, clauses: Clauses, names: Names) -> dict[str, Any]:
    """The options that stand at the end of a query."""
    made: dict[str, Any] = {}
    for said, value in clauses.ends.values():
        if said.upper == "MEMORY":
            made["memory"] = _made(words, said, Memory, value)
        elif said.upper == "OVERLOAD":
            made["overload"] = _made(words, said, Overload, **value)
        elif said.upper == "PLAN":
            made["plan"] = value if isinstance(value, str) else _plan(value, names)
        else:
            made["emit_punctuations"] = True
    return made


def _plan(node: list[Any], names: Names) -> Plan:
    return tuple(_plan(child, names) if isinstance(child, list) else names.stream(child) for child in node)
