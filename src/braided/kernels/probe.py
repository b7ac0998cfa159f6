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

from braided.kernels.index import UNLINKED, slot_of
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

_BLOCK_ROWS = 1024


@inlined
def _bound(order, bounds, cursor, level):
    """The times a row of this level may have, given the rows of the levels before."""
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


@inlined
def _look_up(sides, stream, key_hash):
    """The newest row of the key's slot."""
    return load_int32(sides[stream, HEAD], slot_of(key_hash, sides[stream, SHIFT]))


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
        follow: np.int64 = load_int32(links, p)
        if p < visible and load_int64(hashes, p) == key_hash:
            at = load_int64(times, p)
            if low <= at <= high:
                found = p
                cursor[level, POSITION] = p
                cursor[level, ROW_TIME] = at
                p = follow
                break
        p = follow
    cursor[level, CANDIDATE] = p
    return found


@kernel
def first_candidates(sides, driver, partner, start, stop, driver_rows, candidates):
    """Driver rows start..stop whose hash is visible in the partner's state; how many.

    `driver_rows` gets the rows, `candidates` the newest such position of the partner.
    Most rows of a selective join end here, so this loop has no branch to mispredict: a block of rows
    walks its chains in step, and the rows still walking are written to the front of the block.
    """
    hashes, own_links = sides[driver, HASH], sides[driver, LINK]
    stored, links = sides[partner, HASH], sides[partner, LINK]
    first, visible = sides[partner, FIRST], sides[partner, VISIBLE]
    row = np.empty(_BLOCK_ROWS, np.int64)
    position = np.empty(_BLOCK_ROWS, np.int64)
    found = 0
    for block in range(start, stop, _BLOCK_ROWS):
        walking = 0
        for i in range(block, min(stop, block + _BLOCK_ROWS)):
            p = _look_up(sides, partner, load_int64(hashes, i))
            row[walking] = i
            position[walking] = p
            walking += (p >= first) & (load_int32(own_links, i) != UNLINKED)
        while walking > 0:
            still = 0
            for w in range(walking):
                i, p = row[w], position[w]
                hit = (p < visible) & (load_int64(stored, p) == load_int64(hashes, i))
                follow = load_int32(links, p)
                driver_rows[found] = i
                candidates[found] = p
                found += hit
                row[still] = i
                position[still] = follow
                still += (follow >= first) & (not hit)
            walking = still
    return found


@kernel
def enumerate_combinations(
    sides, order, bounds, cursor, rows, driver_rows, candidates, allowance, tally, out
):
    """Fill `out[stream, n]` with positions; return how many.

    `driver_rows` are the rows to take, `candidates` where their chains begin, as
    `first_candidates` found them. `rows` is (next of them, their number, level to resume at) and is
    advanced; the search is over when rows[0] == rows[1]. The driver rows' own probes (level 1) are
    counted by the caller; `allowance[level]` is how many probes the half-joins behind may still do.
    """
    depth = order.shape[0]
    driver = order[0]
    hashes = sides[driver, HASH]
    times = sides[driver, TIME]
    at, stop, level = rows[0], rows[1], rows[2]
    n = np.int64(0)
    full = out.shape[1]
    key_hash = np.int64(0)
    if level > 0:
        key_hash = load_int64(hashes, driver_rows[at])
    while at < stop and n < full:
        if level == 0:
            row = np.int64(driver_rows[at])
            key_hash = load_int64(hashes, row)
            cursor[0, POSITION] = row
            cursor[0, ROW_TIME] = load_int64(times, row)
            level = 1
            _bound(order, bounds, cursor, 1)
            cursor[1, CANDIDATE] = candidates[at]
        if _next_match(sides, cursor, level, order[level], key_hash) < 0:
            level -= 1
            if level == 0:
                at += 1
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
            _bound(order, bounds, cursor, level)
            cursor[level, CANDIDATE] = _look_up(sides, order[level], key_hash)
    rows[0], rows[2] = at, level
    return n
