"""Rows of partition groups on disk: a file for each flush, a piece of it for each input and group.

A piece is one Arrow IPC message: the stored columns, and behind them what a side keeps of each row: hash,
time and, where rows have them, their end, second hash and arrival. A file goes when the last of its pieces
has gone; the folder goes with the join, and one that was left behind by a process that was killed when the
next one is made.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa

from braided.engine.sides.side import Rows
from braided.policies.arrays import Int64s
from braided.query.errors import SpillFailed

_PREFIX, _LOCK = "braided-spill-", "lock"
_PER_ROW = ("hashes", "times", "ends", "checks", "born")
_BEHIND = b"braided: behind the stored columns"  # in a schema's metadata, since columns have any name


@dataclass(eq=False)
class SpillFile:
    """A file, and how many of its pieces are still needed."""

    path: Path
    size: int = 0
    pieces: int = 0


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
        ...

    def read(self, pieces: Iterable[Any]) -> dict[Any, Rows]:
        """The rows of some pieces."""
        ...

    def drop(self, pieces: Iterable[Any]) -> None:
        """Pieces are needed no more."""
        ...

    def close(self) -> None:
        """Nothing is needed any more."""
        ...


class Spill:
    """The files of one join."""

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._folder: Path | None = None
        self._written = 0
        self.bytes = 0  # of all files there are

    def write(self, parts: Iterable[tuple[Rows, Int64s, Int64s | None]]) -> list[list[Piece]]:
        """Write a file of several inputs' rows that are ordered by group: a piece for each group.

        Of every input: its rows, where each group begins and the end, and the watermarks that rows do not
        survive (None if they stay for ever).
        """
        file = SpillFile(self._new_file())
        try:
            with file.path.open("wb") as sink:
                pieces = [[*self._pieces(file, sink, *part)] for part in parts]
        except (OSError, pa.ArrowException) as wrong:
            with contextlib.suppress(OSError):
                file.path.unlink()
            raise self._failed("write", file.path.parent, wrong) from wrong
        file.pieces = sum(map(len, pieces))
        self.bytes += file.size
        if not file.pieces:
            file.path.unlink()
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

    def read(self, pieces: Iterable[Piece]) -> dict[Piece, Rows]:
        """The rows of some pieces; they stay on disk."""
        by_file = collections.defaultdict(list)
        for piece in pieces:
            by_file[piece.file].append(piece)
        found = {}
        for file, those in by_file.items():
            try:
                with pa.OSFile(str(file.path)) as source:
                    for piece in those:
                        source.seek(piece.start)
                        message = source.read_buffer(piece.size)
                        found[piece] = read_rows(pa.ipc.read_record_batch(message, piece.schema))
            except (OSError, pa.ArrowException) as wrong:
                raise self._failed("read", file.path.parent, wrong) from wrong
        return found

    def drop(self, pieces: Iterable[Piece]) -> None:
        """Pieces are needed no more."""
        for piece in pieces:
            piece.file.pieces -= 1
            if piece.file.pieces == 0:
                self.bytes -= piece.file.size
                with contextlib.suppress(OSError):
                    piece.file.path.unlink()

    def _new_file(self) -> Path:
        if self._folder is None:
            self._folder = self._new_folder()
        self._written += 1
        return self._folder / f"{self._written}.arrow"

    def _new_folder(self) -> Path:
        parent = Path(self._directory or tempfile.gettempdir())
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _remove_left_behind(parent)
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            lock = (folder / _LOCK).open("w")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as wrong:
            raise self._failed("write", parent, wrong) from wrong
        self._remove = weakref.finalize(self, _remove, folder, lock)
        return folder

    def close(self) -> None:
        """Remove all that is there."""
        if self._folder is not None:
            self._remove()
            self._folder, self.bytes = None, 0

    def _failed(self, what: str, where: Path, wrong: Exception) -> SpillFailed:
        said = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
        remedy = "give another one with bd.Memory(directory=...), or a larger limit"
        if what == "read":
            remedy = "files there must stay until the join ends"
        return SpillFailed(
            f"memory: cannot {what} rows in the directory {str(where)!r}: {said}; {remedy}. Nothing is lost: "
            "the call that failed has changed nothing, and may be repeated"
        )


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


def numbered(rows: Rows, number: int) -> pa.RecordBatch:
    """Rows as a snapshot has them, with the number of their generation."""
    batch = described(rows)
    numbers = pa.array(np.full(len(rows), number, np.int64))
    schema = batch.schema.append(pa.field("number", numbers.type))
    return pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)


def by_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Rows]]:
    """The rows of a snapshot, generation by generation."""
    found = collections.defaultdict(list)
    for batch in batches:
        found[batch.columns[-1][0].as_py()].append(batch.select(list(range(batch.num_columns - 1))))
    for number, several in sorted(found.items()):
        yield number, read_rows(pa.concat_batches(several))


def latest(ends_us: Int64s | None, low: int, high: int) -> int:
    """The watermark that none of some rows survives."""
    if ends_us is None or low == high:
        return (1 << 62) if low < high else -(1 << 62)
    return int(np.max(ends_us[low:high]))


def _remove(folder: Path, lock: IO[str]) -> None:
    lock.close()
    shutil.rmtree(folder, ignore_errors=True)


def _remove_left_behind(parent: Path) -> None:
    """Remove the folders of processes that are gone: nobody holds their lock."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), (folder / _LOCK).open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
