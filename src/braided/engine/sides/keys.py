"""Key columns of any type, as 64-bit hashes; and the check that equal hashes are equal keys.

A single key column of at most 64 bits (integers, floats, dates, ...) hashes without collisions, so
equal hashes are equal keys. All other keys are compared by value once a combination is found: a
collision never becomes a result. Floats follow Spark: NaN equals NaN, 0.0 equals -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braided.engine.kernels import closing, hashing
from braided.engine.sides.storable import storable_type, to_storable
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidType
from braided.query.stream import Stream

_COLLISION_MASK = -1  # tests clear bits of it to force collisions of inexact keys
_CHECK_SEED = 0x5DEECE66D


@dataclass(frozen=True)
class KeyFormat:
    """How the key columns of all streams of a query are read: one type per column, which all are cast to."""

    types: tuple[pa.DataType, ...]

    @property
    def exact(self) -> bool:
        """Whether equal hashes mean equal keys; without a key all rows are equal."""
        return not self.types or (len(self.types) == 1 and not _of_bytes(self.types[0]))

    @property
    def ordered(self) -> bool:
        """Whether keys are numbers or times, so that one is below another."""
        return self.exact and bool(self.types)

    def hashes(self, columns: Sequence[pa.Array], rows: int) -> Int64s:
        """Hash each row; null keys get a hash too, to be left out by the caller."""
        if not self.types:
            return np.zeros(rows, np.int64)
        if not self.exact:
            return self._folded(columns, 0) & _COLLISION_MASK
        return np.asarray(hashing.hash_words(_words(columns[0], self.types[0], 0)))

    def ranks(self, hashes: Int64s) -> Int64s:
        """Whole numbers in the order of the keys that have these hashes; of ordered keys only."""
        return self._turned(hashing.unhash_words(hashes))

    def hashes_of_ranks(self, ranks: Int64s) -> Int64s:
        """Undo `ranks`."""
        return np.asarray(hashing.hash_words(self._turned(ranks)))

    def largest(self, hashes: Int64s) -> int:
        """Return the hash of the largest key among those that have these hashes; of ordered keys only."""
        return int(hashes[np.argmax(self.ranks(hashes))])

    def _turned(self, words: Int64s) -> Int64s:
        """From words to ranks, and back."""
        if self.types[0] == pa.uint64():
            return words ^ np.int64(-1 << 63)
        if pa.types.is_floating(self.types[0]):  # negative ones fall as their bits rise
            return np.where(words < 0, words ^ np.int64((1 << 63) - 1), words)
        return words

    def values(self, hashes: Int64s) -> pa.Array:
        """Return the keys that have these hashes; of ordered keys only."""
        words, type_ = hashing.unhash_words(hashes), self.types[0]
        if pa.types.is_floating(type_):
            return pa.array(words.view(np.float64))
        if pa.types.is_boolean(type_):
            return pa.array(words.astype(np.bool_))
        return pa.array(words.astype(np.int32) if type_.bit_width == 32 else words).view(type_)

    def comparable(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Key columns in types that those of all streams share."""
        return [_cast(column, type_) for column, type_ in zip(columns, self.types, strict=True)]

    def checks(self, columns: Sequence[pa.Array]) -> Int64s:
        """Return a second, independent hash, for counting by key (128 bits in all)."""
        return self._folded(columns, _CHECK_SEED)

    def equal(self, left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Bools:
        """Return whether the keys are equal by value, row by row; a null equals nothing."""
        same = np.ones(len(left[0]), np.bool_)
        for type_, a, b in zip(self.types, left, right, strict=True):
            if _of_bytes(type_):
                same &= np.asarray(pc.equal(_cast(a, type_), _cast(b, type_)).fill_null(False))
            else:
                same &= _words(a, type_, 0) == _words(b, type_, 0)
            for column in (a, b):
                if column.null_count:
                    same &= np.asarray(column.is_valid())
        return same

    def _folded(self, columns: Sequence[pa.Array], seed: int) -> Int64s:
        out = np.full(len(columns[0]), seed, np.int64)
        for type_, column in zip(self.types, columns, strict=True):
            hashing.fold_words(_words(column, type_, seed), out)
        return out


@dataclass(frozen=True)
class Keys:
    """Some keys; `checks` is None where equal hashes are equal keys.

    `values` are their columns, where they are asked for and hashes do not tell.
    """

    hashes: Int64s
    checks: Int64s | None = None
    values: tuple[pa.Array, ...] | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def words(self) -> tuple[Int64s, Int64s]:
        """Both hashes; of exact keys the same twice."""
        return self.hashes, self.hashes if self.checks is None else self.checks

    def pick(self, chosen: Bools) -> Keys:
        """Return some of them."""
        checks = None if self.checks is None else self.checks[chosen]
        values = None if self.values is None else tuple(v.filter(pa.array(chosen)) for v in self.values)
        return Keys(self.hashes[chosen], checks, values)

    def first_ones(self) -> Bools:
        """Return which of them did not come before among them."""
        out = np.empty(len(self), np.bool_)
        bits = max(6, (2 * len(self)).bit_length())
        closing.first_ones(*self.words, np.full(1 << bits, -1, np.int32), 64 - bits, out)
        return out


def keys_in(format_: KeyFormat, columns: Sequence[pa.Array]) -> Keys:
    """The keys of rows, given their columns."""
    hashes = format_.hashes(columns, len(columns[0]))
    return Keys(hashes, None if format_.exact else format_.checks(columns))


def concat_keys(parts: list[Keys]) -> Keys:
    """Put lists of keys together; there is at least one."""
    if len(parts) == 1:
        return parts[0]
    checks = [k.checks for k in parts if k.checks is not None]
    values = [k.values for k in parts if k.values is not None]
    return Keys(
        np.concatenate([k.hashes for k in parts]),
        np.concatenate(checks) if checks else None,
        tuple(pa.concat_arrays(c) for c in zip(*values, strict=True)) if len(values) == len(parts) else None,
    )


def key_format(places: Sequence[Sequence[tuple[str, pa.DataType]]]) -> KeyFormat:
    """Return the format that key columns share: for each place of the key its columns, by name and type.

    Types that cannot meet raise.
    """
    return KeyFormat(tuple(_common_type(columns) for columns in places))


def content_hashes(batch: pa.RecordBatch) -> Int64s:
    """Hash each row over all columns; equal rows get equal hashes. For few rows: it takes time."""
    out = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        type_ = _common_type([("", column.type)])
        if type_ is None:  # lists, structs, maps
            type_ = pa.large_string()
            column = pa.array([repr(v) for v in column.to_pylist()], type_)
        valid = np.asarray(column.is_valid())
        hashing.fold_words(np.where(valid, _words(column, type_, 0), 0), out)
        hashing.fold_words(valid.astype(np.int64), out)
    return out


def valid_keys(columns: Sequence[pa.Array]) -> Bools | None:
    """Return which rows have no null in their key, given its columns as they are stored; None if all."""
    valid = [np.asarray(column.is_valid()) for column in columns if column.null_count]
    return np.logical_and.reduce(valid) if valid else None


def check_key_type(stream: Stream, column: str, type_: pa.DataType) -> None:
    """Raise for a type that cannot be a key."""
    if _key_type(type_) is None:
        raise InvalidType(
            f"stream {stream.name!r}: key column {column!r} has type {type_}; a key must be an "
            "integer, float, decimal, boolean, text, binary, date, time or timestamp column"
        )


def _common_type(columns: Sequence[tuple[str, pa.DataType]]) -> pa.DataType | None:
    """Return the type that key columns are cast to; short unsigned integers fit into both wide types."""
    types = {_key_type(type_) for _, type_ in columns}
    if types in ({_SMALL}, {_SMALL, pa.int64()}):
        return pa.int64()
    if types == {_SMALL, pa.uint64()}:
        return pa.uint64()
    if len(types) == 1:
        return types.pop()
    described = ", ".join(f"{name} is {type_}" for name, type_ in columns)
    raise InvalidType(f"key types must match (integer widths may differ): {described}; cast one")


_SMALL = pa.uint32()
_WIDEST = (
    (pa.types.is_signed_integer, pa.int64()),
    (pa.types.is_uint64, pa.uint64()),
    (pa.types.is_unsigned_integer, _SMALL),
    (pa.types.is_string, pa.large_string()),
    (pa.types.is_binary, pa.large_binary()),
)


def _key_type(type_: pa.DataType) -> pa.DataType | None:
    """Return the widest type of those that can meet this one; None if it cannot be a key."""
    t, type_ = pa.types, storable_type(type_)
    for belongs, widest in _WIDEST:
        if belongs(type_):
            return widest
    number = t.is_boolean(type_) or t.is_floating(type_) or (t.is_temporal(type_) and type_.bit_width <= 64)
    return type_ if number or _of_bytes(type_) else None


def _of_bytes(type_: pa.DataType) -> bool:
    """Return whether keys of a type in its widest form are byte strings."""
    t = pa.types
    fixed = t.is_fixed_size_binary(type_) or t.is_decimal(type_)
    return bool(fixed or t.is_large_string(type_) or t.is_large_binary(type_))


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Decode a column and cast it to the type of a key format: comparable whatever its encoding was."""
    return to_storable(column).cast(type_)


def _words(column: pa.Array, type_: pa.DataType, seed: int) -> Int64s:
    """Return the column as 64-bit words, equal for equal values."""
    column = _cast(column, type_)
    if pa.types.is_floating(type_):
        numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0  # turns -0.0 into 0.0
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.int64)
    if pa.types.is_boolean(type_):
        column = column.cast(pa.int64())
    elif not _of_bytes(type_) and type_.bit_width == 32:
        column = column.view(pa.int32()).cast(pa.int64())
    start, stop = column.offset, column.offset + len(column)
    _, words, *texts = column.buffers()
    if not _of_bytes(type_):
        return np.frombuffer(words or bytes(8 * stop), np.int64)[start:stop]
    if texts:
        places, data = np.frombuffer(words, np.int64)[start : stop + 1], texts[0]
    else:
        places, data = np.arange(start, stop + 1) * (type_.bit_width // 8), words
    raw = np.frombuffer(data if data is not None and data.size else bytes(1), np.uint8)
    return np.asarray(hashing.hash_bytes(places, raw, seed))
