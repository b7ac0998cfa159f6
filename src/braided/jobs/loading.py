"""`load`: a job file as a `Job`, with everything checked that can be without starting Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from braided.jobs import checks, columns
from braided.jobs.definitions import JobFile, LateSink, Options, Sink, Source
from braided.jobs.document import Document, read_document
from braided.jobs.paths import located
from braided.jobs.problems import refuse
from braided.jobs.queries import place_of, read_query
from braided.jobs.shapes import Problems, read_options
from braided.query.errors import BraidedError, InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.masking import masked


@dataclasses.dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        """Say which job it is: options and paths may hold credentials."""
        return f"Job({self.name!r}, from {self.document.name!r}: {', '.join(self.query.names)})"

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

    def complain_of_join(self, wrong: BraidedError) -> InvalidValue:
        """An error of the join, at the line of what it is about."""
        return self.complain(str(wrong), "query", *place_of(wrong, self.document.data["query"]))

    def explain(self) -> str:
        """The plan, and where rows come from and go, in words; without credentials."""
        return str(masked("\n".join(_explained(self))))


def load(path: str | Path, environment: Mapping[str, str] | None = None) -> Job:
    """Load the job of a file; raise all its mistakes together, as a `JobError`, each with its line."""
    document = read_document(Path(path), environment)
    if document.data is None:
        raise InvalidValue(f"{document.name} is empty; `braided init` writes an example of a job file")
    problems: Problems = list(document.problems)
    options = read_options(JobFile, document.data, (), problems, {JoinQuery: read_query})
    options = _written_out(options, Path(path).resolve().parent)
    problems += checks.problems(options)
    query, sources = options.get("query"), options.get("sources")
    if isinstance(query, JoinQuery) and isinstance(sources, dict):
        known = {n: c for n, s in sources.items() if (c := columns.declared(s)) is not None}
        problems += columns.missing_columns(query, document.data["query"], known)
    unset = {p.at for p in document.problems}
    refuse(document, [p for p in problems if p.at not in unset or p in document.problems])
    return _job(document, JobFile(**options), Path(path).stem)


def _written_out(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Short spellings in full, and paths absolute."""
    sink = options.get("sink")
    sink = Sink(format=sink) if isinstance(sink, str) else sink
    if isinstance(sink, Sink):
        late = LateSink(format=sink.late) if isinstance(sink.late, str) else sink.late
        sink = dataclasses.replace(_located(sink, folder), late=_located(late, folder))
    changed: dict[str, Any] = {"sink": sink}
    if isinstance(options.get("sources"), dict):
        changed["sources"] = {name: _located(s, folder) for name, s in options["sources"].items()}
    if isinstance(options.get("checkpoint"), str):
        changed["checkpoint"] = located(options["checkpoint"], folder)
    return {**options, **changed}


def _located(end: Any, folder: Path) -> Any:
    if not isinstance(end, Source | Sink | LateSink):
        return end
    return dataclasses.replace(end, path=located(end.path, folder))


def _job(document: Document, file: JobFile, usual_name: str) -> Job:
    sources = {name: file.sources[name] for name in file.query.names}
    read = {"sources": sources, "name": file.name or usual_name, "trigger": checks.trigger(file.trigger)}
    return Job(document, **{**vars(file), **read})


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
    table = None if isinstance(end, Source) else end.table
    place = end.path or table or end.options.get("subscribe") or end.options.get("topic")
    return f"{end.format}, {place}" if place else str(end.format)


def _pace(source: Source) -> str:
    if source.replay is None:
        return ""
    if source.replay.rows_per_second is not None:
        return f", about {source.replay.rows_per_second:g} rows a second"
    return f", {source.replay.files} file{'' if source.replay.files == 1 else 's'} a batch"
