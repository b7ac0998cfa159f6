"""Count windows: when does a row leave, because enough newer rows (of its stream or key) have come?

Rows reach a counting side in order of time. A row x leaves a window of n rows at the time of the n-th
row with a later time than its own; `leaves` of x is that time, or `NEVER` as long as no such row came. So
x is inside at `now` iff `now < leaves`. Each row sets the `leaves` of the rows it pushes out when it
comes; every row is pushed out once, so all of this is O(1) per row. Arrays hold position p at `p - base`.

Rows of one key (or stream) that have the same time leave together. So whoever knows the key and the time of a
row, as intermediate rows do of their components, can ask when it leaves, and how many newer rows came
(`find_by_key`, `find_by_time`). A row that is no longer held has left.

    n = 2, one key      times    1    3    3    7        the row at 1 leaves at 3: two rows came at 3
                        leaves   3  NEVER NEVER NEVER    the rows at 3 stay: only one newer row came
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.argument_types import FLAG, FLAGS, INTS, LONG, LONGS, TABLE
from braided.engine.kernels.index import at_most, slot_of
from braided.engine.kernels.pointers import inlined, kernel

NEVER = 1 << 62
LEFT = -NEVER  # what is said of rows that are no longer held

# columns of a counting side's ranks: its number in order of time, how many rows have at most its time,
# the position of the next newer row of its key (or stream), and (of the newest row) of the oldest row inside
ORDINAL, RANK, NEWER, TRAIL = 0, 1, 2, 3
RANK_COLUMNS = 4


@inlined
def _older_of_key(hashes, checks, link, base, first, p):
    """Return the next older row of the key of the row at p; below `first` if none is held."""
    i, older = p - base, np.int64(link[p - base])
    while older >= first and not (hashes[older - base] == hashes[i] and checks[older - base] == checks[i]):
        older = np.int64(link[older - base])
    return older


@inlined
def _oldest_of_key(hashes, checks, link, base, first, p):
    """Return the oldest row held of the key of the row at p."""
    oldest = p
    while p >= first:
        oldest = p
        p = _older_of_key(hashes, checks, link, base, first, p)
    return oldest


@kernel((LONGS, LONGS, LONGS, INTS, TABLE, LONGS, LONG, LONG, LONG, LONG, LONG, FLAG))
def count_rows(hashes, checks, times, link, ranks, leaves, base, first, start, stop, size, per_key):
    """Enter rows start..stop, already linked, into windows of `size` rows of their keys or of the stream.

    `checks` is a second hash of the key, so that two keys are not taken for one.
    """
    for p in range(start, stop):
        i = p - base
        older = _older_of_key(hashes, checks, link, base, first, p) if per_key else p - 1
        ranks[i, ORDINAL] = 1
        ranks[i, NEWER] = -1
        ranks[i, TRAIL] = older  # until the last loop
        leaves[i] = NEVER
        if older >= first:
            ranks[i, ORDINAL] = ranks[older - base, ORDINAL] + 1
            ranks[older - base, NEWER] = p
    for p in range(stop - 1, start - 1, -1):  # rows with the same time share the rank of the last of them
        i = p - base
        newer = ranks[i, NEWER] - base
        tied = newer >= 0 and times[newer] == times[i]
        ranks[i, RANK] = ranks[newer, RANK] if tied else ranks[i, ORDINAL]
    for p in range(start, stop):
        i = p - base
        older = ranks[i, TRAIL]
        oldest = p
        if older >= first:
            oldest = ranks[older - base, TRAIL]
            if oldest < first:  # expired by its time while still inside: the next one held follows
                oldest = _oldest_of_key(hashes, checks, link, base, first, older) if per_key else first
        while ranks[i, ORDINAL] - ranks[oldest - base, RANK] >= size:
            leaves[oldest - base] = times[i]
            oldest = ranks[oldest - base, NEWER]
        ranks[i, TRAIL] = oldest


@kernel((INTS, LONGS, LONGS, LONG, FLAGS))
def inside_window(positions, now, leaves, base, keep):
    """Clear `keep` where the row at a position has left its window at `now`."""
    for n in range(positions.shape[0]):
        if now[n] >= leaves[positions[n] - base]:
            keep[n] = False


@kernel((LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, INTS, INTS, LONG, TABLE, LONGS, LONG, LONG, TABLE))
def find_by_key(
    wanted, wanted_checks, at, hashes, checks, times, link, head, shift, ranks, leaves, base, first, out
):
    """Say when rows leave the windows of their keys, and how many newer rows of the key came.

    Given are both hashes of each key, and the row's time. A chain is walked from the newest row on, and times
    fall along it: no further than the row.
    """
    for n in range(wanted.shape[0]):
        p = np.int64(head[slot_of(wanted[n], shift)])
        newest = np.int64(-1)
        out[0, n], out[1, n] = LEFT, NEVER
        while p >= first and times[p - base] >= at[n]:
            i = p - base
            if hashes[i] == wanted[n] and checks[i] == wanted_checks[n]:
                newest = ranks[i, ORDINAL] if newest < 0 else newest
                if times[i] == at[n]:
                    out[0, n], out[1, n] = leaves[i], newest - ranks[i, RANK]
                    break
            p = np.int64(link[i])


@kernel((LONGS, LONGS, TABLE, LONGS, TABLE))
def find_by_time(at, times, ranks, leaves, out):
    """Say the same of rows in the window of their stream, given their times; those held are in order."""
    for n in range(at.shape[0]):
        i = at_most(times, at[n]) - 1
        out[0, n], out[1, n] = LEFT, NEVER
        if i >= 0 and times[i] == at[n]:
            out[0, n], out[1, n] = leaves[i], ranks[times.shape[0] - 1, ORDINAL] - ranks[i, RANK]
