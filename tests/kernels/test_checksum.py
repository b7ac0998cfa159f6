"""Checksums: any damage changes them, wherever it is."""

from __future__ import annotations

import numpy as np
import pytest

from braided.engine.kernels.checksum import checksum
from tests.seeds import seeds


def total(data: np.ndarray) -> int:
    return int(checksum(data.ctypes.data, data.nbytes))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 31, 32, 33, 64, 200])
def test_every_flipped_bit_is_seen(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    sums = {total(data)}
    for bit in range(8 * size):
        data[bit // 8] ^= 1 << bit % 8
        sums.add(total(data))
        data[bit // 8] ^= 1 << bit % 8
    assert len(sums) == 8 * size + 1


def test_sizes_swapped_words_and_two_highest_bits_are_seen() -> None:
    assert len({total(np.zeros(size, np.uint8)) for size in range(100)}) == 100
    words = np.arange(64, dtype=np.uint64)
    sums = {total(words)}
    for other in range(1, 64):
        swapped, flipped = words.copy(), words.copy()
        swapped[[0, other]] = words[[other, 0]]
        flipped[[0, other]] ^= np.uint64(1 << 63)
        sums |= {total(swapped), total(flipped)}
    assert len(sums) == 1 + 2 * 63


def test_random_damage_is_seen() -> None:
    rng = np.random.default_rng(1)
    data = rng.integers(0, 256, 10_000).astype(np.uint8)
    right = total(data)
    for _ in seeds(500):
        damaged = data.copy()
        start, stop = np.sort(rng.integers(0, len(data) + 1, 2))
        damaged[start:stop] = rng.integers(0, 256, stop - start)
        assert (total(damaged) == right) == np.array_equal(damaged, data)
