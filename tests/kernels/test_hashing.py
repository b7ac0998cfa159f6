"""Hashes against the same arithmetic in Python's own integers, and what is promised of them."""

from __future__ import annotations

import numpy as np

from braided.engine.kernels import hashing

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & WORD
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & WORD
    return x ^ x >> 33


def fold(h: int, word: int) -> int:
    return mix(((h ^ word) * GOLDEN + (h >> 29)) & WORD)


def words(seed: int, rows: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    edges = [0, 1, -1, 2**63 - 1, -(2**63)]
    return np.concatenate([np.array(edges), rng.integers(-(2**63), 2**63 - 1, rows)])


def unsigned(values: np.ndarray) -> list[int]:
    return [int(v) & WORD for v in values]


def test_words_are_hashed_as_defined_and_back() -> None:
    numbers = words(1)
    hashes = hashing.hash_words(numbers)
    assert unsigned(hashes) == [mix(w) for w in unsigned(numbers)]
    assert (hashing.unhash_words(hashes) == numbers).all()
    assert len(set(hashes.tolist())) == len(set(numbers.tolist()))


def test_columns_are_folded_in_order() -> None:
    one, other = words(1), words(2)
    hashes = np.zeros_like(one)
    hashing.fold_words(one, hashes)
    hashing.fold_words(other, hashes)
    both = zip(unsigned(one), unsigned(other), strict=True)
    assert unsigned(hashes) == [fold(fold(0, a), b) for a, b in both]


def test_byte_strings_hash_alike_iff_they_are_equal() -> None:
    texts = [b"", b"\0", b"\0\0", b"a", b"a\0", *(b"x" * n for n in range(1, 25)), b"x" * 8 + b"y", b"a", b""]
    offsets = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts), np.uint8)
    for seed in (0, 77):
        assert len(set(hashing.hash_bytes(offsets, data, seed).tolist())) == len(set(texts))


def test_lots_depend_on_key_time_and_occasion_alone() -> None:
    keys, times = words(1), words(2)
    start = hashing.first_lot(5, 1)
    drawn = hashing.lots(keys, times, start)
    begin = mix((5 * GOLDEN + 1) & WORD)
    both = zip(unsigned(keys), unsigned(times), strict=True)
    assert unsigned(drawn) == [fold(fold(begin, k), t) for k, t in both]
    order = np.random.default_rng(1).permutation(len(keys))
    assert (hashing.lots(keys[order], times[order], start) == drawn[order]).all()
    assert hashing.first_lot(5, 2) != start
