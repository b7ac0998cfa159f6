"""What a job file may hold. The checks, the JSON Schema and the table in docs/jobs.md are made from this."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from braided.query.join_query import JoinQuery

Scalar: TypeAlias = str | int | float | bool
Options: TypeAlias = Mapping[str, Scalar]
Schema: TypeAlias = str | Mapping[str, str]

FILES = ("parquet", "json", "csv", "orc", "text", "avro", "xml")  # formats that are files in a folder
FORMATS = (*FILES, "kafka", "delta", "rate", "socket", "braided-xml")
SINKS = (*FILES[:-1], "kafka", "delta", "console", "memory", "noop")


def _option(help: str, **default: Any) -> Any:
    return dataclasses.field(metadata={"help": help}, **default)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replay:
    """Files as if their rows came now: slowly."""

    files: int | None = _option("files a batch", default=None)
    rows_per_second: int | float | None = _option(
        "about so many rows a second; sets the trigger and the files a batch by the files' average", default=None
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Value:
    """How the column `value` (Kafka's, or a line of text) becomes columns."""

    schema: Schema = _option("columns inside the value: `order_id long, at timestamp`, or a mapping")
    format: Literal["json"] = _option("what the value is", default="json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """Where the rows of a stream come from."""

    format: str = _option("any format Spark can stream: parquet, json, csv, orc, text, kafka, delta, rate, ...")
    path: str | None = _option("folder of the files, relative to the job file", default=None)
    schema: Schema | None = _option(
        "columns: `order_id long, at timestamp`, or a mapping; without it files are looked at", default=None
    )
    options: Options = _option("options of the format", default_factory=dict)
    value: Value | Literal["raw"] | None = _option(
        "how the column `value` is decoded; `raw`: not at all", default=None
    )
    select: tuple[str, ...] = _option(
        "SQL expressions that make the stream's columns, such as `timestamp_millis(ms) as at`", default=()
    )
    replay: Replay | None = _option("read files slowly", default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LateSink:
    """Where rows go that came too late; each has its stream's name in `late_stream`."""

    format: str = _option("a file format, kafka, delta, console or noop")
    path: str | None = _option("folder, relative to the job file", default=None)
    table: str | None = _option("a table of the catalog (delta)", default=None)
    options: Options = _option("options of the format", default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sink:
    """Where results go."""

    format: str = _option("any format Spark can stream to: parquet, json, csv, orc, kafka, delta, console, ...")
    path: str | None = _option("folder, relative to the job file", default=None)
    table: str | None = _option("a table of the catalog", default=None)
    columns: tuple[str, ...] = _option("which columns of the result, in which order (all)", default=())
    partition_by: tuple[str, ...] = _option("columns that become folders", default=())
    options: Options = _option("options of the format", default_factory=dict)
    late: LateSink | str | None = _option("a sink of its own for late rows", default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobFile:
    """A streaming join: what is joined, where rows come from, where results go."""

    query: JoinQuery = _option("the join, as `JoinQuery.to_dict` gives it")
    sources: Mapping[str, Source] = _option("where each stream's rows come from, by stream")
    sink: Sink | str = _option("where results go; a single word is a format, such as `console`")
    checkpoint: str = _option("folder for what a restart needs, relative to the job file")
    name: str | None = _option("of the query, in Spark's pages and in messages (the file's)", default=None)
    trigger: str | None = _option(
        "`available now` (what is there, then end), `once` (the same in one batch), or a duration: a batch "
        "every so often (batches follow each other at once)",
        default=None,
    )
    buckets: int = _option("parts the keys are split into, a power of two; fixed in a checkpoint", default=8)
    spark: Options = _option("settings of the Spark session, such as `spark.master`", default_factory=dict)
