"""`load`: a job file as a `Job`, with everything checked that can be without starting Spark."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from braided.jobs import checks, columns
from braided.jobs.definitions import JobFile, LateSink, Options, Sink, Source
from braided.jobs.document import Document, read_document
from braided.jobs.problems import refuse
from braided.jobs.queries import read_query, stream_place
from braided.jobs.shapes import Found, read_options
from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # s3a://..., file:/...


@dataclasses.dataclass(frozen=True)
class Job:
    """A job that can be run: paths are absolute, short spellings are written out."""

    document: Document
    query: JoinQuery
    sources: Mapping[str, Source]
    sink: Sink
    checkpoint: str
    name: str
    trigger: Mapping[str, Any]
    buckets: int
    spark: Options

    @property
    def late(self) -> LateSink | None:
        """The sink of late rows."""
        assert not isinstance(self.sink.late, str)
        return self.sink.late

    def check_columns(self, known: Mapping[str, Any]) -> None:
        """Raise if a stream, of which the columns are known, lacks one that the query uses."""
        refuse(self.document, columns.missing_columns(self.query, self.document.data["query"], known))

    def complain(self, message: str, *at: str | int) -> InvalidValue:
        """An error about a value of the file."""
        return InvalidValue(f"{self.document.name}:{self.document.line(at)}: {message}")

    def complain_of_join(self, message: str) -> InvalidValue:
        """An error of the join, at the line of the stream it names, if it names one."""
        named = re.search(r"stream '(\w+)'", message)
        if named is None or named[1] not in self.query.names:
            return self.complain(message, "query")
        return self.complain(message, *stream_place(self.document.data["query"], named[1]))

    def explain(self) -> str:
        """Describe the plan, and where rows come from and go."""
        return "\n".join(_explained(self))


def load(path: str | Path, environment: Mapping[str, str] | None = None) -> Job:
    """Load the job of a file; raise all its mistakes together, as a `JobError`, each with its line."""
    document = read_document(Path(path), environment)
    if document.data is None:
        raise InvalidValue(f"{document.name} is empty; `braided init` writes an example of a job file")
    found: Found = list(document.problems)
    said = read_options(JobFile, document.data, (), found, {JoinQuery: read_query})
    said = _written_out(said)
    found += checks.problems(said)
    if isinstance(said.get("query"), JoinQuery) and isinstance(said.get("sources"), dict):
        known = {n: columns.declared(s) for n, s in said["sources"].items() if s is not None}
        shown = {n: c for n, c in known.items() if c is not None}
        found += columns.missing_columns(said["query"], document.data["query"], shown)
    unset = {p.at for p in document.problems}
    refuse(document, [p for p in found if p.at not in unset or p in document.problems])
    return _job(document, said, Path(path))


def _written_out(said: dict[str, Any]) -> dict[str, Any]:
    """Short spellings in full."""
    sink = said.get("sink")
    if isinstance(sink, str):
        sink = Sink(format=sink)
    if isinstance(sink, Sink) and isinstance(sink.late, str):
        sink = dataclasses.replace(sink, late=LateSink(format=sink.late))
    return {**said, "sink": sink}


def _job(document: Document, said: dict[str, Any], path: Path) -> Job:
    folder = path.resolve().parent
    sink: Sink = said["sink"]
    late = sink.late
    if isinstance(late, LateSink):
        late = dataclasses.replace(late, path=located(late.path, folder))
    return Job(
        document=document,
        query=said["query"],
        sources={
            name: dataclasses.replace(said["sources"][name], path=located(said["sources"][name].path, folder))
            for name in said["query"].names
        },
        sink=dataclasses.replace(sink, path=located(sink.path, folder), late=late),
        checkpoint=str(located(said["checkpoint"], folder)),
        name=said.get("name") or path.stem,
        trigger=checks.trigger(said.get("trigger")),
        buckets=said.get("buckets", JobFile.__dataclass_fields__["buckets"].default),
        spark=said.get("spark", {}),
    )


def located(path: str | None, folder: Path) -> str | None:
    """A path as Spark wants it: addresses as they are, others absolute, from the job file's folder on."""
    if path is None or _SCHEME.match(path):
        return path
    return os.path.normpath(folder / Path(path).expanduser())


def _explained(job: Job) -> Iterator[str]:
    yield f"Job {job.name!r}, from {job.document.name}"
    yield ""
    yield job.query.explain()
    yield ""
    yield "Sources:"
    for name, source in job.sources.items():
        yield f"  {name}: {_where(source)}{_pace(source)}"
    yield f"Results go to {_where(job.sink)}" + (
        f" ({', '.join(job.sink.columns)})" if job.sink.columns else ""
    )
    yield f"Late rows {f'go to {_where(job.late)}' if job.late else 'are counted and dropped'}"
    yield f"Checkpoint: {job.checkpoint}, {job.buckets} buckets"
    yield f"Trigger: {checks.in_words(job.trigger)}"


def _where(end: Source | Sink | LateSink) -> str:
    place = end.path or (None if isinstance(end, Source) else end.table) or end.options.get("subscribe")
    place = place or end.options.get("topic")
    return f"{end.format}, {place}" if place else str(end.format)


def _pace(source: Source) -> str:
    if source.replay is None:
        return ""
    if source.replay.rows_per_second is not None:
        return f", about {source.replay.rows_per_second:g} rows a second"
    return f", {source.replay.files} file{'' if source.replay.files == 1 else 's'} a batch"
