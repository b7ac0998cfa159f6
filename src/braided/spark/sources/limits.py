"""How Spark limits what a batch of a source takes; releases before 4.2 take all there is."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as LimitedReader
else:
    try:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as LimitedReader
    except ModuleNotFoundError:
        ReadAllAvailable = ReadLimit = ReadMaxFiles = Any
        LimitedReader = ABC

LIMITED = LimitedReader is not ABC
__all__ = ["LIMITED", "LimitedReader", "ReadAllAvailable", "ReadLimit", "ReadMaxFiles"]
