"""A bucket's durable state in Spark's state store: one small value and a map of Arrow chunks.

`meta` (JSON) says what is there: the query's meaning, the format, the numbers of the engine's state (see
`engine.state`), and for each of its parts the chunks with their sizes and newest times; in a query of several
stages also which one it is. Every call is a message to the JVM, so there are few, and what is under a number
is bounded. A chunk is forgotten whole once all its rows have expired; its number is then used again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

from braided.engine.state import FORMAT, EngineState
from braided.engine.watermark import END_US
from braided.query.errors import InvalidValue

META = -1  # the number of the small value among the chunks
_GAPS = 8  # that are remembered


class State(Protocol):
    """A bucket's place in the state store."""

    def get(self, number: int) -> bytes | None:
        """A chunk's bytes, or the small value's, if it is there."""

    def put(self, number: int, data: bytes) -> None:
        """Write a chunk, or the small value."""

    def remove(self, number: int) -> None:
        """Forget a chunk."""


@dataclass
class Chunk:
    """What `meta` knows of a chunk; of rows that may go by key also where it lies, and which have gone.

    Small chunks of a batch are stored together, under one number: each begins at its `offset`.
    """

    number: int
    rows: int
    newest_us: int
    size: int
    start: int = 0
    gone: str = ""
    gone_rows: int = 0
    offset: int = 0

    @property
    def live_rows(self) -> int:
        """Rows that have not gone by key."""
        return self.rows - self.gone_rows

    def among(self, data: bytes) -> bytes:
        """Its bytes, among all that are stored under its number."""
        return data[self.offset : self.offset + self.size]


@dataclass
class BatchClock:
    """How long a micro-batch takes, as a bucket can know it when it writes its state.

    A bucket knows when the batch's first pack task began, and when it is done itself. What Spark does after
    that (commits, logs, planning the next batch) lies between the end of one batch and the beginning of the
    next; so does idle time, so the shortest such gap of the latest batches is taken.

    >>> clock = BatchClock()
    >>> clock.seconds(began_us=0, ended_us=2_000_000)  # nothing is known of gaps yet
    2.0
    >>> clock.seconds(began_us=2_500_000, ended_us=4_500_000)
    2.5
    >>> clock.seconds(began_us=64_500_000, ended_us=66_500_000)  # a minute of waiting is no part of a batch
    2.5
    """

    ended_us: int | None = None
    gaps_us: list[int] = field(default_factory=list)

    def seconds(self, began_us: int, ended_us: int) -> float:
        """Note that a batch has been processed, and return how long it takes in all."""
        if self.ended_us is not None and began_us > self.ended_us:
            self.gaps_us = [*self.gaps_us, began_us - self.ended_us][-_GAPS:]
        self.ended_us = ended_us
        return max(0, ended_us - began_us + min(self.gaps_us, default=0)) / 1e6


@dataclass
class Meta:
    """A bucket's small value."""

    fingerprint: str
    meaning: dict[str, Any]
    schema: dict[str, dict[str, str]]  # the types of stored columns
    buckets: int
    epochs: list[dict[str, Any]] = field(default_factory=list)  # that live, the newest last; see `epochs`
    epoch: int = 0  # which of them this is
    heavy: dict[str, Any] = field(default_factory=dict)  # its heaviest keys; see `hot_keys`
    checkpoint: str = ""  # whose state this is: drawn when it was first written
    stage: list[int] = field(default_factory=list)  # its number, and of how many; empty: the only one
    token: str = ""
    next_chunk: int = 0
    clock: BatchClock = field(default_factory=BatchClock)
    numbers: dict[str, Any] = field(default_factory=dict)  # of the engine's state
    parts: dict[str, list[Chunk]] = field(default_factory=dict)  # of the engine's state
    finishing: dict[str, Any] = field(default_factory=dict)  # the plan, where results may wait for the end

    @property
    def batches(self) -> int:
        """How many batches it has seen."""
        return int(self.numbers.get("batches", 0))

    @property
    def newest_us(self) -> dict[str, int | None]:
        """The streams' newest times, by name."""
        of_streams, names = self.numbers.get("streams", {}), [s["name"] for s in self.meaning["streams"]]
        return {name: of_streams.get(name, {}).get("newest_us") for name in names}

    @property
    def watermark_us(self) -> int | None:
        """How far event time has come; None until every stream has brought a row."""
        saved: int | None = self.numbers.get("watermark", {}).get("floor_us")
        return saved

    @property
    def settled_us(self) -> int:
        """Up to which watermark rows that are final have been handed out; all, if none wait for that."""
        return int(EngineState(self.numbers).feature("outer").get("until_us", END_US))

    @property
    def spilled(self) -> dict[str, Any]:
        """What the memory budget has saved; empty without one."""
        return EngineState(self.numbers).feature("spill")

    def by_input(self, *, waiting: bool = True) -> dict[str, list[Chunk]]:
        """The chunks with rows, by stream or intermediate; with those that count windows let wait, or not."""
        rows: dict[str, list[Chunk]] = {}
        for part, chunks in self.parts.items():
            name, _, what = part.split("/", 1)[-1].rpartition("/")
            if what == "rows" or (waiting and what == "waiting"):
                rows.setdefault(name, []).extend(chunks)
        return rows

    def encode(self) -> bytes:
        """As bytes."""
        parts = {name: [[*vars(chunk).values()] for chunk in chunks] for name, chunks in self.parts.items()}
        fields = vars(self) | {"format": FORMAT, "clock": vars(self.clock), "parts": parts}
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, data: bytes) -> Meta:
        """From bytes; another format raises."""
        fields = json.loads(data)
        version = fields.pop("format", None)
        if version != FORMAT:
            reads = f"this version of Braided reads format {FORMAT}"
            remedy = "run it with the version that wrote it, or start a new checkpoint"
            raise InvalidValue(f"this checkpoint holds state of format {version}; {reads}; {remedy}")
        fields["clock"] = BatchClock(**fields["clock"])
        fields["parts"] = {name: [Chunk(*c) for c in chunks] for name, chunks in fields["parts"].items()}
        return cls(**fields)
