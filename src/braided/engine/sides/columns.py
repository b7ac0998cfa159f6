"""The per-row arrays of a side: declared once, and grown, moved, compacted and mapped together.

The rows held are at positions `first <= p < count`; each array holds position p at `p - base`. A feature
that needs a value of every row declares a `Column`. Whatever happens to rows then happens to that value:
no code but the feature's own names it.

    append 4 rows, forget 2      base 0, first 2, count 4      |. . c d|
    append 2 more: no room       move c and d to the front, base 2
                                 first 2, count 6              |c d e f|    positions stay as they were
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from braided.engine.kernels.counting import RANK_COLUMNS
from braided.policies.arrays import Int32s, Int64s

_MIN_ROWS = 64

Array: TypeAlias = npt.NDArray[Any]
Allocate: TypeAlias = Callable[[str, int, Any], Array]


def in_memory(name: str, length: int, dtype: Any) -> Array:
    """Make an array of this process's own."""
    return np.empty(length, dtype)


@dataclass(frozen=True)
class Column:
    """A value of every row, or of a `dtype` such as `(np.int64, 4)` several.

    `fill` is the value of rows that bring none (None: the feature fills it in later). `like` names the column
    that stands for this one until rows bring values of their own. A column that is not `mapped` is never
    saved: it can be computed from the others.
    """

    name: str
    dtype: Any = np.int64
    fill: Any = None
    like: str | None = None
    mapped: bool = True


HASH = Column("hash")
TIME = Column("time")
LINK = Column("link", np.int32, fill=-1)  # the next older row of its slot in the index
ENDS = Column("ends")  # the watermark that a row made of several does not survive
FINAL = Column("final")  # the watermark that a row's last partner from optional streams does not survive
BORN = Column("born")  # when a row arrived, where inputs are flushed one by one
GONE = Column("gone", np.bool_, fill=False)  # forgotten by key or group, but still held
CHECK = Column("check", like="hash")  # a second hash of the key, where hashes collide
RANKS = Column("ranks", (np.int64, RANK_COLUMNS), mapped=False)  # where a row stands in its count window
LEAVES = Column("leaves", mapped=False)  # when a row leaves its count window
COUNTED = Column("counted")  # a hash of the key by which rows are counted, where the operator has another
NEXT_COUNTED = Column("next_counted", np.int32, fill=-1)  # its link


class Columns:
    """Rows by position, as the arrays that were declared."""

    def __init__(self, declared: Sequence[Column], allocate: Allocate = in_memory) -> None:
        self.base = self.first = self.count = 0
        self._declared = {column.name: column for column in (HASH, TIME, LINK, *declared)}
        self.allocate: Allocate = in_memory  # until there are rows worth a place of their own
        self.arrays: dict[str, Array] = {n: np.empty(0) for n, c in self._declared.items() if c.like is None}
        self.adopt(self._new(0))
        self.allocate = allocate
        self._lately = 0  # most rows held lately: room that the next batch needs again is not given back

    def __contains__(self, name: str) -> bool:
        return name in self._declared

    def __getitem__(self, name: str) -> Array:
        """Return a whole array: position p is at `p - base`."""
        array = self.arrays.get(name)
        return self.arrays[self._declared[name].like or ""] if array is None else array

    @property
    def rows(self) -> int:
        """Rows held."""
        return self.count - self.first

    @property
    def room(self) -> int:
        """Rows that the arrays have room for."""
        return len(self.arrays["hash"])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, as allocated."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def mapped(self) -> dict[str, Array]:
        """The arrays that an arena holds, by name."""
        return {name: array for name, array in self.arrays.items() if self._declared[name].mapped}

    def held(self, name: str) -> Array:
        """Return the values of all rows held."""
        return self.between(name, self.first, self.count)

    def between(self, name: str, start: int, stop: int) -> Array:
        """Return the values of the rows from one position up to another."""
        return self.arrays[name][start - self.base : stop - self.base]

    def at(self, name: str, positions: Int32s | Int64s) -> Array:
        """Return the values of the rows at some positions."""
        return self.arrays[name][positions - self.base]

    def brought(self, name: str, where: Any) -> Array | None:
        """Return values that rows brought themselves, by index into the array; None if they brought none."""
        array = self.arrays.get(name)
        return None if array is None else array[where]

    def append(self, rows: int, values: Mapping[str, Any]) -> None:
        """Add rows; there is room for them, and `values` may name more columns than there are."""
        here = slice(self.count - self.base, self.count - self.base + rows)
        for name, column in self._declared.items():
            value = values.get(name, column.fill)
            if value is not None:
                if name not in self.arrays:
                    self.adopt({name: self.allocate(name, self.room, column.dtype)})
                    self.arrays[name][:] = self.arrays[column.like or ""]
                self.arrays[name][here] = value
        self.count += rows
        self._lately = max(self._lately, self.count - self.first)

    def crowded(self, rows: int) -> bool:
        """Return whether this many more rows would make the arrays grow."""
        return self.rows + rows > self.room

    def make_room(self, rows: int) -> None:
        """Grow the arrays for new rows, or move what they hold to the front; positions stay."""
        if self.crowded(rows):
            self._resize(self.rows + rows)
        elif self.count - self.base + rows > self.room:
            self._move_to_front()

    def give_back(self) -> bool:
        """Shrink the arrays if their room was not needed lately; whether they shrank."""
        roomy = self.room > 4 * max(self._lately, _MIN_ROWS)
        if roomy:
            self._resize(self.rows)
        self._lately = max(self.rows, self._lately // 2)
        return roomy

    def keep(self, places: Int64s) -> None:
        """Keep only some rows, by place among those held, at positions from 0 on."""
        rows = len(places)
        arrays = self._new(max(rows, 2 * self.room // 5))  # half the room: the next batch needs some of it
        for name, array in arrays.items():
            # mode "raise" would copy first
            np.take(self.held(name), places, axis=0, out=array[:rows], mode="clip")
        self.adopt(arrays)
        self.base, self.first, self.count = 0, 0, rows

    def adopt(self, arrays: Mapping[str, Array]) -> None:
        """Use these arrays from now on."""
        self.arrays = {**self.arrays, **arrays}
        self.addresses = {name: array.ctypes.data for name, array in self.arrays.items()}

    def resume(self, base: int, first: int, count: int) -> None:
        """Go on with the positions of the columns that these arrays came from."""
        self.base, self.first, self.count = base, first, count
        self._lately = self.rows

    def _new(self, rows: int) -> dict[str, Array]:
        """Make arrays with room for a quarter more rows; nothing changes if that fails."""
        size = max(_MIN_ROWS, rows + rows // 4)
        columns = [self._declared[name] for name in self.arrays]
        return {c.name: (self.allocate if c.mapped else in_memory)(c.name, size, c.dtype) for c in columns}

    def _resize(self, rows: int) -> None:
        arrays = self._new(rows)
        for name, array in arrays.items():
            array[: self.rows] = self.held(name)
        self.adopt(arrays)
        self.base = self.first

    def _move_to_front(self) -> None:
        for name, array in self.arrays.items():
            start, size = self.addresses[name], array.strides[0]
            ctypes.memmove(start, start + (self.first - self.base) * size, self.rows * size)
        self.base = self.first
