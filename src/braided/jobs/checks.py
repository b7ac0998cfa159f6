"""What the parts of a job file must be to each other: checked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from braided.jobs.definitions import LateSink, Sink, Source
from braided.jobs.formats import FORMATS, REPEATABLE, Needs, format_of
from braided.jobs.paths import same_place, shared
from braided.jobs.problems import Place, Problem, called
from braided.query.durations import to_text, to_us
from braided.query.errors import BraidedError, did_you_mean
from braided.query.join_query import JoinQuery

Complaint: TypeAlias = tuple[str, str]  # the key it is about, or "", and a sentence
_MOST_BUCKETS = 1024
_TRIGGERS = {"availablenow": "available now", "once": "once"}


def problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    """All that is wrong between parts that are right by themselves; what is wrong by itself is None."""
    sources = options.get("sources")
    read = {n: s for n, s in sources.items() if isinstance(s, Source)} if isinstance(sources, dict) else {}
    for name, source in read.items():
        yield from _problems(("sources", name), _source(source))
        yield from _problems(("sources", name, "replay"), _replay(source))
    if isinstance(options.get("query"), JoinQuery) and isinstance(sources, dict):
        yield from _each_stream(options["query"], sources)
    sink = options.get("sink")
    if isinstance(sink, Sink):
        yield from _sinks(sink, read)
        yield from _checkpoint(options.get("checkpoint"), sink, read)
    yield from _trigger(options.get("trigger"), read)
    yield from _buckets(options.get("buckets"))
    settings = options.get("spark")
    for key in settings if isinstance(settings, Mapping) else ():
        if not key.startswith("spark."):
            yield Problem(("spark", key), f"spark: settings begin with 'spark.'; got {key!r}")


def _problems(at: Place, complaints: Iterable[Complaint]) -> Iterator[Problem]:
    for key, sentence in complaints:
        yield Problem((*at, key) if key else at, f"{called(at)}: {sentence}")


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
    form = format_of(source.format)
    given = {k: v for k, v in vars(source.replay).items() if v is not None} if source.replay else {}
    if form.files and not form.paced and "rows_per_second" in given:
        yield "", f"{form.name!r} cannot be replayed by rows_per_second; give files"
    elif source.replay and form.name in FORMATS and not form.files:
        yield "", f"only files are replayed; limit {form.name!r} by its options"
    if source.replay and len(given) != 1:
        yield "", "give files or rows_per_second" + (", not both" if given else "")
    for name, value in given.items():
        if value <= 0:
            yield name, f"{name} must be above zero; got {value}"


def _needs(needs: Needs, end: Source | Sink | LateSink) -> Iterator[Complaint]:
    for names, words in needs:
        if not any(name in end.options for name in names):
            yield "", f"{end.format} needs options: {names[0]}, {words}"


def _sinks(sink: Sink, sources: Mapping[str, Source]) -> Iterator[Problem]:
    ends: dict[Place, Sink | LateSink] = {("sink",): sink}
    if isinstance(sink.late, LateSink):
        ends["sink", "late"] = sink.late
        if sink.path is not None and sink.late.path is not None and same_place(sink.path, sink.late.path):
            yield Problem(("sink", "late", "path"), "sink.late: results have this path already; name another")
    for at, end in ends.items():
        twice = _repeatable(end) if len(ends) > 1 else ()
        yield from _problems(at, (*_sink(end), *twice, *_circular(end, sources)))


def _circular(end: Sink | LateSink, sources: Mapping[str, Source]) -> Iterator[Complaint]:
    for name, source in sources.items():
        if same := shared(source, end):
            what = f"{same[1]} is, holds or lies in what sources.{name} reads"
            yield same[0], f"{what}: the job would read what it wrote; name another"


def _sink(sink: Sink | LateSink) -> Iterator[Complaint]:
    form = format_of(sink.format)
    if sink.path and sink.table:
        yield "table", "give path or table, not both"
    if form.files and not sink.path and not sink.table:
        yield "", f"path is missing; say in which folder the {form.name} files go"
    if form.place is not None and (sink.path or sink.table):
        key = "path" if sink.path else "table"
        yield key, f"the format {form.name!r} has no {key}; leave it out"
    yield from _needs(form.sink_needs, sink)


def _repeatable(end: Sink | LateSink) -> Iterator[Complaint]:
    with_late = "with a sink for late rows a"
    if not format_of(end.format).repeatable:
        twice = f"{with_late} batch may be written twice after a failure, and the format {end.format!r}"
        yield "format", f"{twice} would then hold rows twice; use one of {', '.join(REPEATABLE)}"
    elif end.table is not None and end.format != "delta":
        yield "table", f"{with_late} table must be of format 'delta'"


def _checkpoint(checkpoint: object, sink: Sink, sources: Mapping[str, Source]) -> Iterator[Problem]:
    late = sink.late.path if isinstance(sink.late, LateSink) else None
    ends = [("a sink", sink.path), ("a sink", late)]
    ends += [(f"sources.{name}", source.path) for name, source in sources.items()]
    for owner, path in ends:
        if path is not None and isinstance(checkpoint, str) and same_place(path, checkpoint):
            yield Problem(("checkpoint",), f"checkpoint: {owner} has this path already; name another folder")


def _trigger(text: object, sources: Mapping[str, Source]) -> Iterator[Problem]:
    if isinstance(text, str):
        try:
            trigger(text)
        except BraidedError as wrong:
            hint = did_you_mean(text, _TRIGGERS.values())
            also = hint if hint.startswith("did you mean") else "or 'available now', or 'once'"
            yield Problem(("trigger",), f"{wrong}; {also}")
    for name, source in sources.items():
        if text is not None and source.replay and source.replay.rows_per_second is not None:
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
