"""When rows leave a count window, against the definition: at the time of the n-th newer row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from braided.engine.kernels import counting, index
from tests.seeds import seeds

SHIFT = 62


def leaves(times: list[int], keys: list[int], size: int, *, per_key: bool) -> list[int]:
    """By the definition, for each row: when as many newer rows have come as the window holds."""
    wanted = []
    for t, k in zip(times, keys, strict=True):
        newer = sorted(
            u for u, other in zip(times, keys, strict=True) if u > t and (not per_key or other == k)
        )
        wanted.append(newer[size - 1] if len(newer) >= size else counting.NEVER)
    return wanted


def entries(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    """Times that never fall, keys, and where calls begin and end: rows of one time come in one go."""
    times, keys = np.sort(rng.integers(0, 25, 60)), rng.integers(0, 4, 60)
    cuts = [0, *(i for i in range(1, 60) if times[i] != times[i - 1] and rng.random() < 0.4), 60]
    return times, keys, list(itertools.pairwise(cuts))


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("per_key", [False, True])
def test_oracle_windows_of_a_stream_or_key(per_key: bool, size: int, seed: int) -> None:
    times, keys, calls = entries(np.random.default_rng(seed))
    base = 10
    hashes, checks = keys % 2, keys  # two keys share a hash: the second hash tells them apart
    link, head = np.full(60, -1, np.int32), np.full(4, -1, np.int32)
    ranks = np.zeros((60, counting.RANK_COLUMNS), np.int64)
    left = np.zeros(60, np.int64)
    arrays = hashes, checks, times, link, ranks, left
    for start, stop in calls:
        index.insert(hashes, link, head, SHIFT, base, base + start, base + stop)
        counting.count_rows(*arrays, base, base, base + start, base + stop, size, per_key)
        wanted = leaves(times[:stop].tolist(), keys[:stop].tolist(), size, per_key=per_key)
        assert left[:stop].tolist() == wanted


def test_a_row_is_inside_until_the_time_it_leaves() -> None:
    left = np.array([5, counting.NEVER, 7])
    keep = np.ones(4, np.bool_)
    counting.inside_window(np.array([10, 10, 11, 12]), np.array([4, 5, 99, 7]), left, 10, keep)
    assert keep.tolist() == [True, False, True, False]
