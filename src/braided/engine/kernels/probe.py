"""The half-join's inner loop: all combinations of the driver streams' new rows, a block at a time.

A block of driver rows is looked up in the state of the first partner of the probe order; what matches
is looked up in the second; and so on. At each level the block's rows walk their chains in step: one
*round* looks at one stored row for each walker, notes the hits, and keeps the walkers whose chain goes
on. No branch depends on the data, so the processor overlaps the cache misses of a whole block.

A round finds at most one row per walker, so a block never grows: its hits become the next level's
block, and that level is finished before the next round begins here. Nothing is materialised but these
blocks. When the output is full the search stops, and goes on from `levels` at the next call, so a hot
key costs time, never memory.

    block of 2 driver rows      round 1 at level 1: a meets x, b meets nothing yet
      level 1   a b               level 2   (a, x): walk to its end, write results
                                round 2 at level 1: a meets y, b meets z
                                  level 2   (a, y), (b, z): ...

A side without an index is *swept* instead: a member compares itself with every stored row, in order of
arrival, and if the side is in order of time, only with those inside the member's time bounds. A sweep is left
when the block of hits is full, and goes on from there.

Partner rows at or beyond a side's `visible` position are rows whose turn has not come; they are passed
over. That is what makes each combination appear once (see `operators.mjoin`). Whole buffers are one
*segment* each; if streams alternate row by row, there is a segment for every run of one stream's rows, and
a block never reaches over its segment.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels import tables as t
from braided.engine.kernels.argument_types import CUBE, INT_TABLE, LONG, LONGS, TABLE
from braided.engine.kernels.hashing import draw
from braided.engine.kernels.index import UNLINKED, slot_of
from braided.engine.kernels.pointers import inlined, kernel, load_int32, load_int64
from braided.engine.kernels.sweep import start_sweeps, sweep

# enough that a round's own costs do not count; no power of two, so that a block's rows share no cache lines
BLOCK_ROWS = 4080


@inlined
def _bound(sides, order, bounds, block, level, members):
    """Find the times a row of this level may have, given the rows each member has already."""
    depth = order.shape[0]
    floor = sides[order[level], t.FLOOR]
    low, high = block[t.LOW], block[t.HIGH]
    for earlier in range(level):
        backward = bounds[order[level], order[earlier]]
        forward = bounds[order[earlier], order[level]]
        times = block[t.MEMBER + depth + earlier]
        for m in range(members):
            least = times[m] - backward
            most = times[m] + forward
            low[m] = max(floor, least) if earlier == 0 else max(low[m], least)
            high[m] = most if earlier == 0 else min(high[m], most)


@inlined
def _start(sides, stream, block, members):
    """Begin to look a block's members up in the state of a stream; how many walk."""
    shift, head, first = sides[stream, t.SHIFT], sides[stream, t.HEAD], sides[stream, t.FIRST]
    key, walker, place = block[t.KEY], block[t.WALKER], block[t.AT]
    walking = 0
    for m in range(members):
        p = load_int32(head, slot_of(key[m], shift))
        walker[walking] = m
        place[walking] = p
        walking += p >= first
    return walking


@inlined
def _first_block(sides, driver, partner, block, depth, start, stop):
    """Look driver rows start..stop up; those that walk are the members of level 1.

    Returns how many walk, and how many probed: rows with a null key do not.
    """
    hashes, times, links = sides[driver, t.HASH], sides[driver, t.TIME], sides[driver, t.LINK]
    shift, head, first = sides[partner, t.SHIFT], sides[partner, t.HEAD], sides[partner, t.FIRST]
    key, walker, place, member = block[t.KEY], block[t.WALKER], block[t.AT], block[t.MEMBER]
    member_time = block[t.MEMBER + depth]
    probed = 0
    walking = 0
    for row in range(start, stop):
        key_hash = load_int64(hashes, row)
        p = load_int32(head, slot_of(key_hash, shift))
        keyed = load_int32(links, row) != UNLINKED
        key[walking] = key_hash
        walker[walking] = walking
        place[walking] = p
        member[walking] = row
        probed += keyed
        walking += keyed & (p >= first)
    for m in range(walking):
        member_time[m] = load_int64(times, member[m])
    return walking, probed


@inlined
def _offered(sides, stream):
    """Return how many rows of a side a probe may see."""
    return max(0, sides[stream, t.VISIBLE] - sides[stream, t.FIRST])


@inlined
def _first_members(sides, driver, block, depth, start, stop, rations, rationed):
    """Driver rows start..stop with a key are the members of level 1, if they may probe; how many."""
    hashes, times, links = sides[driver, t.HASH], sides[driver, t.TIME], sides[driver, t.LINK]
    members = 0
    for row in range(start, stop):
        key_hash, at = load_int64(hashes, row), load_int64(times, row)
        lot = draw(draw(rations[0], key_hash), at) if rationed else np.int64(0)
        block[t.KEY, members] = key_hash
        block[t.LOT, members] = lot
        block[t.MEMBER, members] = row
        block[t.MEMBER + depth, members] = at
        members += (load_int32(links, row) != UNLINKED) & (lot <= rations[1])
    return members


@inlined
def _round(sides, stream, block, walking, hits):
    """Each walker looks at one stored row; how many met their key, how many hit, how many walk on."""
    hashes, times, links = sides[stream, t.HASH], sides[stream, t.TIME], sides[stream, t.LINK]
    first, visible = sides[stream, t.FIRST], sides[stream, t.VISIBLE]
    key, walker, place, low, high = block[t.KEY], block[t.WALKER], block[t.AT], block[t.LOW], block[t.HIGH]
    hit_member, hit_place, hit_time = hits[0], hits[1], hits[2]
    met = 0
    still = 0
    for w in range(walking):
        m = walker[w]
        p = place[w]
        follow = load_int32(links, p)
        hit_member[met] = m
        hit_place[met] = p
        met += (p < visible) & (load_int64(hashes, p) == key[m])
        walker[still] = m
        place[still] = follow
        still += follow >= first
    matched = 0
    for h in range(met):
        m = hit_member[h]
        p = hit_place[h]
        at = load_int64(times, p)
        hit_member[matched] = m
        hit_place[matched] = p
        hit_time[matched] = at
        matched += (low[m] <= at) & (at <= high[m])
    return met, matched, still


@inlined
def _ration(levels, level, hits, matched, limit):
    """Keep only the hits that drew no more than the limit, with their lots; return how many."""
    here, there = levels[level], levels[level + 1]
    stay = 0
    for h in range(matched):
        m = hits[0, h]
        lot = draw(here[t.LOT, m], hits[2, h])
        there[t.LOT, stay] = lot
        hits[0, stay], hits[1, stay], hits[2, stay] = m, hits[1, h], hits[2, h]
        stay += lot <= limit
    return stay


@inlined
def _next_block(levels, level, depth, hits, members):
    """Make the hits of a level the members of the next."""
    here, there = levels[level], levels[level + 1]
    for h in range(members):
        there[t.KEY, h] = here[t.KEY, hits[0, h]]
        there[t.MEMBER + level, h] = hits[1, h]
        there[t.MEMBER + depth + level, h] = hits[2, h]
    for earlier in range(level):
        for h in range(members):
            there[t.MEMBER + earlier, h] = here[t.MEMBER + earlier, hits[0, h]]
            there[t.MEMBER + depth + earlier, h] = here[t.MEMBER + depth + earlier, hits[0, h]]


@inlined
def _write(order, block, level, hits, matched, out, n):
    """Write the hits of the last level: they are results."""
    for earlier in range(level):
        stream = order[earlier]
        for h in range(matched):
            out[stream, n + h] = block[t.MEMBER + earlier, hits[0, h]]
    for h in range(matched):
        out[order[level], n + h] = hits[1, h]


@inlined
def _open(sides, order, bounds, block, level, members, tally):
    """Let the members of a block begin to look for the next partner; return how many do."""
    stream = order[level]
    _bound(sides, order, bounds, block, level, members)
    if sides[stream, t.SCANNED]:
        walking, looked = start_sweeps(sides, stream, block, members)
        tally[t.LOOKED] += looked
    else:
        walking = _start(sides, stream, block, members)
    tally[t.PROBES] += members
    tally[t.OFFERED] += members * _offered(sides, stream)
    return walking


@inlined
def _open_first(sides, order, bounds, block, start, stop, rations, rationed, tally):
    """Driver rows start..stop begin to look for their first partner; how many do."""
    driver, partner, depth = order[0], order[1], order.shape[0]
    if rationed or sides[partner, t.SCANNED]:
        members = _first_members(sides, driver, block, depth, start, stop, rations, rationed)
        return _open(sides, order, bounds, block, 1, members, tally)
    walking, probed = _first_block(sides, driver, partner, block, depth, start, stop)
    _bound(sides, order, bounds, block, 1, walking)
    tally[t.PROBES] += probed
    tally[t.OFFERED] += probed * _offered(sides, partner)
    return walking


@inlined
def _advance(sides, stream, block, walking, hits, room, tally):
    """Look on, until each walker has seen one row or a sweep has found enough: hits, and who goes on."""
    if sides[stream, t.SCANNED]:
        met, matched, still = sweep(sides, stream, block, walking, hits, room)
    else:
        tally[t.LOOKED] += walking
        met, matched, still = _round(sides, stream, block, walking, hits)
    tally[t.SAME_KEY] += met
    tally[t.MATCHES] += matched
    return matched, still


@kernel((TABLE, TABLE, TABLE, TABLE, LONGS, CUBE, LONGS, TABLE, CUBE, INT_TABLE))
def enumerate_combinations(sides, orders, bounds, segments, cursor, levels, walking, rations, tally, out):
    """Fill `out[stream, n]` with positions; return how many.

    `segments` are runs of driver rows, taken one after the other; each says what its rows may see of every
    side. `orders[driver]` is the driver and its partners in the order they are probed. `cursor` is (segment,
    next row of it, level to resume at) and is advanced; the search is over when no segment is left.
    `levels` and `walking` keep the blocks between calls. `rations[driver, level]` says who may probe a
    partner: rows and combinations that drew no more (`EVERYONE`: all); draws begin with `rations[driver, 0]`.
    A block is never larger than `out`.
    """
    depth = orders.shape[1]
    last = depth - 1
    block_rows = min(levels.shape[2], out.shape[1])
    hits = np.empty((3, block_rows + 1), np.int64)  # one more: a sweep writes before it knows
    level = cursor[2]
    n = np.int64(0)
    while cursor[0] < segments.shape[0]:
        segment = segments[cursor[0]]
        driver, end = segment[t.DRIVER], segment[t.STOP]
        order = orders[driver]
        rationed = (rations[driver, 1:] < t.EVERYONE).any()
        sides[:, t.VISIBLE] = segment[t.SEEN :]
        row = max(cursor[1], segment[t.START])
        while level > 0 or row < end:
            if level == 0:
                stop = min(end, row + block_rows)
                walking[1] = _open_first(
                    sides, order, bounds, levels[1], row, stop, rations[driver], rationed, tally[driver, 1]
                )
                row = stop
                level = 1
            if walking[level] == 0:
                level -= 1
                continue
            room = min(block_rows, out.shape[1] - n) if level == last else block_rows
            if room < (1 if sides[order[level], t.SCANNED] else walking[level]):
                cursor[1], cursor[2] = row, level
                return n
            matched, walking[level] = _advance(
                sides, order[level], levels[level], walking[level], hits, room, tally[driver, level]
            )
            if level == last:
                _write(order, levels[level], level, hits, matched, out, n)
                n += matched
            elif matched > 0:
                if rationed:
                    matched = _ration(levels, level, hits, matched, rations[driver, level + 1])
                _next_block(levels, level, depth, hits, matched)
                level += 1
                walking[level] = _open(
                    sides, order, bounds, levels[level], level, matched, tally[driver, level]
                )
        cursor[0], cursor[1] = cursor[0] + 1, 0
    cursor[2] = level
    return n


@kernel((TABLE, LONG, LONG, TABLE, LONGS, LONGS))
def count_matches(sides, driver, partner, bounds, rows, out):
    """For some rows of a driver stream, how many rows of a partner they match, whatever other rows say."""
    hashes, times, links = sides[partner, t.HASH], sides[partner, t.TIME], sides[partner, t.LINK]
    first, visible = sides[partner, t.FIRST], sides[partner, t.VISIBLE]
    for i in range(rows.shape[0]):
        out[i] = 0
        if load_int32(sides[driver, t.LINK], rows[i]) == UNLINKED:
            continue
        key = load_int64(sides[driver, t.HASH], rows[i])
        at = load_int64(sides[driver, t.TIME], rows[i])
        low = max(sides[partner, t.FLOOR], at - bounds[partner, driver])
        high = at + bounds[driver, partner]
        if sides[partner, t.SCANNED]:
            for p in range(first, visible):
                met = load_int64(times, p)
                same = (load_int64(hashes, p) == key) & (load_int32(links, p) != UNLINKED)
                out[i] += same & (low <= met) & (met <= high)
            continue
        p = load_int32(sides[partner, t.HEAD], slot_of(key, sides[partner, t.SHIFT]))
        while p >= first:
            met = load_int64(times, p)
            same = (p < visible) & (load_int64(hashes, p) == key)
            out[i] += same & (low <= met) & (met <= high)
            p = load_int32(links, p)
