"""The half-join's inner loop: all combinations of the driver stream's new rows, depth first.

One driver row is looked up in the first partner of the probe order; each match is looked up in the
second; and so on. Nothing is materialised on the way: the only output is row positions. The search
stops when the output is full and goes on from `cursor` at the next call, so a hot key costs time,
never memory.

Partner rows at or beyond a side's `visible` position belong to buffers whose turn has not come; they
are passed over. That is what makes each combination appear once (see `operators.mjoin`).
"""

from __future__ import annotations

import numpy as np

from braided.kernels.index import slot_of
from braided.kernels.memory import inlined, kernel, load_int32, load_int64

# columns of the side table, one row per stream
HASH, TIME, LINK, HEAD, SHIFT, FIRST, VISIBLE = 0, 1, 2, 3, 4, 5, 6
SIDE_COLUMNS = 7

# columns of the cursor, one row per level; level 0 is the driver stream
CANDIDATE, POSITION, ROW_TIME, LOW, HIGH = 0, 1, 2, 3, 4
CURSOR_COLUMNS = 5

# columns of the tally, one row per level
PROBES, MATCHES = 0, 1
TALLY_COLUMNS = 2


@inlined
def _enter(sides, order, bounds, cursor, level, key_hash):
    """Look a partial combination up in the state of the next stream of the probe order."""
    stream = order[level]
    low = np.int64(-(1 << 62))
    high = np.int64(1 << 62)
    for earlier in range(level):
        at = cursor[earlier, ROW_TIME]
        other = order[earlier]
        low = max(low, at - bounds[stream, other])
        high = min(high, at + bounds[other, stream])
    cursor[level, LOW] = low
    cursor[level, HIGH] = high
    slot = slot_of(key_hash, sides[stream, SHIFT])
    cursor[level, CANDIDATE] = load_int32(sides[stream, HEAD], slot)


@inlined
def _next_match(sides, cursor, level, stream, key_hash):
    """The next stored row that fits, or -1; the candidate moves on behind it."""
    hashes = sides[stream, HASH]
    times = sides[stream, TIME]
    links = sides[stream, LINK]
    first = sides[stream, FIRST]
    visible = sides[stream, VISIBLE]
    low = cursor[level, LOW]
    high = cursor[level, HIGH]
    p = cursor[level, CANDIDATE]
    found = np.int64(-1)
    while p >= first:
        follow = load_int32(links, p)
        if p < visible and load_int64(hashes, p) == key_hash:
            at = load_int64(times, p)
            if low <= at and at <= high:
                found = p
                cursor[level, POSITION] = p
                cursor[level, ROW_TIME] = at
                p = follow
                break
        p = follow
    cursor[level, CANDIDATE] = p
    return found


@kernel
def enumerate_combinations(sides, order, bounds, cursor, rows, allowance, tally, out):
    """Fill `out[stream, n]` with positions; return how many.

    `rows` is (next driver row, end of driver rows, level to resume at) and is advanced; the search
    is over when rows[0] == rows[1]. `allowance[level]` is how many probes a half-join may still do.
    """
    depth = order.shape[0]
    driver = order[0]
    hashes = sides[driver, HASH]
    times = sides[driver, TIME]
    row, stop, level = rows[0], rows[1], rows[2]
    n = np.int64(0)
    full = out.shape[1]
    key_hash = np.int64(0)
    if level > 0:
        key_hash = load_int64(hashes, row)
    while row < stop and n < full:
        if level == 0:
            if allowance[1] <= 0:
                row = stop
                break
            key_hash = load_int64(hashes, row)
            cursor[0, POSITION] = row
            cursor[0, ROW_TIME] = load_int64(times, row)
            level = 1
            allowance[1] -= 1
            tally[1, PROBES] += 1
            _enter(sides, order, bounds, cursor, 1, key_hash)
        if _next_match(sides, cursor, level, order[level], key_hash) < 0:
            level -= 1
            if level == 0:
                row += 1
            continue
        tally[level, MATCHES] += 1
        if level == depth - 1:
            for earlier in range(depth):
                out[order[earlier], n] = cursor[earlier, POSITION]
            n += 1
        elif allowance[level + 1] > 0:
            level += 1
            allowance[level] -= 1
            tally[level, PROBES] += 1
            _enter(sides, order, bounds, cursor, level, key_hash)
    rows[0], rows[2] = row, level
    return n
