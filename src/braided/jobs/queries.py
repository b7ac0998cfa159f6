"""The query of a job, with every mistake at the line of the value that caused it, and the columns it needs.

The classes of `braided.query` check themselves and raise at the first mistake; the error's fields tell which
value is to blame. That value is left out and the rest is checked again, so that all mistakes are found. A
complaint that something is missing that was left out is none; where nothing can be left out, the search ends.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from braided.jobs.problems import Place, Problem, Problems
from braided.query.checks import streaming_problems
from braided.query.errors import BraidedError, did_you_mean
from braided.query.join_graph import column_name
from braided.query.join_query import JoinQuery
from braided.query.sql.read import sql

_OPTIONS = {f.name for f in dataclasses.fields(JoinQuery)}
_PARTS = ("streams", "tuning", "overload", "memory")
_STAND_INS: dict[Place, str] = {("memory", "limit"): "1 GB"}  # for what cannot be left out
_MOST = 100  # mistakes that are looked for


def read_query(written: Any, at: Place, problems: Problems) -> JoinQuery | None:
    """The query a job file describes, or None; what is wrong with it is added to `problems`."""
    if not isinstance(written, str | Mapping):
        problems.must(at, "a mapping, with streams, or SQL", written)
        return None
    before = len(problems)
    query = _checked(written, at, problems)
    for wrong in streaming_problems(query) if query is not None else ():
        problems.add((*at, *place_of(wrong, written)), str(wrong))
    return query if len(problems) == before else None


def place_of(wrong: BraidedError, query: Any) -> Place:
    """Where in a query, as a file has it, the value is that an error is about."""
    if isinstance(query, str):
        return ()  # the message says where in the text
    inner = (*(() if wrong.option is None else (wrong.option,)), *(wrong.position or ()))
    if wrong.option in _OPTIONS or wrong.stream is None:
        return inner
    return (*_stream_place(query, wrong.stream), *inner)


def _stream_place(query: Mapping[str, Any] | str, name: str) -> Place:
    """The place of a stream, by name or in a list; in words, the query's own."""
    streams = {} if isinstance(query, str) else query.get("streams")
    if isinstance(streams, Mapping):
        return ("streams", name) if name in streams else ()
    named = (i for i, s in enumerate(streams or ()) if isinstance(s, Mapping) and s.get("name") == name)
    return next((("streams", i) for i in named), ())


def missing_columns(
    query: JoinQuery, written: Mapping[str, Any] | str, columns: Mapping[str, Sequence[str] | None]
) -> Iterator[Problem]:
    """Columns that the query uses (`written`: as in the file) and that known `columns` of a stream lack."""
    for stream, column, at, use in _used(query, written):
        known = columns.get(stream)
        if known is not None and column not in known:
            hint = did_you_mean(column, known)
            yield Problem(at, f"stream {stream!r} has no column {column!r} ({use}); {hint}")


def _used(query: JoinQuery, written: Mapping[str, Any] | str) -> Iterator[tuple[str, str, Place, str]]:
    """Stream, column, place in the file, and what for."""
    for stream in query.streams:
        at = ("query", *_stream_place(written, stream.name))
        for column in stream.key_columns if query.on is None else ():
            yield stream.name, column, (*at, "key"), "its key"
        asides = (("time", stream.time), ("punctuation", stream.flag), ("punctuation", stream.upto))
        for option, aside in asides:
            if aside is not None:
                yield stream.name, aside, (*at, option), f"its {option}"
    for text in itertools.chain(*(query.on or ())):
        yield *column_name(text), ("query", "on"), "used by on"
    for name, owner, column in query.selected or ():
        yield owner, column, ("query", "select", name), f"selected as {name!r}"
    for owner, column in sorted(query.condition.columns()) if query.condition is not None else ():
        yield owner, column, ("query", "where"), "used by where"


def _checked(written: str | Mapping[str, Any], at: Place, problems: Problems) -> JoinQuery | None:
    query: Any = written if isinstance(written, str) else _without_empty(written)
    blamed: set[Place] = set()
    for _ in range(_MOST):
        try:
            made = sql(query) if isinstance(query, str) else JoinQuery.from_dict(query)
        except BraidedError as wrong:
            place = place_of(wrong, query)
            again = any(earlier[: len(place)] == place for earlier in blamed)
            if not again:
                problems.add((*at, *place), str(wrong))
                blamed.add(place)
            query = _left_out(query, place, again=again)
            if query is None:
                return None
        else:
            return None if blamed else made
    return None


def _left_out(query: Any, place: Place, *, again: bool) -> Any:
    """The query without the value at a place, or without all around it; None if it cannot be left out."""
    if place[:2] in _STAND_INS and not again:
        return {**query, place[0]: {**query[place[0]], place[1]: _STAND_INS[place[:2]]}}
    if place[:1] == ("streams",):
        return None if again or len(place) < 3 else _without(query, place[:3])
    if again and place[:1] == ("on",):
        return None  # without it the streams would need keys
    return _without(query, place[:1] if again else place[:2])


def _without(values: Any, place: Place) -> Any:
    """A copy that lacks the value at a place; None if there is none."""
    copy = inner = deepcopy(values)
    try:
        for key in place[:-1]:
            inner = inner[key]
        del inner[place[-1]]
    except (LookupError, TypeError):
        return None
    return copy


def _without_empty(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query without options that are left empty, in it, its streams and its parts."""
    filled = _filled(query)
    parts = {part: _filled(filled[part]) for part in _PARTS if part in filled}
    if isinstance(filled.get("streams"), Mapping):
        parts["streams"] = {name: _filled(stream) for name, stream in filled["streams"].items()}
    return {**filled, **parts}


def _filled(options: Any) -> Any:
    if isinstance(options, list):
        return [*map(_filled, options)]
    if not isinstance(options, Mapping):
        return options
    return {name: value for name, value in options.items() if value is not None}
