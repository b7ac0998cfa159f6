"""Batches while all sources are silent: a stream that brings nothing but time.

Where merges may wait (`Memory(defer=True)`), they are made when nothing else is to be done. A stateful task
only runs if there are rows for it; so a `rate` source beats once a second, and one task of each batch tells
every bucket so. It has no watermark, and the same checkpoint can be run live and until all input is used up.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from braided.spark.bucketing import NO_STREAM, Bucketing, Seen, Target, partition
from braided.state.keys import KeyFormat


def beats(spark: SparkSession) -> DataFrame:
    """A row a second."""
    return spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()


class Heartbeat:
    """Tells every bucket that there is time."""

    def __init__(self, buckets: int) -> None:
        self._target = Target(buckets, NO_STREAM, (), KeyFormat(()))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One control row per bucket, if time has passed."""
        if sum(batch.num_rows for batch in batches):
            yield Bucketing(self._target, partition()).control(Seen())
