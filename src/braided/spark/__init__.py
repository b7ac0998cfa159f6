"""The join on Spark Structured Streaming. Importing this imports pyspark."""

from __future__ import annotations

from braided.spark.builder import conf, session
from braided.spark.diagnosis import why
from braided.spark.measures import JoinMetrics, metrics
from braided.spark.pipeline import join
from braided.spark.stored import StoredState, inspect_state

__all__ = ["JoinMetrics", "StoredState", "conf", "inspect_state", "join", "metrics", "session", "why"]
