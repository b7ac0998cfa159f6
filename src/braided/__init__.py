"""Braided: the adaptive multi-way stream join for PySpark.

Names are imported when they are first used: a process that needs one of them does not pay for all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braided.local.local_join import LocalJoin
    from braided.local.run import BatchReport, run_local
    from braided.local.xml_stream import XmlRows, read_xml
    from braided.policies.statistics import HalfJoinStatistics, Statistics, StreamStatistics
    from braided.query.errors import BraidedError
    from braided.query.join_query import JoinQuery
    from braided.query.memory import Memory
    from braided.query.overload import Overload
    from braided.query.promises import RangePunctuation
    from braided.query.scheduling import Scheduling
    from braided.query.sql.read import sql
    from braided.query.stream import Stream
    from braided.query.tuning import BatchPurge, Tuning
    from braided.query.windows import AsOf, CountWindow

__version__ = "0.1.0"

_HOMES = {
    "AsOf": "query.windows",
    "BatchPurge": "query.tuning",
    "BatchReport": "local.run",
    "BraidedError": "query.errors",
    "CountWindow": "query.windows",
    "HalfJoinStatistics": "policies.statistics",
    "JoinQuery": "query.join_query",
    "LocalJoin": "local.local_join",
    "Memory": "query.memory",
    "Overload": "query.overload",
    "RangePunctuation": "query.promises",
    "Scheduling": "query.scheduling",
    "Statistics": "policies.statistics",
    "Stream": "query.stream",
    "StreamStatistics": "policies.statistics",
    "Tuning": "query.tuning",
    "XmlRows": "local.xml_stream",
    "read_xml": "local.xml_stream",
    "run_local": "local.run",
    "sql": "query.sql.read",
}


def __getattr__(name: str) -> Any:
    if name == "spark":
        return importlib.import_module("braided.spark")
    if name not in _HOMES:
        raise AttributeError(f"module 'braided' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"braided.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES, "spark"]


__all__ = [
    "AsOf",
    "BatchPurge",
    "BatchReport",
    "BraidedError",
    "CountWindow",
    "HalfJoinStatistics",
    "JoinQuery",
    "LocalJoin",
    "Memory",
    "Overload",
    "RangePunctuation",
    "Scheduling",
    "Statistics",
    "Stream",
    "StreamStatistics",
    "Tuning",
    "XmlRows",
    "read_xml",
    "run_local",
    "sql",
]
