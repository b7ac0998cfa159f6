"""Batches while all sources are silent: a stream that brings nothing but time.

Where merges may wait (`Memory(defer=True)`), they are made when nothing else is to be done. A stateful task
only runs if there are rows for it; so a source beats once a second, and one task of each batch tells every
bucket so. It has no watermark, and ends when a query does that runs until its input is used up. (Spark's own
`rate` would not do: with it such a query takes all its input in one batch.)
"""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from braided.engine.sides.keys import KeyFormat
from braided.spark.wire.bucketing import Bucketing, Seen, Target, partition
from braided.spark.wire.packed import NO_STREAM

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ModuleNotFoundError:  # Spark 4.0 and 4.1
        SupportsTriggerAvailableNow = ABC

_SECONDS = 1.0


class Heartbeat:
    """Tells every bucket that there is time."""

    def __init__(self, buckets: int) -> None:
        self._target = Target(buckets, NO_STREAM, (), KeyFormat(()))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One control row per bucket, if time has passed."""
        if sum(batch.num_rows for batch in batches):
            yield Bucketing(self._target, partition()).control(Seen())


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
        """When it beats, in beats since 1970."""
        return "beat long"

    def streamReader(self, schema: StructType) -> BeatReader:  # noqa: N802
        """A reader of time."""
        return BeatReader()


class BeatReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are beats; a batch has one row, however long ago the last one was."""

    def __init__(self) -> None:
        self._last: int | None = None  # with the trigger "available now"

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before all beats."""
        return {"beat": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """All there is."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: PLC0415

        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """No beat later than now."""
        self._last = _now()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The last beat; clocks may be set back, offsets may not."""
        begin = start or self.initialOffset()
        return {"beat": max(begin["beat"], _now() if self._last is None else self._last)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Beat]:
        """One row."""
        return [Beat(end["beat"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        """The row."""
        assert isinstance(partition, Beat)
        yield (partition.beat,)


class Beat(InputPartition):
    """A beat."""

    def __init__(self, beat: int) -> None:
        self.beat = beat


def _now() -> int:
    return int(time.time() / _SECONDS)
