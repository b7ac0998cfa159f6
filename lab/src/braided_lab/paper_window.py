"""Compiled windows of the window-join paper's own join: a scan, and a hash that scans buckets to forget.

A window is one of three things; all of them hold rows (key, time), touched one at a time:

| kind | rows lie in | a probe touches | a row leaves actively | lazily |
| --- | --- | --- | --- | --- |
| SCAN | a ring buffer | every row | off the ring's front: 1 | before a probe, end searched for |
| LINKED | a list per bucket, newest first | its bucket | its bucket is walked | when a probe walks past it |
| ARRAY | an array per bucket, oldest first | its bucket | its bucket is compacted | when a probe compacts |

Actively, a hash needs to know which row is the oldest: a queue beside it holds (key, time) in order of
arrival. Looking at the queue's front is not counted as a touch, as the paper does not count it.

A match has an equal key and a time inside the window. Matches leave in one of three ways: WRITTEN stores
every row touched to a buffer of results and moves on only after a match, so that a touch costs the same
whether or not it matches, as the paper's model has it; BRANCHED stores matches only, and pays for every
match that the processor did not foresee; COUNTED stores nothing, and is compiled to compare several at once.

A window is two arrays and not more: passing many costs a reference count each, more than a row's work.
`rows` has the rows KEYS, TIMES, FOLLOWING (in a list), QUEUE_KEYS and QUEUE_TIMES; `state` starts with the
words below, and from HEADS on has for each bucket its newest row (LINKED) or its number of rows (ARRAY).
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.pointers import inlined, kernel

SCAN, LINKED, ARRAY = 0, 1, 2
PROBE, INSERT, INVALIDATE = 0, 1, 2
KEYS, TIMES, FOLLOWING, QUEUE_KEYS, QUEUE_TIMES = range(5)
COUNTED, WRITTEN, BRANCHED = 0, 1, 2
LAST_RESULT = np.uint64(4095)  # results are written round and round a buffer: they are for whoever comes next
FRONT, SIZE, QUEUED, FREE, PEAK, KIND, SPAN, STRIDE, ROOM, BUCKETS, HEADS = range(11)


@kernel()
def advance(
    begin, end, sides, keys, times, a, a_state, b, b_state, one_way, lazy, how, out, found, touched, per_row
):
    """Let the merged rows begin to end arrive one at a time; returns the number of results so far.

    `touched` counts rows by window and operation; `per_row` gets scan touches, hash touches and results.
    One way, rows of A only probe and rows of B only enter and leave.
    """
    for n in range(begin, end):
        before = found
        per_row[n, 0] = per_row[n, 1] = 0
        if sides[n] == 0:
            found = _probe(keys[n], times[n], b, b_state, 1, lazy, how, out, found, touched, per_row, n)
            if not one_way:
                _keep(keys[n], times[n], a, a_state, 0, lazy, touched, per_row, n)
        else:
            if not one_way:
                found = _probe(keys[n], times[n], a, a_state, 0, lazy, how, out, found, touched, per_row, n)
            _keep(keys[n], times[n], b, b_state, 1, lazy, touched, per_row, n)
        per_row[n, 2] = found - before
    return found


@inlined
def _probe(key, now, rows, state, side, lazy, how, out, found, touched, per_row, n):
    """Find the matches of a key, forgetting on the way if lazy."""
    oldest = now - state[SPAN]
    kind = state[KIND]
    before = state[SIZE]
    if kind == SCAN:
        if lazy:
            searched = _drop_expired(rows, state, oldest)
            touched[side, INVALIDATE] += searched
            per_row[n, 0] += searched
        touches = state[SIZE]
        found = _probe_ring(key, oldest, rows, state, how, out, found)
    elif kind == LINKED:
        found, touches = _probe_list(key, oldest, rows, state, lazy, how, out, found)
    else:
        touches = state[HEADS + key % state[BUCKETS]]
        found = _probe_array(key, oldest, rows, state, lazy, how, out, found)
    if kind != SCAN:
        gone = before - state[SIZE]
        touches -= gone
        touched[side, INVALIDATE] += gone
        per_row[n, 1] += gone
    touched[side, PROBE] += touches
    per_row[n, min(kind, 1)] += touches
    return found


@inlined
def _keep(key, now, rows, state, side, lazy, touched, per_row, n):
    """Insert a row, then, if active, forget what has expired."""
    kind = state[KIND]
    _insert(key, now, rows, state, lazy)
    state[PEAK] = max(state[PEAK], state[SIZE])
    touches = 0
    if not lazy:
        oldest = now - state[SPAN]
        touches = _pop(rows, state, oldest) if kind == SCAN else _forget(rows, state, oldest)
    touched[side, INSERT] += 1
    touched[side, INVALIDATE] += touches
    per_row[n, min(kind, 1)] += 1 + touches


@inlined
def _insert(key, now, rows, state, lazy):
    kind = state[KIND]
    if kind == SCAN:
        at = (state[FRONT] + state[SIZE]) % state[ROOM]
    else:
        head = HEADS + key % state[BUCKETS]
        if kind == LINKED:
            at = state[FREE]
            state[FREE] = rows[FOLLOWING, at]
            rows[FOLLOWING, at] = state[head]
            state[head] = at
        else:
            at = (head - HEADS) * state[STRIDE] + state[head]
            state[head] += 1
        if not lazy:
            last = (state[FRONT] + state[QUEUED]) % state[ROOM]
            rows[QUEUE_KEYS, last] = key
            rows[QUEUE_TIMES, last] = now
            state[QUEUED] += 1
    rows[KEYS, at] = key
    rows[TIMES, at] = now
    state[SIZE] += 1


@kernel()
def _match(rows, begin, end, key, oldest, how, out, found):
    """Write or count the matches among rows begin to end."""
    keys, times = rows[KEYS, begin:end], rows[TIMES, begin:end]
    if how == COUNTED:
        for i in range(len(keys)):
            found += (keys[i] == key) & (times[i] > oldest)
    elif how == BRANCHED:
        for i in range(len(keys)):
            if keys[i] == key and times[i] > oldest:
                out[np.uint64(found) & LAST_RESULT] = times[i]
                found += 1
    else:
        n = np.uint64(found)  # signed indices may count from the end; that and the order double the time
        for i in range(len(keys)):
            when = times[i]
            matches = np.uint64(keys[i] == key) & np.uint64(when > oldest)
            out[n & LAST_RESULT] = when
            n += matches
        found = np.int64(n)
    return found


@inlined
def _probe_ring(key, oldest, rows, state, how, out, found):
    front, size = state[FRONT], state[SIZE]
    first = min(size, state[ROOM] - front)
    found = _match(rows, front, front + first, key, oldest, how, out, found)
    return _match(rows, 0, size - first, key, oldest, how, out, found)


@kernel()
def _probe_list(key, oldest, rows, state, lazy, how, out, found):
    head = HEADS + key % state[BUCKETS]
    touches, before, at = 0, -1, state[head]
    while at >= 0:
        touches += 1
        when, after = rows[TIMES, at], rows[FOLLOWING, at]
        matches = (rows[KEYS, at] == key) & (when > oldest)
        if how == WRITTEN or (how == BRANCHED and matches):
            out[np.uint64(found) & LAST_RESULT] = when
        found += matches
        if lazy and when <= oldest:
            _unlink(rows, state, head, before, at, after)
        else:
            before = at
        at = after
    return found, touches


@inlined
def _probe_array(key, oldest, rows, state, lazy, how, out, found):
    head = HEADS + key % state[BUCKETS]
    begin = (head - HEADS) * state[STRIDE]
    if lazy:
        return _match_and_compact(rows, state, head, begin, key, oldest, how, out, found)
    return _match(rows, begin, begin + state[head], key, oldest, how, out, found)


@kernel()
def _match_and_compact(rows, state, head, begin, key, oldest, how, out, found):
    """A bucket's matches, and the bucket without what has expired."""
    end = begin + state[head]
    keys, times = rows[KEYS, begin:end], rows[TIMES, begin:end]
    to = 0
    for i in range(len(keys)):
        matches = (keys[i] == key) & (times[i] > oldest)
        if how == WRITTEN or (how == BRANCHED and matches):
            out[np.uint64(found) & LAST_RESULT] = times[i]
        found += matches
        if times[i] > oldest:
            keys[to] = keys[i]
            times[to] = times[i]
            to += 1
    state[SIZE] -= state[head] - to
    state[head] = to
    return found


@kernel()
def _unlink(rows, state, head, before, at, after):
    """Take a row out of its list."""
    if before < 0:
        state[head] = after
    else:
        rows[FOLLOWING, before] = after
    rows[FOLLOWING, at] = state[FREE]
    state[FREE] = at
    state[SIZE] -= 1


@inlined
def _pop(rows, state, oldest):
    """Take expired rows off the ring's front; returns how many."""
    gone = 0
    while state[SIZE] > 0 and rows[TIMES, state[FRONT]] <= oldest:
        state[FRONT] = (state[FRONT] + 1) % state[ROOM]
        state[SIZE] -= 1
        gone += 1
    return gone


@inlined
def _forget(rows, state, oldest):
    """Look for every expired row in its bucket, all of it, and take it out; returns rows touched."""
    touches = 0
    while state[QUEUED] > 0 and rows[QUEUE_TIMES, state[FRONT]] <= oldest:
        key = rows[QUEUE_KEYS, state[FRONT]]
        state[FRONT] = (state[FRONT] + 1) % state[ROOM]
        state[QUEUED] -= 1
        if state[KIND] == LINKED:
            touches += _forget_in_list(rows, state, key, oldest)
        else:
            touches += _forget_in_array(rows, state, key, oldest)
    return touches


@kernel()
def _forget_in_list(rows, state, key, oldest):
    head = HEADS + key % state[BUCKETS]
    touches, before, at = 0, -1, state[head]
    while at >= 0:
        touches += 1
        after = rows[FOLLOWING, at]
        if rows[KEYS, at] == key and rows[TIMES, at] <= oldest:
            _unlink(rows, state, head, before, at, after)
        else:
            before = at
        at = after
    return touches


@kernel()
def _forget_in_array(rows, state, key, oldest):
    head = HEADS + key % state[BUCKETS]
    begin, size = (head - HEADS) * state[STRIDE], state[head]
    keys, times = rows[KEYS, begin : begin + size], rows[TIMES, begin : begin + size]
    to = 0
    for i in range(size):
        if keys[i] != key or times[i] > oldest:
            keys[to] = keys[i]
            times[to] = times[i]
            to += 1
    state[SIZE] -= size - to
    state[head] = to
    return size


@kernel()
def _drop_expired(rows, state, oldest):
    """Drop the ring's expired rows: steps that double, then halve, so that few touches find few rows."""
    front, size, room = state[FRONT], state[SIZE], state[ROOM]
    gone, step, touches = 0, 1, 0
    while gone + step <= size:
        touches += 1
        if rows[TIMES, (front + gone + step - 1) % room] > oldest:
            break
        gone += step
        step *= 2
    unknown = min(step - 1, size - gone)
    while unknown > 0:
        half = (unknown + 1) // 2
        touches += 1
        if rows[TIMES, (front + gone + half - 1) % room] > oldest:
            unknown = half - 1
        else:
            gone += half
            unknown -= half
    state[FRONT] = (front + gone) % room
    state[SIZE] -= gone
    return touches
