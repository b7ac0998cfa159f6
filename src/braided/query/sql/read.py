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
from braided.query.parts import read_within
from braided.query.plan_tree import Plan
from braided.query.sql import grammar as sql_grammar
from braided.query.sql.conditions import Meaning, Names, Range, meaning, split, tighter
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
    spans = [*((source.on, True) for source in clauses.sources), (clauses.where, False)]
    conditions = [c for span, joins in spans if span for c in split(words, span, names, joins=joins)]
    meant = meaning(words, streams, conditions, _within(words, clauses, names))
    equal = [*_using(clauses), *meant.equal]
    _check_connected(words, clauses, equal, meant)
    keyed = _keyed(streams, equal)
    ends = {option: value for option, (_, value) in clauses.ends.items()}
    if isinstance(ends.get("plan"), list):
        ends["plan"] = _plan(ends["plan"], names)
    select = _select(words, clauses, names)
    try:
        return JoinQuery(
            keyed or streams,
            None if keyed or not equal else equal,
            within={pair: (to_text(a), to_text(b)) for pair, (a, b) in meant.within.items()} or None,
            where=meant.where,
            select=select,
            **ends,
        )
    except BraidedError as wrong:
        words.wrong(_blamed(clauses, wrong), str(wrong))


def _blamed(clauses: Clauses, wrong: BraidedError) -> Word | int:
    """The clause or the stream that an error is about, or the beginning of the text."""
    if wrong.option in clauses.ends:
        return clauses.ends[wrong.option][0]
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
    """Return the bounds of WITHIN clauses, streams in order."""
    order = [source.name.text for source in clauses.sources]
    bounds: dict[Pair, Range] = {}
    for word, clause in clauses.within:
        streams = names.stream(clause.first), names.stream(clause.second)
        if streams[0] == streams[1]:
            words.wrong(clause.second, f"WITHIN needs two different streams; got {streams[0]!r} twice")
        for pair, texts in _made(words, word, read_within, [(streams, clause.bound)], order) or ():
            low, high = map(to_us, texts)
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


def _check_connected(
    words: Words, clauses: Clauses, equal: Sequence[tuple[str, str]], meant: Meaning
) -> None:
    """Raise if equalities join some streams and not others; without any, `where` must say what joins."""
    streams = [source.name for source in clauses.sources]
    joined = JoinGraph(attributes(equal)).connected([s.text for s in streams])
    apart = next((s for s in streams if s.text not in joined), None)
    if apart is not None and (equal or meant.where is None):
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


def _plan(node: list[Any], names: Names) -> Plan:
    return tuple(_plan(child, names) if isinstance(child, list) else names.stream(child) for child in node)
