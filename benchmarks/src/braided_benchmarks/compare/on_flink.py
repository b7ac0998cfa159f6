"""Flink SQL's run of a comparison: interval joins, a chain of regular joins, or the MultiJoin operator.

Run by its path with the Python of an environment that has `apache-flink` and not Braided. Each result becomes
a line `batch,milliseconds when it left the join,checksum` of a CSV sink, which commits with checkpoints.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Duration, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource
from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

CHECKPOINTS = "2 s"
MAY_WAIT_S = 30  # so much its watermark lags where files come one after the other


def run(spec: dict[str, Any]) -> None:
    """Join what is there and what comes, until killed."""
    config = Configuration()
    config.set_string("execution.checkpointing.interval", CHECKPOINTS)
    config.set_string("execution.checkpointing.dir", Path(spec["state"]).absolute().as_uri())
    config.set_string("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")
    config.set_string("table.optimizer.multi-join.enabled", str(spec["contender"] == "flink-multi").lower())
    config.set_string("table.local-time-zone", "UTC")
    if spec["restore"]:
        config.set_string("execution.state-recovery.path", Path(spec["restore"]).absolute().as_uri())
    environment = StreamExecutionEnvironment.get_execution_environment(config)
    environment.set_parallelism(2)
    tables = StreamTableEnvironment.create(environment)
    for i in range(spec["streams"]):
        _source(environment, tables, Path(spec["data"]) / f"s{i}", live=not spec["a_file_a_batch"])
    out = (Path(spec["out"]) / "rows").absolute().as_uri()
    tables.execute_sql(
        "CREATE TABLE results (batch INT, at_ms BIGINT, checksum BIGINT) WITH "
        f"('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')"
    )
    (Path(spec["out"]) / "started").write_text(str(time.time()))
    tables.execute_sql(_insert(spec)).wait()


def _source(environment: Any, tables: Any, folder: Path, *, live: bool) -> None:
    """A table of a folder's files, read one by one; those that wait are read in no order, but not late."""
    columns = CsvSchema.builder()
    for name in ("k", "t", "v"):
        columns = columns.add_number_column(name)
    columns = columns.add_number_column("n", DataTypes.INT())
    reader = CsvReaderFormat.for_schema(columns.build())
    files = FileSource.for_record_stream_format(reader, folder.absolute().as_uri())
    files = files.monitor_continuously(Duration.of_millis(100)).build()
    rows = environment.from_source(files, WatermarkStrategy.no_watermarks(), folder.name).set_parallelism(1)
    schema = Schema.new_builder().column_by_expression("ts", "TO_TIMESTAMP_LTZ(t / 1000, 3)")
    watermark = f"ts - INTERVAL '{MAY_WAIT_S}' SECOND" if live else "ts"
    tables.create_temporary_view(folder.name, rows, schema.watermark("ts", watermark).build())


def _insert(spec: dict[str, Any]) -> str:
    names = [f"s{i}" for i in range(spec["streams"])]
    others = names[1:]
    pairs = [(a, b) for j, b in enumerate(others) for a in others[:j]]
    near = [f"ABS({a}.t - {b}.t) <= {spec['window_us']}" for a, b in pairs]
    if spec["contender"] == "flink-interval":
        # the first stream's times bound each join; with a second time it would be a regular join
        span = f"INTERVAL '{spec['window_us'] // 1_000_000}' SECOND(3)"
        near += [f"s0.ts BETWEEN {name}.ts - {span} AND {name}.ts + {span}" for name in others]
    else:
        near += [f"ABS(s0.t - {name}.t) <= {spec['window_us']}" for name in others]
    joined = " ".join(["s0", *(f"JOIN {name} ON s0.k = {name}.k" for name in others)])
    batch = f"GREATEST({', '.join(f'{name}.n' for name in names)})"
    checksum = " + ".join(f"{name}.v" for name in names)
    now = "CURRENT_ROW_TIMESTAMP()"
    millis = f"UNIX_TIMESTAMP(CAST({now} AS STRING)) * 1000 + EXTRACT(MILLISECOND FROM {now})"
    return (
        f"INSERT INTO results SELECT {batch}, {millis}, {checksum} FROM {joined} WHERE {' AND '.join(near)}"
    )


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
