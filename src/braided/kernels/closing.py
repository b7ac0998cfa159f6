"""Which keys are closed, and which stored rows have a key: what purging asks, key by key.

A key is its hash and a second hash (`checks`); keys that hash without collisions have none, and their hashes
are handed in twice.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.index import slot_of
from braided.kernels.memory import inlined, kernel


@inlined
def _after(values, limit):
    """How many of some sorted values are at most the limit; no branch depends on them."""
    low, rows = 0, values.shape[0]
    while rows > 0:
        half = (rows + 1) >> 1
        low += half * (values[low + half - 1] <= limit)
        rows -= half
    return low


@kernel
def in_intervals(lows, highs, values, out):
    """Which values lie in one of some intervals that are sorted and apart."""
    for i in range(values.shape[0]):
        at = _after(lows, values[i])
        out[i] |= at > 0 and values[i] <= highs[at - 1]


@kernel
def in_pairs(hashes, checks, some_hashes, some_checks, out):
    """Which pairs are among some sorted ones."""
    for i in range(some_hashes.shape[0]):
        at = _after(hashes, some_hashes[i]) - 1
        while at >= 0 and hashes[at] == some_hashes[i]:
            out[i] |= checks[at] == some_checks[i]
            at -= 1


@kernel
def first_ones(hashes, checks, table, shift, out):
    """Which keys come for the first time; `table` has more slots than there are keys, all -1."""
    slots = table.shape[0]
    for i in range(hashes.shape[0]):
        slot = slot_of(hashes[i], shift)
        while table[slot] >= 0 and not (
            hashes[table[slot]] == hashes[i] and checks[table[slot]] == checks[i]
        ):
            slot = (slot + 1) & (slots - 1)
        out[i] = table[slot] < 0
        if out[i]:
            table[slot] = i


@kernel
def held(hashes, checks, gone, link, head, shift, base, first, some_hashes, some_checks, out):
    """Whether any row of some keys is stored and not gone."""
    for i in range(some_hashes.shape[0]):
        p = np.int64(head[slot_of(some_hashes[i], shift)])
        found = False
        while p >= first and not found:
            q = p - base
            found = hashes[q] == some_hashes[i] and checks[q] == some_checks[i] and not gone[q]
            p = np.int64(link[q])
        out[i] = found


@kernel
def mark_gone(hashes, checks, gone, link, head, shift, base, first, some_hashes, some_checks):
    """Mark all stored rows of some keys as gone; how many were not."""
    marked = 0
    for i in range(some_hashes.shape[0]):
        p = np.int64(head[slot_of(some_hashes[i], shift)])
        while p >= first:
            q = p - base
            if hashes[q] == some_hashes[i] and checks[q] == some_checks[i] and not gone[q]:
                gone[q] = True
                marked += 1
            p = np.int64(link[q])
    return marked
