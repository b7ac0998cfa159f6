"""Bucket labels that Spark spreads evenly over its tasks.

Spark places a group by murmur3(label) mod partitions, under which small integers collide: 0 and 1 go
to the same of two tasks. The label of bucket i is the smallest integer whose murmur3 is i mod 1024, so
with buckets and partitions both powers of two every task gets equally many buckets. The next epoch's buckets
take the next integers.

>>> labels(4), labels(4, epoch=1)
((1021, 94, 1007, 991), (2737, 1721, 1257, 1910))
>>> [bucket_of(label) for label in labels(4, epoch=1)]
[0, 1, 2, 3]
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

MAX_BUCKETS = 1024
_BLOCK = 32 * MAX_BUCKETS


@functools.cache
def labels(buckets: int, epoch: int = 0) -> tuple[int, ...]:
    """The labels of an epoch's buckets 0, 1, ..."""
    size = _BLOCK
    while True:
        bucket = murmur3(np.arange(size)) % MAX_BUCKETS
        if np.bincount(bucket, minlength=MAX_BUCKETS)[:buckets].min() > epoch:
            first = np.searchsorted(np.sort(bucket), np.arange(buckets))
            return tuple(np.argsort(bucket, kind="stable")[first + epoch].tolist())
        size *= 2


def bucket_of(label: int) -> int:
    """The number of the bucket that has a label."""
    return int(murmur3(np.array([label]))[0]) % MAX_BUCKETS


def murmur3(numbers: npt.NDArray[np.int64], seed: int = 42) -> npt.NDArray[np.int32]:
    """Spark's hash of an int column."""
    k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
    h = (k << 15 | k >> 17) * np.uint32(0x1B873593) ^ np.uint32(seed)
    h = (h << 13 | h >> 19) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * np.uint32(factor)
    return (h ^ h >> 16).view(np.int32)
