"""Spark's schemas in Arrow."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def in_arrow(schema: StructType) -> pa.Schema:
    """With timestamps in UTC, as Spark hands them to Python."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # earlier releases of Spark take no zone: it is always UTC
        return to_arrow_schema(schema)
