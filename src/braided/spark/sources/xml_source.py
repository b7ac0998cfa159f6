"""XML files as a Spark source, in batches and as a stream; rows are those of `braided.local.xml_stream`.

    spark.dataSource.register(XmlSource)
    spark.readStream.format("braided-xml").schema("sno long, ipaddr string, punctuation boolean").load(folder)

A stream reads a folder's files once each, in the order of their names; an offset names the files of its batch
with their sizes. So a batch that is run again after a restart reads the same files, whatever came since, and
a file that has changed since is an error, not other rows. Where punctuations are read, a batch is one
partition: a punctuation holds for what comes behind it, so rows stay in the order of the stream.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import fs
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from braided.local.xml_stream import XmlRows
from braided.query.errors import InvalidType, InvalidValue
from braided.spark import releases
from braided.spark.releases import LimitedReader, ReadLimit, in_arrow

Sizes = dict[str, int]  # bytes of files by name, in the order of names


class XmlSource(DataSource):
    """The format "braided-xml".

    Options: `record` is the element that is a row ("record"); `punctuation` the boolean column that marks
    punctuations ("punctuation"), which are left out if the schema has no such column; `maxFilesPerTrigger`
    how many files a batch of a stream takes at most (all; needs Spark 4.2).
    """

    @classmethod
    def name(cls) -> str:
        """The format's short name."""
        return "braided-xml"

    def schema(self) -> NoReturn:
        """Refuse to guess: texts have no types."""
        raise InvalidValue('braided-xml must have a schema; give one: .schema("sno long, ipaddr string")')

    def reader(self, schema: StructType) -> XmlReader:
        """A reader of what is there now."""
        return _reader(in_arrow(schema), self.options)

    def streamReader(self, schema: StructType) -> XmlStreamReader:  # noqa: N802
        """A reader of files as they come."""
        files = _reader(in_arrow(schema), self.options)
        if files.only is not None:
            raise InvalidValue(f"a stream's path must be a folder; got the file {files.only!r}")
        return XmlStreamReader(files, _max_files(self.options))


@dataclass(frozen=True)
class XmlReader(DataSourceReader):
    """One file, or all in a folder when the query is planned, but those with `.` or `_` in front.

    `punctuation` is None if the schema has no such column.
    """

    system: fs.FileSystem
    folder: str
    only: str | None
    schema: pa.Schema
    record: str
    punctuation: str | None

    def sizes(self) -> Sizes:
        """The files there now."""
        infos = self.system.get_file_info(fs.FileSelector(self.folder))
        files = sorted((info.base_name, info.size) for info in infos if info.type == fs.FileType.File)
        if self.only is not None:
            return {name: size for name, size in files if name == self.only}
        return {name: size for name, size in files if name[0] not in "._"}

    def rows(self, name: str) -> XmlRows:
        """A parser for one file."""
        elements = pa.schema([f for f in self.schema if f.name != self.punctuation])
        return XmlRows(elements, record=self.record, punctuation=self.punctuation, name=name)

    def partitions(self) -> list[InputPartition]:
        """Always at least one, as Spark wants it."""
        return self.split(self.sizes()) or [InputPartition({})]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, with the schema's columns in their order."""
        for name, size in partition.value.items():
            with self._open(name, size) as file:
                for batch in self.rows(name).read(file):
                    yield batch.select(self.schema.names).cast(self.schema)

    def _open(self, name: str, size: int) -> pa.NativeFile:
        """Open a file for reading; it must be as long as when it was listed."""
        info = self.system.get_file_info(f"{self.folder}/{name}")
        if info.size != size:
            now = "is gone" if info.size is None else f"has {info.size:,}"
            was = f"it had {size:,} bytes and now {now}"
            remedy = "put the old one back, and write new ones elsewhere before moving them in"
            raise InvalidValue(f"{name}: files must not change once they are there; {was}; {remedy}")
        return self.system.open_input_stream(info.path)

    def split(self, files: Sizes) -> list[InputPartition]:
        """One for all files if their order counts, else one a file."""
        if self.punctuation is not None:
            return [InputPartition(files)] if files else []
        return [InputPartition({name: size}) for name, size in files.items()]


class XmlStreamReader(DataSourceStreamReader, LimitedReader):
    """Files as they come.

    An offset is `{"last": the last name read, "read": how many files so far, "files": {name: bytes} of the
    batch that ends here}`. Spark before 4.2 does not say where a batch begins: "files" are all there are.
    """

    def __init__(self, files: XmlReader, max_files: int | None) -> None:
        self._files, self._max_files = files, max_files
        self._available: Sizes | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Nothing is read."""
        return {"last": "", "read": 0, "files": {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `maxFilesPerTrigger` says."""
        most = self._max_files
        return releases.ReadAllAvailable() if most is None else releases.ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Files that come from now on are for the next run."""
        self._available = self._files.sizes()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Behind the next files, at most as many as the limit says."""
        begin = start or self.initialOffset()
        present = self._files.sizes()
        _refuse_late(sum(name <= begin["last"] for name in present) - begin["read"], begin["last"])
        waiting = present if self._available is None else self._available
        new = [name for name in waiting if name > begin["last"]][: getattr(limit, "max_files", None)]
        if not new:
            return begin
        files = {name: waiting[name] for name in new}
        return {"last": new[-1], "read": begin["read"] + len(new), "files": files}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The files between two offsets."""
        files: Sizes = end["files"]
        _refuse_late(sum(n <= start["last"] and n not in start["files"] for n in files), start["last"])
        return self._files.split({n: size for n, size in files.items() if n > start["last"]})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A partition's rows."""
        return self._files.read(partition)


def _refuse_late(files: int, last: str) -> None:
    if files > 0:
        wrong = f"got {files:,} that came later and sort before it; rename them"
        raise InvalidValue(f"new files must sort behind those already read, which end with {last!r}; {wrong}")


def _reader(schema: pa.Schema, options: Mapping[str, str]) -> XmlReader:
    flag = options.get("punctuation", "punctuation")
    given = flag in schema.names
    if "punctuation" in options and not given:
        raise InvalidValue(
            f"the schema must have the punctuation column {flag!r}, a boolean; got {schema.names}"
        )
    if given and schema.field(flag).type != pa.bool_():
        raise InvalidType(f"punctuation column {flag!r} must be boolean; got {schema.field(flag).type}")
    place = _located(options.get("path"))
    files = XmlReader(*place, schema, options.get("record", "record"), flag if given else None)
    files.rows("braided-xml")  # raises here, not in a task, if a column cannot be made from text
    return files


def _located(path: str | None) -> tuple[fs.FileSystem, str, str | None]:
    """The file system, a folder on it, and one file in it if it is one; a bare path is on this machine."""
    if not path:
        raise InvalidValue("braided-xml must have a path; give one: .load(path)")
    try:
        system, root = fs.FileSystem.from_uri(path if ":/" in path else os.path.abspath(path))
    except (pa.ArrowInvalid, OSError) as unknown:
        raise InvalidValue(f"path must be one that Arrow can open; got {path!r}: {unknown}") from None
    root = root.rstrip("/") or "/"
    kind = system.get_file_info(root).type
    if kind == fs.FileType.NotFound:
        raise InvalidValue(f"path must be there; got {path!r}, which is not")
    folder, _, name = root.rpartition("/")
    return (system, root, None) if kind == fs.FileType.Directory else (system, folder, name)


def _max_files(options: Mapping[str, str]) -> int | None:
    text = options.get("maxFilesPerTrigger")
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidValue(f"maxFilesPerTrigger must be a whole number of at least 1; got {text!r}")
    if not releases.LIMITED:
        raise InvalidValue("maxFilesPerTrigger needs Spark 4.2 or later; leave it out")
    return int(text)
