"""The join on Spark Structured Streaming. Importing this imports pyspark."""

from __future__ import annotations

from braided.spark.inspect import StoredState, inspect_state
from braided.spark.join import join
from braided.spark.metrics import JoinMetrics, metrics
from braided.spark.session import conf, session
from braided.spark.why import why

__all__ = ["JoinMetrics", "StoredState", "conf", "inspect_state", "join", "metrics", "session", "why"]
