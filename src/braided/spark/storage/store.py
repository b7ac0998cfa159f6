"""A bucket's durable state in Spark's state store: one small value and a map of Arrow chunks.

`meta` (JSON) says what is there: the query's meaning, the format, counters, newest times, and for each
stream its chunks with their sizes and newest times; in a query of several stages also which one it is. Every
call is a message to the JVM, so there are few, and chunks are bounded. A chunk is removed whole once all its
rows have expired.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

from braided.query.durations import to_us
from braided.query.errors import InvalidValue

FORMAT = 2


class State(Protocol):
    """A bucket's place in the state store."""

    def get_meta(self) -> bytes | None:
        """The small value, if there is one."""
        ...

    def put_meta(self, data: bytes) -> None:
        """Write the small value."""
        ...

    def get_chunk(self, number: int) -> bytes | None:
        """A chunk's bytes, if it is there."""
        ...

    def put_chunk(self, number: int, data: bytes) -> None:
        """Write a chunk."""
        ...

    def remove_chunk(self, number: int) -> None:
        """Forget a chunk."""
        ...


@dataclass
class Chunk:
    """What `meta` knows of a chunk; of rows that may go by key also where it lies, and which have gone."""

    number: int
    rows: int
    newest_us: int
    size: int
    start: int = 0
    gone: str = ""
    gone_rows: int = 0

    @property
    def live_rows(self) -> int:
        """Rows that have not gone by key."""
        return self.rows - self.gone_rows


_BY_KEY = ("start", "gone", "gone_rows")  # of a chunk; only where rows may go by key


@dataclass
class StreamMeta:
    """One stream's part of a bucket: chunks in order of arrival, counters, newest time of the stream."""

    chunks: list[Chunk] = field(default_factory=list)
    newest_us: int | None = None
    counters: dict[str, int] = field(default_factory=dict)


@dataclass
class Meta:
    """A bucket's small value."""

    fingerprint: str
    meaning: dict[str, Any]
    schema: dict[str, dict[str, str]]  # types of stored columns, by stream and column
    buckets: int
    streams: list[StreamMeta]
    token: str = ""
    next_chunk: int = 0
    results: int = 0
    batches: int = 0
    learned: dict[str, Any] = field(default_factory=dict)
    regulation: dict[str, Any] = field(default_factory=dict)
    rationing: dict[str, Any] = field(default_factory=dict)
    clock: dict[str, Any] = field(default_factory=dict)
    plan: list[Any] = field(default_factory=list)  # empty: the flat one
    intermediates: dict[str, list[Chunk]] = field(default_factory=dict)
    stage: list[int] = field(default_factory=list)  # its number, and of how many; empty: the only one
    closures: dict[str, Any] = field(default_factory=dict)  # where streams promise something
    spilled: dict[str, Any] = field(default_factory=dict)  # where there is a memory budget

    @property
    def watermark_us(self) -> int | None:
        """How far event time has come; None until every stream has brought a row."""
        late = [to_us(s.get("lateness", "0 seconds")) for s in self.meaning["streams"]]
        newest = [s.newest_us for s in self.streams]
        pairs = [(n, w) for n, w in zip(newest, late, strict=True) if n is not None]
        return min(n - w for n, w in pairs) if len(pairs) == len(newest) else None

    def encode(self) -> bytes:
        """As bytes."""
        said = {**vars(self)}
        whole = bool(self.closures or self.spilled)
        said["streams"] = [{**vars(s), "chunks": _said(s.chunks, whole=whole)} for s in self.streams]
        said["intermediates"] = {n: _said(c, whole=whole) for n, c in self.intermediates.items()}
        return json.dumps({"format": FORMAT, **said}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Meta:
        """From bytes; another format raises."""
        said = json.loads(data)
        version = said.pop("format", None)
        if version != FORMAT:
            raise InvalidValue(
                f"this checkpoint holds state of format {version}; this version of Braided reads format "
                f"{FORMAT}; run it with the version that wrote it, or start a new checkpoint"
            )
        said["streams"] = [
            StreamMeta(**{**s, "chunks": [Chunk(**c) for c in s["chunks"]]}) for s in said["streams"]
        ]
        said["intermediates"] = {
            name: [Chunk(**c) for c in chunks] for name, chunks in said.get("intermediates", {}).items()
        }
        return cls(**said)


def _said(chunks: list[Chunk], *, whole: bool) -> list[dict[str, Any]]:
    return [{n: v for n, v in vars(c).items() if whole or n not in _BY_KEY} for c in chunks]
