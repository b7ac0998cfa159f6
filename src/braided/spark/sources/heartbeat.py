"""Batches while all sources are silent: a stream that brings nothing but time.

Where merges may wait (`Memory(defer=True)`), they are made when nothing else is to be done. A stateful task
only runs if there are rows for it; so a source beats once a second, and one task of each batch tells every
bucket so. It has no watermark, and ends when a query does that runs until its input is used up. (Spark's own
`rate` would not do: with it such a query takes all its input in one batch.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from braided.spark.releases import LimitedReader, ReadAllAvailable, ReadLimit


def beats(spark: SparkSession) -> DataFrame:
    """A row for every batch, and a batch a second at least."""
    spark.dataSource.register(BeatSource)
    return spark.readStream.format(BeatSource.name()).load()


class BeatSource(DataSource):
    """The format "braided-heartbeat"."""

    @classmethod
    def name(cls) -> str:
        """The format's short name."""
        return "braided-heartbeat"

    def schema(self) -> str:
        """When it beats, in seconds since 1970."""
        return "beat long"

    def streamReader(self, schema: StructType) -> BeatReader:  # noqa: N802
        """A reader of time."""
        return BeatReader()


class BeatReader(DataSourceStreamReader, LimitedReader):
    """Offsets are beats; a batch has one row, however long ago the last one was."""

    def __init__(self) -> None:
        self._last: int | None = None  # with the trigger "available now"

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before all beats."""
        return {"beat": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """All there is."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """No beat later than now."""
        self._last = int(time.time())

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The last beat; clocks may be set back, offsets may not."""
        begin = start or self.initialOffset()
        return {"beat": max(begin["beat"], int(time.time()) if self._last is None else self._last)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One row."""
        return [InputPartition(end["beat"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        """The row."""
        yield (partition.value,)
