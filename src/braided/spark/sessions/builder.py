"""A SparkSession with everything a fast join needs, and the check that a user's own has what it must.

Python workers are started early: their imports run while Spark still plans the first batch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from typing import Any

from pyspark.sql import SparkSession

from braided.query.errors import InvalidValue
from braided.spark.sessions.java import check_java

_STORE = "spark.sql.streaming.stateStore."
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def conf() -> dict[str, str]:
    """The settings `session` uses; give them to a builder of your own."""
    return {
        f"{_STORE}providerClass": _ROCKSDB,
        f"{_STORE}rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        # any other limit makes Spark add up the size of the Arrow batch for every row it writes to it
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        # one daemon for both kinds of Python workers, which imports and loads kernels once
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.python.daemon.module": "braided.spark.sessions.daemon",
        "spark.executorEnv.MALLOC_ARENA_MAX": "2",
        **{f"spark.executorEnv.{name}": "1" for name in _ONE_THREAD},
    }


def session(name: str = "braided", **settings: Any) -> SparkSession:
    """A SparkSession with everything set; keyword arguments are extra Spark settings.

    Without a master it runs on this machine, on all cores.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    cores = os.cpu_count() or 1
    defaults = {
        "spark.master": os.environ.get("MASTER", "local[*]"),
        "spark.sql.shuffle.partitions": str(1 << max(0, (cores - 1).bit_length())),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.appName(name)
    for key, value in {**defaults, **conf(), **settings}.items():
        builder = builder.config(key, str(value))
    return builder.getOrCreate()


@functools.cache
def start_workers(spark: SparkSession) -> None:
    """Run one small task per core in the background, once per session; a failure is left to the join."""

    def run() -> None:
        with contextlib.suppress(Exception):  # the session may be stopped meanwhile
            cores = spark.sparkContext.defaultParallelism
            spark.range(0, cores, 1, cores).mapInArrow(lambda batches: batches, "id long").collect()

    threading.Thread(target=run, name="braided-workers", daemon=True).start()


def check_session(spark: SparkSession) -> None:
    """Raise unless the session has what a streaming join cannot do without."""
    provider = spark.conf.get(f"{_STORE}providerClass", "") or ""
    if not provider.endswith("RocksDBStateStoreProvider"):
        has = f"this session has {provider or 'the default'}; set it, or use bd.spark.session() or conf()"
        raise InvalidValue(f"a streaming join needs {_STORE}providerClass={_ROCKSDB}; {has}")
    policy = spark.conf.get("spark.sql.streaming.multipleWatermarkPolicy", "min")
    if policy != "min":
        needs = "spark.sql.streaming.multipleWatermarkPolicy=min (the default)"
        raise InvalidValue(f"a streaming join needs {needs}; this session has {policy!r}")
