"""Looking a block's members up in a side without an index: nested loops over its rows, 64 at a time.

A *glance* compares a member's key with the hashes of 64 stored rows in a few vector instructions. Most find
nothing; where one finds something, the rows that match become bits of a word, and only they are looked
at one by one. If the side is in order of time, a sweep begins and ends where the member's time bounds do. It
is left when enough hits are found, and goes on from there at the next call.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.index import UNLINKED
from braided.engine.kernels.pointers import inlined, load_int32, load_int64, lowest_bit
from braided.engine.kernels.tables import AT, FIRST, HASH, HIGH, KEY, LINK, LOW, ORDERED, TIME, UNTIL, VISIBLE

_GLANCE = 64


@inlined
def _before(times, low, high, limit):
    """Return the first position in low..high whose time is not below the limit; times never fall.

    No branch depends on the times: a processor guesses such a branch wrong every other time.
    """
    rows = high - low
    while rows > 0:
        half = (rows + 1) >> 1
        below = load_int64(times, low + half - 1) < limit
        low += half * below
        rows -= half
    return low


@inlined
def _near(times, guess, first, visible, limit):
    """Return the same in first..visible, from a guess on: members usually come in order of time."""
    if guess > first and load_int64(times, guess - 1) >= limit:
        return _before(times, first, guess, limit)
    step = 1
    while guess + step <= visible and load_int64(times, guess + step - 1) < limit:
        guess += step
        step += step
    return _before(times, guess, min(guess + step, visible), limit)


@inlined
def start_sweeps(sides, stream, block, members):
    """Find where each member's sweep begins and ends; return how many sweep, and the rows they look at."""
    first, visible, times = sides[stream, FIRST], sides[stream, VISIBLE], sides[stream, TIME]
    if visible <= first:
        return 0, 0
    rows = 0
    narrow = (sides[stream, ORDERED] != 0) & (visible - first > _GLANCE)
    at, until = first, visible if not narrow else first
    for m in range(members):
        if narrow:
            at = _near(times, at, first, visible, block[LOW, m])
            until = max(at, _near(times, until, first, visible, block[HIGH, m] + 1))
        block[AT, m] = at
        block[UNTIL, m] = until
        rows += until - at
    return members, rows


@inlined
def _matches(hashes, p, rows, key):
    """Return which rows from p on have the key, as bits; 0 if none has. `rows` is best a constant."""
    same = 0
    for i in range(rows):
        same += load_int64(hashes, p + i) == key
    bits = np.int64(0)
    if same > 0:
        for i in range(rows):
            bits |= np.int64(load_int64(hashes, p + i) == key) << i
    return same, bits


@inlined
def sweep(sides, stream, block, sweeping, hits, limit):
    """Members compare themselves with stored rows, last member first, until `limit` hits are found.

    Returns how many rows had the key, how many hit, and how many members still sweep.
    """
    hashes, times, links = sides[stream, HASH], sides[stream, TIME], sides[stream, LINK]
    glance = min(_GLANCE, limit)
    full = sides[stream, VISIBLE] - _GLANCE if glance == _GLANCE else -1  # up to here 64 rows are there
    met = 0
    matched = 0
    while sweeping > 0:
        m = sweeping - 1
        key, low, high, p, until = block[KEY, m], block[LOW, m], block[HIGH, m], block[AT, m], block[UNTIL, m]
        while p < until:
            stop = min(p + glance, until)
            if p <= full:
                same, bits = _matches(hashes, p, _GLANCE, key)
                if stop - p < _GLANCE:
                    bits &= (np.int64(1) << (stop - p)) - 1
            else:
                same, bits = _matches(hashes, p, stop - p, key)
            if same > 0:
                if matched + same > limit:
                    break
                while bits != 0:
                    q = p + lowest_bit(bits)
                    bits &= bits - 1
                    at = load_int64(times, q)
                    hits[0, matched], hits[1, matched], hits[2, matched] = m, q, at
                    keyed = load_int32(links, q) != UNLINKED
                    met += keyed
                    matched += keyed & (low <= at) & (at <= high)
            p = stop
        block[AT, m] = p
        if p < until:
            break
        sweeping -= 1
    return met, matched, sweeping
