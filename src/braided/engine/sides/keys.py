"""Key columns of any type, as 64-bit hashes; and the check that equal hashes are equal keys.

A single key column of at most 64 bits (integers, floats, dates, ...) hashes without collisions, so
equal hashes are equal keys. All other keys are compared by value once a combination is found: a
collision never becomes a result. Floats follow Spark: NaN equals NaN, 0.0 equals -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    """How the key columns of all streams of a query are read: one kind per column."""

    kinds: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether equal hashes mean equal keys; without a key all rows are equal."""
        return not self.kinds or (len(self.kinds) == 1 and not _of_bytes(self.kinds[0]))

    def hashes(self, columns: Sequence[pa.Array], rows: int) -> Int64s:
        """One hash per row; null keys get one too, to be left out by the caller."""
        if not self.kinds:
            return np.zeros(rows, np.int64)
        if self.exact:
            hashes: Int64s = hashing.hash_words(_words(columns[0], self.kinds[0], 0))
            return hashes
        return self._folded(columns, 0) & _COLLISION_MASK

    @property
    def ordered(self) -> bool:
        """Whether keys are numbers or times, so that one is below another."""
        return self.exact and bool(self.kinds)

    def ranks(self, hashes: Int64s) -> Int64s:
        """Whole numbers in the order of the keys that have these hashes; of ordered keys only."""
        return self._turned(hashing.unhash_words(hashes))

    def hashes_of_ranks(self, ranks: Int64s) -> Int64s:
        """What `ranks` undoes."""
        hashes: Int64s = hashing.hash_words(self._turned(ranks))
        return hashes

    def largest(self, hashes: Int64s) -> int:
        """The hash of the largest key among those that have these hashes; of ordered keys only."""
        return int(hashes[np.argmax(self.ranks(hashes))])

    def _turned(self, words: Int64s) -> Int64s:
        """From words to ranks, and back."""
        kind = self.kinds[0]
        if kind == "unsigned":
            return words ^ np.int64(-1 << 63)
        if kind in _FLOATS:  # negative ones fall as their bits rise
            return np.where(words < 0, words ^ np.int64((1 << 63) - 1), words)
        return words

    def values(self, hashes: Int64s) -> pa.Array:
        """The keys that have these hashes; of ordered keys only."""
        words, kind = hashing.unhash_words(hashes), self.kinds[0]
        if kind in ("signed", "small unsigned"):
            return pa.array(words)
        if kind == "unsigned":
            return pa.array(words.view(np.uint64))
        if kind == "bool":
            return pa.array(words.astype(np.bool_))
        if kind in _FLOATS:
            return pa.array(words.view(np.float64))
        type_ = _temporal(kind)
        return pa.array(words.astype(np.int32) if type_.bit_width == 32 else words).view(type_)

    def comparable(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Key columns in types that those of all streams share."""
        return [_shared(column, kind) for column, kind in zip(columns, self.kinds, strict=True)]

    def checks(self, columns: Sequence[pa.Array]) -> Int64s:
        """A second, independent hash, for counting by key (128 bits in all)."""
        return self._folded(columns, _CHECK_SEED)

    def equal(self, left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Bools:
        """Whether the keys are equal by value, row by row."""
        same = np.ones(len(left[0]), np.bool_)
        for kind, a, b in zip(self.kinds, left, right, strict=True):
            if _of_bytes(kind):
                equal = pc.equal(_plain(a), _plain(b))
                same &= np.asarray(equal.fill_null(False).to_numpy(zero_copy_only=False))
            else:
                same &= _words(a, kind, 0) == _words(b, kind, 0)
        return same

    def _folded(self, columns: Sequence[pa.Array], seed: int) -> Int64s:
        out = np.full(len(columns[0]), seed, np.int64)
        for kind, column in zip(self.kinds, columns, strict=True):
            hashing.fold_words(_words(column, kind, seed), out)
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
        """Some of them."""
        checks = None if self.checks is None else self.checks[chosen]
        if self.values is None:
            return Keys(self.hashes[chosen], checks)
        return Keys(self.hashes[chosen], checks, tuple(v.filter(pa.array(chosen)) for v in self.values))

    def first_ones(self) -> Bools:
        """Which of them did not come before among them."""
        out = np.empty(len(self), np.bool_)
        bits = max(6, (2 * len(self)).bit_length())
        closing.first_ones(*self.words, np.full(1 << bits, -1, np.int32), 64 - bits, out)
        return out


def concat_keys(parts: list[Keys]) -> Keys:
    """All keys of some lists; at least one."""
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
    """The format that key columns share: for each place of the key the columns there, by name and type.

    Types that cannot meet raise.
    """
    return KeyFormat(tuple(_common_kind(columns) for columns in places))


def content_hashes(batch: pa.RecordBatch) -> Int64s:
    """One hash per row over all columns; equal rows get equal hashes. For few rows: it takes time."""
    out = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        kind = _kind(column.type)
        if kind is None:  # lists, structs, maps
            column, kind = pa.array([repr(v) for v in column.to_pylist()], pa.large_string()), "text"
        valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
        hashing.fold_words(np.where(valid, _words(column, kind, 0), 0), out)
        hashing.fold_words(valid.astype(np.int64), out)
    return out


def valid_keys(columns: Sequence[pa.Array]) -> Bools | None:
    """Which rows have no null in their key, given its columns as they are stored; None if all."""
    valid: Bools | None = None
    for column in columns:
        if column.null_count:
            here = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
            valid = here if valid is None else valid & here
    return valid


def check_key_type(stream: Stream, column: str, type_: pa.DataType) -> None:
    """Raise for a type that cannot be a key."""
    if _kind(type_) is None:
        raise InvalidType(
            f"stream {stream.name!r}: key column {column!r} has type {type_}; a key must be an "
            "integer, float, decimal, boolean, text, binary, date, time or timestamp column"
        )


def _common_kind(columns: Sequence[tuple[str, pa.DataType]]) -> str:
    kinds = [_kind(t) for _, t in columns]
    unique = set(kinds)
    if len(unique) == 1:
        return str(kinds[0])
    if unique == {"signed", "small unsigned"}:
        return "signed"
    if unique == {"unsigned", "small unsigned"}:
        return "unsigned"
    described = ", ".join(f"{name} is {type_}" for name, type_ in columns)
    raise InvalidType(f"key types must match (integer widths may differ): {described}; cast one")


_FIXED = "fixed bytes"
_FLOATS = ("halffloat", "float", "double")


def _of_bytes(kind: str) -> bool:
    return kind in ("text", "binary") or kind.startswith(_FIXED)


_KINDS = (
    (pa.types.is_signed_integer, "signed"),
    (pa.types.is_uint64, "unsigned"),
    (pa.types.is_unsigned_integer, "small unsigned"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
)


def _kind(type_: pa.DataType) -> str | None:
    t, type_ = pa.types, storable_type(type_)
    for belongs, kind in _KINDS:
        if belongs(type_):
            return kind
    if t.is_fixed_size_binary(type_) or t.is_decimal(type_):
        return f"{_FIXED} {type_}"
    if t.is_boolean(type_) or t.is_floating(type_) or (t.is_temporal(type_) and type_.bit_width <= 64):
        return str(type_)
    return None


def _shared(column: pa.Array, kind: str) -> pa.Array:
    column = _plain(column)
    if kind in ("signed", "small unsigned"):
        return column.cast(pa.int64())
    return column.cast(pa.uint64()) if kind == "unsigned" else column


def _temporal(kind: str) -> pa.DataType:
    """The type that `str` made this of."""
    name, _, zone = kind.removesuffix("]").partition(", tz=")
    type_ = pa.type_for_alias(f"{name}]")
    return pa.timestamp(type_.unit, zone) if zone else type_


def _plain(column: pa.Array) -> pa.Array:
    """Text and binary in their large form, decoded: comparable whatever the encoding was."""
    column = to_storable(column)
    if pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary(column.type) else column


def _words(column: pa.Array, kind: str, seed: int) -> Int64s:
    """The column as 64-bit words, equal for equal values."""
    column = _plain(column)
    if kind in ("text", "binary"):
        _, offsets, data = column.buffers()
        where = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        return _hashed(where, data, seed)
    type_ = column.type
    if kind.startswith(_FIXED):
        width = type_.bit_width // 8
        where = (np.arange(len(column) + 1, dtype=np.int64) + column.offset) * width
        return _hashed(where, column.buffers()[1], seed)
    if pa.types.is_floating(type_):
        return _float_words(column)
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        column = column.cast(pa.uint64() if kind == "unsigned" else pa.int64())
    elif type_.bit_width == 32:
        column = column.view(pa.int32()).cast(pa.int64())
    _, data = column.buffers()
    start = column.offset
    return np.frombuffer(data or bytes(8 * (start + len(column))), np.int64)[start : start + len(column)]


def _hashed(where: Int64s, data: pa.Buffer | None, seed: int) -> Int64s:
    raw = np.frombuffer(data if data is not None and data.size else bytes(1), np.uint8)
    hashes: Int64s = hashing.hash_bytes(where, raw, seed)
    return hashes


def _float_words(column: pa.Array) -> Int64s:
    numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
    plain = numbers + 0.0  # turns -0.0 into 0.0
    plain[np.isnan(plain)] = np.nan
    return plain.view(np.int64)
