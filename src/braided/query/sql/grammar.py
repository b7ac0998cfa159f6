"""The clauses of a query text: what stands where, not yet what it means.

Every word is read by a rule, so nothing is skipped in silence; conditions after ON and WHERE are left as
they are, for `sql.conditions`. docs/howto/sql.md has the grammar as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from braided.query.errors import did_you_mean
from braided.query.sql.options import ENDS, OPTIONS
from braided.query.sql.words import Word, Words

Item: TypeAlias = tuple[Word, Word, Word]  # after SELECT: stream, column and output name


@dataclass
class Source:
    """A stream after FROM or JOIN."""

    name: Word
    alias: Word
    options: dict[str, Any] = field(default_factory=dict)
    how: str = "inner"
    on: tuple[int, int] | None = None
    using: list[Word] = field(default_factory=list)


@dataclass
class Clauses:
    """A query text in parts."""

    select: list[Item] | None
    sources: list[Source]
    where: tuple[int, int] | None = None
    ends: dict[str, list[tuple[Word, Any]]] = field(default_factory=dict)  # by the query's option


_NOT, _KEYLESS = "is not supported", "write JOIN … ON with an equality of columns"
_AFTERWARDS = "do it with what comes out"
REFUSED = {
    word: f"{word}{sentence}"
    for words, sentence in {
        "OUTER": f" JOIN {_NOT}; write LEFT, RIGHT or FULL JOIN",
        "CROSS/NATURAL": f" JOIN {_NOT}; {_KEYLESS}",
        "ASOF": f" JOIN {_NOT}; {_KEYLESS}, and bound times with WITHIN",
        "LATERAL": f" {_NOT}; {_KEYLESS}",
        "GROUP BY": f" {_NOT}; {_AFTERWARDS} (on Spark a windowed aggregation may follow the join)",
        "HAVING/QUALIFY": f" {_NOT}; {_AFTERWARDS}",
        "ORDER BY/OFFSET": f" {_NOT}; {_AFTERWARDS}: the order of results is free",
        "LIMIT/FETCH": f" {_NOT}; {_AFTERWARDS}: streams have no end",
        "DISTINCT": f" {_NOT}; {_AFTERWARDS}: results are a bag",
        "UNION/INTERSECT/EXCEPT": f" {_NOT}; write one query for each part",
        "WITH": f" {_NOT}; name the streams after FROM and JOIN",
        "TABLESAMPLE": f" {_NOT}; to lose rows on purpose, use OVERLOAD",
    }.items()
    for word in words.split("/")
} | {",": f"a comma between streams {_NOT}; {_KEYLESS}"}
_COLUMNS = "SELECT takes columns as stream.column, or * for all (no expressions: compute with what comes out)"
_FUNCTIONS = ("LEFT", "RIGHT")
_KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
CLAUSES = ("JOIN", *_KINDS, "ON", "USING", "WHERE", *ENDS)
_STARTS = {*CLAUSES, *OPTIONS, *REFUSED, ";"} - {","}


def read(words: Words) -> Clauses:
    """Read the clauses of a text."""
    select = _select(words)
    words.expect("FROM", "a query is SELECT … FROM … JOIN …")
    clauses = Clauses(select, [_source(words)])
    while (how := _kind(words)) is not None:
        clauses.sources.append(_joined(words, how))
    if len(clauses.sources) == 1 and words.peek().upper not in REFUSED:
        words.wrong(words.peek(), "a join needs two streams or more; add JOIN … ON …")
    if words.accept("WHERE"):
        clauses.where = _condition(words, "WHERE")
    words.streams = _called(words, clauses.sources)
    while (word := words.peek()).upper in ENDS:
        option, read_value = ENDS[words.read().upper]
        if option in clauses.ends and option != "within":
            words.wrong(word, f"{word.upper} is given twice; leave one out")
        clauses.ends.setdefault(option, []).append((word, read_value(words)))
    if words.accept(";") and words.peek().kind != "end":
        words.wrong(words.peek(), "one query at a time; leave out what follows ';'")
    if words.peek().kind != "end":
        _unexpected(words, ("JOIN", *(("WHERE",) if clauses.where is None else ()), *ENDS))
    return clauses


def _kind(words: Words) -> str | None:
    """Read the words of a join, JOIN included; None if there is no join."""
    if words.accept("JOIN"):
        return "inner"
    for kind in _KINDS:
        forms: list[tuple[str, ...]] = [(kind, "JOIN")]
        forms += [(kind, "OUTER", "JOIN")] if kind in ("LEFT", "RIGHT", "FULL") else []
        forms += [("LEFT", kind, "JOIN")] if kind in ("SEMI", "ANTI") else []
        if any(words.accept(*form) for form in forms):
            return kind.lower()
    return None


def _unexpected(words: Words, known: tuple[str, ...]) -> NoReturn:
    word = words.peek()
    if word.upper in REFUSED:
        words.wrong(word, REFUSED[word.upper])
    if word.upper in OPTIONS:
        words.wrong(word, f"{word.upper} belongs to a stream: put it behind the stream's name, before ON")
    if word.upper in _STARTS - {";"}:
        words.wrong(word, f"{word.upper} is not expected here; write SELECT … FROM … JOIN … ON … WHERE …")
    words.wrong(word, f"unexpected {word.shown}; {did_you_mean(word.text.upper(), known)}")


def _called(words: Words, sources: Sequence[Source]) -> dict[str, Word]:
    """Return streams by their short names, and by their own unless these are another's short name."""
    own, short = dict[str, Word](), dict[str, Word]()
    for source in sources:
        name, alias = source.name, source.alias
        if alias.text in short:
            words.wrong(alias, f"{alias.text!r} is the name of two streams; choose another with AS")
        if name.text in own:
            remedy = f"give the same rows twice, under two names, such as {name.text}_a and {name.text}_b"
            words.wrong(name, f"stream {name.text!r} is joined twice; {remedy}")
        own[name.text] = short[alias.text] = name
    return own | short


def _select(words: Words) -> list[Item] | None:
    if not words.accept("SELECT"):
        _unexpected(words, ("SELECT",))
    if words.accept("*"):
        if words.peek().upper == ",":
            words.wrong(words.peek(), "SELECT * is all columns already; leave out the others, or name all")
        return None
    return words.listed(_item)


def _item(words: Words) -> Item:
    if not words.peek().names or words.peek(1).text != ".":
        _no_column(words)
    stream, _ = words.read(), words.read()
    if words.peek().text == "*":
        words.wrong(stream, f"{stream.text}.* is not supported; name its columns, or use SELECT * for all")
    column = name = words.name(f"a column of {stream.text}")
    if words.accept("AS"):
        name = words.name("a name after AS")
    elif words.peek().names and words.peek().upper != "FROM":
        name = words.read()
    if words.peek().upper not in (",", "FROM"):
        words.wrong(words.peek(), f"unexpected {words.peek().shown}; {_COLUMNS}")
    return stream, column, name


def _no_column(words: Words) -> NoReturn:
    word, then = words.peek(), words.peek(1)
    if word.upper in REFUSED and word.upper != ",":
        words.wrong(word, REFUSED[word.upper])
    if word.upper == "RESULT_TIME":
        words.wrong(word, "result_time comes out by itself; leave it out of SELECT")
    if word.names and then.upper in (",", "AS", "FROM", ""):
        words.wrong(word, f"{word.shown} has no stream; {_COLUMNS}")
    words.wrong(word, f"unexpected {word.shown}; {_COLUMNS}")


def _source(words: Words) -> Source:
    word = words.peek()
    if word.upper == "(":
        words.wrong(word, "a subquery is not supported; name a stream, and filter with WHERE")
    if word.upper in _STARTS and not word.plain:
        words.wrong(word, f'expected a stream, got {word.shown}; quote it ("…") if that is its name')
    name = words.name("the name of a stream")
    if words.peek().text in (".", "("):
        words.wrong(name, f"{name.text}{words.peek().text}… is no stream; use one plain name")
    source = Source(name, _alias(words) or name)
    while (word := words.peek()).upper in OPTIONS:
        option = words.read().upper.lower()
        if option in source.options:
            words.wrong(word, f"{word.upper} is given twice for stream {name.text!r}; leave one out")
        source.options[option] = OPTIONS[word.upper](words)
    if word.upper == "," and words.peek(1).upper in OPTIONS:
        words.wrong(word, "options of a stream have no commas between them")
    if word.kind != "end" and word.upper not in _STARTS:
        _unexpected(words, (*OPTIONS, *CLAUSES))
    return source


def _alias(words: Words) -> Word | None:
    if words.accept("AS"):
        return words.name("a short name after AS")
    word, then = words.peek(), words.peek(1)
    if not word.names or word.upper in _STARTS:
        return None
    if then.kind in ("text", "number"):  # a mistyped option, and not a short name
        _unexpected(words, (*OPTIONS, *ENDS))
    return words.read()


def _joined(words: Words, how: str) -> Source:
    source = _source(words)
    source.how = how
    if words.accept("ON"):
        source.on = _condition(words, "ON")
    elif words.accept("USING"):
        words.expect("(", "write USING (column, …)")
        source.using = words.listed(lambda words: words.name("a column after USING"))
        words.expect(")", "write USING (column, …)")
    elif words.peek().upper in REFUSED:
        _unexpected(words, ())
    else:
        words.wrong(source.name, f"JOIN {source.name.text} has no ON; add ON with an equality of columns")
    return source


def _condition(words: Words, after: str) -> tuple[int, int]:
    """Return where in the text a condition stands: up to the next clause."""
    first, last, depth = words.peek(), words.peek(), 0
    while words.peek().kind != "end" and (depth or not _starts_clause(words)):
        last = words.peek()
        if last.upper == "SELECT" and not words.dotted():
            words.wrong(last, "a subquery is not supported; join the stream instead")
        depth += (last.upper == "(") - (last.upper == ")")
        words.read()
    if first is last and words.peek() is first:
        words.wrong(first, f"{after} needs a condition; got {first.shown}")
    if words.peek().upper in OPTIONS:
        _unexpected(words, ())
    return first.start, last.end


def _starts_clause(words: Words) -> bool:
    word = words.peek()
    if word.upper in _FUNCTIONS and words.peek(1).text == "(":
        return False
    return word.upper in _STARTS and not words.dotted()
