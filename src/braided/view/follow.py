"""Follow a running query: every finished batch becomes a record, once.

Spark keeps the reports of the latest 100 batches (`spark.sql.streaming.numRecentProgressUpdates`), so none is
missed between two looks, and the metrics after each batch are made of the reports up to its own. Batches are
told apart by their number, which only grows; a query that idles reports the number of the batch to come, so
only reports of batches that were executed count. The query is asked whether it is active *before* its reports
are read: what it reports last is never overlooked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from braided.query.errors import BraidedError
from braided.query.masking import masked
from braided.view.page import serve
from braided.view.records import Journal, Record, record_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

    from braided.query.join_query import JoinQuery

Show: TypeAlias = Callable[[Sequence[Record], str], None]

_LATEST = 1_000  # batches that are shown; a journal has all


class QueryFailed(BraidedError, RuntimeError):
    """The query that was followed has stopped with an error."""


def watch(
    streaming: StreamingQuery,
    *,
    query: JoinQuery | None = None,
    journal: Path | str | None = None,
    port: int | None = None,
    console: Console | None = None,
    quiet: bool = False,
    every: float = 0.5,
) -> None:
    """Watch until the query ends; Ctrl-C ends watching only. `query` is explained in the journal.

    Batches are shown in the terminal unless `quiet`, on a page if a port is given, and in a journal if a path
    is.
    """
    try:
        from rich.console import Console  # noqa: PLC0415  (comes with the command line)

        from braided.view.terminal import terminal  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise BraidedError(
            f"watch needs the package {missing.name}; install it with: pip install 'braided[cli]'"
        ) from None
    console = console or Console()
    path = Path(journal) if journal is not None else None
    if path and query:
        Journal(path).describe(masked(query.explain()))
    with ExitStack() as stack:
        shows: list[Show] = []
        if port is not None:
            page = stack.enter_context(serve(port=port))
            shows.append(page.show)
            console.print(f"braided: watch this query at {page.url}", highlight=False, soft_wrap=True)
        if not quiet:
            shows.append(stack.enter_context(terminal(console)))

        def show(records: Sequence[Record], why: str) -> None:
            for each in shows:
                each(records, why)

        follow(streaming, journal=path, show=show, every=every)


def follow(streaming: StreamingQuery, *, journal: Path | None = None, show: Show, every: float = 0.5) -> None:
    """Show a query's batches, and what `why` says of it, until it ends; `every` is in seconds.

    With a journal that knows this query, its records are shown first, and go on. `show` is called at the
    start, after new batches, and at the end.
    """
    from braided.spark.diagnosis import why  # noqa: PLC0415  (needs pyspark)

    book = Journal(journal) if journal else None
    records = [r for r in (book.read() if book else ()) if r.query == str(streaming.id)][-_LATEST:]
    show(tuple(records), why(streaming))
    active, seen = True, ""
    while active:
        active, latest = streaming.isActive, streaming.lastProgress
        report = latest.json if latest is not None else ""
        if report != seen or not active:
            new = list(_new(streaming, records[-1] if records else None, book))
            records, seen = [*records, *new][-_LATEST:], report
            if new or not active:
                show(tuple(records), why(streaming))
        if active:
            time.sleep(every)
    failed = streaming.exception()
    if failed is not None:
        reason = str(failed).strip().partition("\n")[0] or type(failed).__name__
        raise QueryFailed(f"the query has stopped: {reason}") from failed


def _new(streaming: StreamingQuery, last: Record | None, journal: Journal | None) -> Iterator[Record]:
    """The batches after the last one that is known, each noted in the journal."""
    from braided.spark.measures import metrics_of  # noqa: PLC0415  (needs pyspark)

    reports = [json.loads(progress.json) for progress in streaming.recentProgress]
    for number, report in enumerate(reports, start=1):
        if "addBatch" in report["durationMs"] and report["batchId"] > (last.batch if last else -1):
            metrics = metrics_of(reports[:number], query_id=str(streaming.id), active=True)
            last = record_of(report, metrics, last)
            if journal:
                journal.append(last)
            yield last


def each_new(tell: Callable[[Record], object]) -> Show:
    """Return a `show` that tells of each batch once; those in the journal at the first call count as told."""
    last: int | None = None

    def show(records: Sequence[Record], _: str) -> None:
        nonlocal last
        for record in records:
            if last is not None and record.batch > last:
                tell(record)
        last = records[-1].batch if records else -1

    return show
