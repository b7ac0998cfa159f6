"""What the children of chaos campaigns share: a session, streams of files, and trouble inside tasks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pass: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Trouble:
    """What goes wrong inside a run: in every third batch workers kill themselves, in others they dawdle."""

    suicide: bool = False
    dawdle: bool = False

    @property
    def flags(self) -> list[str]:
        """As options of the command line."""
        return [f"--{name}" for name in ("suicide", "dawdle") if getattr(self, name)]


NO_TROUBLE = Trouble()


def session(master: str) -> SparkSession:
    """A session of a child; tasks that dawdle get a second attempt."""
    import braided as bd  # noqa: PLC0415

    settings = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
    }
    spark: SparkSession = bd.spark.session("chaos", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def streams(spark: SparkSession, root: Path, schemas: Mapping[str, str]) -> dict[str, DataFrame]:
    """A folder of Parquet files for each stream, a file in each batch."""
    return {
        name: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / name))
        for name, schema in schemas.items()
    }


def troubled(root: Path, trouble: Trouble) -> Pass:
    """Pass rows on; in some batches the first attempt of a task dies behind its work, or does not end."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415

        yield from batches
        context = TaskContext.get()
        if context is None:
            return
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        first, slow = context.attemptNumber() == 0, batch % 3 == 2 and context.partitionId() == 0
        if first and trouble.suicide and batch % 3 == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        elif first and trouble.dawdle and slow:
            (root / f"dawdling-{batch}").write_text(str(os.getpid()))
            time.sleep(8)
        elif slow and _alive(root / f"dawdling-{batch}"):
            (root / f"second-attempt-{batch}").touch()

    return pass_on


def _alive(note: Path) -> bool:
    """Whether the process that left this note still runs."""
    return note.exists() and Path(f"/proc/{note.read_text()}").exists()
