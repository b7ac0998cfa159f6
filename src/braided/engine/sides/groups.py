"""Partition groups: the same hash slice of every input of an operator, by the highest bits of the hash."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from braided.engine.kernels.grouping import count_groups, order_groups
from braided.engine.sides.side import Reason, Rows, SideState, turned
from braided.policies.arrays import Bools, Int32s, Int64s


def group_of(hashes: Int64s, bits: int) -> Int64s:
    """Return the partition groups of hashes: their highest bits, like slots of the index."""
    return (hashes.view(np.uint64) >> np.uint64(64 - bits)).view(np.int64)


def by_group(groups: Int64s) -> Int64s:
    """Return the order of rows by their partition groups; short numbers are sorted by counting."""
    return np.argsort(groups.astype(np.uint16), kind="stable")


def groups_at(side: SideState, positions: Int32s, bits: int) -> Int64s:
    """Return the partition groups of some rows."""
    hashes = side.columns.at("hash", positions)
    return group_of(turned(hashes, 64 - side.turned) if side.turned else hashes, bits)


def rows_by_group(side: SideState, bits: int) -> Int64s:
    """Count the rows that a probe may find in each of the `1 << bits` partition groups."""
    counts = np.zeros(1 << bits, np.int64)
    count_groups(*_found(side), 64 - bits, counts)
    return counts


def in_groups(side: SideState, chosen: Bools) -> Rows:
    """Return the rows of some groups, ordered by group."""
    positions = _of_groups(side, chosen)
    c, payload = side.columns, side.payload
    batch = pa.RecordBatch.from_arrays(
        payload.gather(positions, range(len(payload.schema))), schema=payload.schema
    )
    at = positions - c.base
    added = {name: c.brought(column, at) for name, column in _ADDED.items()}
    return Rows(batch, c["hash"][at], c["time"][at], **added)


def ordered_by_group(rows: Rows, bits: int) -> tuple[Rows, list[int], Int64s]:
    """Order rows by group; return them, the groups there are, and where each begins, and the end."""
    groups = group_of(rows.hashes, bits)
    if (np.diff(groups) < 0).any():
        order = by_group(groups)
        rows, groups = rows.take(order), groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return rows, groups[starts].tolist(), np.append(starts, len(rows))


def drop_groups(side: SideState, chosen: Bools) -> int:
    """Forget all rows of some groups, which are on disk; how many."""
    return side.forget(_of_groups(side, chosen), Reason.FLUSH)


_ADDED = {"checks": "check", "ends": "ends", "born": "born"}


def _of_groups(side: SideState, chosen: Bools) -> Int64s:
    """Return the positions of the rows of some groups that a probe may find, ordered by group.

    All rows are put in that order, once for as long as none comes or gets another position.
    """
    bits, c = (len(chosen) - 1).bit_length(), side.columns
    known = bits, c.first, c.count, side.renumbered
    if side.by_group is None or side.by_group[0] != known:
        starts = np.append(0, np.cumsum(rows_by_group(side, bits)))
        places = np.empty(starts[-1], np.int32)
        order_groups(*_found(side), 64 - bits, starts[:-1].copy(), places)
        side.by_group = known, places, starts
    _, places, starts = side.by_group
    parts = [places[starts[g] : starts[g + 1]] for g in np.flatnonzero(chosen).tolist()]
    positions = np.concatenate([places[:0], *parts]).astype(np.int64) + side.first
    return positions[~c.at("gone", positions)] if side.gone_rows else positions


def _found(side: SideState) -> tuple[Int64s, Int32s, Bools]:
    """What tells the group of each row held, and whether a probe may find it."""
    c = side.columns
    return c.held("hash"), c.held("link"), c.held("gone") if side.gone_rows else np.zeros(0, np.bool_)
