"""Streams as folders of Parquet files, one file a micro-batch, and joins run over them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import braided as bd
from braided.testing.samples.files import add_file, committed_files

START_US = 1_700_000_000_000_000


def generated(
    names: list[str], rows: int, *, seed: int = 1, keys: int = 50, span_s: int = 60
) -> dict[str, pa.Table]:
    """Rows in order of time, with some null keys."""
    rng = np.random.default_rng(seed)
    tables = {}
    for name in names:
        times = np.sort(rng.integers(0, span_s * 1_000_000, rows)) + START_US
        key = pa.array(rng.integers(0, keys, rows), mask=rng.random(rows) < 0.03)
        tables[name] = pa.table(
            {"k": key, "t": pa.array(times, pa.timestamp("us", tz="UTC")), "v": rng.integers(0, 1000, rows)}
        )
    return tables


def write(root: Path, tables: Mapping[str, pa.Table], batches: int) -> None:
    """Each table as so many files."""
    for name, table in tables.items():
        step = -(-table.num_rows // batches)
        for n in range(batches):
            add_file(root / name, n, table.slice(n * step, step))


def read(spark: SparkSession, root: Path, tables: Mapping[str, pa.Table]) -> dict[str, DataFrame]:
    """The folders as streaming DataFrames, a file a batch."""
    frames = {}
    for name, table in tables.items():
        schema = spark.createDataFrame(table.slice(0, 0).to_pandas(), schema=_ddl(table)).schema
        frames[name] = (
            spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / name))
        )
    return frames


def _ddl(table: pa.Table) -> str:
    kinds = {pa.int64(): "long", pa.string(): "string", pa.float64(): "double"}
    return ", ".join(
        f"{f.name} {'timestamp' if pa.types.is_timestamp(f.type) else kinds[f.type]}" for f in table.schema
    )


def run(df: DataFrame, root: Path, **options: Any) -> StreamingQuery:
    """Everything there is, into Parquet files."""
    streaming: StreamingQuery = _writer(df, root).trigger(availableNow=True).start(**options)
    streaming.awaitTermination()
    return streaming


def start(df: DataFrame, root: Path) -> StreamingQuery:
    """The same, for ever."""
    return _writer(df, root).start()


def _writer(df: DataFrame, root: Path) -> DataStreamWriter:
    writer = df.writeStream.format("parquet").option("path", str(root / "out"))
    return writer.option("checkpointLocation", str(root / "checkpoint"))


def results(root: Path) -> pa.Table:
    """What the sink holds: its committed files; a failed attempt may still be writing others."""
    if (root / "out" / "_spark_metadata").exists():
        return pa.concat_tables([pq.read_table(path) for path in committed_files(root / "out")])
    return pq.read_table(root / "out")


def query(names: list[str], window: Any = "3 seconds", **options: Any) -> bd.JoinQuery:
    streams = [bd.Stream(n, key="k", time="t", window=window, lateness="0 seconds") for n in names]
    return bd.JoinQuery(streams, **options)


def exact(query_: bd.JoinQuery, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The whole join in one batch, in this process (itself checked against the definition)."""
    return bd.run_local(query_, tables, batch_rows=10**9)
