"""Keys of any type: equal hashes for equal keys, ranks in the order of keys, nulls and collisions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from braided.engine.sides.keys import KeyFormat, content_hashes, key_format, valid_keys
from braided.query.errors import InvalidType
from tests.workloads import KEY_TYPES

ORDERED = ("int64", "int8", "uint32", "uint64", "float64", "float32", "date32", "timestamp", "duration")


def keys(key_type: str, seed: int = 1, rows: int = 60) -> pa.Array:
    return KEY_TYPES[key_type](np.random.default_rng(seed).integers(0, 12, rows))


def format_of(*types: pa.DataType) -> KeyFormat:
    return key_format([[("a.k", t)] for t in types])


def comparable(value: Any) -> Any:
    """Floats as Spark compares them: NaN equals itself, and the zeros each other."""
    return ("nan" if math.isnan(value) else value + 0.0) if isinstance(value, float) else value


@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_oracle_hashes_and_values_agree(key_type: str) -> None:
    one, other = keys(key_type, 1), keys(key_type, 2)
    format_ = format_of(one.type)
    equal = format_.equal([one], [other])
    hashes = [format_.hashes([column], len(column)) for column in (one, other)]
    checks = [format_.checks([column]) for column in (one, other)]
    both = [map(comparable, column.to_pylist()) for column in (one, other)]
    wanted = [a == b for a, b in zip(*both, strict=True)]
    assert equal.tolist() == wanted
    assert (hashes[0] == hashes[1]).tolist() == wanted  # so few keys do not collide
    assert (checks[0] == checks[1]).tolist() == wanted
    part = one.slice(7, 20)
    assert (format_.hashes([part], 20) == hashes[0][7:27]).all()


@pytest.mark.parametrize("key_type", ORDERED)
def test_oracle_ranks_are_in_the_order_of_the_keys(key_type: str) -> None:
    column = keys(key_type)
    format_ = format_of(column.type)
    assert format_.ordered
    hashes = format_.hashes([column], len(column))
    ranks = format_.ranks(hashes)
    assert (format_.hashes_of_ranks(ranks) == hashes).all()
    values = [comparable(v) for v in column.to_pylist()]
    for (a, one), (b, other) in itertools.combinations(zip(values, ranks.tolist(), strict=True), 2):
        if "nan" not in (a, b):
            assert (a < b, a == b) == (one < other, one == other)
    back = [comparable(v) for v in format_.values(hashes).to_pylist()]
    assert back == values
    assert format_.ranks(np.array([format_.largest(hashes)])) == ranks.max()


def test_several_columns_are_one_key() -> None:
    left = [pa.array([1, 1, 2, 2]), pa.array(["x", "y", "x", "y"])]
    right = [pa.array([1, 2, 2, 1]), pa.array(["x", "x", "x", "y"])]
    format_ = format_of(pa.int64(), pa.string())
    assert not format_.exact
    assert format_.equal(left, right).tolist() == [True, False, True, False]
    assert (format_.hashes(left, 4) == format_.hashes(right, 4)).tolist() == [True, False, True, False]


def test_widths_and_encodings_of_one_kind_meet_and_others_do_not() -> None:
    format_ = key_format([[("a.k", pa.int8()), ("b.k", pa.uint16())]])
    small, wide = pa.array([3, 7], pa.int8()), pa.array([3, 8], pa.uint16())
    assert (format_.hashes([small], 2) == format_.hashes([wide], 2)).tolist() == [True, False]
    for one, other in ((pa.int64(), pa.string()), (pa.int64(), pa.uint64()), (pa.float64(), pa.int64())):
        with pytest.raises(InvalidType, match="key types must match"):
            key_format([[("a.k", one), ("b.k", other)]])


def test_a_key_with_any_null_is_none() -> None:
    columns = [pa.array([1, None, 3, 4]), pa.array(["a", "b", None, "d"])]
    assert valid_keys([pa.array([1, 2])]) is None
    valid = valid_keys(columns)
    assert valid is not None
    assert valid.tolist() == [True, False, False, True]


def test_content_is_hashed_over_all_columns() -> None:
    rows = [(1, "a", [1]), (1, "a", [1]), (1, "a", [2]), (1, None, [1]), (None, "a", [1]), (2, "a", None)]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    hashes = content_hashes(pa.RecordBatch.from_arrays(columns, names=["n", "s", "l"])).tolist()
    for (a, one), (b, other) in itertools.combinations(zip(map(str, rows), hashes, strict=True), 2):
        assert (a == b) == (one == other)
