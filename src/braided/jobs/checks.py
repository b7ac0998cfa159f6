"""What the parts of a job file must be to each other: checked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from braided.jobs.definitions import FILES, FORMATS, XML, LateSink, Sink, Source
from braided.jobs.problems import Place, Problem, called
from braided.query.durations import to_text, to_us
from braided.query.errors import BraidedError, did_you_mean
from braided.query.join_query import JoinQuery

_MOST_BUCKETS = 1024
_TRIGGERS = {"availablenow": "available now", "once": "once"}
_SUBSCRIBE = ("subscribe", "subscribePattern", "assign")
_SAFE_TWICE = (*FILES, "kafka", "delta", "console", "noop")  # a batch that is written again adds nothing


def problems(said: Mapping[str, Any]) -> Iterator[Problem]:
    """All that is wrong between parts that are right by themselves."""
    sources = said.get("sources")
    if isinstance(sources, Mapping):
        for name, source in sources.items():
            if isinstance(source, Source):
                yield from _source(source, ("sources", name))
        if isinstance(said.get("query"), JoinQuery):
            yield from _each_stream(said["query"], sources)
    sink = said.get("sink")
    if isinstance(sink, Sink):
        yield from _sink(sink)
        yield from _apart(said.get("checkpoint"), sink)
    yield from _trigger(said)
    yield from _buckets(said.get("buckets"))
    settings = said.get("spark")
    for key in settings if isinstance(settings, Mapping) else ():
        if not key.startswith("spark."):
            yield Problem(("spark", key), f"spark: settings begin with 'spark.'; got {key!r}")


def trigger(text: str | None) -> dict[str, Any]:
    """Return the arguments of Spark's `trigger`; empty: batches follow each other at once."""
    if text is None:
        return {}
    word = _TRIGGERS.get(re.sub(r"[\s_-]", "", text).lower())
    if word is not None:
        return {"availableNow": True} if word == "available now" else {"once": True}
    us = to_us(text.strip().removeprefix("every "), owner="trigger")
    return {"processingTime": to_text(max(us, 1000))}


def in_words(options: Mapping[str, Any]) -> str:
    """A trigger as a file says it."""
    if "processingTime" in options:
        return f"a batch every {options['processingTime']}"
    if not options:
        return "batches follow each other at once"
    return "what is there now, then it ends" if "availableNow" in options else "one batch, then it ends"


def _each_stream(query: JoinQuery, sources: Mapping[str, Any]) -> Iterator[Problem]:
    for name in query.names:
        if name not in sources:
            yield Problem(("sources",), f"sources: stream {name!r} has none; say where its rows come from")
    for name in sources:
        if name not in query.names:
            hint = did_you_mean(name, query.names)
            yield Problem(("sources", name), f"sources: the query has no stream {name!r}; {hint}")


def _source(source: Source, at: Place) -> Iterator[Problem]:
    name = called(at)
    if source.format in (*FILES, XML) and not source.path:
        yield Problem(at, f"{name}: path is missing; the format {source.format!r} needs a folder")
    if source.format == XML and source.schema is None:
        yield Problem(
            at, f"{name}: schema is missing; texts of XML become what it says, such as sno long, title string"
        )
    if source.format == "kafka":
        yield from _kafka(source.options, at, _SUBSCRIBE)
        if source.path:
            yield Problem((*at, "path"), f"{name}: kafka has no path; name its topics: options: subscribe")
        if source.schema is not None:
            yield Problem(
                (*at, "schema"),
                f"{name}: kafka has columns of its own; give the schema of its values: value: schema",
            )
    if source.replay is not None:
        yield from _replay(source, (*at, "replay"))


def _replay(source: Source, at: Place) -> Iterator[Problem]:
    assert source.replay is not None
    given = {"files": source.replay.files, "rows_per_second": source.replay.rows_per_second}
    said = {name: value for name, value in given.items() if value is not None}
    if source.format == XML and source.replay.rows_per_second is not None:
        yield Problem(at, f"{called(at)}: {XML!r} cannot be replayed by rows_per_second; give files")
    elif source.format in FORMATS and source.format not in (*FILES, XML):
        yield Problem(at, f"{called(at)}: only files are replayed; limit {source.format!r} by its options")
    if len(said) != 1:
        yield Problem(at, f"{called(at)}: give files or rows_per_second" + (", not both" if said else ""))
    for name, value in said.items():
        if value <= 0:
            yield Problem((*at, name), f"{called(at)}: {name} must be above zero; got {value}")


def _kafka(options: Mapping[str, Any], at: Place, topics: tuple[str, ...]) -> Iterator[Problem]:
    if "kafka.bootstrap.servers" not in options:
        yield Problem(
            at, f"{called(at)}: kafka needs options: kafka.bootstrap.servers, such as localhost:9092"
        )
    if topics and not any(name in options for name in topics):
        yield Problem(at, f"{called(at)}: kafka needs options: {topics[0]}, the topics, with commas between")


def _sink(sink: Sink) -> Iterator[Problem]:
    yield from _end(sink, ("sink",))
    if not isinstance(sink.late, LateSink):
        return
    yield from _end(sink.late, ("sink", "late"))
    ends: tuple[tuple[Place, Sink | LateSink], ...] = ((("sink",), sink), (("sink", "late"), sink.late))
    for at, end in ends:
        if end.format not in _SAFE_TWICE:
            yield Problem(
                (*at, "format"),
                f"{called(at)}: with a sink for late rows a batch may be written twice after a failure, and "
                f"the format {end.format!r} would then hold rows twice; use one of {', '.join(_SAFE_TWICE)}",
            )
        elif end.table is not None and end.format != "delta":
            yield Problem(
                (*at, "table"), f"{called(at)}: with a sink for late rows a table must be of format 'delta'"
            )
    if sink.path is not None and sink.path == sink.late.path:
        yield Problem(("sink", "late", "path"), "sink.late: results have this path already; name another")


def _end(sink: Sink | LateSink, at: Place) -> Iterator[Problem]:
    name = called(at)
    if sink.path and sink.table:
        yield Problem((*at, "table"), f"{name}: give path or table, not both")
    if sink.format in FILES and not sink.path and not sink.table:
        yield Problem(at, f"{name}: path is missing; say in which folder the {sink.format} files go")
    if sink.format in ("console", "kafka", "noop") and (sink.path or sink.table):
        key = "path" if sink.path else "table"
        yield Problem((*at, key), f"{name}: the format {sink.format!r} has no {key}; leave it out")
    if sink.format == "kafka":
        yield from _kafka(sink.options, at, ("topic",))


def _apart(checkpoint: object, sink: Sink) -> Iterator[Problem]:
    ends: list[Any] = [sink, sink.late]
    for end in ends:
        if isinstance(end, Sink | LateSink) and end.path is not None and end.path == checkpoint:
            yield Problem(("checkpoint",), "checkpoint: a sink has this path already; name another folder")


def _trigger(said: Mapping[str, Any]) -> Iterator[Problem]:
    text = said.get("trigger")
    if isinstance(text, str):
        try:
            trigger(text)
        except BraidedError as wrong:
            words = list(_TRIGGERS.values())
            hint = did_you_mean(text, words)
            also = hint if hint.startswith("did you mean") else "or 'available now', or 'once'"
            yield Problem(("trigger",), f"{wrong}; {also}")
    sources = said.get("sources")
    for name, source in sources.items() if isinstance(sources, Mapping) else ():
        paced = isinstance(source, Source) and source.replay and source.replay.rows_per_second is not None
        if paced and text is not None:
            yield Problem(
                ("trigger",),
                f"trigger: sources.{name}.replay.rows_per_second sets the trigger; leave one of them out",
            )


def _buckets(buckets: object) -> Iterator[Problem]:
    if not isinstance(buckets, int) or isinstance(buckets, bool):
        return
    if not 1 <= buckets <= _MOST_BUCKETS or buckets & (buckets - 1):
        yield Problem(
            ("buckets",),
            f"buckets must be a power of two from 1 to {_MOST_BUCKETS}, such as 8; got {buckets}",
        )
