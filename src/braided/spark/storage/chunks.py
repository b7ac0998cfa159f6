"""The parts of an engine's state as chunks in the state store: read when asked for, written as far as new.

Small chunks of a batch are stored under one number, those with rows and those of parts that are read in every
batch apart; a number is used again once all of its chunks are gone. In most batches that is one call. Rows
that expire go from the front, and a chunk is forgotten once all of its rows are gone. Where rows may go by
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
_NOT_YET = -2  # the number of a chunk that is not written yet
_TOGETHER_BYTES = 64 << 10  # that are stored under one number: a part may keep so much of another's alive

_New: TypeAlias = tuple[Chunk, bytes]  # that is not written yet
_Piece: TypeAlias = tuple[pa.RecordBatch, Int64s, int]  # rows, how long each lasts, their first position


class Chunks:
    """The chunks of one bucket."""

    def __init__(self, state: State, meta: Meta, where: str) -> None:
        self._state, self._meta, self._where = state, meta, where
        self._stored: dict[str, StoredPart] = {}
        self._shared: dict[int, bytes] = {}  # what was read under numbers with several chunks

    def read(self) -> dict[str, Part]:
        """All parts, as the small value lists them."""
        self._stored = {name: StoredPart(name, list(c), self) for name, c in self._meta.parts.items()}
        return {**self._stored}

    def write(self, state: EngineState) -> None:
        """Write what is new, and remove what is no more."""
        parts, before = self._meta.parts, self._numbers()
        written = {n: p for n, p in state.parts.items() if isinstance(p, Held) or p.batches}
        for name in parts.keys() - written.keys():
            del parts[name]
        rows, others = [], []  # what is new
        for name, part in written.items():
            chunks = parts.setdefault(name, [])
            if isinstance(part, Held):
                rows += self._update(chunks, part)
            elif name not in self._stored or self._stored[name].batches != list(part.batches):
                new = [_encoded(batch, 0) for batch in part.batches]
                chunks[:] = [chunk for chunk, _ in new]
                others += new
        unused = sorted(before - self._numbers())
        for new in (rows, others):
            self._put_together(new, unused)
        self.drop(unused)
        self._shared = {}

    def _numbers(self) -> set[int]:
        """The numbers of all chunks of parts."""
        return {chunk.number for chunks in self._meta.parts.values() for chunk in chunks}

    def _update(self, chunks: list[Chunk], held: Held) -> list[_New]:
        """Add what entered, leave out what has gone, and write the rest again where most of it has."""
        side, mark, oldest_us = held.side, held.mark, held.oldest_us
        if mark is None or (side.purges and side.renumbered):
            chunks.clear()
            mark = None
        entered = side.first if mark is None else mark.count
        new = list(_new(_from(side, entered) if side.purges else _lasting(held.new, held)))
        chunks += [chunk for chunk, _ in new]
        chunks[:] = [chunk for chunk in chunks if not _note_gone(chunk, side, oldest_us)]
        live = side.rows + sum(map(len, held.waiting))
        if len(chunks) > _MOST_CHUNKS or sum(c.rows for c in chunks) > 2 * live + _REWRITE_ROWS:
            everything = (*side.contents(), *held.waiting)
            new = list(_new(_from(side, side.first) if side.purges else _lasting(everything, held)))
            chunks[:] = [chunk for chunk, _ in new]
            for chunk in chunks:
                _note_gone(chunk, side, oldest_us)
        kept = set(map(id, chunks))
        return [(chunk, data) for chunk, data in new if id(chunk) in kept]

    def _put_together(self, new: Sequence[_New], unused: list[int]) -> None:
        """Write new chunks, small ones together, under numbers that are unused now."""
        groups: list[list[_New]] = []
        size = _TOGETHER_BYTES
        for chunk, data in new:
            chunk.offset = size if size + len(data) <= _TOGETHER_BYTES else 0
            if not chunk.offset:
                groups.append([])
            groups[-1].append((chunk, data))
            size = chunk.offset + len(data)
        for group in groups:
            number = self.put(b"".join(data for _, data in group), unused.pop() if unused else None)
            for chunk, _ in group:
                chunk.number = number

    def load(self, number: int, of: str, chunk: Chunk | None = None) -> pa.RecordBatch:
        """What is under a number, or a chunk of it, if it is whole."""
        data = self._shared.get(number) or self._state.get(number)
        if data is not None and chunk is not None and chunk.size < len(data):
            self._shared[number] = data
            data = chunk.among(data)
        try:
            if data is None:
                raise InvalidValue("it is missing")
            batch = blobs.decode(data)
            if chunk is not None and batch.num_rows != chunk.rows:
                raise InvalidValue(f"it has {batch.num_rows} rows instead of {chunk.rows}")
            batch.validate(full=True)
        except (pa.ArrowException, OSError, BraidedError, StopIteration) as wrong:
            place = f"{self._where}, {of}, chunk {number}"
            remedy = "go back to an undamaged copy of the checkpoint, or start a new one"
            raise InvalidValue(f"the checkpoint's state is damaged: {place}: {wrong}; {remedy}") from None
        return batch

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget some numbers."""
        for number in numbers:
            self._state.remove(number)

    def put(self, data: bytes, number: int | None = None) -> int:
        """Write under a number, by default a new one; which it was."""
        if number is None:
            number = self._meta.next_chunk
            self._meta.next_chunk += 1
        self._state.put(number, data)
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
        return [self.source.load(chunk.number, of, chunk) for chunk in self.chunks]

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


def _encoded(batch: pa.RecordBatch, newest_us: int, start: int = 0) -> _New:
    data = blobs.encode(batch, compressed=True)
    return Chunk(_NOT_YET, batch.num_rows, newest_us, len(data), start), data


def _new(pieces: Iterable[_Piece]) -> Iterator[_New]:
    """New chunks, of bounded size."""
    for rows, lasting_us, at in pieces:
        start = 0
        for batch in blobs.bounded(rows):
            newest_us = int(lasting_us[start : start + batch.num_rows].max())
            yield _encoded(batch, newest_us, at + start)
            start += batch.num_rows


def _from(side: SideState, position: int) -> Iterator[_Piece]:
    """The rows from a position on, with those among them that have gone by key."""
    at = max(position, side.first)
    for rows in side.contents(at, purged=True):
        yield rows.batch, rows.times if rows.ends is None else rows.ends, at
        at += len(rows)


def _lasting(pieces: Iterable[Rows], held: Held) -> Iterator[_Piece]:
    """The rows that are still needed after their own batch."""
    for rows in pieces:
        lasting_us = rows.times if rows.ends is None else rows.ends
        alive = lasting_us >= held.oldest_us
        for place, floor_us in held.floors_us:
            alive &= np.asarray(rows.batch.column(place).to_numpy()) >= floor_us
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
