"""Braided: the adaptive multi-way stream join for PySpark."""

from __future__ import annotations

import importlib
from typing import Any

from braided.local.local_join import LocalJoin
from braided.local.run import run_local
from braided.policies.statistics import HalfJoinStatistics, Statistics, StreamStatistics
from braided.query.errors import BraidedError
from braided.query.join_query import JoinQuery
from braided.query.stream import Stream
from braided.query.tuning import BatchPurge, Tuning
from braided.query.windows import CountWindow

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`braided.spark` is imported when it is first used, so that the rest works without pyspark."""
    if name != "spark":
        raise AttributeError(f"module 'braided' has no attribute {name!r}")
    try:
        return importlib.import_module("braided.spark")
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] in ("pyspark", "pandas", "google"):
            raise BraidedError(
                f"braided.spark needs the package {missing.name}; "
                "install it with: pip install 'braided[spark]'"
            ) from None
        raise


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
