"""A chained hash index over flat arrays: insert, undo, unlink, expire.

Rows of one side lie at positions `first <= p < count`, in order of arrival; position p is stored
at `p - base` of each array. `head[slot]` is the newest row of a slot, `link` of a row the next
older one. Positions only fall along a chain.

    insert k1 at 0, k2 at 1, k1 at 2      head: slot(k1) -> 2, slot(k2) -> 1
                                          link: 2 -> 0, 1 -> none, 0 -> none
    expire position 0 (first = 1)         the chain 2 -> 0 ends at 2, because 0 < first

So expiring in order of arrival costs nothing per chain: raise `first`. A chain is left at the first
position below it. Moving the arrays' contents to the front raises `base` and changes no link.
Inserting the rows of a failed batch is undone by unlinking them backwards.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.argument_types import FLAGS, INTS, LONG, LONGS, READ_LONGS
from braided.engine.kernels.pointers import inlined, kernel

UNLINKED = -2  # the link of a row that is stored but never found (its key is null, or it was flushed)


@inlined
def slot_of(key_hash, shift):
    """Return the slot of a hash: its highest bits."""
    return np.int64(np.uint64(key_hash) >> np.uint64(shift))


@kernel((LONGS, INTS, INTS, LONG, LONG, LONG, LONG))
def insert(hashes, link, head, shift, base, start, stop):
    """Link rows start..stop, except those marked `UNLINKED`."""
    for p in range(start, stop):
        if link[p - base] != UNLINKED:
            slot = slot_of(hashes[p - base], shift)
            link[p - base] = head[slot]
            head[slot] = p


@kernel((LONGS, INTS, INTS, LONG, LONG, LONG, LONG))
def undo(hashes, link, head, shift, base, start, stop):
    """Unlink rows start..stop, the newest of all, newest first."""
    for p in range(stop - 1, start - 1, -1):
        slot = slot_of(hashes[p - base], shift)
        if head[slot] == p:
            head[slot] = link[p - base]


@kernel((LONGS, INTS, INTS, LONG, LONG, LONG, FLAGS, LONGS))
def unlink(hashes, link, head, shift, base, first, gone, positions):
    """Take rows that have gone out of their chains.

    The first of a slot takes all others there that have gone along: each chain is walked once.
    """
    for i in range(positions.shape[0]):
        if link[positions[i] - base] == UNLINKED:
            continue
        slot = slot_of(hashes[positions[i] - base], shift)
        older, newer = np.int64(head[slot]), np.int64(-1)
        head[slot] = -1
        while older >= first:
            p, older = older, np.int64(link[older - base])
            link[p - base] = UNLINKED if gone[p - base] else -1
            if not gone[p - base] and newer < 0:
                head[slot] = newer = p
            elif not gone[p - base]:
                link[newer - base] = newer = p


@inlined
def at_most(values, limit):
    """Return how many of some sorted values are at most the limit; no branch depends on them."""
    low, rows = 0, values.shape[0]
    while rows > 0:
        half = (rows + 1) >> 1
        low += half * (values[low + half - 1] <= limit)
        rows -= half
    return low


@kernel((LONGS, LONG))
def expired_prefix(times, oldest):
    """Return how many times at the front are before `oldest`."""
    n = 0
    while n < times.shape[0] and times[n] < oldest:
        n += 1
    return n


@kernel((LONGS, LONG), (READ_LONGS, LONG))
def last_fall(times, newest):
    """Return where a time was last below an earlier one, beginning with `newest`; -1 if nowhere."""
    falls = 0  # most batches are in order, which takes a few vector instructions to see
    for i in range(1, times.shape[0]):
        falls += times[i] < times[i - 1]
    if falls == 0 and (times.shape[0] == 0 or times[0] >= newest):
        return -1
    last = -1
    for i in range(times.shape[0]):
        if times[i] < newest:
            last = i
        newest = max(newest, times[i])
    return last
