"""Recorded time: a source that brings nothing but the wall clock, and what batches are planned by.

Spark writes a source's offsets to its log before the batch runs, so a clock that is an offset reads the same
when the batch is repeated, and after a restart. Every streaming join has this source, because Spark fixes the
sources of a checkpoint; where nothing needs the clock it stands still, and costs nothing.

An offset holds the time in whole seconds and when this run of the query began; and what the batch was planned
by: the newest epoch's fingerprint, and the numbers of the epochs that live. If that changes, there is a batch
even if no stream brings a row; one row of it tells every bucket. It has no watermark, and ends when a query
does that runs until its input is used up. (Spark's own `rate` would not do: with it such a query takes all
its input in one batch.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from braided.spark.releases import LimitedReader, ReadAllAvailable, ReadLimit

MARK = "braided"  # by which an offset of ours is known in Spark's log


def beats(spark: SparkSession, *, planned: str, epochs: str, beating: bool) -> DataFrame:
    """A row when something has changed; if it is `beating`, in every batch, at least once a second."""
    spark.dataSource.register(BeatSource)
    options = {"planned": planned, "epochs": epochs, "beating": "yes" if beating else ""}
    return spark.readStream.format(BeatSource.name()).options(**options).load()


class BeatSource(DataSource):
    """The format "braided-heartbeat"."""

    @classmethod
    def name(cls) -> str:
        """The format's short name."""
        return "braided-heartbeat"

    def schema(self) -> str:
        """When it beats, in seconds since 1970, in which run, and whether the plan has changed."""
        return "beat long, run long, changed boolean"

    def streamReader(self, schema: StructType) -> BeatReader:  # noqa: N802
        """A reader of time."""
        options = self.options
        return BeatReader(options["planned"], options["epochs"], beating=bool(options["beating"]))


class BeatReader(DataSourceStreamReader, LimitedReader):
    """Offsets are beats; a batch has one row, however long ago the last one was."""

    def __init__(self, planned: str, epochs: str, *, beating: bool) -> None:
        self._known = {MARK: planned, "epochs": epochs}
        self._beating = beating
        self._run = int(time.time() * 1000) if beating else 0
        self._last: int | None = None if beating else 0  # with the trigger "available now"

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before all beats."""
        return {MARK: "", "epochs": "", "beat": 0, "run": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """All there is."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """No beat later than now."""
        self._last = int(time.time()) if self._beating else 0

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The last beat; clocks may be set back, offsets may not."""
        beat = int(time.time()) if self._last is None else self._last
        return {**self._known, "beat": max(beat, (start or {}).get("beat", 0)), "run": self._run}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One row."""
        changed = any(start[name] != end[name] for name in (MARK, "epochs"))
        return [InputPartition((end["beat"], end["run"], changed))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, bool]]:
        """The row."""
        yield partition.value
