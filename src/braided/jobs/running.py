"""`run`: a job on Spark, from its frames to its end. Only this module of jobs imports Spark, when it is used.

One streaming query writes everything, so results and late rows are of the same batches. Without a sink for
late rows it writes by Spark's own sink; with one, `writing` says why each batch is in each sink once.
"""

from __future__ import annotations

import importlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from braided.jobs.columns import ddl
from braided.jobs.definitions import Source, Value
from braided.jobs.failures import first_line, last_words, missing_format, named, plain_errors
from braided.jobs.formats import format_of
from braided.jobs.loading import Job
from braided.jobs.paths import local
from braided.jobs.places import check_journal, check_places
from braided.jobs.problems import JobFailed
from braided.jobs.signals import errors_to, holding, stopping
from braided.jobs.writing import chosen, texts, write_apart, writer_to
from braided.query.errors import BraidedError, did_you_mean
from braided.spark.sessions.java import check_java
from braided.view.follow import QueryFailed, watch
from braided.view.page import check_port
from braided.view.records import Journal, usual_journal
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
    watching = watching or Watching()
    watching = replace(watching, journal=watching.journal or _usual_journal(job))
    if session is None:
        check_java()
    check_places(job)
    check_journal(watching.journal)
    if watching.journal is not None:
        Journal(watching.journal).about()  # raises if what is there is no journal
    if watching.serve is not None:
        check_port(watching.serve)
    try:
        _run(job, once, watching, session)
    except KeyboardInterrupt:
        watching.say(f"stopped before it began; start it with: braided run {job.document.name}")


def _usual_journal(job: Job) -> Path | None:
    """Return the default place of the journal; none if the checkpoint is not on this machine."""
    checkpoint = local(job.checkpoint)
    return None if checkpoint is None else usual_journal(checkpoint)


def _run(job: Job, once: bool, watching: Watching, session: Any) -> None:
    with _waiting(watching) as begun, _session(job, session, watching) as spark, plain_errors(job):
        joined, paced = _joined(job, spark)
        trigger = {"availableNow": True} if once else paced or dict(job.trigger)
        streaming = _start(job, joined, trigger)
        begun()
        try:
            with stopping(streaming, watching.say) as stopped:
                _follow(job, streaming, watching)
        finally:
            streaming.stop()
        failed = None if stopped.is_set() else streaming.exception()
        if failed is not None:
            raise failed
        _say_end(job, streaming, stopped.is_set(), watching)


def _follow(job: Job, streaming: Any, watching: Watching) -> None:
    """Wait for the query's end, showing its batches."""
    with suppress(QueryFailed):  # the query itself says why
        watch(
            streaming, query=job.query, journal=watching.journal, port=watching.serve,
            console=watching.console, quiet=watching.quiet,
        )  # fmt: skip


def _say_end(job: Job, streaming: Any, stopped: bool, watching: Watching) -> None:
    braided = importlib.import_module("braided.spark")
    again = f"go on with: braided run {job.document.name}"
    batches = [p["batchId"] for p in streaming.recentProgress if p["numInputRows"]]
    if not batches:
        watching.say(f"stopped before a batch was done; {again}" if stopped else "no new rows: nothing to do")
        return
    if not watching.quiet:
        watching.say(braided.why(streaming))
    watching.say(
        f"stopped after batch {batches[-1]}; {again}" if stopped else f"ended after batch {batches[-1]}"
    )
    if watching.journal is not None:
        watching.say(f"report: {report_of(watching.journal)}")


@contextmanager
def _session(job: Job, given: Any, watching: Watching) -> Iterator[Any]:
    """The caller's session, or one that lasts as long as the job."""
    if given is not None:
        yield given
        return
    braided = importlib.import_module("braided.spark")
    if not watching.quiet:
        watching.say(f"starting Spark for {job.name} (the first batch of all takes longest)")
    with _log(job) as log:
        try:
            with errors_to(log), holding(watching.say) as asked:
                spark = braided.session(job.name, **{"spark.log.level": "OFF", **texts(job.spark)})
        except BraidedError:
            raise
        except Exception as wrong:
            packages = job.spark.get("spark.jars.packages")
            why = last_words(log.read_text(errors="replace")) if log is not None else None
            hint = "look at the job's settings (spark:)" if why else "braided doctor says what is missing"
            if packages:
                hint = f"see whether {packages} can be downloaded"
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
    handle, name = tempfile.mkstemp(prefix="braided-spark-", suffix=".log")
    os.close(handle)
    failed = None
    try:
        yield Path(name)
    except JobFailed as wrong:
        failed = wrong
        raise JobFailed(f"{wrong}; what Spark printed is in {name}") from wrong.__cause__
    finally:
        if failed is None:
            Path(name).unlink()


def _joined(job: Job, spark: Any) -> tuple[Any, dict[str, Any]]:
    """The join as a DataFrame, and the trigger that a replay by rows a second needs."""
    braided = importlib.import_module("braided.spark")
    files, paced = pace(job, spark)
    frames = {name: _frame(job, spark, name, files.get(name)) for name in job.query.names}
    job.check_columns({name: frame.columns for name, frame in frames.items()})
    try:
        joined = braided.join(
            job.query,
            frames,
            buckets=job.buckets,
            late="flag" if job.late is not None else "drop",
            checkpoint=job.checkpoint,
        )
    except BraidedError as wrong:
        raise job.complain_of_join(wrong) from None
    for at, names in (("columns", job.sink.columns), ("partition_by", job.sink.partition_by)):
        for name in names:
            if name not in joined.columns:
                hint = did_you_mean(name, joined.columns)
                raise job.complain(f"sink.{at}: the result has no column {name!r}; {hint}", "sink", at)
    return joined, paced


def _frame(job: Job, spark: Any, name: str, files: int | None) -> Any:
    """A stream's rows as a streaming DataFrame."""
    source = job.sources[name]
    with named(job, "sources", name):
        form = format_of(source.format)
        if form.data_source is not None:
            spark.dataSource.register(getattr(importlib.import_module("braided.spark"), form.data_source))
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
        functions = importlib.import_module("pyspark.sql.functions")
        inside = functions.from_json(functions.col("value").cast("string"), ddl(source.value.schema))
        beside = {c: f"kafka_{c}" for c in _KAFKA if c in frame.columns}  # for select
        frame = frame.select(
            inside.alias("value"), *(functions.col(c).alias(name) for c, name in beside.items())
        ).select("value.*", *beside.values())
        frame = frame if source.select else frame.drop(*beside.values())
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
    """Whether a folder of this machine holds a file that Spark would look at."""
    folder = local(path)
    return folder is not None and any(
        file.is_file() and not file.name.startswith(("_", ".")) for file in folder.rglob("*")
    )


def pace(job: Job, spark: Any) -> tuple[dict[str, int], dict[str, Any]]:
    """For replays by rows a second: how many files a batch each source gives, and how often a batch is."""
    rows: dict[str, float] = {}
    rates: dict[str, float] = {}
    for name, source in job.sources.items():
        if source.replay is None or source.replay.rows_per_second is None:
            continue
        with named(job, "sources", name):
            table = _reader(spark.read, source).load(source.path)
            rows[name] = max(1.0, table.count() / max(1, len(table.inputFiles())))
        rates[name] = float(source.replay.rows_per_second)
    if not rates:
        return {}, {}
    seconds = max(1.0, *(rows[name] / rates[name] for name in rates))
    files = {name: max(1, round(seconds * rates[name] / rows[name])) for name in rates}
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
