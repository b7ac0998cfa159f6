"""Where the releases of Spark differ: how a source limits what a batch takes, and how schemas become Arrow's.

Releases before 4.2 take all there is.
"""

from __future__ import annotations

from abc import ABC
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as LimitedReader
except ModuleNotFoundError:
    ReadAllAvailable = ReadLimit = ReadMaxFiles = Any  # type: ignore[misc, assignment]
    LimitedReader = ABC  # type: ignore[misc, assignment]

LIMITED = LimitedReader is not ABC
__all__ = ["LIMITED", "LimitedReader", "ReadAllAvailable", "ReadLimit", "ReadMaxFiles", "in_arrow"]


def in_arrow(schema: StructType) -> pa.Schema:
    """A schema in Arrow, with timestamps in UTC, as Spark hands them to Python."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # earlier releases take no zone: it is always UTC
        return to_arrow_schema(schema)
