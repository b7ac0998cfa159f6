"""Bucket labels that Spark spreads evenly over its tasks.

Spark places a group by murmur3(label) mod partitions, under which small integers collide: 0 and 1 go
to the same of two tasks. The label of bucket i is the smallest integer whose murmur3 is i mod 1024, so
with buckets and partitions both powers of two every task gets equally many buckets.
"""

from __future__ import annotations

import functools

MAX_BUCKETS = 1024
_MASK = 0xFFFFFFFF


@functools.cache
def labels(buckets: int) -> tuple[int, ...]:
    """The labels of buckets 0, 1, ..."""
    by_bucket: dict[int, int] = {}
    label = 0
    while len(by_bucket) < MAX_BUCKETS:
        by_bucket.setdefault(murmur3(label) % MAX_BUCKETS, label)
        label += 1
    return tuple(by_bucket[i] for i in range(buckets))


def murmur3(number: int, seed: int = 42) -> int:
    """Spark's hash of an int column, as a signed 32-bit number."""
    k = number * 0xCC9E2D51 & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    h = seed ^ (k * 0x1B873593 & _MASK)
    h = ((h << 13) | (h >> 19)) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> shift)) * factor & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
