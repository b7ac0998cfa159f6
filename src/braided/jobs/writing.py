"""Results and late rows of one query into two sinks, each exactly once.

A batch of a streaming query can be written again after a failure: with the same number and, because the join
is exact, the same rows. So every sink is written in a way that does not mind:

    files     a folder of its own for every batch, `<path>/batch=7`, which the second attempt replaces
    delta     the query's id and the batch's number go along; the table leaves out what it has
    kafka     as Spark's own sink: at least once
    console   shown again

Rows persist while both sinks read them, and one action computes all of them: a join with state must not run
twice in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braided.jobs.definitions import LateSink, Sink
from braided.jobs.formats import format_of
from braided.jobs.loading import Job

LATE_COLUMN = "late_stream"
_QUERY_ID = "sql.streaming.queryId"


def write_apart(job: Job) -> Callable[[Any, int], None]:
    """What is done with the rows of each batch."""
    late = job.late
    assert late is not None

    def write(rows: Any, batch: int) -> None:
        rows.persist()
        try:
            is_late = rows[LATE_COLUMN].isNotNull()
            counts = {row[0]: row[1] for row in rows.groupBy(is_late).count().collect()}
            if counts.get(False):
                results = rows.where(~is_late).drop(LATE_COLUMN)
                _write(chosen(results, job.sink.columns), job.sink, batch, "results")
            if counts.get(True):
                _write(rows.where(is_late), late, batch, "late rows")
        finally:
            rows.unpersist()

    return write


def _write(rows: Any, end: Sink | LateSink, batch: int, what: str) -> None:
    if end.format == "console":
        print(f"batch {batch}, {what}:", flush=True)
        rows.show(
            int(end.options.get("numRows", 20)), str(end.options.get("truncate", True)).lower() == "true"
        )
        return
    writer = writer_to(end, rows, "write")
    if end.format == "delta":
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        writer = writer.option("txnAppId", f"{query}-{what}").option("txnVersion", batch)
    if format_of(end.format).files:
        writer.mode("overwrite").save(f"{end.path}/batch={batch}")
    elif end.table is not None:
        writer.mode("append").saveAsTable(end.table)
    else:
        writer.mode("overwrite" if end.format == "noop" else "append").save(end.path)


def writer_to(end: Sink | LateSink, rows: Any, how: str) -> Any:
    """Return Spark's writer of rows (`how`: write, writeStream), set up for a sink."""
    writer = getattr(in_json(rows) if end.format == "kafka" else rows, how)
    writer = writer.format(end.format).options(**texts(end.options))
    return writer.partitionBy(*end.partition_by) if isinstance(end, Sink) and end.partition_by else writer


def texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark reads them."""
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}


def chosen(rows: Any, columns: Sequence[str]) -> Any:
    """Some columns, or all."""
    return rows.select(*(f"`{name}`" for name in columns)) if columns else rows


def in_json(rows: Any) -> Any:
    """Rows as Kafka takes them: all columns in one JSON text, unless there is a column `value` already.

    Spark would write times in milliseconds only.
    """
    if "value" in rows.columns:
        return rows
    return rows.selectExpr(
        "to_json(struct(*), map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
        "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")) as value"
    )
