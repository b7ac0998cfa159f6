"""Which keys are closed, and which stored rows have a key: what purging asks, key by key.

A key is its hash and a second hash (`checks`); keys that hash without collisions have none, and their hashes
are handed in twice.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.argument_types import BYTE, BYTES, FLAGS, INTS, LONG, LONGS
from braided.engine.kernels.index import at_most, slot_of
from braided.engine.kernels.pointers import inlined, kernel


@kernel((LONGS, LONGS, LONGS, FLAGS))
def in_intervals(lows, highs, values, out):
    """Set what lies in one of some intervals, which are sorted and apart."""
    for i in range(values.shape[0]):
        at = at_most(lows, values[i])
        out[i] |= at > 0 and values[i] <= highs[at - 1]


@kernel((LONGS, LONGS, LONGS, LONGS, FLAGS))
def in_pairs(hashes, checks, some_hashes, some_checks, out):
    """Set the pairs that are among some sorted ones."""
    for i in range(some_hashes.shape[0]):
        at = at_most(hashes, some_hashes[i]) - 1
        while at >= 0 and hashes[at] == some_hashes[i]:
            out[i] |= checks[at] == some_checks[i]
            at -= 1


CLOSED, FORGOTTEN = 1, 2


@inlined
def _slot(hashes, checks, states, shift, hash_, check):
    """Return where a key is in a table of keys, or would be; one slot at least is free (its state is 0)."""
    slot = slot_of(hash_, shift)
    while states[slot] != 0 and not (hashes[slot] == hash_ and checks[slot] == check):
        slot = (slot + 1) & (states.shape[0] - 1)
    return slot


@kernel((LONGS, LONGS, BYTES, LONG, LONGS, LONGS, BYTES))
def states_of(hashes, checks, states, shift, some_hashes, some_checks, out):
    """Look up the states of some keys in a table; 0 if they are not there."""
    for i in range(some_hashes.shape[0]):
        out[i] = states[_slot(hashes, checks, states, shift, some_hashes[i], some_checks[i])]


@kernel((LONGS, LONGS, BYTES, LONG, LONGS, LONGS, BYTE))
def set_states(hashes, checks, states, shift, some_hashes, some_checks, state):
    """Enter keys with a state; how many are new in the table, and how many have another state now."""
    new = changed = 0
    for i in range(some_hashes.shape[0]):
        slot = _slot(hashes, checks, states, shift, some_hashes[i], some_checks[i])
        new += states[slot] == 0
        changed += states[slot] != state
        hashes[slot], checks[slot], states[slot] = some_hashes[i], some_checks[i], state
    return new, changed


@kernel((LONGS, LONGS, INTS, LONG, FLAGS))
def first_ones(hashes, checks, table, shift, out):
    """Set the keys that come for the first time; `table` has more slots than there are keys, all -1."""
    for i in range(hashes.shape[0]):
        slot = slot_of(hashes[i], shift)
        while table[slot] >= 0 and not (
            hashes[table[slot]] == hashes[i] and checks[table[slot]] == checks[i]
        ):
            slot = (slot + 1) & (table.shape[0] - 1)
        out[i] = table[slot] < 0
        if out[i]:
            table[slot] = i


@kernel((LONGS, LONGS, FLAGS, INTS, INTS, LONG, LONG, LONG, LONGS, LONGS, FLAGS))
def held(hashes, checks, gone, link, head, shift, base, first, some_hashes, some_checks, out):
    """Find out whether any row of some keys is stored and not gone."""
    for i in range(some_hashes.shape[0]):
        p = np.int64(head[slot_of(some_hashes[i], shift)])
        out[i] = False
        while p >= first and not out[i]:
            q = p - base
            out[i] = hashes[q] == some_hashes[i] and checks[q] == some_checks[i] and not gone[q]
            p = np.int64(link[q])


@kernel((LONGS, LONGS, FLAGS, INTS, INTS, LONG, LONG, LONG, LONGS, LONGS, LONGS))
def rows_of(hashes, checks, gone, link, head, shift, base, first, some_hashes, some_checks, out):
    """Find the stored rows of some keys, each there once, that have not gone: their positions; how many."""
    rows = 0
    for i in range(some_hashes.shape[0]):
        p = np.int64(head[slot_of(some_hashes[i], shift)])
        while p >= first:
            q = p - base
            if hashes[q] == some_hashes[i] and checks[q] == some_checks[i] and not gone[q]:
                out[rows] = p
                rows += 1
            p = np.int64(link[q])
    return rows
