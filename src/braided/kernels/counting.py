"""Count windows: how many rows of a stream, or of one key of it, are newer than a row.

Rows reach a counting side in order of time. `rank` of a row is the number of rows (of the stream,
or of its key) whose time is at most its own, so the rows in (time_x, now] are `rank at now - rank
of x`. Rows with the same time share a rank. Arrays hold position p at `p - base`.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.index import slot_of
from braided.kernels.memory import kernel


@kernel
def rank_in_stream(times, before, rank):
    """Ranks of new rows, which are sorted by time; `before` rows came earlier."""
    i = times.shape[0] - 1
    while i >= 0:
        shared = before + i + 1
        rank[i] = shared
        while i > 0 and times[i - 1] == times[i]:
            i -= 1
            rank[i] = shared
        i -= 1


@kernel
def rank_in_key(hashes, checks, times, link, rank, base, first, start, stop):
    """Ranks of new rows start..stop, already linked; `checks` is a second hash of the key."""
    newer = np.full(stop - start, -1, np.int64)
    for p in range(start, stop):
        i = p - base
        rank[i] = 1
        older = np.int64(link[i])
        while older >= first:
            o = older - base
            if hashes[o] == hashes[i] and checks[o] == checks[i]:
                break
            older = link[o]
        if older >= first:
            rank[i] = rank[older - base] + 1
            if older >= start:
                newer[older - start] = i
    for p in range(stop - 1, start - 1, -1):
        i, j = p - base, newer[p - start]
        if j >= 0 and times[j] == times[i]:
            rank[i] = rank[j]


@kernel
def inside_stream_window(positions, now, times, rank, base, first, count, size, keep):
    """Clear `keep` where the row at a position was pushed out of its stream's window at `now`."""
    for n in range(positions.shape[0]):
        low, high = first - base, count - base  # find the last row whose time is at most now
        while high - low > 1:
            middle = (low + high) // 2
            if times[middle] <= now[n]:
                low = middle
            else:
                high = middle
        if rank[low] - rank[positions[n] - base] >= size:
            keep[n] = False


@kernel
def inside_key_window(positions, now, hashes, checks, times, link, head, shift, rank, base, size, keep):
    """Clear `keep` where the row at a position was pushed out of its key's window at `now`."""
    for n in range(positions.shape[0]):
        x = positions[n] - base
        i = np.int64(head[slot_of(hashes[x], shift)]) - base
        while i > x and not (times[i] <= now[n] and hashes[i] == hashes[x] and checks[i] == checks[x]):
            i = link[i] - base
        if rank[i] - rank[x] >= size:
            keep[n] = False


@kernel
def pushed_out_of_key(hashes, checks, link, head, shift, rank, base, first, count, size, dead):
    """Mark rows that at least `size` newer rows of their key have pushed out for good."""
    for x in range(first - base, count - base):
        i = np.int64(head[slot_of(hashes[x], shift)]) - base
        while i > x and not (hashes[i] == hashes[x] and checks[i] == checks[x]):
            i = link[i] - base
        dead[x - (first - base)] = rank[i] - rank[x] >= size
