"""One stream's stored rows, with or without a hash index: the side state a half-join probes.

Invariant: the rows at positions `first <= p < count` are exactly the rows appended and not yet
forgotten, in order of arrival. With an index each is linked in it unless its key is null; without one
(`scanned`) a probe compares itself with all of them, and storing a row costs less. A row is forgotten
only when the watermark has passed it by more than its retention, or when newer rows have pushed it
out of its count window for every time still to come; until then it can be found.

Rows usually leave in order of arrival, which only raises `first`. Where rows came out of order, or
windows count rows by key, dead rows stay behind live ones; once they may be more than half, a scan
finds them and the side is compacted. Both are O(1) per row over time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braided.engine.kernels import closing, counting, hashing, index
from braided.engine.kernels.tables import (
    FIRST,
    FLOOR,
    HASH,
    HEAD,
    LINK,
    ORDERED,
    SCANNED,
    SHIFT,
    SIDE_COLUMNS,
    TIME,
    VISIBLE,
)
from braided.engine.sides.closed_keys import Keys
from braided.engine.sides.payload import Chunk, Payload
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidValue
from braided.query.windows import CountWindow

BOTTOMLESS_US = -(1 << 62)
_MIN_ROWS = 64
_MAX_POSITION = (1 << 31) - 1


Allocate: TypeAlias = Callable[[str, int, Any], npt.NDArray[Any]]


def in_memory(name: str, length: int, dtype: Any) -> npt.NDArray[Any]:
    """An array of this process's own."""
    return np.empty(length, dtype)


@dataclass(frozen=True)
class Rows:
    """Rows on their way into a side: stored columns, key hashes, times, and what else it needs.

    `linked` is false where the key is null (None: all true); `checks` is the second hash; `ends` are for rows
    that are made of several: the watermark that each does not survive (see `operators.inputs`); `born` is
    when they arrived, where inputs are flushed one by one (see `runtime.spilling`).
    """

    batch: pa.RecordBatch
    hashes: Int64s
    times: Int64s
    linked: Bools | None = None
    checks: Int64s | None = None
    ends: Int64s | None = None
    born: Int64s | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    def pick(self, chosen: Bools) -> Rows:
        """Some of them."""
        return self.take(np.flatnonzero(chosen))

    def take(self, places: Int64s) -> Rows:
        """The rows at some places."""

        def of(values: Any) -> Any:
            return None if values is None else values[places]

        arrays = (of(a) for a in self._arrays)
        return Rows(self.batch.take(pa.array(places)), *arrays)

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.hashes, self.times, self.linked, self.checks, self.ends, self.born


@dataclass(frozen=True)
class Mark:
    """Where a side stood before a batch."""

    count: int
    counted: int
    newest: int
    fell: int
    since_scan: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Frozen:
    """The few numbers of a side that lie outside its arrays."""

    base: int
    first: int
    count: int
    newest: int
    fell: int
    since_scan: int
    scanned: bool
    gone_rows: int


def group_of(hashes: Int64s, bits: int) -> Int64s:
    """The partition groups of hashes: their highest bits, like slots of the index."""
    return (hashes.view(np.uint64) >> np.uint64(64 - bits)).view(np.int64)


def by_group(groups: Int64s) -> Int64s:
    """The order of rows by their partition groups; short numbers are sorted by counting."""
    return np.argsort(groups.astype(np.uint16), kind="stable")


def turned(hashes: Int64s, bits: int) -> Int64s:
    """Hashes with their highest bits moved to the end."""
    words = hashes.view(np.uint64)
    return ((words << np.uint64(bits)) | (words >> np.uint64(64 - bits))).view(np.int64)


class SideState:
    """Rows of one stream, by position, and by key through a chained hash index unless it is scanned."""

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        window: CountWindow | None = None,
        allocate: Allocate = in_memory,
        *,
        scanned: bool = False,
        has_ends: bool = False,
        purges: bool = False,
        turned: int = 0,
        stamped: bool = False,
    ) -> None:
        """Hashes are `turned` by so many bits: rows of one group would share their slots otherwise."""
        self.name = name
        self._turned = turned
        self.stamped = stamped  # rows tell when they arrived
        self.tick = 0  # now
        self.scanned = scanned
        self.has_ends = has_ends  # rows end when they say so, and not by their time
        self.purges = purges  # rows may go before their time, by key
        self.gone_rows = 0  # rows held that were purged
        self.purged_rows = 0  # since it was made or thawed
        self.renumbered = 0  # how often rows have got new positions
        self._allocate: Allocate = in_memory  # until there are rows worth a place of their own
        self.payload = Payload(schema)
        self.window = window
        self.base = self.first = self.count = 0
        self._ranks = np.empty((0, counting.RANK_COLUMNS), np.int64)
        self._leaves = self._checks = self._ends = self._born = np.empty(0, np.int64)
        self._gone = np.empty(0, np.bool_)
        self.counted = 0  # rows ever counted by a count window per stream
        self._grow_to(_MIN_ROWS)
        self._index_for(_MIN_ROWS)
        self._allocate = allocate
        self.floor_us = BOTTOMLESS_US  # rows with an earlier time are never found
        self._newest = BOTTOMLESS_US
        self._lately = 0  # most rows held lately: room that the next batch needs again is not given back
        self._fell = -1  # the last row that came after a newer one
        self._since_scan = 0
        self.dead = 0  # rows held that no probe may find, as far as they were counted

    @property
    def rows(self) -> int:
        """Rows held."""
        return self.count - self.first

    @property
    def live_rows(self) -> int:
        """Rows held that have not been purged."""
        return self.rows - self.gone_rows

    @property
    def ordered(self) -> bool:
        """Whether times never fall from row to row."""
        return self._fell <= self.first

    @property
    def nbytes(self) -> int:
        """Bytes held: stored rows, arrays and index, as allocated."""
        return self.payload.nbytes + self._head.nbytes + sum(a.nbytes for a in self._arrays())

    def describe(self, table: Int64s, visible: int) -> None:
        """Fill this side's row of the probe kernel's side table."""
        table[:SIDE_COLUMNS] = 0
        table[HASH] = self._hashes.ctypes.data - 8 * self.base
        table[TIME] = self._times.ctypes.data - 8 * self.base
        table[LINK] = self._link.ctypes.data - 4 * self.base
        table[HEAD] = self._head.ctypes.data
        table[SHIFT], table[FIRST], table[VISIBLE] = self._shift, self.first, visible
        table[SCANNED], table[ORDERED], table[FLOOR] = self.scanned, self.ordered, self.floor_us

    def times_at(self, positions: npt.NDArray[np.int32]) -> Int64s:
        """The event times of rows."""
        return self._times[positions - self.base]

    def times_between(self, start: int, stop: int) -> Int64s:
        """The event times of the rows from one position up to another."""
        return self._times[start - self.base : stop - self.base]

    def lots(self, start: int, first: int, stop: int) -> Int64s:
        """What the rows from one position up to another draw."""
        out = np.empty(stop - first, np.int64)
        here = slice(first - self.base, stop - self.base)
        hashing.lots(self._hashes[here], self._times[here], start, out)
        return out

    def reserve(self, rows: int) -> Mark:
        """Make room for so many rows; the mark undoes what is appended from here on."""
        self._make_room(rows)
        return Mark(self.count, self.counted, self._newest, self._fell, self._since_scan, self.payload.mark())

    def append(self, rows: Rows) -> None:
        """Store and link rows; they get the positions from `count` on."""
        if not len(rows):
            return
        self._make_room(len(rows))
        start, stop = self.count, self.count + len(rows)
        self.payload.append(start, rows.batch)  # first, because it is all that can fail
        here = slice(start - self.base, stop - self.base)
        self._hashes[here] = turned(rows.hashes, self._turned) if self._turned else rows.hashes
        self._times[here] = rows.times
        if rows.ends is not None:
            self._ends[here] = rows.ends
        if self.stamped:
            self._born[here] = self.tick if rows.born is None else rows.born
        if self.purges:
            self._gone[here] = False
        self._link[here] = -1
        if rows.linked is not None:
            self._link[here][~rows.linked] = index.UNLINKED
        fell = index.last_fall(self._times[here], self._newest)
        self._fell = start + fell if fell >= 0 else self._fell
        self._newest = int(rows.times[-1]) if fell < 0 else max(self._newest, int(rows.times.max()))
        self.count = stop
        self._lately = max(self._lately, self.rows)
        self._since_scan += len(rows)
        if not self.scanned:
            index.insert(self._hashes, self._link, self._head, self._shift, self.base, start, stop)
        if rows.checks is not None and (self.window is not None or self.purges):
            if not self._owns_checks():
                self._checks = self._allocate("check", len(self._hashes), np.int64)
                self._checks[:] = self._hashes
            self._checks[here] = rows.checks
        self._count(start, stop)

    def undo(self, mark: Mark) -> None:
        """Forget the rows appended since the mark."""
        if not self.scanned:
            index.undo(self._hashes, self._link, self._head, self._shift, self.base, mark.count, self.count)
        self.payload.undo(mark.chunks)
        self.count, self.counted = mark.count, mark.counted
        self._newest, self._fell = mark.newest, mark.fell
        self._since_scan = mark.since_scan
        self._recount()

    def expire(self, oldest: int) -> int:
        """Forget rows older than `oldest` and rows pushed out of a count window; how many.

        Rows that have an end are forgotten if it is before `oldest`.
        """
        before, was_first = self.live_rows, self.first
        here = slice(self.first - self.base, self.count - self.base)
        if self.ordered and not self.has_ends:
            self.first += int(np.searchsorted(self._times[here], oldest))
        else:
            self.first += index.expired_prefix((self._ends if self.has_ends else self._times)[here], oldest)
        if self.window is not None:  # what left its window has left it for every time to come
            leaves = self._leaves[self.first - self.base : self.count - self.base]
            self.first += index.expired_prefix(leaves, counting.NEVER)
        self._passed(was_first)
        in_order = self.ordered and not self.has_ends and self.window is None
        if not in_order and self._since_scan > self.rows // 2:
            self._compact(oldest)
        self._give_back()
        return before - self.live_rows

    def words(self, column: int) -> Int64s:
        """A stored column of whole numbers, of all rows held."""
        parts = [np.asarray(b.column(column).to_numpy()) for b in self.payload.live(self.first)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def discard(self, dead: Bools, *, entirely: bool = False) -> int:
        """Forget the first rows as far as they are dead, and the others if they are more than half.

        With `entirely` all dead rows go, at the price of a new index.
        """
        before, was_first = self.rows, self.first
        alive = np.flatnonzero(~dead)
        first = int(alive[0]) if len(alive) else len(dead)
        self.first += first
        self._passed(was_first)
        self._leave_out(dead[first:], least=1 if entirely else self.rows // 2 + 1)
        return before - self.rows

    def seen(self, position: int) -> int:
        """How many rows before a position a probe may find."""
        return position - self.first - self.dead

    def ended(self, oldest: int) -> Bools:
        """Which rows held are older than `oldest` (or have ended before), or out of their count window."""
        here = slice(self.first - self.base, self.count - self.base)
        dead = (self._ends if self.has_ends else self._times)[here] < oldest
        if self.window is not None:
            dead |= self._leaves[here] != counting.NEVER
        if self.purges:
            dead |= self._gone[here]
        return dead

    def rows_by_group(self, bits: int) -> Int64s:
        """How many rows that may be found are in each of the `1 << bits` partition groups."""
        return np.bincount(self._groups(bits)[self._linked()], minlength=1 << bits)

    def groups_at(self, positions: npt.NDArray[np.int32], bits: int) -> Int64s:
        """The partition groups of some rows: the highest bits of their hashes."""
        hashes = self._hashes[positions - self.base]
        return group_of(turned(hashes, 64 - self._turned) if self._turned else hashes, bits)

    def born_at(self, positions: npt.NDArray[np.int32]) -> Int64s:
        """When some rows arrived."""
        return self._born[positions - self.base]

    def in_groups(self, chosen: Bools) -> tuple[Rows, Int64s]:
        """The rows of some groups, ordered by group, and where each group begins, and the end."""
        bits = (len(chosen) - 1).bit_length()
        groups = self._groups(bits)
        mine = np.flatnonzero(chosen[groups] & self._linked())
        mine = mine[by_group(groups[mine])]
        at = mine + (self.first - self.base)
        columns = self.payload.gather(mine + self.first, range(len(self.payload.schema)))
        batch = pa.RecordBatch.from_arrays(columns, schema=self.payload.schema)
        ends = self._ends[at] if self.has_ends else None
        born = self._born[at] if self.stamped else None
        checks = self._checks[at] if self._owns_checks() else None
        bounds = np.searchsorted(groups[mine], np.append(np.flatnonzero(chosen), len(chosen)))
        return Rows(batch, self._hashes[at], self._times[at], checks=checks, ends=ends, born=born), bounds

    def drop_groups(self, chosen: Bools) -> int:
        """Forget all rows of some groups; how many. They hold their room until `leave_out_gone`."""
        bits = (len(chosen) - 1).bit_length()
        here = slice(self.first - self.base, self.count - self.base)
        mine = chosen[self._groups(bits)] & self._linked()
        self._link[here][mine] = index.UNLINKED
        self._gone[here] |= mine
        dropped = int(np.count_nonzero(mine))
        self.gone_rows += dropped
        self.purged_rows += dropped
        if not self.scanned and dropped:
            slots = len(self._head) >> bits
            if slots:  # all rows of a slot are of one group
                self._head.reshape(1 << bits, slots)[chosen] = -1
            else:
                self._index_for(self.rows)
        return dropped

    def _groups(self, bits: int) -> Int64s:
        return group_of(self._hashes[self.first - self.base : self.count - self.base], bits)

    def _linked(self) -> Bools:
        """Which rows held may be found, and have not been purged."""
        here = slice(self.first - self.base, self.count - self.base)
        linked: Bools = self._link[here] != index.UNLINKED
        return linked & ~self._gone[here] if self.gone_rows else linked

    def holds(self, keys: Keys) -> Bools:
        """Of which keys there is a row that has not been purged."""
        out = np.empty(len(keys), np.bool_)
        closing.held(*self._by_key(), *keys.words, out)
        return out

    def purge(self, keys: Keys) -> int:
        """Forget all rows of some keys; how many."""
        purged = closing.mark_gone(*self._by_key(), *keys.words)
        self.gone_rows += purged
        self.purged_rows += purged
        if 2 * self.gone_rows > self.rows:
            self.discard(self.gone_flags())
            self._give_back()
        return int(purged)

    def unlink_gone(self) -> None:
        """Rows that were purged are not to be found any more, though they are held."""
        here = slice(self.first - self.base, self.count - self.base)
        self._link[here] = np.where(self._gone[here] | ~self._linked(), index.UNLINKED, -1)
        self._index_for(self.rows)

    def leave_out_gone(self) -> None:
        """Give up all purged rows, at the price of a new index."""
        if self.gone_rows:
            self.discard(self.gone_flags(), entirely=True)

    def gone_flags(self) -> Bools:
        """Which of the rows held have been purged."""
        return self._gone[self.first - self.base : self.count - self.base]

    def mark_gone(self, flags: Bools) -> None:
        """Purge the rows held where a flag is set."""
        self._gone[self.first - self.base : self.count - self.base] |= flags
        self.gone_rows = int(np.count_nonzero(self.gone_flags()))

    def keys_since(self, position: int) -> Keys:
        """The keys of the rows from a position on that have not been purged."""
        here = slice(max(self.first, position) - self.base, self.count - self.base)
        alive = ~self._gone[here] & (self._link[here] != index.UNLINKED)
        checks = self._checks[here][alive] if self._owns_checks() else None
        return Keys(self._hashes[here][alive], checks)

    def count_dead(self, oldest: int) -> None:
        """Count the rows that are still held, but not to be found."""
        self.dead = int(np.count_nonzero(self.ended(oldest)))

    def keep_newest(self, rows: int) -> int:
        """Forget all but the latest rows; how many."""
        before, was_first = self.rows, self.first
        self.first = max(self.first, self.count - rows)
        self._passed(was_first)
        return before - self.rows

    def clear(self) -> None:
        """Forget all rows."""
        self.keep_newest(0)

    def scan(self, scanned: bool) -> None:
        """Do without an index from now on, or build one; between batches."""
        if scanned != self.scanned:
            self.scanned = scanned
            self._index_for(self.rows)

    def rows_since(self, oldest: int) -> int:
        """How many rows are not older, and not purged."""
        if self.gone_rows:
            return len(self.times_since(oldest))
        times = self.times_between(self.first, self.count)
        if self.ordered:
            return len(times) - int(np.searchsorted(times, oldest))
        return int(np.count_nonzero(times >= oldest))

    def times_since(self, oldest: int) -> Int64s:
        """The times of the rows that are not older and not purged, oldest first."""
        times = self.times_between(self.first, self.count)
        if self.gone_rows:
            times = times[~self.gone_flags()]
        ordered = times if self.ordered else np.sort(times)
        return ordered[np.searchsorted(ordered, oldest) :]

    def crowded(self, rows: int) -> bool:
        """Whether so many more rows would make the arrays grow."""
        return self.rows + rows > len(self._hashes)

    def inside(self, positions: npt.NDArray[np.int32], now: Int64s, keep: Bools) -> None:
        """Clear `keep` where a row is out of this side's count window at a time."""
        if self.window is not None:
            counting.inside_window(positions, now, self._leaves, self.base, keep)

    def frozen(self) -> Frozen:
        """What is not in the arrays or the payload."""
        return Frozen(
            self.base,
            self.first,
            self.count,
            self._newest,
            self._fell,
            self._since_scan,
            self.scanned,
            self.gone_rows,
        )

    def thaw(self, frozen: Frozen, arrays: Mapping[str, npt.NDArray[Any]], chunks: Sequence[Chunk]) -> None:
        """Take over arrays and chunks that another side (without a count window) left."""
        self.base, self.first, self.count = frozen.base, frozen.first, frozen.count
        self._newest, self._fell = frozen.newest, frozen.fell
        self._since_scan, self.scanned = frozen.since_scan, frozen.scanned
        self.gone_rows = frozen.gone_rows
        self._lately = self.rows
        self.adopt(arrays)
        self._shift = 64 - (len(self._head) - 1).bit_length()
        self.payload.undo(tuple(chunks))

    def adopt(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Use these arrays from now on; they hold what the own ones held."""
        self._hashes, self._times, self._link = arrays["hash"], arrays["time"], arrays["link"]
        self._head = arrays["head"]
        self._ends = arrays.get("ends", self._ends)
        self._gone = arrays.get("gone", self._gone)
        self._checks = arrays.get("check", self._hashes)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that `thaw` takes."""
        found = {"hash": self._hashes, "time": self._times, "link": self._link, "head": self._head}
        if self.has_ends:
            found["ends"] = self._ends
        if self.purges:
            found["gone"] = self._gone
        if self._owns_checks():
            found["check"] = self._checks
        return found

    def contents(self, since: int = 0, *, purged: bool = False) -> list[Rows]:
        """The rows held from a position on, for a snapshot; purged ones only if asked for."""
        at = max(since, self.first)
        found = []
        for batch in self.payload.live(at):
            here = slice(at - self.base, at - self.base + batch.num_rows)
            linked = self._link[here] != index.UNLINKED
            ends = self._ends[here] if self.has_ends else None
            rows = Rows(batch, self._hashes[here], self._times[here], linked, ends=ends)
            found.append(rows.pick(~self._gone[here]) if self.gone_rows and not purged else rows)
            at += batch.num_rows
        return found

    def _arrays(self) -> list[npt.NDArray[np.generic]]:
        counted = [self._ranks, self._leaves] if self.window else []
        return [
            self._hashes,
            self._times,
            self._link,
            *([self._ends] if self.has_ends else []),
            *([self._born] if self.stamped else []),
            *([self._gone] if self.purges else []),
            *counted,
            *([self._checks] if self._owns_checks() else []),
        ]

    def _count(self, start: int, stop: int) -> None:
        """Enter rows into the count window."""
        if self.window is None:
            return
        if self.window.per == "stream":
            counting.count_in_stream(
                self._times, self._ranks, self._leaves, self.base, self.first, start, stop,
                self.window.rows, self.counted,
            )  # fmt: skip
            self.counted += stop - start
        else:
            counting.count_in_key(
                self._hashes, self._checks, self._times, self._link, self._ranks, self._leaves, self.base,
                self.first, start, stop, self.window.rows,
            )  # fmt: skip

    def _compact(self, oldest: int) -> None:
        """Look for dead rows, and leave them out if they are more than half."""
        dead = self.ended(oldest)
        self._leave_out(dead, least=self.rows // 2 + 1)
        self._since_scan = 0

    def _leave_out(self, dead: Bools, least: int) -> None:
        """Rebuild without dead rows, if there are so many."""
        if int(dead.sum()) >= least:
            here = slice(self.first - self.base, self.count - self.base)
            self._rebuild(here, self.payload.keep(self.first, ~dead))

    def _make_room(self, rows: int) -> None:
        if self.count + rows > _MAX_POSITION:
            self._restart_positions()
        live = self.rows + rows
        if live > _MAX_POSITION:
            raise InvalidValue(f"stream {self.name!r}: more than {_MAX_POSITION:,} rows in its window")
        if self.count - self.base + rows > len(self._hashes):
            self._resize(live) if live > len(self._hashes) else self._move_to_front()
        if live > len(self._head) and not self.scanned:
            self._index_for(live)

    def _move_to_front(self) -> None:
        for array in self._arrays():
            start, size = array.ctypes.data, array.strides[0]
            ctypes.memmove(start, start + (self.first - self.base) * size, self.rows * size)
        self.base = self.first

    def _resize(self, rows: int) -> None:
        """New arrays for so many rows, positions unchanged."""
        here, kept = slice(self.first - self.base, self.count - self.base), self.rows
        old, own_checks = self._arrays(), self._owns_checks()
        self._grow_to(rows, own_checks)
        for new, values in zip(self._arrays(), old, strict=True):
            new[:kept] = values[here]
        self.base = self.first
        self._index_for(rows)

    def _restart_positions(self) -> None:
        here = slice(self.first - self.base, self.count - self.base)
        self._rebuild(here, self.payload.keep(self.first, np.ones(self.rows, np.bool_)))

    def _rebuild(self, here: slice, kept: Bools) -> None:
        """New arrays and index of the kept rows, at positions from 0 on."""
        places = np.flatnonzero(kept)
        rows, room = len(places), len(self._hashes)
        old, own_checks = self._arrays(), self._owns_checks()
        self.base = self.first = 0
        self.count = rows
        self.renumbered += 1
        self._grow_to(max(rows, 2 * room // 5), own_checks)  # half the room: the next batch needs some of it
        for new, values in zip(self._arrays(), old, strict=True):
            np.take(values[here], places, axis=0, out=new[:rows], mode="clip")  # "raise" would copy first
        del old
        self.gone_rows = int(np.count_nonzero(self._gone[:rows]))
        self._fell = index.last_fall(self._times[:rows], BOTTOMLESS_US)
        self._index_for(rows)
        self._recount()

    def _recount(self) -> None:
        """Enter the rows held into the count window anew, after rows were taken out or renumbered.

        Rows that were forgotten had left it, and are older than all that are inside, so they do not
        count for any of them.
        """
        self.counted = 0
        self._count(self.first, self.count)

    def _owns_checks(self) -> bool:
        return (self.window is not None or self.purges) and self._checks is not self._hashes

    def _grow_to(self, rows: int, own_checks: bool = False) -> None:
        size = max(_MIN_ROWS, rows + rows // 4)
        self._hashes = self._allocate("hash", size, np.int64)
        self._times = self._allocate("time", size, np.int64)
        self._link = self._allocate("link", size, np.int32)
        if self.has_ends:
            self._ends = self._allocate("ends", size, np.int64)
        if self.stamped:
            self._born = self._allocate("born", size, np.int64)
        if self.purges:
            self._gone = self._allocate("gone", size, np.bool_)
        if self.window is not None:
            self._ranks = np.empty((size, counting.RANK_COLUMNS), np.int64)
            self._leaves = np.empty(size, np.int64)
        if self.window is not None or self.purges:
            self._checks = self._allocate("check", size, np.int64) if own_checks else self._hashes

    def _give_back(self) -> None:
        """Give room back that was not needed lately."""
        if len(self._hashes) > 4 * max(self._lately, _MIN_ROWS):
            self._resize(self.rows)
        self._lately = max(self.rows, self._lately // 2)

    def _passed(self, was_first: int) -> None:
        """Rows at the front have been forgotten."""
        self.payload.drop_before(self.first)
        if self.gone_rows:
            passed = self._gone[was_first - self.base : self.first - self.base]
            self.gone_rows -= int(np.count_nonzero(passed))

    def _by_key(self) -> tuple[Any, ...]:
        """Arrays and numbers by which rows of a key are found; a scanned side gets an index for it."""
        link, head, shift = self._link, self._head, self._shift
        if self.scanned:
            bits = max(6, (self.rows - 1).bit_length())
            link, head, shift = link.copy(), np.full(1 << bits, -1, np.int32), 64 - bits
            index.insert(self._hashes, link, head, shift, self.base, self.first, self.count)
        return self._hashes, self._checks, self._gone, link, head, shift, self.base, self.first

    def _index_for(self, rows: int) -> None:
        """An index with a slot per row, and all rows linked anew; a scanned side has only a stump of it."""
        bits = 6 if self.scanned else max(6, (rows - 1).bit_length())
        self._head = self._allocate("head", 1 << bits, np.int32)
        self._head[:] = -1
        self._shift = 64 - bits
        if not self.scanned:
            index.insert(self._hashes, self._link, self._head, self._shift, self.base, self.first, self.count)
