"""What the parts of a job file must be to each other: checked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from braided.jobs.definitions import End, LateSink, Source
from braided.jobs.formats import FORMATS, REPEATABLE, Needs, format_of
from braided.jobs.paths import same_place, shared
from braided.jobs.problems import Place, Problem, called
from braided.query.durations import to_text, to_us
from braided.query.errors import BraidedError, did_you_mean
from braided.query.join_query import JoinQuery

Complaint: TypeAlias = tuple[str, str]  # the key it is about, or "", and a sentence
_MOST_BUCKETS = 1024
_TRIGGERS = {"available now": {"availableNow": True}, "once": {"once": True}}


def problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    """All that is wrong between parts that are right by themselves; what is wrong by itself is None."""
    for at, complaints in _parts(options):
        for key, sentence in complaints:
            yield Problem((*at, key) if key else at, f"{called(at)}: {sentence}")


def _parts(options: Mapping[str, Any]) -> Iterator[tuple[Place, Iterator[Complaint]]]:
    """The parts of a job, by their places, with what is wrong with each."""
    query, named, sink = (options.get(name) for name in ("query", "sources", "sink"))
    sources = {name: source for name, source in (named or {}).items() if source is not None}
    paths = {f"sources.{name}": source.path for name, source in sources.items()}
    for name, source in sources.items():
        yield ("sources", name), _source(source)
        yield ("sources", name, "replay"), _replay(source)
    if query is not None and named is not None:
        yield ("sources",), _each_stream(query, named)
    if sink is not None:
        paths["sink"] = sink.path
        yield ("sink",), _sink(sink, sources, beside=sink.late)
        if sink.late is not None:
            paths["sink.late"] = sink.late.path
            yield ("sink", "late"), _sink(sink.late, sources, beside=sink)
            yield ("sink", "late"), _taken(sink.late.path, {"sink": sink.path}, "path")
    yield ("checkpoint",), _taken(options.get("checkpoint"), paths)
    yield ("trigger",), _trigger(options.get("trigger"), sources)
    yield ("buckets",), _buckets(options.get("buckets"))
    yield ("spark",), _settings(options.get("spark") or {})


def trigger(text: str | None) -> dict[str, Any]:
    """Return the arguments of Spark's `trigger`; empty: batches follow each other at once."""
    if text is None:
        return {}
    words = {re.sub(r"\s", "", name): options for name, options in _TRIGGERS.items()}
    word = re.sub(r"[\s_-]", "", text).lower()
    if word in words:
        return dict(words[word])
    us = to_us(text.strip().removeprefix("every "), owner="it")
    return {"processingTime": to_text(max(us, 1000))}


def in_words(options: Mapping[str, Any]) -> str:
    """A trigger as a file says it."""
    if "processingTime" in options:
        return f"a batch every {options['processingTime']}"
    if not options:
        return "batches follow each other at once"
    return "what is there now, then it ends" if "availableNow" in options else "one batch, then it ends"


def _each_stream(query: JoinQuery, sources: Mapping[str, Any]) -> Iterator[Complaint]:
    for name in query.names:
        if name not in sources:
            yield "", f"stream {name!r} has none; say where its rows come from"
    for name in sources:
        if name not in query.names:
            yield name, f"the query has no stream {name!r}; {did_you_mean(name, query.names)}"


def _source(source: Source) -> Iterator[Complaint]:
    form = format_of(source.format)
    if form.files and not source.path:
        yield "", f"path is missing; the format {form.name!r} needs a folder"
    if form.place is not None and source.path:
        yield "path", f"{form.name} has no path; {form.place}"
    if form.schema == "given" and source.schema is None:
        yield "", "schema is missing; texts of XML become what it says, such as sno long, title string"
    if form.schema == "own" and source.schema is not None:
        yield "schema", f"{form.name} has columns of its own; give the schema of its values: value: schema"
    yield from _needs(form.source_needs, source)


def _replay(source: Source) -> Iterator[Complaint]:
    if source.replay is None:
        return
    form = format_of(source.format)
    given = {name: value for name, value in vars(source.replay).items() if value is not None}
    if form.data_source is not None and "rows_per_second" in given:
        yield "", f"{form.name!r} cannot be replayed by rows_per_second; give files"
    elif form.name in FORMATS and not form.files:
        yield "", f"only files are replayed; limit {form.name!r} by its options"
    if len(given) != 1:
        yield "", "give files or rows_per_second" + (", not both" if given else "")
    for name, value in given.items():
        if value <= 0:
            yield name, f"{name} must be above zero; got {value}"


def _needs(needs: Needs, end: End) -> Iterator[Complaint]:
    for names, words in needs:
        if not any(name in end.options for name in names):
            yield "", f"{end.format} needs options: {names[0]}, {words}"


def _sink(sink: LateSink, sources: Mapping[str, Source], beside: LateSink | None) -> Iterator[Complaint]:
    """What is wrong with a sink; with another `beside` it a batch may be written twice."""
    form = format_of(sink.format)
    if sink.path and sink.table:
        yield "table", "give path or table, not both"
    if form.files and not sink.path and not sink.table:
        yield "", f"path is missing; say in which folder the {form.name} files go"
    if form.place is not None and (sink.path or sink.table):
        key = "path" if sink.path else "table"
        yield key, f"the format {form.name!r} has no {key}; leave it out"
    yield from _needs(form.sink_needs, sink)
    with_late = "with a sink for late rows a"
    if beside is not None and not form.repeatable:
        twice = f"{with_late} batch may be written twice after a failure, and the format {form.name!r}"
        yield "format", f"{twice} would then hold rows twice; use one of {', '.join(REPEATABLE)}"
    elif beside is not None and sink.table is not None and form.name != "delta":
        yield "table", f"{with_late} table must be of format 'delta'"
    for name, source in sources.items():
        if same := shared(source, sink):
            what = f"{same[1]} is, holds or lies in what sources.{name} reads"
            yield same[0], f"{what}: the job would read what it wrote; name another"


def _taken(path: str | None, paths: Mapping[str, str | None], key: str = "") -> Iterator[Complaint]:
    for owner, other in paths.items():
        if path is not None and other is not None and same_place(path, other):
            yield key, f"{owner} has this path already; name another folder"


def _trigger(text: str | None, sources: Mapping[str, Source]) -> Iterator[Complaint]:
    try:
        trigger(text)
    except BraidedError as wrong:
        yield "", f"{wrong}; {did_you_mean(text, _TRIGGERS).replace('known:', 'or one of')}"
    for name, source in sources.items():
        if text is not None and source.replay and source.replay.rows_per_second is not None:
            yield "", f"sources.{name}.replay.rows_per_second sets the trigger; leave one of them out"


def _buckets(buckets: int | None) -> Iterator[Complaint]:
    if buckets is not None and (not 1 <= buckets <= _MOST_BUCKETS or buckets & (buckets - 1)):
        yield "", f"it must be a power of two from 1 to {_MOST_BUCKETS}, such as 8; got {buckets}"


def _settings(settings: Mapping[str, Any]) -> Iterator[Complaint]:
    for key in settings:
        if not key.startswith("spark."):
            yield key, f"settings begin with 'spark.'; got {key!r}"
