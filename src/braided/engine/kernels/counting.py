"""Count windows: when does a row leave, because enough newer rows (of its stream or key) have come?

Rows reach a counting side in order of time. A row x leaves a window of n rows at the time of the n-th
row with a later time than its own; `leaves` of x is that time, or `NEVER` as long as no such row came. So
x is inside at `now` iff `now < leaves`. Each row sets the `leaves` of the rows it pushes out when it
comes; every row is pushed out once, so all of this is O(1) per row. Arrays hold position p at `p - base`.

    n = 2, one key      times    1    3    3    7        the row at 1 leaves at 3: two rows came at 3
                        leaves   3  NEVER NEVER NEVER    the rows at 3 stay: only one newer row came
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.pointers import kernel

NEVER = 1 << 62

# columns of a counting side's ranks: its number in order of time, how many rows have at most its time,
# the position of the next newer row of its key, and (of a key's newest row) of the oldest row inside
ORDINAL, RANK, NEWER, TRAIL = 0, 1, 2, 3
RANK_COLUMNS = 4


@kernel
def count_in_stream(times, ranks, leaves, base, first, start, stop, size, before):
    """Enter rows start..stop into a window of `size` rows of the stream; `before` were entered earlier."""
    for p in range(start, stop):
        ranks[p - base, ORDINAL] = before + (p - start) + 1
        leaves[p - base] = NEVER
    _share_ties(times, ranks, base, start, stop)
    oldest = first if start == first else max(first, ranks[start - 1 - base, TRAIL])
    for p in range(start, stop):
        while ranks[p - base, ORDINAL] - ranks[oldest - base, RANK] >= size:
            leaves[oldest - base] = times[p - base]
            oldest += 1
        ranks[p - base, TRAIL] = oldest


@kernel
def _share_ties(times, ranks, base, start, stop):
    """Rows with the same time share the rank of the last of them; ties come in one go."""
    for p in range(stop - 1, start - 1, -1):
        i = p - base
        tied = p + 1 < stop and times[i + 1] == times[i]
        ranks[i, RANK] = ranks[i + 1, RANK] if tied else ranks[i, ORDINAL]


@kernel
def _oldest_of_key(hashes, checks, link, base, first, p):
    """The oldest row held of the key of the row at p."""
    oldest = p
    older = np.int64(link[p - base])
    while older >= first:
        if hashes[older - base] == hashes[p - base] and checks[older - base] == checks[p - base]:
            oldest = older
        older = link[older - base]
    return oldest


@kernel
def count_in_key(hashes, checks, times, link, ranks, leaves, base, first, start, stop, size):
    """Enter rows start..stop, already linked, into windows of `size` rows of their keys.

    `checks` is a second hash of the key, so that two keys are not taken for one.
    """
    older_of = np.full(stop - start, -1, np.int64)
    for p in range(start, stop):
        i = p - base
        older = np.int64(link[i])
        while older >= first:
            o = older - base
            if hashes[o] == hashes[i] and checks[o] == checks[i]:
                break
            older = link[o]
        ranks[i, ORDINAL] = 1
        ranks[i, NEWER] = -1
        leaves[i] = NEVER
        if older >= first:
            ranks[i, ORDINAL] = ranks[older - base, ORDINAL] + 1
            ranks[older - base, NEWER] = p
            older_of[p - start] = older
    for p in range(stop - 1, start - 1, -1):
        i = p - base
        newer = ranks[i, NEWER] - base
        tied = newer >= 0 and times[newer] == times[i]
        ranks[i, RANK] = ranks[newer, RANK] if tied else ranks[i, ORDINAL]
    for p in range(start, stop):
        i = p - base
        older = older_of[p - start]
        oldest = p
        if older >= 0:
            oldest = ranks[older - base, TRAIL]
            if oldest < first:  # expired by its time while still inside: the next one held follows
                oldest = _oldest_of_key(hashes, checks, link, base, first, older)
        while ranks[i, ORDINAL] - ranks[oldest - base, RANK] >= size:
            leaves[oldest - base] = times[i]
            oldest = ranks[oldest - base, NEWER]
        ranks[i, TRAIL] = oldest


@kernel
def inside_window(positions, now, leaves, base, keep):
    """Clear `keep` where the row at a position has left its window at `now`."""
    for n in range(positions.shape[0]):
        if now[n] >= leaves[positions[n] - base]:
            keep[n] = False
