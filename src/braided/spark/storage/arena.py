"""The live engine of a bucket in memory-mapped files, so that any worker of the executor can go on with it.

Python workers come and go, and tasks move between them; rebuilding an engine from its chunks costs a state
call and a decode per chunk. So arrays live in files of an executor-local folder (tmpfs if there is one), and
stored rows beside them as Arrow IPC messages. The folder is a cache: the state store alone is the truth.

When it is trusted
------------------
Every attempt of a batch writes a new random *token* into the bucket's state, with the chunks, and then into
the folder's header. A folder may be used only if its header's token is the one in the committed state. The
header is removed before the first change and written (by rename) after the last, so a folder whose worker
died has none. If the state holds the header's *previous* token (the batch ran, but was not committed: a
retry, speculation, a second action on the same batch), the last batch is taken back: new rows are unlinked,
newest first. This works because nothing is forgotten or moved between the first change and the header.
In every other case the engine is rebuilt.

Nothing in the folder is believed, either. The header has a checksum, and names every file with its size and
a checksum of what is used of it: the live rows of an array, the whole of a file with stored rows. All of it
is read and compared before an engine sees it, because kernels follow positions in these arrays without
looking. So a file that is missing, cut off, changed or swapped means that the bucket is rebuilt, too.

A lock (`flock`) keeps two attempts apart; an attempt that finds it taken (a killed worker can outlive its
task) works in memory of its own, and leaves the folder alone: its token will differ from the state's then,
so the next batch rebuilds.
"""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braided.engine.engine import Engine
from braided.engine.folders import Folder
from braided.engine.kernels.checksum import checksum
from braided.engine.sides.columns import Allocate
from braided.engine.sides.frozen import adopt, arrays_of, frozen, thaw
from braided.engine.sides.payload import Chunk
from braided.engine.sides.side import Mark, Reason, SideState
from braided.spark.plan import JoinPlan
from braided.spark.storage.folders import bucket_folder

FORMAT = 8
_HEADER, _LOCK = "header", "lock"


@dataclass
class Arena:
    """One bucket's folder, held by this task."""

    folder: Folder
    fingerprint: str
    _lock: int
    _serial: int = 0
    _files: dict[int, tuple[weakref.ref[Any], str]] = field(default_factory=dict)
    _seals: dict[str, list[int]] = field(default_factory=dict)  # of files with rows: size and checksum

    def allocate(self, stream: str) -> Allocate:
        """Where the arrays of a stream are made."""

        def make(name: str, length: int, dtype: Any) -> npt.NDArray[Any]:
            try:
                return self._map(self._name(stream, name), length, dtype, create=True)
            except OSError:  # no room left: go on in memory
                return np.empty(length, dtype)

        return make

    def load(self, engine: Engine, token: str) -> bool:
        """Bring an engine to the state that belongs to the token; whether that was possible."""
        header = self._header()
        if header is None or token not in (header["token"], header["previous_token"]):
            self.clear()
            return False
        self.folder.remove(_HEADER)  # from here on the folder is not to be trusted
        try:
            self._serial = header["serial"]
            sides = {side.name: side for side in engine.tree.sides.values()}
            if sides.keys() != header["sides"].keys():
                raise ValueError("the folder belongs to another plan")
            for name, saved in header["sides"].items():
                self._thaw(sides[name], saved)
            if token != header["token"]:
                self._undo(sides, header["previous"])
        except (OSError, ValueError, KeyError, pa.ArrowException):
            self.clear()
            return False
        return True

    def save(self, engine: Engine, token: str, previous_token: str) -> None:
        """Leave the engine for the next task; if there is no room, leave nothing."""
        sides, marks = engine.tree.sides, engine.tree.marks
        try:
            header = {
                "format": FORMAT,
                "fingerprint": self.fingerprint,
                "token": token,
                "previous_token": "" if _moved(engine) else previous_token,
                "sides": {side.name: self._freeze(side) for side in sides.values()},
                "previous": {sides[node].name: self._mark(sides[node], m) for node, m in marks.items()},
                "serial": self._serial,
            }
            self._sweep(header)
            body = json.dumps(header).encode()
            self.folder.write(_HEADER, zlib.crc32(body).to_bytes(4, "little") + body)
        except OSError:
            self.clear()

    def clear(self) -> None:
        """Forget whatever is there."""
        with contextlib.suppress(OSError):  # the whole folder may have been swept
            self._remove_all_but({_LOCK})
        self._files.clear()

    def close(self) -> None:
        """Let others have it."""
        os.close(self._lock)
        self.folder.close()

    # parts

    def _header(self) -> dict[str, Any] | None:
        try:
            data = self.folder.read(_HEADER)
            if zlib.crc32(data[4:]).to_bytes(4, "little") != data[:4]:
                return None
            header: dict[str, Any] = json.loads(data[4:])
        except (OSError, ValueError):
            return None
        known = (header.get("format"), header.get("fingerprint")) == (FORMAT, self.fingerprint)
        return header if known else None

    def _name(self, stream: str, what: str) -> str:
        self._serial += 1
        return f"{stream}.{what}.{self._serial}"

    def _map(self, name: str, length: int, dtype: Any, *, create: bool) -> npt.NDArray[Any]:
        """An array in a file of the folder."""
        size = max(1, length * np.dtype(dtype).itemsize)
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        file = self.folder.open(name, flags)
        try:
            if create:
                os.posix_fallocate(file, 0, size)  # a full tmpfs is an error here, not a signal later
            elif os.fstat(file).st_size != size:
                raise ValueError(f"{name} has the wrong size")
            array = np.frombuffer(mmap.mmap(file, size), dtype, count=length)
        finally:
            os.close(file)
        self._files[id(array)] = (weakref.ref(array), name)
        return array

    def _file_of(self, array: npt.NDArray[Any]) -> str | None:
        """The file an array lies in, if it does."""
        reference, name = self._files.get(id(array), (None, ""))
        return name if reference is not None and reference() is array else None

    def _freeze(self, side: SideState) -> dict[str, Any]:
        adopt(side, {what: self._placed(side.name, what, array) for what, array in arrays_of(side).items()})
        numbers = frozen(side)
        arrays = {
            what: [self._file_of(array), len(array), array.dtype.str, _sum(what, array, numbers)]
            for what, array in arrays_of(side).items()
        }
        chunks = [self._chunk(side.name, chunk) for chunk in side.payload.chunks]
        return {"side": numbers, "arrays": arrays, "columns": str(side.payload.schema), "chunks": chunks}

    def _placed(self, stream: str, what: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array in a file, if it is not in one yet."""
        if self._file_of(array) is not None:
            return array
        placed = self._map(self._name(stream, what), len(array), array.dtype, create=True)
        placed[:] = array
        return placed

    def _mark(self, side: SideState, mark: Mark) -> dict[str, Any]:
        return {**vars(mark), "chunks": [self._chunk(side.name, chunk) for chunk in mark.chunks]}

    def _chunk(self, stream: str, chunk: Chunk) -> list[Any]:
        """A chunk's place; it is written when it is first asked for."""
        if chunk.file is None:
            name = self._name(stream, "rows")
            data = chunk.batch.serialize()
            file = self.folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(file, "wb", buffering=0) as sink:
                if sink.write(data) != data.size:
                    raise OSError(errno.ENOSPC, "No room for rows", name)
            self._seals[name] = [data.size, checksum(data.address, data.size)]
            chunk.file = name
        return [chunk.start, chunk.file, chunk.batch.num_rows, self._seals[chunk.file]]

    def _mapped(self, name: str) -> pa.Buffer:
        """A file, to be read."""
        file = self.folder.open(name, os.O_RDONLY)
        try:
            return pa.py_buffer(mmap.mmap(file, 0, prot=mmap.PROT_READ))
        finally:
            os.close(file)

    def _thaw(self, side: SideState, saved: dict[str, Any]) -> None:
        if saved["columns"] != str(side.payload.schema):
            raise ValueError(f"{side.name} holds other columns")
        arrays = {}
        for what, (name, length, dtype, total) in saved["arrays"].items():
            arrays[what] = self._map(name, length, np.dtype(dtype), create=False)
            if _sum(what, arrays[what], saved["side"]) != total:
                raise ValueError(f"{name} is damaged")
        chunks = [self._read(side, *chunk) for chunk in saved["chunks"]]
        thaw(side, saved["side"], arrays, chunks)

    def _read(self, side: SideState, start: int, name: str, rows: int, seal: list[int]) -> Chunk:
        data = self._mapped(name)
        size, total = seal
        if data.size != size or checksum(data.address, size) != total:
            raise ValueError(f"{name} is damaged")
        self._seals[name] = seal
        batch = pa.ipc.read_record_batch(data, side.payload.schema)
        if batch.num_rows != rows:
            raise ValueError(f"{name} holds other rows")
        return Chunk(start, batch, file=name)

    def _undo(self, sides: Mapping[str, SideState], previous: Mapping[str, dict[str, Any]]) -> None:
        """Take the last batch back."""
        for name, saved in previous.items():
            chunks = tuple(self._read(sides[name], *chunk) for chunk in saved.pop("chunks"))
            sides[name].undo(Mark(**saved, chunks=chunks))

    def _sweep(self, header: dict[str, Any]) -> None:
        """Remove files that neither the state now nor the one before needs."""
        needed = {_LOCK}
        for side in header["sides"].values():
            needed |= {name for name, *_ in side["arrays"].values()}
        for side in (*header["sides"].values(), *header["previous"].values()):
            needed |= {name for _, name, *_ in side["chunks"]}
        self._remove_all_but(needed)

    def _remove_all_but(self, needed: set[str]) -> None:
        for name in self.folder.names():
            if name not in needed:
                self.folder.remove(name)


def _sum(what: str, array: npt.NDArray[Any], numbers: Mapping[str, int]) -> int:
    """The checksum of what is used of an array: all slots of an index, of columns the rows held."""
    start, stop = 0, len(array)
    if what != "head":
        start, stop = numbers["first"] - numbers["base"], numbers["count"] - numbers["base"]
    start, stop = start * array.itemsize, stop * array.itemsize
    start -= start % 8  # words are read where they are aligned
    return int(checksum(array.ctypes.data + start, stop - start))


def _moved(engine: Engine) -> bool:
    """Whether this batch cannot be undone: something was made again, or rows were purged."""
    sides = engine.tree.sides.values()
    return bool(engine.tree.rebuilt) or any(
        side.purges and (side.renumbered or side.forgotten[Reason.PURGE] or side.forgotten[Reason.FLUSH])
        for side in sides
    )


def open_arena(plan: JoinPlan, query_id: str, bucket: int) -> Arena | None:
    """The folder of a bucket, if it can be had: switched on, and not held by another attempt.

    Engines with count windows are rebuilt: their state is small, and they wait with rows.
    """
    if not plan.arena or plan.query.counts:
        return None
    try:
        name = f"{bucket}.{plan.epoch.number}" if plan.epoch.number else str(bucket)
        folder = bucket_folder(plan.arena, query_id, plan.fingerprint, name, plan.stage)
        return Arena(folder, plan.fingerprint, folder.lock(_LOCK))
    except OSError:
        return None
