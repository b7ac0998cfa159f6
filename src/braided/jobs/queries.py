"""The query of a job, with every mistake at the line of the value that caused it.

The classes of `braided.query` check themselves and raise at the first mistake. Which value is to blame is
found by leaving values out, one at a time: if the sentence changes, the value had to do with it; of several,
the one that the sentence names. Then what is to blame is left out for good, and the rest is checked again, so
that all mistakes are found. That works for every check they make, now or later.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from braided.jobs.problems import Place, Problem, called
from braided.jobs.shapes import Found, given, required, unknown_keys
from braided.query.errors import BraidedError
from braided.query.join_query import JoinQuery
from braided.query.memory import Memory
from braided.query.overload import Overload
from braided.query.sql.read import sql
from braided.query.stream import Stream
from braided.query.streaming import streaming_problems
from braided.query.tuning import Tuning

Build: TypeAlias = Callable[[Any], object]
_PARTS: dict[str, Any] = {"tuning": Tuning, "overload": Overload, "memory": Memory}
_REQUIRED = re.compile(r"missing \d+ required")
_STAND_IN: dict[Place, dict[str, Any]] = {("limit",): {"limit": "1 GB"}}  # what cannot be left out
_MOST = 50  # mistakes of one part


def read_query(said: Any, at: Place, found: Found) -> JoinQuery | None:
    """The query a job file describes; what is wrong with it is added to `found`."""
    if isinstance(said, str):
        return _in_words(said, at, found)
    if not isinstance(said, Mapping):
        found.append(Problem(at, f"{called(at)} must be a mapping, with streams, or SQL; got {given(said)}"))
        return None
    before = len(found)
    unknown_keys(JoinQuery, said, at, found)
    known = {f.name for f in dataclasses.fields(JoinQuery)}
    query = {name: value for name, value in said.items() if name in known and value is not None}
    if "streams" not in query:
        found.append(Problem(at, f"{called(at)}: streams is missing; name the streams that are joined"))
        return None
    query = _parts(query, at, found)
    query = _mended(JoinQuery.from_dict, query, at, found)
    if len(found) > before or query is None:
        return None
    made = JoinQuery.from_dict(query)
    for stream, missing in streaming_problems(made):
        found.append(Problem((*at, *stream_place(query, stream.name)[1:]), missing))
    return made if len(found) == before else None


def _in_words(text: str, at: Place, found: Found) -> JoinQuery | None:
    """A query in words; its mistakes say where in the text they are."""
    try:
        query = sql(text)
    except BraidedError as wrong:
        found.append(Problem(at, str(wrong)))
        return None
    missing = [Problem(at, said) for _, said in streaming_problems(query)]
    found += missing
    return None if missing else query


def _parts(query: dict[str, Any], at: Place, found: Found) -> dict[str, Any]:
    """The query with streams, tuning and budgets checked each by itself, and mistakes left out of them."""
    for name, cls in _PARTS.items():
        if isinstance(query.get(name), Mapping):
            mended = _mended(cls.from_dict, _known(cls, query[name], (*at, name), found), (*at, name), found)
            query = {**query, name: mended} if mended is not None else _without(query, (name,))
    streams = query["streams"]
    if not isinstance(streams, Mapping | list):
        return query
    checked = {}
    for key, said in streams.items() if isinstance(streams, Mapping) else enumerate(streams):
        if isinstance(said, Mapping):
            place = (*at, "streams", key)
            said = _known(Stream, said, place, found)
            named = said if isinstance(key, int) else {"name": key, **said}
            said = _mended(Stream.from_dict, named, place, found) or said
            if isinstance(key, str) and said.get("name") == key:
                said = _without(said, ("name",))
        checked[key] = said
    return {**query, "streams": checked if isinstance(streams, Mapping) else list(checked.values())}


def _known(cls: Any, said: Mapping[str, Any], at: Place, found: Found) -> dict[str, Any]:
    """What is said without options that the class does not have, and without empty ones."""
    unknown_keys(cls, said, at, found)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    return {k: v for k, v in said.items() if k in fields and (v is not None or required(fields[k]))}


def _mended(build: Build, said: Any, at: Place, found: Found) -> Any:
    """What is said without its mistakes, which are added to `found`; None if nothing can be built of it."""
    blamed: list[Place] = []
    for _ in range(_MOST):
        wrong = _outcome(build, said)
        if wrong is None:
            return said
        place = _blame(build, said, wrong)
        again = any(earlier[: len(place)] == place for earlier in blamed)
        if not again and (not blamed or not _REQUIRED.search(wrong)):
            found.append(Problem((*at, *place), wrong))
        cut = place[:1] if again else place[:3] if place[:1] == ("streams",) else place[:2]
        if not cut or cut == ("streams",) or (cut[0] == "streams" and len(cut) < 3):
            return None
        blamed.append(place)
        said = {**said, **_STAND_IN[cut]} if cut in _STAND_IN else _without(said, cut)
    return None


def _outcome(build: Build, said: Any) -> str | None:
    """What a constructor says against it."""
    try:
        build(said)
    except BraidedError as wrong:
        return str(wrong)
    except (TypeError, ValueError, KeyError, AttributeError) as wrong:  # a shape that no check expects
        return f"the value cannot be read: {wrong}"
    return None


def _blame(build: Build, said: Any, wrong: str) -> Place:
    """The place of the value that a sentence is about."""
    place: Place = ()
    while True:
        here = _at(said, place)
        keys = list(here) if isinstance(here, Mapping) else list(range(len(here))) if _many(here) else []
        named = re.search(r"stream '(\w+)'", wrong)
        if place == ("streams",) and named and (found := _place(here, named[1])) is not None:
            place = (*place, found)
            continue
        outcomes = {key: _outcome(build, _without(said, (*place, key))) for key in keys}
        changed = [k for k, now in outcomes.items() if now != wrong and not _REQUIRED.search(now or "")]
        changed = changed or [k for k, now in outcomes.items() if now != wrong]
        scores = {key: _mention(key, here[key], wrong) for key in changed}
        if not any(scores.values()):
            return place
        place = (*place, max(scores, key=lambda key: scores[key]))


def _mention(key: str | int, value: Any, wrong: str) -> int:
    """How clearly a sentence is about a value."""
    leaves = [*_leaves(value), *([key] if isinstance(key, str) else [])]
    texts = [repr(leaf) for leaf in leaves]
    if any(f"got {text}" in wrong or f"{key}={text}" in wrong for text in [*texts, repr(value)]):
        return 3
    if any(text in wrong for text in texts if len(text) > 2):
        return 2
    words = re.findall(r"'(\w+)'", wrong)[:1]
    within = any(re.search(rf"\b{word}\b", str(leaf)) for word in words for leaf in leaves)
    return int(within or (isinstance(key, str) and _names(key, wrong)))


def _names(key: str, wrong: str) -> bool:
    return re.search(rf"\b{re.escape(key)}\b", wrong, re.IGNORECASE) is not None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [*value, *(leaf for v in value.values() for leaf in _leaves(v))]
    return [leaf for v in value for leaf in _leaves(v)] if _many(value) else [value]


def _many(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _at(said: Any, place: Place) -> Any:
    for key in place:
        said = said[key]
    return said


def _without(said: Any, place: Place) -> Any:
    """A copy that lacks the value at a place."""
    key, rest = place[0], place[1:]
    if isinstance(said, Mapping):
        if rest:
            return {**said, key: _without(said[key], rest)}
        return {k: v for k, v in said.items() if k != key}
    assert isinstance(key, int)
    inner = [_without(said[key], rest)] if rest else []
    return [*said[:key], *inner, *said[key + 1 :]]


def _place(streams: Any, name: str) -> str | int | None:
    """Where a stream is, among streams by name or in a list."""
    if isinstance(streams, Mapping):
        return name if name in streams else None
    return next((i for i, s in enumerate(streams) if isinstance(s, Mapping) and s.get("name") == name), None)


def stream_place(said: Mapping[str, Any] | str, name: str) -> Place:
    """The place of a stream in a query that is right; in words, the query's own."""
    if isinstance(said, str):
        return ("query",)
    found = _place(said["streams"], name)
    assert found is not None
    return ("query", "streams", found)
