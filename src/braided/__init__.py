"""Braided: the adaptive multi-way stream join for PySpark."""

from __future__ import annotations

from braided.local.local_join import LocalJoin
from braided.local.run import run_local
from braided.policies.statistics import HalfJoinStatistics, Statistics, StreamStatistics
from braided.query.errors import BraidedError
from braided.query.join_query import JoinQuery
from braided.query.stream import Stream
from braided.query.tuning import BatchPurge, Tuning
from braided.query.windows import CountWindow

__version__ = "0.1.0"

__all__ = [
    "BatchPurge",
    "BraidedError",
    "CountWindow",
    "HalfJoinStatistics",
    "JoinQuery",
    "LocalJoin",
    "Statistics",
    "Stream",
    "StreamStatistics",
    "Tuning",
    "run_local",
]
