"""The join on Spark Structured Streaming. Using any of it imports pyspark.

Names are imported when they are first used: Spark starts a process of its own only to ask the operator
for its state variables, and imports this package there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braided.policies.statistics import JoinMetrics as JoinMetrics
    from braided.spark.checkpoint import StoredState as StoredState
    from braided.spark.checkpoint import finish as finish
    from braided.spark.checkpoint import inspect_state as inspect_state
    from braided.spark.diagnosis import why as why
    from braided.spark.measures import metrics as metrics
    from braided.spark.pipeline import join as join
    from braided.spark.sessions.builder import conf as conf
    from braided.spark.sessions.builder import session as session
    from braided.spark.sources.xml_source import XmlSource as XmlSource

_HOMES = {
    "JoinMetrics": "measures",
    "StoredState": "checkpoint",
    "XmlSource": "sources.xml_source",
    "conf": "sessions.builder",
    "finish": "checkpoint",
    "inspect_state": "checkpoint",
    "join": "pipeline",
    "metrics": "measures",
    "session": "sessions.builder",
    "why": "diagnosis",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'braided.spark' has no attribute {name!r}")
    try:
        home = importlib.import_module(f"braided.spark.{_HOMES[name]}")
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in ("pyspark", "pandas", "google"):
            raise
        from braided.query.errors import BraidedError  # noqa: PLC0415

        raise BraidedError(
            f"braided.spark needs the package {missing.name}; install it with: pip install 'braided[spark]'"
        ) from None
    value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]


__all__ = list(_HOMES)
