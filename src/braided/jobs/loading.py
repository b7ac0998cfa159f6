"""`load`: a job file as a `Job`, with everything checked that can be without starting Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from braided.jobs import checks
from braided.jobs.definitions import End, JobFile, LateSink, Sink, Source
from braided.jobs.document import Document, read_document
from braided.jobs.paths import local, located
from braided.jobs.problems import JobError, Problems
from braided.jobs.queries import missing_columns
from braided.jobs.shapes import read_options
from braided.query.errors import InvalidValue, shown
from braided.query.masking import masked


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Job(JobFile):
    """A job that can be run: paths are absolute, short spellings are written out."""

    document: Document
    name: str
    sink: Sink
    trigger: Mapping[str, Any]  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Say which job it is: options and paths may hold credentials."""
        return f"Job({self.name!r}, from {self.document.name!r}: {', '.join(self.query.names)})"

    @property
    def late(self) -> LateSink | None:
        """The sink of late rows."""
        assert not isinstance(self.sink.late, str)
        return self.sink.late

    def complain(self, message: str, *at: str | int) -> InvalidValue:
        """An error about a value of the file."""
        return InvalidValue(self.document.sentence(at, message))

    def explain(
        self,
        query: str | None = None,
        *,
        rates: Mapping[str, float] | None = None,
        keys: float | None = None,
    ) -> str:
        """The plan, and where rows come from and go, in words; without credentials.

        `query` is what is said of the query, if more is known than the file says. With `rates` (rows a
        second) and `keys` also what is expected of it, as `JoinQuery.explain` says it.
        """
        if query is None and rates is not None:
            period = self.trigger.get("processingTime")
            query = self.query.explain(rates=rates, keys=keys, buckets=self.buckets, batch_period=period)
        return str(masked("\n".join(_explained(self, query or self.query.explain(keys=keys)))))


def load(path: str | Path, environment: Mapping[str, str] | None = None) -> Job:
    """Load the job of a file; raise all its mistakes together, as a `JobError`, each with its line."""
    document = read_document(Path(path), environment)
    if not isinstance(document.data, Mapping):
        wrong = "is empty" if document.data is None else f"must be a mapping; got {shown(document.data)}"
        raise JobError(f"{document.name} {wrong}; `braided init` writes an example of a job file")
    problems = Problems(document.problems)
    folder = Path(path).resolve().parent
    options = _located(read_options(JobFile, document.data, (), problems), folder)
    options["checkpoint"] = located(options.get("checkpoint"), folder)
    problems += checks.problems(options)
    query, sources = options.get("query"), options.get("sources") or {}
    if query is not None:
        known = {name: source and source.columns for name, source in sources.items()}
        problems += missing_columns(query, document.data["query"], known)
    unset = {p.at for p in document.problems}
    document.refuse(p for p in problems if p.at not in unset or p in document.problems)
    read = {
        "sources": {name: sources[name] for name in query.names},
        "name": options.get("name") or Path(path).stem,
        "trigger": checks.trigger(options.get("trigger")),
    }
    return Job(document=document, **options | read)


def _located(value: Any, folder: Path) -> Any:
    """Options with the paths of sources and sinks absolute."""
    if isinstance(value, dict):
        return {name: _located(inner, folder) for name, inner in value.items()}
    if isinstance(value, Sink):
        value = dataclasses.replace(value, late=_located(value.late, folder))
    return dataclasses.replace(value, path=located(value.path, folder)) if isinstance(value, End) else value


def _explained(job: Job, query: str) -> Iterator[str]:
    yield f"Job {job.name!r}, from {job.document.name}\n\n{query}\n\nSources:"
    for name, source in job.sources.items():
        yield f"  {name}: {_where(source)}{_pace(source)}"
    columns = f" ({', '.join(job.sink.columns)})" if job.sink.columns else ""
    yield f"Results go to {_where(job.sink)}{columns}"
    yield f"Late rows {f'go to {_where(job.late)}' if job.late else 'are counted and dropped'}"
    begun = (folder := local(job.checkpoint)) is not None and (folder / "commits").is_dir()
    more = "; it has begun: braided explain --checkpoint says what a start means to it" if begun else ""
    yield f"Checkpoint: {job.checkpoint}, {job.buckets} buckets{more}"
    yield f"Trigger: {checks.in_words(job.trigger)}"


def _where(end: End) -> str:
    named = (end.path, getattr(end, "table", None), end.options.get("subscribe"), end.options.get("topic"))
    place = next(filter(None, named), None)
    return f"{end.format}, {place}" if place else str(end.format)


def _pace(source: Source) -> str:
    if source.replay is None:
        return ""
    if source.replay.rows_per_second is not None:
        return f", about {source.replay.rows_per_second:g} rows a second"
    return f", {source.replay.files} file{'' if source.replay.files == 1 else 's'} a batch"
