"""Values collected from several chunks, against lists, for every width."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from braided.engine.kernels import gather

SIZES = (3, 1, 20, 9)
STARTS = np.cumsum([0, *SIZES])


def located(rng: np.random.Generator, rows: int = 50) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    positions = rng.integers(0, STARTS[-1], rows).astype(np.int32)
    return positions, *gather.locate(STARTS, positions)


def test_every_position_is_in_its_chunk() -> None:
    positions, chunk, offset = located(np.random.default_rng(1))
    assert (STARTS[chunk] + offset == positions).all()
    assert ((offset >= 0) & (offset < np.array(SIZES)[chunk])).all()


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("type_", [np.int64, np.int32, np.int16, np.int8])
def test_oracle_values_of_a_width(type_: Any, words: int) -> None:
    rng = np.random.default_rng(2)
    limits = np.iinfo(type_)
    chunks = [rng.integers(limits.min, limits.max, (n, words)).astype(type_) for n in SIZES]
    positions, chunk, offset = located(rng)
    out = np.empty(len(positions) * words, type_)
    gather.gather_values(np.array([c.ctypes.data for c in chunks]), chunk, offset, words, out)
    assert (out.reshape(-1, words) == np.concatenate(chunks)[positions]).all()


def test_oracle_bits_and_chunks_without() -> None:
    rng = np.random.default_rng(3)
    arrays = [pa.array(rng.random(n + 5) < 0.5) for n in SIZES]
    slices = [a.slice(i, n) for i, (a, n) in enumerate(zip(arrays, SIZES, strict=True))]
    addresses = np.array([s.buffers()[1].address for s in slices])
    addresses[2] = 0
    positions, chunk, offset = located(rng)
    out = np.empty(len(positions), np.int8)
    gather.gather_bits(addresses, np.array([s.offset for s in slices]), chunk, offset, out)
    values = [[True] * n if i == 2 else slices[i].to_pylist() for i, n in enumerate(SIZES)]
    assert out.astype(np.bool_).tolist() == [list(itertools.chain(*values))[p] for p in positions]


@pytest.mark.parametrize("wide", [False, True])
def test_oracle_texts(wide: bool) -> None:
    rng = np.random.default_rng(4)
    words = [["ü" * int(rng.integers(0, 9)) for _ in range(n)] for n in SIZES]
    type_ = pa.large_string() if wide else pa.string()
    buffers = [pa.array(w, type_).buffers() for w in words]
    addresses, texts = (np.array([b[i].address for b in buffers]) for i in (1, 2))
    positions, chunk, offset = located(rng)
    ends = np.empty(len(positions) + 1, np.int64 if wide else np.int32)
    size = gather.text_offsets(addresses, chunk, offset, ends)
    out = np.empty(max(size, 1), np.uint8)
    gather.gather_texts(addresses, texts, chunk, offset, ends, out.ctypes.data)
    raw = out.tobytes()
    wanted = [list(itertools.chain(*words))[p] for p in positions]
    assert [raw[a:b].decode() for a, b in itertools.pairwise(ends.tolist())] == wanted
