"""The join on Spark Structured Streaming. Using any of it imports pyspark.

Names are imported when they are first used: Spark starts a process of its own only to ask the operator
for its state variables, and imports this package there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braided.policies.statistics import JoinMetrics
    from braided.spark.checkpoint import StoredState, finish, inspect_state
    from braided.spark.diagnosis import why
    from braided.spark.explaining import explain
    from braided.spark.measures import metrics
    from braided.spark.pipeline import join
    from braided.spark.sessions.builder import conf, session
    from braided.spark.sources.xml_source import XmlSource

__all__ = ["JoinMetrics", "StoredState", "XmlSource", "conf", "explain", "finish", "inspect_state", "join"]
__all__ += ["metrics", "session", "why"]
_NAMES = {
    "checkpoint": ("StoredState", "finish", "inspect_state"),
    "diagnosis": ("why",),
    "explaining": ("explain",),
    "measures": ("JoinMetrics", "metrics"),
    "pipeline": ("join",),
    "sessions.builder": ("conf", "session"),
    "sources.xml_source": ("XmlSource",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'braided.spark' has no attribute {name!r}")
    try:
        home = importlib.import_module(f"braided.spark.{_HOMES[name]}")
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in ("pyspark", "pandas", "google"):
            raise
        from braided.query.errors import BraidedError  # noqa: PLC0415

        remedy = "install it with: pip install 'braided[spark]'"
        raise BraidedError(f"braided.spark needs the package {missing.name}; {remedy}") from None
    value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
