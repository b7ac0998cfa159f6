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
from collections.abc import Sequence

from braided.query.bounds import Pair
from braided.query.durations import to_text, to_us
from braided.query.errors import BraidedError, InvalidValue
from braided.query.join_graph import attributes
from braided.query.join_query import JoinQuery
from braided.query.parts import read_within
from braided.query.sql.conditions import OPEN, Conjunct, Range, meaning, split, tighter
from braided.query.sql.grammar import Clauses, Source, read
from braided.query.sql.words import Word, Words
from braided.query.stream import Stream


def sql(text: str) -> JoinQuery:
    """Read the query that a text describes; the grammar is in docs/howto/sql.md.

    What is wrong raises with its line and column. What has no clause is set afterwards, with
    `dataclasses.replace`.
    """
    words = Words(text)
    try:
        return _query(words, read(words))
    except RecursionError:
        raise InvalidValue("sql: a condition is nested too deeply; simplify it") from None


def _query(words: Words, clauses: Clauses) -> JoinQuery:
    _turn_right(words, clauses)
    streams = []
    for source in clauses.sources:
        with words.blaming(source.name):
            streams.append(Stream(source.name.text, how=source.how, **source.options))
    parts = [(s, split(words, s.on, joins=True)) for s in clauses.sources if s.on]
    after = split(words, clauses.where, joins=False) if clauses.where else []
    for part in [*parts, (None, after)]:
        _check_kinds(words, clauses.sources, *part)
    conditions = [*(c for _, part in parts for c in part), *after]
    joined, within, where = meaning(words, streams, conditions, _within(words, clauses))
    equal = [*_using(clauses), *joined]
    keyed = _keyed(streams, equal)
    options = {option: values[0][1] for option, values in clauses.ends.items()}
    options["within"] = {pair: (to_text(a), to_text(b)) for pair, (a, b) in within.items()} or None
    options["select"] = _select(words, clauses)
    try:
        on = None if keyed or (where and not equal) else equal
        return JoinQuery(keyed or streams, on, where=where, **options)
    except BraidedError as wrong:
        words.wrong(_blamed(clauses, wrong), str(wrong))


def _turn_right(words: Words, clauses: Clauses) -> None:
    """Make a right join a left join of the other stream."""
    sources = clauses.sources
    turned = next((source for source in sources if source.how == "right"), None)
    if turned is None:
        return
    if len(sources) > 2:
        words.wrong(turned.name, "RIGHT JOIN joins two streams; list this one first, and write LEFT JOIN")
    first, second = sources
    first.how, second.how = "left", "inner"
    first.on, second.on = second.on, None
    first.using, second.using = second.using, []
    clauses.sources = [second, first]


def _check_kinds(
    words: Words, sources: Sequence[Source], source: Source | None, part: Sequence[Conjunct]
) -> None:
    """Refuse conditions that would mean something else where streams are optional."""
    kinds = {s.name.text: s.how for s in sources}
    for conjunct in part:
        named = conjunct.streams
        optional = sorted(name for name in named if kinds.get(name, "inner") != "inner")
        if source is None and optional:
            kind = f"{kinds[optional[0]].upper()} JOIN {optional[0]}"
            words.wrong(
                conjunct.at, f"WHERE comes after {kind}; put this after its ON, or filter what comes out"
            )
        own = source.name.text if source is not None else ""
        if source is not None and source.how != "inner" and own not in named:
            says = f"ON of {source.how.upper()} JOIN {own} says only which rows of {own} match"
            words.wrong(conjunct.at, f"{says}; put this after WHERE")
        if source is not None and (others := [name for name in optional if name != own]):
            words.wrong(
                conjunct.at, f"{others[0]} is optional, so no other stream can depend on it; leave it out"
            )


def _blamed(clauses: Clauses, wrong: BraidedError) -> Word | int:
    """Return the clause or the stream that an error is about, or the beginning of the text."""
    if wrong.option in clauses.ends:
        return clauses.ends[wrong.option][0][0]
    return next((source.name for source in clauses.sources if source.name.text == wrong.stream), 0)


def _within(words: Words, clauses: Clauses) -> dict[Pair, Range]:
    """Return the bounds of WITHIN clauses, streams in order."""
    order = [source.name.text for source in clauses.sources]
    bounds: dict[Pair, Range] = {}
    for word, clause in clauses.ends.get("within", ()):
        with words.blaming(word):
            for pair, (low, high) in read_within([clause], order) or ():
                bounds[pair] = tighter(bounds.get(pair, OPEN), (to_us(low), to_us(high)))
    return bounds


def _using(clauses: Clauses) -> list[tuple[str, str]]:
    """Return the equal columns of USING: (k) means the column k of the stream after FROM."""
    first = next(s.name.text for s in clauses.sources if not s.using)
    using = ((source.name.text, column.text) for source in clauses.sources for column in source.using)
    return [(f"{first}.{column}", f"{stream}.{column}") for stream, column in using]


def _keyed(streams: Sequence[Stream], equal: Sequence[tuple[str, str]]) -> list[Stream] | None:
    """Give the streams their keys, if every class of equal columns has one column of each stream.

    And if none has given another one, as what it promises something about.
    """
    texts = [text for pair in equal for text in pair]
    classes = sorted(attributes(equal), key=lambda columns: min(texts.index(f"{s}.{c}") for s, c in columns))
    names = sorted(stream.name for stream in streams)
    if not classes or any(sorted(s for s, _ in columns) != names for columns in classes):
        return None
    keys = {name: tuple(dict(columns)[name] for columns in classes) for name in names}
    if any(stream.key not in (None, keys[stream.name]) for stream in streams):
        return None
    return [dataclasses.replace(stream, key=keys[stream.name]) for stream in streams]


def _select(words: Words, clauses: Clauses) -> dict[str, str] | None:
    if clauses.select is None:
        return None
    chosen: dict[str, str] = {}
    for stream, column, name in clauses.select:
        if name.text in chosen:
            words.wrong(name, f"two columns are called {name.text!r}; rename one of them with AS")
        chosen[name.text] = f"{words.stream(stream.text, stream).text}.{column.text}"
    return chosen
