"""The stored rows of one side, in Arrow chunks, found by position.

Chunk c holds positions `starts[c]` up to the next chunk's start. Rows leave from the front: a chunk
goes when its last row has gone, and is copied to its live rest when more than half of it has gone.
Small chunks are merged as they come, so that tiny batches do not make many chunks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braided.engine.kernels import gather
from braided.policies.arrays import Bools, Int64s

Places: TypeAlias = npt.NDArray[np.int32]
_SMALL_BYTES = 1 << 15  # a chunk no larger may keep its dead rows
_MANY_ROWS = 8_192
MERGED_ROWS = 65_536
_WIDE_TEXTS = {pa.large_string(), pa.large_binary()}  # their offsets have 64 bits
_TEXTS = {pa.string(), pa.binary(), *_WIDE_TEXTS}  # bytes that lie one after the other


@dataclass
class Chunk:
    """Rows at positions from `start` on."""

    start: int
    batch: pa.RecordBatch
    addresses: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    file: str | None = None  # where an arena keeps it

    @property
    def stop(self) -> int:
        """The position behind the last row."""
        return self.start + int(self.batch.num_rows)

    def address(self, column: int) -> tuple[int, int, int, int]:
        """Return where a column's values (or offsets), validity bits (or 0), first bit and texts begin."""
        if column not in self.addresses:
            array = self.batch.column(column)
            bits, values, *rest = array.buffers()
            bits_at = bits.address if bits is not None and array.null_count else 0
            width = array.type.bit_width // 8 if not rest else 8 if array.type in _WIDE_TEXTS else 4
            texts_at = rest[0].address if rest and rest[0] is not None else 0
            values_at = values.address if values is not None else 0
            self.addresses[column] = (values_at + array.offset * width, bits_at, array.offset, texts_at)
        return self.addresses[column]


class Payload:
    """Rows of one side by position; appended at the end, dropped at the front."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.chunks: tuple[Chunk, ...] = ()  # replaced, never changed: whoever has them can go back

    @property
    def nbytes(self) -> int:
        """Bytes of the stored rows."""
        return sum(int(c.batch.nbytes) for c in self.chunks)

    def append(self, start: int, batch: pa.RecordBatch) -> None:
        """Store rows at positions from `start` on."""
        chunks = [*self.chunks, Chunk(start, batch)]
        with contextlib.suppress(pa.ArrowMemoryError):  # then there are a few chunks more
            while len(chunks) > 1:
                before, last = (chunk.batch for chunk in chunks[-2:])
                merged = before.num_rows + last.num_rows
                if before.num_rows > 2 * last.num_rows or merged > MERGED_ROWS:
                    break
                chunks[-2:] = [Chunk(chunks[-2].start, pa.concat_batches([before, last]))]
        self.chunks = tuple(chunks)

    def drop_before(self, first: int) -> None:
        """Forget rows before position `first`."""
        self.chunks = tuple(chunk for chunk in self.chunks if chunk.stop > first)
        if not self.chunks:
            return
        batch, dead = self.chunks[0].batch, first - self.chunks[0].start
        if 2 * dead > batch.num_rows and (dead > _MANY_ROWS or batch.nbytes > _SMALL_BYTES):
            with contextlib.suppress(pa.ArrowMemoryError, MemoryError):  # then dead rows stay a while longer
                self.chunks = (Chunk(first, copied(batch.slice(dead))), *self.chunks[1:])

    def live(self, first: int) -> list[pa.RecordBatch]:
        """Return the rows from position `first` on, in order."""
        return [c.batch.slice(max(0, first - c.start)) for c in self.chunks if c.stop > first]

    def words(self, first: int, column: int) -> Int64s:
        """Return a column of whole numbers, of the rows from position `first` on."""
        parts = [np.asarray(batch.column(column).to_numpy()) for batch in self.live(first)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def keep(self, first: int, stay: Bools) -> Bools:
        """Keep the rows at `first + i` where stay[i], at new positions from 0 on; which stayed.

        Chunk by chunk, so that only one is there twice. Where there is no room for that, rows stay.
        """
        fresh, at, start = Payload(self.schema), 0, 0
        stay = stay.copy()
        old, self.chunks = list(self.chunks), ()
        while old:
            batch = old[0].batch.slice(max(0, first - old[0].start))
            here = slice(at, at + batch.num_rows)
            at += batch.num_rows
            try:
                rows = batch.filter(pa.array(stay[here]))
            except (pa.ArrowException, MemoryError):
                stay[here], rows = True, batch
            del old[0], batch
            if rows.num_rows:
                fresh.append(start, rows)
                start += rows.num_rows
        self.chunks = fresh.chunks
        return stay

    def gather(self, positions: Int64s | npt.NDArray[np.int32], columns: Sequence[int]) -> list[pa.Array]:
        """Return the columns' values at the positions."""
        if not columns:
            return []
        starts = np.array([c.start for c in self.chunks], np.int64)
        chunk, offset = gather.locate(starts, positions)
        return [self._column(chunk, offset, c) for c in columns]

    def _column(self, chunk: Places, offset: Places, column: int) -> pa.Array:
        type_ = self.schema.field(column).type
        if is_fixed_width(type_):
            return self._fixed(chunk, offset, column)
        texts = self._texts(chunk, offset, column) if type_ in _TEXTS and self.chunks else None
        return self._taken(chunk, offset, column) if texts is None else texts

    def _taken(self, chunk: Places, offset: Places, column: int) -> pa.Array:
        """Take values of any type as Arrow does: chunk by chunk, and back into their order."""
        order = np.argsort(chunk, kind="stable")
        bounds = np.searchsorted(chunk[order], np.arange(1, len(self.chunks)))
        places = zip(self.chunks, np.split(offset[order], bounds), strict=False)
        parts = [c.batch.column(column).take(pa.array(here)) for c, here in places if len(here)]
        if len(parts) == 1:
            return parts[0]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        type_ = self.schema.field(column).type
        return (pa.concat_arrays(parts) if parts else pa.array([], type_)).take(pa.array(back))

    def _texts(self, chunk: Places, offset: Places, column: int) -> pa.Array | None:
        """Gather texts; None if they are too long to be one array."""
        type_, where = self.schema.field(column).type, self._where(column)
        addresses, _, _, texts = where
        width = np.int64 if type_ in _WIDE_TEXTS else np.int32
        offsets = np.empty(len(chunk) + 1, width)
        size = gather.text_offsets(addresses, chunk, offset, offsets)
        if size > np.iinfo(width).max:
            return None
        out = np.empty(size, np.int8)
        gather.gather_texts(addresses, texts, chunk, offset, offsets, out.ctypes.data)
        buffers = [self._valid(chunk, offset, where), pa.py_buffer(offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(type_, len(chunk), buffers)

    def _fixed(self, chunk: Places, offset: Places, column: int) -> pa.Array:
        type_, where = self.schema.field(column).type, self._where(column)
        width = type_.bit_width // 8
        word = min(width, 8)
        out = np.empty(len(chunk) * width // word, f"i{word}")
        gather.gather_values(where[0], chunk, offset, width // word, out)
        buffers = [self._valid(chunk, offset, where), pa.py_buffer(out)]
        return pa.Array.from_buffers(type_, len(chunk), buffers)

    def _where(self, column: int) -> Int64s:
        """Return the chunks' addresses of a column, one kind after the other."""
        where = [c.address(column) for c in self.chunks]
        return np.ascontiguousarray(np.array(where, np.int64).reshape(-1, 4).T)

    def _valid(self, chunk: Places, offset: Places, where: Int64s) -> pa.Buffer | None:
        """Return which values are not null; None if all are."""
        if not where[1].any():
            return None
        bits = np.empty(len(chunk), np.int8)
        gather.gather_bits(where[1], where[2], chunk, offset, bits)
        return pa.py_buffer(np.packbits(bits, bitorder="little"))


def is_fixed_width(type_: pa.DataType) -> bool:
    """Return whether values of the type are plain words of 1, 2, 4, 8, 16 or 32 bytes."""
    plain = pa.types.is_primitive(type_) or pa.types.is_decimal(type_)
    return plain and type_.bit_width in (8, 16, 32, 64, 128, 256)


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy rows into buffers of their own."""
    return batch.take(pa.array(np.arange(batch.num_rows, dtype=np.int32)))


def owned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch, copied if it would keep much larger buffers alive."""
    held, used = batch.get_total_buffer_size(), batch.nbytes
    return copied(batch) if held > 2 * used + 65_536 else batch
