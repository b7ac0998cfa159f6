"""Values gathered from several chunks are those that were stored, whatever their type and slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from braided.engine.sides.payload import Chunk, Payload

TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "string": (pa.string(), lambda n: None if n % 5 == 0 else "" if n % 7 == 0 else f"text ü {n}" * (n % 4)),
    "binary": (pa.binary(), lambda n: None if n % 3 == 0 else bytes([n % 256]) * (n % 30)),
    "large_string": (pa.large_string(), lambda n: f"{n}" if n % 2 else None),
    "large_binary": (pa.large_binary(), lambda n: b"x" * (n % 9)),
    "no text": (pa.string(), lambda n: None),
    "empty text": (pa.string(), lambda n: ""),
    "int32": (pa.int32(), lambda n: n if n % 4 else None),
    "list": (pa.list_(pa.int64()), lambda n: None if n % 6 == 0 else [n] * (n % 3)),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("seed", range(3))
def test_oracle_gathered_values(name: str, seed: int) -> None:
    type_, make = TYPES[name]
    rng = np.random.default_rng(seed)
    payload, stored = Payload(pa.schema([("v", type_)])), list[Any]()
    for _ in range(6):
        values = pa.array([make(int(n)) for n in rng.integers(0, 1000, 50)], type_)
        piece = values.slice(int(rng.integers(0, 20)), int(rng.integers(0, 30)))
        payload.chunks += (payload_chunk(len(stored), piece),)  # not merged, so there are several
        stored += piece.to_pylist()
    for rows in (0, 1, 200):
        at = rng.integers(0, len(stored), rows).astype(np.int32)
        (found,) = payload.gather(at, [0])
        found.validate(full=True)
        assert found.type == type_
        assert found.to_pylist() == [stored[i] for i in at]


def payload_chunk(start: int, values: pa.Array) -> Chunk:
    other = Payload(pa.schema([("v", values.type)]))
    other.append(start, pa.RecordBatch.from_arrays([values], names=["v"]))
    return other.chunks[0]
