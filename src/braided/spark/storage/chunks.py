"""The parts of an engine's state as chunks in the state store: read when asked for, written as far as new.

Rows that expire go from the front, and a chunk is removed once all of its rows are gone. Where rows may go by
key (`SideState.purges`), a chunk also says which of its rows have gone: its `start` is the position of its
first row in the side. A side that gives its rows new positions is written again.
"""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.sides.side import Rows, SideState
from braided.engine.state import EngineState, Held, Part
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import BraidedError, InvalidValue
from braided.spark.storage.store import Chunk, Meta, State
from braided.spark.wire import blobs

_MOST_CHUNKS = 64
_REWRITE_ROWS = 10_000

_Piece: TypeAlias = tuple[pa.RecordBatch, Int64s, int]  # rows, how long each lasts, their first position


class Chunks:
    """The chunks of one bucket."""

    def __init__(self, state: State, meta: Meta, where: str) -> None:
        self._state, self._meta, self._where = state, meta, where
        self._stored: dict[str, StoredPart] = {}

    def read(self) -> dict[str, Part]:
        """All parts, as the small value lists them."""
        self._stored = {name: StoredPart(name, list(c), self) for name, c in self._meta.parts.items()}
        return {**self._stored}

    def write(self, state: EngineState) -> None:
        """Write what is new, and remove parts that are no more."""
        parts = self._meta.parts
        written = {n: p for n, p in state.parts.items() if isinstance(p, Held) or p.batches}
        for name in parts.keys() - written.keys():
            self._remove(parts.pop(name))
        for name, part in written.items():
            chunks = parts.setdefault(name, [])
            if isinstance(part, Held):
                self._update(chunks, part)
            elif name not in self._stored or self._stored[name].batches != list(part.batches):
                self._replace(chunks, part)

    def _replace(self, chunks: list[Chunk], part: Part) -> None:
        """Write a part whole."""
        self._remove(chunks)
        for batch in part.batches:
            data = blobs.encode(batch, compressed=True)
            chunks.append(Chunk(self.put(data), batch.num_rows, 0, len(data)))

    def _update(self, chunks: list[Chunk], held: Held) -> None:
        """Add what entered, remove what has gone, and write the rest again where most of it has."""
        side, mark, oldest_us = held.side, held.mark, held.oldest_us
        if mark is None or (side.purges and side.renumbered):
            self._remove(chunks)
            mark = None
        entered = side.first if mark is None else mark.count
        self._append(chunks, _from(side, entered) if side.purges else _lasting(held.new, oldest_us))
        gone = [chunk for chunk in chunks if _note_gone(chunk, side, oldest_us)]
        live = side.rows + sum(map(len, held.waiting))
        stored = sum(c.rows for c in chunks) - sum(c.rows for c in gone)
        if len(chunks) - len(gone) > _MOST_CHUNKS or stored > 2 * live + _REWRITE_ROWS:
            gone = list(chunks)
            everything = (*side.contents(), *held.waiting)
            self._append(chunks, _from(side, side.first) if side.purges else _lasting(everything, oldest_us))
            for chunk in chunks[len(gone) :]:
                _note_gone(chunk, side, oldest_us)
        self._remove(chunks, gone)

    def _append(self, chunks: list[Chunk], pieces: Iterable[_Piece]) -> None:
        for rows, lasting_us, at in pieces:
            start = 0
            for batch in blobs.bounded(rows):
                newest_us = int(lasting_us[start : start + batch.num_rows].max())
                data = blobs.encode(batch, compressed=True)
                chunks.append(Chunk(self.put(data), batch.num_rows, newest_us, len(data), at + start))
                start += batch.num_rows

    def _remove(self, chunks: list[Chunk], gone: Sequence[Chunk] | None = None) -> None:
        """Forget some of the chunks, or all."""
        gone = list(chunks) if gone is None else gone
        self.drop(chunk.number for chunk in gone)
        for chunk in gone:
            chunks.remove(chunk)

    def load(self, number: int, of: str, rows: int | None = None) -> pa.RecordBatch:
        """What is in a chunk, if it is whole and has this many rows."""
        data = self._state.get(number)
        try:
            if data is None:
                raise InvalidValue("it is missing")
            batch = blobs.decode(data)
            if rows is not None and batch.num_rows != rows:
                raise InvalidValue(f"it has {batch.num_rows} rows instead of {rows}")
            batch.validate(full=True)
        except (pa.ArrowException, OSError, BraidedError, StopIteration) as wrong:
            place = f"{self._where}, {of}, chunk {number}"
            remedy = "go back to an undamaged copy of the checkpoint, or start a new one"
            raise InvalidValue(f"the checkpoint's state is damaged: {place}: {wrong}; {remedy}") from None
        return batch

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget some chunks by number."""
        for number in numbers:
            self._state.remove(number)

    def put(self, data: bytes) -> int:
        """Write a chunk; its number."""
        number = self._meta.next_chunk
        self._state.put(number, data)
        self._meta.next_chunk += 1
        return number


@dataclass(frozen=True)
class StoredPart:
    """A part in chunks; nothing is read before it is asked for."""

    name: str
    chunks: Sequence[Chunk]
    source: Chunks

    @functools.cached_property
    def batches(self) -> list[pa.RecordBatch]:
        """The rows, chunk by chunk; a damaged one raises."""
        kind, _, rest = self.name.partition("/")
        of = f"{kind} {rest.removesuffix('/rows')!r}" if kind in ("stream", "intermediate") else "closed keys"
        return [self.source.load(c.number, of, c.rows) for c in self.chunks]

    @property
    def schema(self) -> pa.Schema:
        """Their columns, as they were written."""
        return self.batches[0].schema if self.chunks else pa.schema([])

    @property
    def gone(self) -> Bools | None:
        """Which of them have been forgotten by key."""
        if not any(chunk.gone_rows for chunk in self.chunks):
            return None
        return np.concatenate([_unpacked(chunk.gone, chunk.rows) for chunk in self.chunks])


def _from(side: SideState, position: int) -> Iterator[_Piece]:
    """The rows from a position on, with those among them that have gone by key."""
    at = max(position, side.first)
    for rows in side.contents(at, purged=True):
        yield rows.batch, rows.times if rows.ends is None else rows.ends, at
        at += len(rows)


def _lasting(pieces: Iterable[Rows], oldest_us: int) -> Iterator[_Piece]:
    """The rows that are still needed after their own batch."""
    for rows in pieces:
        lasting_us = rows.times if rows.ends is None else rows.ends
        alive = lasting_us >= oldest_us
        if alive.all():
            yield rows.batch, lasting_us, 0
        else:
            yield rows.batch.filter(pa.array(alive)), lasting_us[alive], 0


def _note_gone(chunk: Chunk, side: SideState, oldest_us: int) -> bool:
    """Say in a chunk which of its rows have gone by key; whether all of its rows are gone."""
    if side.purges:
        passed = min(chunk.rows, max(0, side.first - chunk.start))
        start = max(0, chunk.start - side.first)
        flags = side.columns.held("gone")[start : start + chunk.rows - passed]
        gone = np.concatenate([np.ones(passed, np.bool_), flags])
        chunk.gone_rows = int(np.count_nonzero(gone))
        chunk.gone = _packed(gone) if chunk.gone_rows else ""
    return chunk.gone_rows == chunk.rows or chunk.newest_us < oldest_us


def _packed(flags: Bools) -> str:
    return base64.b64encode(zlib.compress(np.packbits(flags).tobytes())).decode()


def _unpacked(flags: str, rows: int) -> Bools:
    """Which rows of a chunk have gone, as `Chunk.gone` says it."""
    if not flags:
        return np.zeros(rows, np.bool_)
    bits = np.frombuffer(zlib.decompress(base64.b64decode(flags)), np.uint8)
    return np.unpackbits(bits, count=rows).astype(np.bool_)
