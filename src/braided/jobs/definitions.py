"""What a job file may hold. Checks and JSON Schema are made from this; docs/howto/jobs.md lists it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_origin, get_type_hints

from braided.query.join_query import JoinQuery
from braided.query.masking import masked

SCHEMA_FILE = Path(__file__).with_name("job.schema.json")  # for editors
Scalar: TypeAlias = str | int | float | bool
Options: TypeAlias = Mapping[str, Scalar]
Schema: TypeAlias = str | Mapping[str, str]


def column_names(schema: Schema) -> tuple[str, ...]:
    """The columns of a schema, in Spark's words or as a mapping.

    >>> column_names("a long, `b c` struct<x: int, y: decimal(9, 2)>, d: string")
    ('a', 'b c', 'd')
    """
    if isinstance(schema, Mapping):
        return tuple(schema)
    flat = schema
    for inner in (r"\([^()]*\)", r"<[^<>]*>") * 8:
        flat = re.sub(inner, "", flat)
    matches = (re.match(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))", part) for part in flat.split(","))
    return tuple((m[1] or m[2]).replace("``", "`") for m in matches if m)


def ddl(schema: Schema) -> str:
    """A schema in Spark's words."""
    if isinstance(schema, str):
        return schema
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in schema.items())


def helped(cls: Any) -> dict[str, str]:
    """What is said of each option of a class."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Files as if their rows came now: slowly."""

    files: Annotated[int | None, "files a batch"] = None
    rows_per_second: Annotated[
        int | float | None,
        "about this many rows a second: sets the trigger, and the files a batch by their size",
    ] = None


@dataclass(frozen=True, kw_only=True)
class Value:
    """How the column `value` (of Kafka, or a line of text) becomes columns."""

    schema: Annotated[Schema, "columns inside the value: `order_id long, at timestamp`, or a mapping"]
    format: Annotated[Literal["json"], "what the value is"] = "json"


@dataclass(frozen=True, kw_only=True, repr=False)
class End:
    """Where rows come from or go to; shown without credentials."""

    format: str
    path: Annotated[str | None, "folder of the files, relative to the job file"] = None
    options: Annotated[Options, "options of the format"] = field(default_factory=dict)

    def __repr__(self) -> str:
        options = masked(asdict(self))
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in options.items())})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Source(End):
    """Where the rows of a stream come from."""

    format: Annotated[str, "any format Spark can stream: parquet, json, csv, orc, text, kafka, rate, ..."]
    schema: Annotated[
        Schema | None, "columns: `order_id long, at timestamp`, or a mapping; without it files are looked at"
    ] = None
    value: Annotated[
        Value | Literal["raw"] | None, "how the column `value` is decoded; `raw`: not at all"
    ] = None
    select: Annotated[
        tuple[str, ...], "SQL expressions that make the columns, such as `timestamp_millis(ms) as at`"
    ] = ()
    replay: Annotated[Replay | None, "read files slowly"] = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns as far as the job file names them."""
        schema = self.value.schema if isinstance(self.value, Value) else self.value or self.schema
        return None if self.select or schema in (None, "raw") else column_names(schema)


@dataclass(frozen=True, kw_only=True, repr=False)
class LateSink(End):
    """Where rows go that came too late; each has the name of its stream in `late_stream`."""

    format: Annotated[str, "a file format, kafka, delta, console or noop"]
    table: Annotated[str | None, "a table of the catalog (delta)"] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Sink(LateSink):
    """Where results go."""

    format: Annotated[str, "any format Spark can stream to: parquet, json, csv, kafka, delta, console, ..."]
    table: Annotated[str | None, "a table of the catalog"] = None
    columns: Annotated[tuple[str, ...], "which columns of the result, in which order; else all"] = ()
    partition_by: Annotated[tuple[str, ...], "columns that become folders"] = ()
    late: Annotated[LateSink | str | None, "a sink of its own for late rows; else they are counted"] = None


@dataclass(frozen=True, kw_only=True)
class JobFile:
    """A streaming join: what is joined, where rows come from, where results go."""

    query: Annotated[JoinQuery, "the join, as `JoinQuery.to_dict` gives it, or in words, as SQL"]
    sources: Annotated[Mapping[str, Source], "where the rows of each stream come from, by stream"]
    sink: Annotated[Sink | str, "where results go; a single word is a format, such as `console`"]
    checkpoint: Annotated[str, "folder for what a restart needs, relative to the job file"]
    name: Annotated[str | None, "of the query, in pages and messages; else the name of the file"] = None
    trigger: Annotated[
        str | None,
        "`available now` (what is there, then end), `once` (the same in one batch), or a duration: a batch "
        "every so often; else batches follow each other at once",
    ] = None
    buckets: Annotated[int, "parts the rows are split into, a power of two"] = 8
    layout: Annotated[
        Literal["auto", "grid", "stages"],
        "where rows go if there are several keys: see docs/concepts/layouts.md",
    ] = "auto"
    hot_keys: Annotated[
        Literal["auto", "off"] | Mapping[str, Mapping[str, int]],
        "keys that are spread over several buckets: `auto`, `off`, or by stream, key and number of cells",
    ] = "auto"
    spark: Annotated[Options, "settings of the Spark session, such as `spark.master`"] = field(
        default_factory=dict
    )
