"""The stored rows of a side that some keys meet inside time bounds: what a combination is settled by."""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.argument_types import FLAGS, INTS, LONG, LONGS
from braided.engine.kernels.index import UNLINKED, slot_of
from braided.engine.kernels.pointers import kernel


@kernel(
    (LONGS, LONGS, INTS, INTS, LONG, LONG, LONG, LONG, LONG, LONGS, FLAGS, LONGS, LONGS, LONGS, LONGS),
)
def partners_of(
    hashes, times, link, head, shift, base, first, visible, most, keys, keyed, low, high, which, positions
):
    """Find the rows before `visible` that have a key and a time in its range, `most` of a key; how many.

    `which` gets the number of the key, `positions` the row, as far as there is room for them. Keys that are
    not `keyed` meet nothing.
    """
    found = np.int64(0)
    for i in range(keys.shape[0]):
        if not keyed[i] or low[i] > high[i]:
            continue
        p, left = np.int64(head[slot_of(keys[i], shift)]), most
        while p >= first and left > 0:
            q = p - base
            if (p < visible) & (hashes[q] == keys[i]) & (low[i] <= times[q]) & (times[q] <= high[i]):
                if found < which.shape[0]:
                    which[found], positions[found] = i, p
                found += 1
                left -= 1
            p = np.int64(link[q])
    return found


@kernel((LONGS, LONGS, INTS, INTS, LONG, LONG, LONG, LONG, LONGS, FLAGS, LONGS, LONGS, LONGS, LONGS))
def newest_of(
    hashes, times, link, head, shift, base, first, visible, keys, keyed, low, high, which, positions
):
    """Find the same, of each key only the rows with the newest time in its range."""
    found = np.int64(0)
    for i in range(keys.shape[0]):
        newest, begin = low[i], found
        p = np.int64(head[slot_of(keys[i], shift)]) if keyed[i] else np.int64(first - 1)
        while p >= first:
            q = p - base
            if (p < visible) & (hashes[q] == keys[i]) & (newest <= times[q]) & (times[q] <= high[i]):
                if times[q] > newest:
                    newest, found = times[q], begin
                if found < which.shape[0]:
                    which[found], positions[found] = i, p
                found += 1
            p = np.int64(link[q])
    return found


@kernel((LONGS, LONGS, LONGS, FLAGS, LONGS, LONGS, LONGS, LONGS))
def newest_in_order(hashes, times, keys, keyed, low, high, which, places):
    """Find the same among rows in order of keys and times: their places in that order."""
    found = np.int64(0)
    for i in range(keys.shape[0]):
        begin, end = np.int64(0), np.int64(hashes.shape[0] if keyed[i] else 0)
        while begin < end:  # up to the first row that is behind
            middle = (begin + end) // 2
            if hashes[middle] < keys[i] or (hashes[middle] == keys[i] and times[middle] <= high[i]):
                begin = middle + 1
            else:
                end = middle
        at = begin - 1
        while at >= 0 and hashes[at] == keys[i] and times[at] == times[begin - 1] and times[at] >= low[i]:
            if found < which.shape[0]:
                which[found], places[found] = i, at
            found += 1
            at -= 1
    return found


@kernel((LONGS, LONGS, INTS, LONG, LONG, LONG, LONG, LONGS, FLAGS, LONGS, LONGS, LONGS, LONGS))
def partners_among_all(
    hashes, times, link, base, first, visible, most, keys, keyed, low, high, which, positions
):
    """Find the same in a side without an index: compare with every row that is stored."""
    found = np.int64(0)
    for i in range(keys.shape[0]):
        left = most
        for p in range(first, visible if keyed[i] and low[i] <= high[i] else first):
            if left <= 0:
                break
            q = p - base
            met = (link[q] != UNLINKED) & (hashes[q] == keys[i])
            if met & (low[i] <= times[q]) & (times[q] <= high[i]):
                if found < which.shape[0]:
                    which[found], positions[found] = i, p
                found += 1
                left -= 1
    return found
