"""The formats of sources and sinks: what each has, needs and allows, one entry each.

To add one, add its entry here: checks, hints, the folders that are looked at, and how Spark reads it follow
from it. A format that has no entry is left to Spark, with whatever options the job gives.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, TypeAlias

Needs: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]  # one of these options, and what it is


@dataclass(frozen=True, kw_only=True)
class Format:
    """What is known of a format; the defaults are those of one that nothing is known of.

    `files` are files in a folder. `place` says what stands where others have a path, if it has none.
    `schema` is "given" if a source must have one, "own" if it has its own, "seen" if files tell it.
    `repeatable` sinks hold a batch that is written twice once. `package` is what Spark needs to know the
    format, `data_source` the class in `braided.spark` that is registered for it (it only streams, so its rows
    cannot be counted before).
    """

    name: str
    source: bool = True
    sink: bool = True
    files: bool = False
    place: str | None = None
    schema: Literal["any", "given", "own", "seen"] = "any"
    repeatable: bool = False
    source_needs: Needs = ()
    sink_needs: Needs = ()
    package: str | None = None
    data_source: str | None = None


_files = functools.partial(Format, files=True, schema="seen", repeatable=True)
_SERVERS = (("kafka.bootstrap.servers",), "such as localhost:9092")
_TOPICS = "the topics, with commas between"
FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        *(_files(name=name) for name in ("parquet", "json", "csv", "orc")),
        _files(name="text", schema="any"),
        _files(name="avro", package="org.apache.spark:spark-avro_2.13:{spark}"),
        _files(name="xml", sink=False),
        Format(
            name="kafka",
            place="name its topics: options: subscribe",
            schema="own",
            repeatable=True,
            source_needs=(_SERVERS, (("subscribe", "subscribePattern", "assign"), _TOPICS)),
            sink_needs=(_SERVERS, (("topic",), _TOPICS)),
            package="org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
        ),
        Format(name="delta", repeatable=True, package="io.delta:delta-spark_2.13:<version>"),
        Format(name="rate", sink=False),
        Format(name="socket", sink=False),
        Format(name="braided-xml", sink=False, files=True, schema="given", data_source="XmlSource"),
        Format(name="console", source=False, place="leave it out", repeatable=True),
        Format(name="memory", source=False),
        Format(name="noop", source=False, place="leave it out", repeatable=True),
    )
}
SOURCES = tuple(form.name for form in FORMATS.values() if form.source)
SINKS = tuple(form.name for form in FORMATS.values() if form.sink)
REPEATABLE = tuple(form.name for form in FORMATS.values() if form.repeatable)


def format_of(name: str) -> Format:
    """The format of this name."""
    return FORMATS.get(name) or Format(name=name)
