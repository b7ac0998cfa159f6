"""Starting the Python workers early: their imports run while Spark still plans the first batch."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


@functools.cache
def start_early(spark: SparkSession) -> threading.Thread:
    """Run one small task per core in the background, once per session; a failure is left to the join."""
    thread = threading.Thread(target=_run, args=(spark,), name="braided-workers", daemon=True)
    thread.start()
    return thread


def _run(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # the session may be stopped meanwhile
        cores = spark.sparkContext.defaultParallelism
        spark.range(0, cores, 1, cores).mapInArrow(_nothing, "id long").collect()


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
