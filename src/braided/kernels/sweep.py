"""Looking a block's members up in a side without an index: nested loops over its rows, 64 at a time.

A *glance* compares a member's key with the hashes of 64 stored rows in a few vector instructions. Most find
nothing; where one finds something, the rows that match become bits of a word, and only they are looked
at one by one. If the side is in order of time, a sweep begins and ends where the member's time bounds do. It
is left when enough hits are found, and goes on from there at the next call.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.index import UNLINKED
from braided.kernels.memory import inlined, load_int32, load_int64, lowest_bit
from braided.kernels.tables import AT, FIRST, HASH, HIGH, KEY, LINK, LOW, ORDERED, TIME, UNTIL, VISIBLE

_GLANCE = 64


@inlined
def _before(times, low, high, limit):
    """The first position in low..high whose time is not below the limit; times never fall."""
    while low < high:
        middle = (low + high) >> 1
        if np.int64(load_int64(times, middle)) < limit:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def start_sweeps(sides, stream, block, members):
    """Where each member's sweep begins and ends; how many sweep, and how many rows they look at in all."""
    first, visible, times = sides[stream, FIRST], sides[stream, VISIBLE], sides[stream, TIME]
    if visible <= first:
        return 0, 0
    rows = 0
    narrow = (sides[stream, ORDERED] != 0) & (visible - first > _GLANCE)
    for m in range(members):
        block[AT, m] = first
        block[UNTIL, m] = visible
        if narrow:
            block[AT, m] = _before(times, first, visible, block[LOW, m])
            block[UNTIL, m] = _before(times, block[AT, m], visible, block[HIGH, m] + 1)
        rows += block[UNTIL, m] - block[AT, m]
    return members, rows


@inlined
def sweep(sides, stream, block, sweeping, hits, limit):
    """Members compare themselves with stored rows, last member first, until `limit` hits are found.

    Returns how many rows had the key, how many hit, and how many members still sweep.
    """
    hashes, times, links = sides[stream, HASH], sides[stream, TIME], sides[stream, LINK]
    glance = min(_GLANCE, limit)
    met = 0
    found = 0
    while sweeping > 0:
        m = sweeping - 1
        key, low, high, p, until = block[KEY, m], block[LOW, m], block[HIGH, m], block[AT, m], block[UNTIL, m]
        while p < until:
            stop = min(p + glance, until)
            same = 0
            for q in range(p, stop):
                same += load_int64(hashes, q) == key
            if same > 0:
                if found + same > limit:
                    break
                bits = np.int64(0)
                for i in range(stop - p):
                    bits |= np.int64(load_int64(hashes, p + i) == key) << i
                while bits != 0:
                    q = p + lowest_bit(bits)
                    bits &= bits - 1
                    at = np.int64(load_int64(times, q))
                    hits[0, found], hits[1, found], hits[2, found] = m, q, at
                    keyed = load_int32(links, q) != UNLINKED
                    met += keyed
                    found += keyed & (low <= at) & (at <= high)
            p = stop
        block[AT, m] = p
        if p < until:
            break
        sweeping -= 1
    return met, found, sweeping
