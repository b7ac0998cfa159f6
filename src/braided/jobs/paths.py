"""Where the data of a source or a sink lies: paths in full, and whether two ends are the same place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # s3a://..., file:/...


def located(path: str | None, folder: Path) -> str | None:
    """A path as Spark wants it: addresses as they are, others absolute, from the job file's folder on."""
    if path is None or _SCHEME.match(path):
        return path
    return os.path.normpath(folder / Path(path).expanduser())


def local(path: str | None) -> Path | None:
    """A path of this machine's file system; None for an address of another."""
    if path is None:
        return None
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return Path(path) if os.path.isabs(path) else None


def same_place(first: str, second: str) -> bool:
    """Return whether two paths are one folder, whatever links and spellings lead there."""
    return _parts(first) == _parts(second)


def shared(source: Any, sink: Any) -> tuple[str, str] | None:
    """The key of a sink that names what its job reads from a source, and what that is; None if none does.

    Folders inside each other count: Spark would read what it wrote.
    """
    read, written = _folder(source), _folder(sink)
    if read and written and _overlap(_parts(read), _parts(written)):
        return "path", f"the folder {written!r}"
    tables = {source.options.get(name) for name in ("table", "dbtable")}
    if sink.table is not None and sink.table in tables:
        return "table", f"the table {sink.table!r}"
    if source.format == sink.format == "kafka" and _servers(source) & _servers(sink):
        for topic in _names(sink.options.get("topic")):
            if _reads(source, topic):
                return "options", f"the topic {topic!r}"
    return None


def _folder(end: Any) -> str | None:
    path = end.path or end.options.get("path")
    return path if isinstance(path, str) else None


def _parts(path: str) -> tuple[str, ...]:
    """File system, server and folders of a path; of this machine's without links."""
    folder = local(path)
    if folder is not None:
        return ("file", "", *Path(os.path.realpath(folder)).parts[1:])
    address = urlsplit(path)
    scheme = "s3" if address.scheme in ("s3a", "s3n") else address.scheme
    return (scheme, address.netloc.rpartition("@")[2], *(part for part in address.path.split("/") if part))


def _overlap(source: tuple[str, ...], sink: tuple[str, ...]) -> bool:
    """Return whether one of two folders holds the other; a source's may have `*` and the like in them."""
    patterns = (re.sub(r"\{.*\}", "*", part) for part in source)
    return all(fnmatchcase(part, pattern) for pattern, part in zip(patterns, sink, strict=False))


def _servers(end: Any) -> set[str]:
    return set(_names(end.options.get("kafka.bootstrap.servers")))


def _names(text: object) -> Iterator[str]:
    return (name.strip() for name in str(text or "").split(",") if name.strip())


def _reads(source: Any, topic: str) -> bool:
    options = source.options
    with suppress(re.error):
        if re.fullmatch(str(options.get("subscribePattern", "(?!)")), topic):
            return True
    with suppress(ValueError, TypeError):
        if topic in json.loads(str(options.get("assign", "[]"))):
            return True
    return topic in _names(options.get("subscribe"))
