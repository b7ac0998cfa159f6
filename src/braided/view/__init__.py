"""A running join to look at: records of its batches, the terminal, a page, a report."""

from __future__ import annotations

from braided.view.follow import follow, watch
from braided.view.page import serve
from braided.view.records import Journal, Record, StreamRecord, record_of
from braided.view.report import report

__all__ = ["Journal", "Record", "StreamRecord", "follow", "record_of", "report", "serve", "watch"]
