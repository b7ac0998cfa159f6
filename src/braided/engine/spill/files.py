"""Rows of partition groups on disk: a file for each flush, a piece of it for each input and group.

A piece is one Arrow IPC message: the stored columns, and behind them what a side keeps of each row: hash,
time and, where rows have them, their end, second hash and arrival. A file goes when the last of its pieces
has gone, the folder with the join (see `home`). A join that goes on in a forked child reads what its parent
wrote, writes to a folder of its own, and removes nothing of its parent's.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from braided.engine.sides.side import Rows
from braided.engine.spill.home import Home, make_home
from braided.policies.arrays import Int64s
from braided.query.errors import SpillFailed

_PER_ROW = ("hashes", "times", "ends", "checks", "born")
_FOREVER = 1 << 62
_REMEDIES = {
    "write": "give another one with bd.Memory(directory=...), or a larger limit",
    "read": "files there must stay until the join ends",
}
_BEHIND = b"braided: behind the stored columns"  # in a schema's metadata, since columns have any name


@dataclass(eq=False)
class SpillFile:
    """A file, and how many of its pieces are still needed."""

    home: Home
    name: str
    size: int = 0
    pieces: int = 0

    def open(self, flags: int, mode: str) -> IO[Any]:
        """Open it."""
        return os.fdopen(self.home.folder.open(self.name, flags), mode)

    def remove(self) -> None:
        """Remove it, unless it is the file of a parent process."""
        if self.home.ours:
            with contextlib.suppress(OSError):
                self.home.folder.remove(self.name)


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of one group and input in a file; none is needed once the watermark has passed `dies_us`."""

    file: SpillFile
    schema: pa.Schema
    start: int
    size: int
    rows: int
    dies_us: int


class Store(Protocol):
    """Where rows lie that are not in memory; pieces are what it makes of them."""

    bytes: int

    def write(self, parts: Iterable[tuple[Rows, Int64s, Int64s | None]]) -> list[list[Any]]:
        """Write several inputs' rows, ordered by group: a piece for each group."""

    def read(self, pieces: Iterable[Any]) -> dict[Any, pa.RecordBatch]:
        """The rows of some pieces, as `described` made them."""

    def drop(self, pieces: Iterable[Any]) -> None:
        """Pieces are needed no more."""

    def close(self) -> None:
        """Nothing is needed any more."""


@runtime_checkable
class LastingStore(Store, Protocol):
    """A store that lives as long as the saved state, which then only says where pieces lie."""

    def place(self, piece: Any) -> Any:
        """Where a piece lies, as plain values."""

    def piece_at(self, place: Any) -> Any:
        """The piece that lies at a place."""


class Spill:
    """The files of one join."""

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._home: Home | None = None
        self._written = 0
        self.bytes = 0  # of all files there are

    def write(self, parts: Iterable[tuple[Rows, Int64s, Int64s | None]]) -> list[list[Piece]]:
        """Write a file of several inputs' rows that are ordered by group: a piece for each group.

        Of every input: its rows, where each group begins and the end, and the watermarks that rows do not
        survive (None if they stay).
        """
        parent = Path(self._directory or tempfile.gettempdir())
        with _failing("write", parent):
            file, sink = self._new_file(parent)
            try:
                with sink:
                    pieces = [[*self._pieces(file, sink, *part)] for part in parts]
                file.pieces = sum(map(len, pieces))
            finally:
                if not file.pieces:  # it failed, or there was nothing to write
                    file.remove()
        self.bytes += file.size
        return pieces

    def _pieces(
        self, file: SpillFile, sink: IO[bytes], rows: Rows, bounds: Int64s, ends_us: Int64s | None
    ) -> Iterator[Piece]:
        batch = described(rows)
        for low, high in itertools.pairwise(bounds.tolist()):
            message = batch.slice(low, high - low).serialize()
            sink.write(message)
            yield Piece(file, batch.schema, file.size, message.size, high - low, latest(ends_us, low, high))
            file.size += message.size

    def read(self, pieces: Iterable[Piece]) -> dict[Piece, pa.RecordBatch]:
        """The rows of some pieces, as `described` made them; they stay on disk."""
        rows: dict[Piece, pa.RecordBatch] = {}
        by_file = sorted(pieces, key=lambda piece: id(piece.file))
        for file, several in itertools.groupby(by_file, key=lambda piece: piece.file):
            with _failing("read", file.home.folder.path), file.open(os.O_RDONLY, "rb") as source:
                rows.update((piece, _read(source.fileno(), piece)) for piece in several)
        return rows

    def drop(self, pieces: Iterable[Piece]) -> None:
        """Pieces are needed no more."""
        for piece in pieces:
            piece.file.pieces -= 1
            if piece.file.pieces == 0:
                self.bytes -= piece.file.size
                piece.file.remove()

    def _new_file(self, parent: Path) -> tuple[SpillFile, IO[Any]]:
        """Open a new file; in another folder, if this one is a parent process's or was removed."""
        if self._home is None or not self._home.ours or not self._home.folder.path.exists():
            self._home = make_home(parent)
            self._remove = weakref.finalize(self, self._home.remove)
        self._written += 1
        file = SpillFile(self._home, f"{self._written}.arrow")
        return file, file.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb")

    def close(self) -> None:
        """Remove all that is there."""
        if self._home is not None:
            self._remove()
            self._home, self.bytes = None, 0


@contextlib.contextmanager
def _failing(what: str, where: Path) -> Iterator[None]:
    """Say where rows could not be written or read, and what to do about it."""
    try:
        yield
    except (OSError, pa.ArrowException) as wrong:
        raise SpillFailed(
            f"memory: cannot {what} rows in the directory {str(where)!r}: "
            f"{getattr(wrong, 'strerror', None) or wrong}; {_REMEDIES[what]}. Nothing is lost: the call that "
            "failed has changed nothing, and may be repeated"
        ) from wrong


def described(rows: Rows) -> pa.RecordBatch:
    """Stored columns, and behind them what a side keeps of each row."""
    more = {of: pa.array(values) for of in _PER_ROW if (values := getattr(rows, of)) is not None}
    fields = [*rows.batch.schema, *(pa.field(of, values.type) for of, values in more.items())]
    schema = pa.schema(fields, {_BEHIND: " ".join(more)})
    return pa.RecordBatch.from_arrays([*rows.batch.columns, *more.values()], schema=schema)


def read_rows(batch: pa.RecordBatch) -> Rows:
    """Rows, of the columns that `described` made of them."""
    behind = batch.schema.metadata[_BEHIND].decode().split()
    stored = batch.num_columns - len(behind)
    per_row = {of: batch.column(stored + i).to_numpy() for i, of in enumerate(behind)}
    return Rows(batch.select(list(range(stored))).replace_schema_metadata(None), **per_row)


def latest(ends_us: Int64s | None, low: int, high: int) -> int:
    """The watermark that none of some rows survives."""
    return _FOREVER if ends_us is None else int(np.max(ends_us[low:high]))


def _read(source: int, piece: Piece) -> pa.RecordBatch:
    message = os.pread(source, piece.size, piece.start)
    if len(message) != piece.size:
        raise OSError(errno.EIO, "The file is too short")
    return pa.ipc.read_record_batch(pa.py_buffer(message), piece.schema)
