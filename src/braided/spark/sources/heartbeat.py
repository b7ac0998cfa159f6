"""Recorded time: a source that brings nothing but the wall clock, and what batches are planned by.

Spark writes a source's offsets to its log before the batch runs, so a clock that is an offset reads the same
when the batch is repeated, and after a restart. Every streaming join has this source, because Spark fixes the
sources of a checkpoint; where nothing needs the clock it stands still, and costs nothing.

An offset holds the time in whole seconds and when this run of the query began; and what the batch was planned
by: the newest epoch's fingerprint, the numbers of the epochs that live, and what was decided for all buckets
(`spark.decisions` leaves it in a file). If that changes, there is a batch even if no stream brings a row; one
row of it tells every bucket. It has no watermark, and ends when a query
does that runs until its input is used up. (Spark's own `rate` would not do: with it such a query takes all
its input in one batch.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from braided.policies.recorded import Decision
from braided.spark.releases import LimitedReader, ReadAllAvailable, ReadLimit
from braided.spark.sources.decided import DECIDED, MARK


def beats(
    spark: SparkSession, *, planned: str, epochs: str, beating: bool, decisions: Path | None = None
) -> DataFrame:
    """A row when something has changed; if it is `beating`, in every batch, at least once a second.

    `decisions` is the file on the driver's machine that holds what was last decided.
    """
    spark.dataSource.register(BeatSource)
    options = {"planned": planned, "epochs": epochs, "beating": "yes" if beating else ""}
    options["decisions"] = "" if decisions is None else str(decisions)
    return spark.readStream.format(BeatSource.name()).options(**options).load()


class BeatSource(DataSource):
    """The format "braided-heartbeat"."""

    @classmethod
    def name(cls) -> str:
        """The format's short name."""
        return "braided-heartbeat"

    def schema(self) -> str:
        """When it beats (seconds since 1970), in which run, if the plan has changed, and what is decided."""
        return "beat long, run long, changed boolean, decided string"

    def streamReader(self, schema: StructType) -> BeatReader:  # noqa: N802
        """A reader of time."""
        options = self.options
        known, beating = (options["planned"], options["epochs"]), bool(options["beating"])
        return BeatReader(*known, beating=beating, decisions=options.get("decisions", ""))


class BeatReader(DataSourceStreamReader, LimitedReader):
    """Offsets are beats; a batch has one row, however long ago the last one was."""

    def __init__(self, planned: str, epochs: str, *, beating: bool, decisions: str = "") -> None:
        self._known = {MARK: planned, "epochs": epochs}
        self._beating, self._decisions = beating, decisions
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
        before = start or {}
        offset = {**self._known, "beat": max(beat, before.get("beat", 0)), "run": self._run}
        decided = self._decided() or before.get(DECIDED, "")
        return {**offset, DECIDED: decided} if decided else offset

    def _decided(self) -> str:
        """What was last decided since the application began, if anything."""
        try:
            text = Path(self._decisions).read_text(encoding="utf-8") if self._decisions else ""
        except (OSError, UnicodeError):
            return ""
        return text if Decision.read(text).of else ""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One row."""
        changed = any(start[name] != end[name] for name in (MARK, "epochs"))
        return [InputPartition((end["beat"], end["run"], changed, end.get(DECIDED, "")))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, bool, str]]:
        """The row."""
        yield partition.value
