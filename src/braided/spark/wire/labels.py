"""Bucket labels that Spark spreads evenly over its tasks.

Spark places a group by murmur3(label) mod partitions, under which small integers collide: 0 and 1 go
to the same of two tasks. The label of bucket i is the smallest integer whose murmur3 is i mod 1024, so
with buckets and partitions both powers of two every task gets equally many buckets.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

MAX_BUCKETS = 1024
_TRIED = 1 << 14  # integers, among which there is a label for each of the buckets


@functools.cache
def labels(buckets: int) -> tuple[int, ...]:
    """The labels of buckets 0, 1, ..."""
    _, smallest = np.unique(murmur3(np.arange(_TRIED)) % MAX_BUCKETS, return_index=True)
    return tuple(smallest[:buckets].tolist())


def murmur3(numbers: npt.NDArray[np.int64], seed: int = 42) -> npt.NDArray[np.int32]:
    """Spark's hash of an int column."""
    k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
    h = (k << 15 | k >> 17) * np.uint32(0x1B873593) ^ np.uint32(seed)
    h = (h << 13 | h >> 19) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * np.uint32(factor)
    return (h ^ h >> 16).view(np.int32)
