"""A bucket's rows in the state store: chunks added, tidied up and read back.

Rows that expire go from the front, and a chunk is removed once all of its rows are gone. Where rows may go by
key (`SideState.purges`), a chunk also says which of its rows have gone: its `start` is the position of its
first row in the side. A side that gives its rows new positions is written again.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from braided.engine.sides.side import Rows, SideState
from braided.engine.state import Held
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import BraidedError, InvalidValue
from braided.spark.storage.store import Chunk, Meta, State
from braided.spark.wire import blobs

_MOST_CHUNKS = 64
_REWRITE_ROWS = 10_000


class Chunks:
    """The chunks of one bucket."""

    def __init__(self, state: State, meta: Meta, where: str) -> None:
        self._state, self._meta, self._where = state, meta, where
        self._loaded: dict[int, bytes] = {}  # of parts that are written whole

    def keep(self, chunks: list[Chunk], held: Held) -> None:
        """Add what entered, remove what has expired, and tidy up where most of it has."""
        side, oldest = held.side, held.oldest_us
        if side.purges:
            self._keep_by_position(chunks, held.mark.count if held.mark else side.first, side, oldest)
            return
        for rows in held.new:
            self._append(chunks, *_since(rows, oldest))
        gone = [c for c in chunks if c.newest_us < oldest]
        if self._crowded(chunks, gone, side.rows + sum(map(len, held.waiting))):
            gone = list(chunks)
            for rows in (*side.contents(), *held.waiting):  # live rows, in few new chunks
                self._append(chunks, *_since(rows, oldest))
        self.remove(chunks, gone)

    def remove(self, chunks: list[Chunk], gone: Sequence[Chunk] | None = None) -> None:
        """Forget some of the chunks; all of them if it is not said which."""
        gone = list(chunks) if gone is None else gone
        self.drop(chunk.number for chunk in gone)
        for chunk in gone:
            chunks.remove(chunk)

    def load(
        self, number: int, of: str, rows: int | None = None, *, remember: bool = False
    ) -> pa.RecordBatch:
        """What is in a chunk, if it is whole and has this many rows; `remember` its bytes."""
        data = self._state.get_chunk(number)
        try:
            if data is None:
                raise InvalidValue("it is missing")
            batch = blobs.decode(data)
            if rows is not None and batch.num_rows != rows:
                raise InvalidValue(f"it has {batch.num_rows} rows instead of {rows}")
            batch.validate(full=True)
        except (pa.ArrowException, OSError, BraidedError, StopIteration) as wrong:
            raise InvalidValue(
                f"the checkpoint's state is damaged: {self._where}, {of}, chunk {number}: {wrong}; "
                "go back to an undamaged copy of the checkpoint, or start a new one"
            ) from None
        if remember:
            self._loaded[number] = data
        return batch

    def bytes_of(self, chunk: Chunk) -> bytes | None:
        """A chunk's bytes; those that were loaded in this batch are remembered."""
        return self._loaded.get(chunk.number)

    def _keep_by_position(self, chunks: list[Chunk], entered: int, side: SideState, oldest: int) -> None:
        """The same for a side whose rows go by key, too; the batch's rows lie from `entered` on."""
        if side.renumbered:
            self.remove(chunks)
            entered = side.first
        self._append_from(chunks, side, entered)
        flags = side.columns.held("gone")
        gone = []
        for chunk in chunks:
            _note_gone(chunk, side, flags)
            if chunk.gone_rows == chunk.rows or chunk.newest_us < oldest:
                gone.append(chunk)
        if self._crowded(chunks, gone, side.rows):
            gone = list(chunks)
            self._append_from(chunks, side, side.first)
            for chunk in chunks[len(gone) :]:
                _note_gone(chunk, side, flags)
        self.remove(chunks, gone)

    def _append_from(self, chunks: list[Chunk], side: SideState, position: int) -> None:
        at = max(position, side.first)
        for rows in side.contents(at, purged=True):
            self._append(chunks, rows.batch, _lasting(rows), at)
            at += len(rows)

    def _crowded(self, chunks: Sequence[Chunk], gone: Sequence[Chunk], live: int) -> bool:
        """Whether chunks are too many, or hold more than twice what is needed."""
        stored = sum(c.rows for c in chunks) - sum(c.rows for c in gone)
        return len(chunks) - len(gone) > _MOST_CHUNKS or stored > 2 * live + _REWRITE_ROWS

    def _append(self, chunks: list[Chunk], batch: pa.RecordBatch, lasting: Int64s, at: int = 0) -> None:
        start = 0
        for piece in blobs.bounded(batch):
            newest = int(lasting[start : start + piece.num_rows].max())
            data = blobs.encode(piece, compressed=True)
            chunks.append(Chunk(self.put(data), piece.num_rows, newest, len(data), at + start))
            start += piece.num_rows

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget some chunks by number."""
        for number in numbers:
            self._state.remove_chunk(number)

    def put(self, data: bytes) -> int:
        """Write a chunk; its number."""
        number = self._meta.next_chunk
        self._state.put_chunk(number, data)
        self._meta.next_chunk += 1
        return number


def _lasting(rows: Rows) -> Int64s:
    return rows.times if rows.ends is None else rows.ends


def _since(rows: Rows, oldest: int) -> tuple[pa.RecordBatch, Int64s]:
    """The rows that are still needed after their own batch, and how long each lasts."""
    lasting = _lasting(rows)
    alive = lasting >= oldest
    if alive.all():
        return rows.batch, lasting
    return rows.batch.filter(pa.array(alive)), lasting[alive]


def _note_gone(chunk: Chunk, side: SideState, flags: Bools) -> None:
    """Say which rows of a chunk have gone: `flags` are of the rows from the side's first on."""
    passed = min(chunk.rows, max(0, side.first - chunk.start))
    start = max(0, chunk.start - side.first)
    gone = np.concatenate([np.ones(passed, np.bool_), flags[start : start + chunk.rows - passed]])
    chunk.gone_rows = int(np.count_nonzero(gone))
    chunk.gone = _packed(gone) if chunk.gone_rows else ""


def _packed(flags: Bools) -> str:
    return base64.b64encode(zlib.compress(np.packbits(flags).tobytes())).decode()


def unpacked(flags: str, rows: int) -> Bools:
    """Which rows of a chunk have gone, as `Chunk.gone` says it."""
    if not flags:
        return np.zeros(rows, np.bool_)
    bits = np.frombuffer(zlib.decompress(base64.b64decode(flags)), np.uint8)
    return np.unpackbits(bits, count=rows).astype(np.bool_)
