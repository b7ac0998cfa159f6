"""Partition groups of stored rows, in one pass: how many each has, and its rows in their order.

A row counts if a probe may find it: it has a key, and has not been purged or flushed. `gone` may be empty.
"""

from __future__ import annotations

from braided.engine.kernels.argument_types import FLAGS, INTS, LONG, LONGS
from braided.engine.kernels.index import UNLINKED, slot_of
from braided.engine.kernels.pointers import inlined, kernel


@inlined
def _found(link, gone, i):
    return link[i] != UNLINKED and not (gone.shape[0] and gone[i])


@kernel((LONGS, INTS, FLAGS, LONG, LONGS))
def count_groups(hashes, link, gone, shift, counts):
    """Add the rows of each group to its count."""
    for i in range(hashes.shape[0]):
        if _found(link, gone, i):
            counts[slot_of(hashes[i], shift)] += 1


@kernel((LONGS, INTS, FLAGS, LONG, LONGS, INTS))
def order_groups(hashes, link, gone, shift, starts, out):
    """Put the places of all rows behind each other, group by group; each begins where `starts` says."""
    for i in range(hashes.shape[0]):
        if _found(link, gone, i):
            group = slot_of(hashes[i], shift)
            out[starts[group]] = i
            starts[group] += 1
