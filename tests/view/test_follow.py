"""Following a query that is made by hand: no batch is missed, none told twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import braided as bd
from braided.view import Journal, Record, follow
from tests.view.batches import Report, progress


class Query:
    """A query that has done some more batches at every look; Spark keeps the latest reports."""

    id = runId = "q"  # noqa: N815

    def __init__(self, *steps: list[dict[str, Any]], kept: int = 100, error: str = "") -> None:
        self._steps, self._kept, self._error = list(steps), kept, error
        self._reports: list[dict[str, Any]] = []

    @property
    def isActive(self) -> bool:  # noqa: N802
        if not self._steps:
            return False
        self._reports += self._steps.pop(0)
        return True

    @property
    def recentProgress(self) -> list[Report]:  # noqa: N802
        return [Report(p) for p in self._reports[-self._kept :]]

    @property
    def lastProgress(self) -> Report | None:  # noqa: N802
        return self.recentProgress[-1] if self._reports else None

    def exception(self) -> Exception | None:
        return RuntimeError(self._error) if self._error and not self._steps else None


def followed(query: Query, journal: Path | None = None) -> tuple[list[int], list[list[int]]]:
    """The batches that were told at last, and those of each call."""
    shown: list[list[int]] = []

    def show(records: Sequence[Record], why: str) -> None:
        assert why
        shown.append([r.batch for r in records])

    follow(query, journal=journal, show=show, every=0.0)  # type: ignore[arg-type]
    return shown[-1], shown


def test_every_batch_once_and_only_news_are_shown() -> None:
    query = Query([progress(0)], [], [progress(1), progress(2), progress(3)], [], kept=3)
    assert followed(query) == ([0, 1, 2, 3], [[], [0], [0, 1, 2, 3], [0, 1, 2, 3]])


def test_batches_reported_after_the_last_look_are_told() -> None:
    query = Query([progress(0)])
    query._steps.append([progress(1)])
    assert followed(query)[0] == [0, 1]


def test_an_idle_query_reports_the_batch_to_come() -> None:
    idle = progress(1, rows=0, executed=False)
    assert followed(Query([progress(0)], [idle], [idle, progress(1)]))[0] == [0, 1]


def test_a_batch_without_rows_counts() -> None:
    assert followed(Query([progress(0)], [progress(1, rows=0)]))[0] == [0, 1]


def test_a_journal_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    followed(Query([progress(0), progress(1)]), path)
    last, shown = followed(Query([progress(0), progress(1), progress(2)]), path)
    assert last == [0, 1, 2]
    assert shown[0] == [0, 1]
    assert [r.batch for r in Journal(path).read()] == [0, 1, 2]


def test_another_query_in_the_same_journal_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    followed(Query([progress(0), progress(1)]), path)
    other = Query([progress(0)])
    other.id = "other"
    assert followed(other, path)[0] == [0]
    assert [(r.query, r.batch) for r in Journal(path).read()] == [("q", 0), ("q", 1), ("other", 0)]


def test_a_failure_is_one_line_after_all_batches_were_shown(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    query = Query([progress(0)], error="\n[DIVIDE_BY_ZERO] no\n\tat org.apache.spark")
    with pytest.raises(bd.BraidedError, match="DIVIDE_BY_ZERO") as failed:
        followed(query, path)
    assert str(failed.value) == "the query has stopped: [DIVIDE_BY_ZERO] no"
    assert [r.batch for r in Journal(path).read()] == [0]
