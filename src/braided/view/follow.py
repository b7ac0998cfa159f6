"""Follow a running query: every finished batch becomes a record, once.

Spark keeps the reports of the latest 100 batches (`spark.sql.streaming.numRecentProgressUpdates`), so none is
missed between two looks, and the metrics after each batch are made of the reports up to its own. Batches are
told apart by their number, which only grows; a query that idles reports the number of the batch to come, so
only reports of batches that were executed count. Whether the query is active is asked *before* its reports
are read: what it reports last is never overlooked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from braided.query.errors import BraidedError
from braided.view.records import Journal, Record, record_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Show: TypeAlias = Callable[[Sequence[Record], str], None]

KEPT = 1_000  # the latest batches that are shown; a journal keeps all


class QueryFailed(BraidedError, RuntimeError):
    """The query that was followed has stopped with an error."""


def follow(streaming: StreamingQuery, *, journal: Path | None = None, show: Show, every: float = 0.5) -> None:
    """Show a query's batches, and what `why` says of it, until it ends; `every` is in seconds.

    With a journal that knows this query, its records are shown first, and go on. `show` is called at the
    start, after new batches, and at the end.
    """
    followed = _Followed(streaming, Journal(journal) if journal else None)
    show(tuple(followed.records), followed.why())
    while True:
        active = streaming.isActive
        if followed.look(always=not active):
            show(tuple(followed.records), followed.why())
        if not active:
            break
        time.sleep(every)
    failed = streaming.exception()
    if failed is not None:
        raise QueryFailed(f"the query has stopped: {_first_line(failed)}") from failed


class Newcomers:
    """The batches a `show` has not reported; those in the journal at the first call count as reported."""

    def __init__(self) -> None:
        self._reported: int | None = None

    def among(self, records: Sequence[Record]) -> list[Record]:
        """The batches that were not there yet."""
        new = [r for r in records if self._reported is not None and r.batch > self._reported]
        self._reported = records[-1].batch if records else -1
        return new


class _Followed:
    """A query, and the records of it so far."""

    def __init__(self, streaming: StreamingQuery, journal: Journal | None) -> None:
        self._streaming, self._journal, self._id = streaming, journal, str(streaming.id)
        known = journal.read() if journal else []
        self.records = [r for r in known if r.query == self._id][-KEPT:]
        self._latest = ""

    def look(self, *, always: bool) -> bool:
        """Take up new batches; return whether there were any (or this is the last look)."""
        latest = self._streaming.lastProgress
        if not always and (latest is None or latest.json == self._latest):
            return False
        self._latest = latest.json if latest is not None else ""
        reports = [json.loads(p.json) for p in self._streaming.recentProgress]
        new = [i for i, report in enumerate(reports) if self._is_new(report)]
        for i in new:
            self._take(reports[: i + 1])
        return always or bool(new)

    def why(self) -> str:
        """Return what keeps the join from producing."""
        from braided.spark.diagnosis import why  # noqa: PLC0415  (needs pyspark)

        return why(self._streaming)

    def _is_new(self, report: dict[str, Any]) -> bool:
        last = self.records[-1].batch if self.records else -1
        return "addBatch" in report["durationMs"] and report["batchId"] > last

    def _take(self, reports: list[dict[str, Any]]) -> None:
        from braided.spark.measures import metrics_of  # noqa: PLC0415

        seen = metrics_of(reports, query_id=self._id, active=True)
        record = record_of(reports[-1], seen, self.records[-1] if self.records else None)
        self.records.append(record)
        del self.records[:-KEPT]
        if self._journal:
            self._journal.append(record)


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
