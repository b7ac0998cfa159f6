"""`run`: a job on Spark, from its frames to its end. Only this module of jobs imports Spark, when it is used.

One streaming query writes everything, so results and late rows are of the same batches. Without a sink for
late rows it writes by Spark's own sink; with one, `writing` says why each batch is in each sink once.
"""

from __future__ import annotations

import functools
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

import braided as bd
from braided.jobs.definitions import Source, Value, ddl
from braided.jobs.failures import first_line, last_words, missing_format, named, plain_errors
from braided.jobs.formats import format_of
from braided.jobs.loading import Job
from braided.jobs.paths import local
from braided.jobs.places import check_journal, check_places
from braided.jobs.problems import JobFailed
from braided.jobs.queries import missing_columns, place_of
from braided.jobs.signals import errors_to, holding, stopping
from braided.jobs.writing import chosen, texts, write_apart, writer_to
from braided.query.errors import BraidedError, did_you_mean
from braided.spark.sessions.java import check_java
from braided.view.follow import QueryFailed, watch
from braided.view.page import opened
from braided.view.records import usual_journal
from braided.view.report import report_of

_KAFKA = ("key", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class Watching:
    """How to follow a run: what to print, and where else it goes.

    Without a `journal` it is in the checkpoint, if that is a folder of this machine.
    """

    say: Callable[[str], object] = print
    quiet: bool = False
    journal: Path | None = None
    serve: int | None = None
    console: Console | None = None


def run(job: Job, *, once: bool = False, watching: Watching | None = None, session: Any = None) -> None:
    """Run a job until it ends, fails or is stopped; `once`: what is there now, then end.

    Without a `session` of the caller's, one is made and ended.
    """
    watching, checkpoint = watching or Watching(), local(job.checkpoint)
    if watching.journal is None and checkpoint is not None:
        watching = replace(watching, journal=usual_journal(checkpoint))
    if session is None:
        check_java()
    check_places(job)
    if watching.journal is not None:
        check_journal(watching.journal)
    if watching.serve is not None:
        opened((), watching.serve).server_close()
    try:
        _run(job, once, watching, session)
    except KeyboardInterrupt:
        watching.say(f"stopped before it began; start it with: braided run {job.document.name}")


def _run(job: Job, once: bool, watching: Watching, session: Any) -> None:
    made = _session(job, watching) if session is None else nullcontext(session)
    with _waiting(watching) as begun, made as spark, plain_errors(job):
        joined, paced = _joined(job, spark)
        trigger = {"availableNow": True} if once else paced or dict(job.trigger)
        streaming = _start(job, joined, trigger)
        begun()
        try:
            with stopping(streaming, watching.say) as stopped, suppress(QueryFailed):  # it says why below
                watch(
                    streaming, query=job.query, journal=watching.journal, port=watching.serve,
                    console=watching.console, quiet=watching.quiet,
                )  # fmt: skip
        finally:
            streaming.stop()
        failed = None if stopped.is_set() else streaming.exception()
        if failed is not None:
            raise failed
        _say_end(job, streaming, stopped.is_set(), watching)


def _say_end(job: Job, streaming: Any, stopped: bool, watching: Watching) -> None:
    again = f"; go on with: braided run {job.document.name}" if stopped else ""
    batches = [p["batchId"] for p in streaming.recentProgress if p["numInputRows"]]
    if not batches:
        watching.say(f"stopped before a batch was done{again}" if stopped else "no new rows: nothing to do")
        return
    if not watching.quiet:
        watching.say(bd.spark.why(streaming))
    watching.say(f"{'stopped' if stopped else 'ended'} after batch {batches[-1]}{again}")
    if watching.journal is not None:
        watching.say(f"report: {report_of(watching.journal)}")


@contextmanager
def _session(job: Job, watching: Watching) -> Iterator[Any]:
    """A session that lasts as long as the job."""
    if not watching.quiet:
        watching.say(f"starting Spark for {job.name} (the first batch of all takes longest)")
    with _log(job) as log:
        try:
            with nullcontext() if log is None else errors_to(log), holding(watching.say) as asked:
                spark = bd.spark.session(job.name, **{"spark.log.level": "OFF", **texts(job.spark)})
        except BraidedError:
            raise
        except Exception as wrong:
            packages = job.spark.get("spark.jars.packages")
            why = last_words(log.read_text(errors="replace")) if log is not None else None
            hint = "look at the job's settings (spark:)" if why else "braided doctor says what is missing"
            hint = f"see whether {packages} can be downloaded" if packages else hint
            raise JobFailed(f"Spark could not be started: {why or first_line(wrong)}; {hint}") from wrong
        try:
            if asked:
                raise KeyboardInterrupt
            yield spark
        finally:
            spark.stop()


@contextmanager
def _waiting(watching: Watching) -> Iterator[Callable[[], None]]:
    """A sign of life in a terminal, until what it gives is called."""
    status = (watching.console or Console()).status("Spark is starting, and the query")
    with nullcontext() if watching.quiet else status:
        yield status.stop


@contextmanager
def _log(job: Job) -> Iterator[Path | None]:
    """A file for what Spark and its workers print, named if the job fails; None if the job asks for a log."""
    if "spark.log.level" in job.spark:
        yield None
        return
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # Spark's errors, which we report
    with tempfile.NamedTemporaryFile(prefix="braided-spark-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    try:
        yield log
    except JobFailed as wrong:
        raise JobFailed(f"{wrong}; what Spark printed is in {log}") from wrong.__cause__
    except BaseException:
        log.unlink()
        raise
    log.unlink()


def explain_start(job: Job, session: Any = None) -> str:
    """The job in words, with what a start now would mean to its checkpoint; nothing is started or written."""
    watching = Watching(quiet=True)
    if session is None:
        check_java()
    made = _session(job, watching) if session is None else nullcontext(session)
    with made as spark, plain_errors(job):
        return job.explain(_asked(job, spark, {}, bd.spark.explain))


def _joined(job: Job, spark: Any) -> tuple[Any, dict[str, Any]]:
    """The join as a DataFrame, and the trigger that a replay by rows a second needs."""
    files, paced = pace(job, spark)
    join = functools.partial(bd.spark.join, late="drop" if job.late is None else "flag")
    joined = _asked(job, spark, files, join)
    for at, names in (("columns", job.sink.columns), ("partition_by", job.sink.partition_by)):
        for name in names:
            if name not in joined.columns:
                hint = did_you_mean(name, joined.columns)
                raise job.complain(f"sink.{at}: the result has no column {name!r}; {hint}", "sink", at)
    return joined, paced


def _asked(job: Job, spark: Any, files: Mapping[str, int], of: Callable[..., Any]) -> Any:
    """What `bd.spark.join`, or another that takes the same, makes of a job; `files` are those of a batch."""
    frames = {name: _frame(job, spark, name, files.get(name)) for name in job.query.names}
    written, columns = job.document.data["query"], {name: frame.columns for name, frame in frames.items()}
    job.document.refuse(missing_columns(job.query, written, columns))
    given = {"buckets": job.buckets, "layout": job.layout, "hot_keys": job.hot_keys}
    try:
        return of(job.query, frames, **given, resume=job.checkpoint)
    except BraidedError as wrong:
        raise job.complain(str(wrong), "query", *place_of(wrong, written)) from None


def _frame(job: Job, spark: Any, name: str, files: int | None) -> Any:
    """A stream's rows as a streaming DataFrame."""
    source = job.sources[name]
    with named(job, "sources", name):
        form = format_of(source.format)
        if form.data_source is not None:
            spark.dataSource.register(getattr(bd.spark, form.data_source))
        with named(job, "sources", name, "schema") if source.schema is not None else nullcontext():
            reader = _reader(spark.readStream, source)
        if source.schema is None and form.schema == "seen":
            reader = reader.schema(_inferred(job, spark, name))
        limit = files or (source.replay.files if source.replay is not None else None)
        if limit is not None:
            reader = reader.option("maxFilesPerTrigger", limit)
        return decoded(reader.load(source.path), source)


def _reader(reader: Any, source: Source) -> Any:
    """Set up one of Spark's readers for a source."""
    reader = reader.format(source.format).options(**texts(source.options))
    return reader if source.schema is None else reader.schema(ddl(source.schema))


def decoded(frame: Any, source: Source) -> Any:
    """The frame with its value taken apart, and the columns that are selected."""
    if isinstance(source.value, Value):
        schema = ddl(source.value.schema).replace("'", r"\'")
        beside = {c: f"kafka_{c}" for c in _KAFKA if source.select and c in frame.columns}
        inside = f"from_json(cast(value as string), '{schema}') as value"
        frame = frame.selectExpr(inside, *(f"`{c}` as {name}" for c, name in beside.items()))
        frame = frame.select("value.*", *beside.values())
    return frame.selectExpr(*source.select) if source.select else frame


def _inferred(job: Job, spark: Any, name: str) -> Any:
    """The schema of files, by looking at those that are there."""
    source = job.sources[name]
    try:
        schema = _reader(spark.read, source).load(source.path).schema
    except Exception as wrong:
        if missing_format(wrong) or _holds_files(source.path):
            raise
        schema = ()
    if len(schema) == 0:
        raise job.complain(
            f"sources.{name}: schema is missing, and there is no file in {source.path} yet to see it from; "
            "give one, such as schema: order_id long, placed_at timestamp",
            "sources", name,
        )  # fmt: skip
    return schema


def _holds_files(path: str | None) -> bool:
    """Return whether a folder of this machine holds a file that Spark would look at."""
    folder = local(path)
    return folder is not None and any(file.is_file() for file in folder.rglob("[!_.]*"))


def pace(job: Job, spark: Any) -> tuple[dict[str, int], dict[str, Any]]:
    """For replays by rows a second: how many files a batch each source gives, and how often a batch is."""
    seconds_a_file: dict[str, float] = {}
    for name, source in job.sources.items():
        if source.replay is not None and source.replay.rows_per_second is not None:
            with named(job, "sources", name):
                table = _reader(spark.read, source).load(source.path)
                rows = max(1.0, table.count() / max(1, len(table.inputFiles())))
            seconds_a_file[name] = rows / source.replay.rows_per_second
    if not seconds_a_file:
        return {}, {}
    seconds = max(1.0, *seconds_a_file.values())
    files = {name: max(1, round(seconds / each)) for name, each in seconds_a_file.items()}
    return files, {"processingTime": f"{round(1000 * seconds)} milliseconds"}


def _start(job: Job, joined: Any, trigger: Mapping[str, Any]) -> Any:
    """Start the query."""
    sink, apart = job.sink, job.late is not None
    if apart:
        writer = joined.writeStream.foreachBatch(write_apart(job))
    else:
        writer = writer_to(sink, chosen(joined, sink.columns), "writeStream")
    writer = writer.queryName(job.name).option("checkpointLocation", job.checkpoint)
    writer = writer.trigger(**trigger) if trigger else writer
    with named(job, "sink"):
        if not apart and sink.table is not None:
            return writer.toTable(sink.table)
        return writer.start(None if apart else sink.path)
