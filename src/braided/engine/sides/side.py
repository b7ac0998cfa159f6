"""One stream's stored rows, with or without a hash index: the side that a half-join probes.

Invariant: the rows at positions `first <= p < count` are exactly the rows appended and not yet
forgotten, in order of arrival, and those that were forgotten behind rows still held. Columns hold what is
known of each row, the index finds rows by key, the payload has what they carry.

There is one way to forget, `forget(which, reason)`, and it counts. Whoever calls it answers for the law: no
row to come can meet a row that goes, and it owes nothing. Rows usually leave in order of arrival, which only
raises `first`. Where they came out of order, or go by key, dead rows stay behind live ones; once they may be
more than half, the side is compacted. Both are O(1) per row over time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.kernels import counting, tables
from braided.engine.kernels.index import UNLINKED, expired_prefix, last_fall
from braided.engine.sides.columns import CHECK, LEAVES, RANKS, Allocate, Column, Columns, in_memory
from braided.engine.sides.counting import Counting
from braided.engine.sides.index import Index
from braided.engine.sides.payload import Chunk, Payload
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidValue
from braided.query.windows import CountWindow

BOTTOMLESS_US = -(1 << 62)
_MAX_POSITION = (1 << 31) - 1


class Reason(IntEnum):
    """Why rows are forgotten."""

    EXPIRE = auto()  # the watermark has passed them, or newer rows have pushed them out of a count window
    PURGE = auto()  # a promise says that nothing more can meet them
    SHED = auto()  # overload: there is no room for them, or they are not fresh enough
    FLUSH = auto()  # they are on disk
    REMAKE = auto()  # intermediate rows that are about to be made again


_MARKED = (Reason.PURGE, Reason.FLUSH)  # such rows are marked, and hold their room for a while


@dataclass(frozen=True)
class Rows:
    """Rows on their way into a side: stored columns, key hashes, times, and what else it needs.

    `linked` is false where the key is null (None: all true); `checks` is the second hash; `ends` are for rows
    that are made of several: the watermark that each does not survive (see `operators.inputs`); `born` is
    when they arrived, where inputs are flushed one by one (see `spill.spilling`); `counted` is the hash of
    the key by which a window counts them, where that is not the operator's; `checks` is then of that one;
    `final` is for rows of the core: when optional streams have no partner for them any more.
    """

    batch: pa.RecordBatch
    hashes: Int64s
    times: Int64s
    linked: Bools | None = None
    checks: Int64s | None = None
    ends: Int64s | None = None
    born: Int64s | None = None
    counted: Int64s | None = None
    final: Int64s | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    def pick(self, chosen: Bools) -> Rows:
        """Return some of them."""
        return self if chosen.all() else self.take(np.flatnonzero(chosen))

    def take(self, places: Int64s) -> Rows:
        """Return the rows at some places."""
        _, *arrays = vars(self).values()
        picked: Any = (None if values is None else values[places] for values in arrays)
        return Rows(self.batch.take(pa.array(places)), *picked)


def concat_rows(pieces: Sequence[Rows]) -> Rows:
    """Return several pieces, at least one, as one; the first that has rows shows which arrays they have."""
    pieces = [p for p in pieces if len(p)] or pieces[:1]
    if len(pieces) == 1:
        return pieces[0]
    linked = [np.ones(len(p), np.bool_) if p.linked is None else p.linked for p in pieces]
    arrays: dict[str, Any] = {"linked": np.concatenate(linked)}
    for name in ("hashes", "times", "checks", "ends", "born", "counted", "final"):
        values = [getattr(p, name) for p in pieces]
        arrays[name] = None if values[0] is None else np.concatenate(values)
    return Rows(pa.concat_batches([p.batch for p in pieces]), **arrays)


@dataclass(frozen=True)
class Mark:
    """Where a side stood before a batch."""

    count: int
    newest: int
    fell: int
    since_scan: int
    chunks: tuple[Chunk, ...]


def turned(hashes: Int64s, bits: int) -> Int64s:
    """Move the highest bits of hashes to the end."""
    words = hashes.view(np.uint64)
    return ((words << np.uint64(bits)) | (words >> np.uint64(64 - bits))).view(np.int64)


class SideState:
    """Rows of one stream, by position, and by key through its index.

    Features add `columns` of their own. Hashes are `turned` by some bits where all rows are of one partition
    group: they would share their slots otherwise.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        columns: Sequence[Column] = (),
        allocate: Allocate = in_memory,
        *,
        window: CountWindow | None = None,
        scanned: bool = False,
        turned: int = 0,
    ) -> None:
        self.name, self.window, self.turned = name, window, turned
        self.columns = Columns([*columns, *((CHECK, RANKS, LEAVES) if window else ())], allocate)
        self.index = Index(self.columns, scanned=scanned)
        self.counting = Counting(self.columns, window, self.index) if window else None
        self._indexes = (self.index, *(self.counting.apart if self.counting else ()))
        self.payload = Payload(schema)
        self.purges = "gone" in self.columns  # rows may go before their time, by key or group
        self.gone_rows = 0  # rows held that were purged or flushed
        self.forgotten = dict.fromkeys(Reason, 0)  # rows, since it was made
        self.on_forget: Callable[[Int64s, Reason], None] | None = None  # hears of rows before they go
        self.renumbered = 0  # how often rows have got new positions
        self.by_group: tuple[Any, ...] | None = None  # rows in the order of `groups`, as last asked for
        self.tick = 0  # now, where rows tell when they arrived
        self.floor_us = BOTTOMLESS_US  # rows with an earlier time are never found
        self.dead = 0  # rows held that no probe may find, as far as they were counted
        self.newest = BOTTOMLESS_US
        self.fell = -1  # the last row that came after a newer one
        self.since_scan = 0  # rows that came since dead ones were last looked for
        self.lifetime = "ends" if "ends" in self.columns else "time"

    @property
    def first(self) -> int:
        """The position of the oldest row held."""
        return self.columns.first

    @property
    def count(self) -> int:
        """The position behind the newest row."""
        return self.columns.count

    @property
    def rows(self) -> int:
        """Rows held."""
        return self.columns.count - self.columns.first

    @property
    def live_rows(self) -> int:
        """Rows held that have not been purged or flushed."""
        return self.rows - self.gone_rows

    @property
    def ordered(self) -> bool:
        """Whether times never fall from row to row."""
        return self.fell <= self.columns.first

    @property
    def nbytes(self) -> int:
        """Bytes held: stored rows, arrays and index, as allocated."""
        return self.payload.nbytes + self.index.head.nbytes + self.columns.nbytes

    def describe(self, table: Int64s, visible: int) -> None:
        """Fill this side's row of the probe kernel's side table."""
        c, index = self.columns, self.index
        table[tables.HASH] = c.addresses["hash"] - 8 * c.base
        table[tables.TIME] = c.addresses["time"] - 8 * c.base
        table[tables.LINK] = c.addresses["link"] - 4 * c.base
        table[tables.HEAD], table[tables.SHIFT] = index.address, index.shift
        table[tables.FIRST], table[tables.VISIBLE] = c.first, visible
        table[tables.SCANNED], table[tables.ORDERED] = index.scanned, self.ordered
        table[tables.FLOOR] = self.floor_us

    def seen(self, position: int) -> int:
        """Return how many rows before a position a probe may find."""
        return position - self.first - self.dead

    def contents(self, since: int = 0, *, purged: bool = False) -> list[Rows]:
        """Return the rows held from a position on, for a snapshot; purged ones only if asked for."""
        at, c, pieces = max(since, self.first), self.columns, []
        for batch in self.payload.live(at):
            here = slice(at - c.base, at - c.base + batch.num_rows)
            linked = c["link"][here] != UNLINKED
            rows = Rows(batch, c["hash"][here], c["time"][here], linked, ends=c.brought("ends", here))
            pieces.append(rows.pick(~c["gone"][here]) if self.gone_rows and not purged else rows)
            at += batch.num_rows
        return pieces

    # rows come

    def reserve(self, rows: int) -> Mark:
        """Make room for some rows; the mark undoes what is appended from here on."""
        self._make_room(rows)
        return Mark(self.count, self.newest, self.fell, self.since_scan, self.payload.chunks)

    def append(self, rows: Rows) -> None:
        """Store and link rows; they get the positions from `count` on."""
        if not len(rows):
            return
        self._make_room(len(rows))
        start, stop = self.count, self.count + len(rows)
        self.payload.append(start, rows.batch)  # first, because it is all that can fail
        values: dict[str, Any] = {
            "hash": turned(rows.hashes, self.turned) if self.turned else rows.hashes,
            "time": rows.times,
            "ends": rows.ends,
            "born": self.tick if rows.born is None else rows.born,
            "check": rows.checks,
            "counted": rows.counted,
            "final": rows.final,
        }
        if rows.linked is not None:
            values["link"] = np.where(rows.linked, -1, UNLINKED)
        self.columns.append(len(rows), values)
        fell = last_fall(self.columns.between("time", start, stop), self.newest)
        self.fell = start + fell if fell >= 0 else self.fell
        self.newest = int(rows.times[-1]) if fell < 0 else max(self.newest, int(rows.times.max()))
        self.since_scan += len(rows)
        for index in self._indexes:
            index.insert(start, stop)
        self._count(start, stop)

    def undo(self, mark: Mark) -> None:
        """Take back the rows appended since the mark."""
        self.by_group = None
        for index in self._indexes:
            index.undo(mark.count, self.count)
        self.payload.chunks = mark.chunks
        self.columns.count = mark.count
        self.newest, self.fell, self.since_scan = mark.newest, mark.fell, mark.since_scan
        self._count(self.first, self.count)

    # rows go

    def forget(self, which: range | Int64s, reason: Reason, *, entirely: bool = False) -> int:
        """Forget rows: all before a position (a range that begins at `first`), or those at some; how many.

        Each position comes once. Rows that are purged or flushed are marked, and hold their room until
        `leave_out_gone`; no probe finds what was flushed. Other rows, given in order, leave as far as they
        are the first held, and behind live ones if they are more than half, or `entirely` all of them at the
        price of a new index. Rows that stay may be given again: a row counts once, when it leaves or is
        marked.
        """
        before = self.forgotten[reason]
        if isinstance(which, range):
            self._pass(which.stop, reason)
        elif reason in _MARKED:
            self._mark(which, reason)
        else:
            self._leave_out(which, reason, entirely=entirely)
        return self.forgotten[reason] - before

    def expire(self, oldest: int) -> int:
        """Forget rows older than `oldest` and rows pushed out of a count window; how many.

        Rows that have an end are forgotten if it is before `oldest`.
        """
        first, by_time, before = self.first, self.lifetime == "time", passed(self, oldest)
        if self.window is not None:  # what left its window has left it for every time to come
            before += expired_prefix(self.columns.held("leaves")[before:], counting.NEVER)
        forgotten = self.forget(range(first, first + before), Reason.EXPIRE)
        in_order = by_time and self.ordered and self.window is None
        if not in_order and self.since_scan > self.rows // 2:
            forgotten += self.forget(self.ended(oldest), Reason.EXPIRE)
            self.since_scan = 0
        self.give_back()
        return forgotten

    def ended(self, oldest: int) -> Int64s:
        """Return the positions of rows older than `oldest` (or ended), out of a count window, or gone."""
        dead = self.columns.held(self.lifetime) < oldest
        if self.window is not None:
            dead |= self.columns.held("leaves") != counting.NEVER
        if self.purges:
            dead |= self.columns.held("gone")
        return np.flatnonzero(dead) + self.first

    def leave_out_gone(self, *, entirely: bool = True) -> None:
        """Give up rows that were purged or flushed; if not `entirely`, only as `forget` lets others go."""
        if self.gone_rows:
            gone = np.flatnonzero(self.columns.held("gone")) + self.first
            self._leave_out(gone, Reason.PURGE, entirely=entirely)

    def give_back(self) -> None:
        """Give room back that was not needed lately."""
        for index in self._indexes if self.columns.give_back() else ():
            index.rebuild(self.rows)

    def _pass(self, stop: int, reason: Reason) -> None:
        """Let all rows before a position go; count those that had not gone before."""
        first = self.columns.first
        if self.on_forget is not None:
            self._tell(np.arange(first, stop), reason)
        gone = int(np.count_nonzero(self.columns.between("gone", first, stop))) if self.gone_rows else 0
        self.gone_rows -= gone
        self.forgotten[reason] += stop - first - gone
        self.columns.first = stop
        self.payload.drop_before(stop)

    def _mark(self, positions: Int64s, reason: Reason) -> None:
        fresh = self._tell(positions, reason)
        self.columns["gone"][fresh - self.columns.base] = True
        self.gone_rows += len(fresh)
        self.forgotten[reason] += len(fresh)
        if reason is Reason.FLUSH:
            self.index.unlink(positions)

    def _leave_out(self, positions: Int64s, reason: Reason, *, entirely: bool) -> None:
        """Let the first rows held go as far as they are among some; the others if they are many."""
        later = np.flatnonzero(positions != np.arange(self.first, self.first + len(positions)))
        front = int(later[0]) if len(later) else len(positions)
        self._pass(self.first + front, reason)
        behind = positions[front:]
        if len(behind) >= (1 if entirely else self.rows // 2 + 1):
            self._tell(behind, reason)
            stay, before = np.ones(self.rows, np.bool_), self.live_rows
            stay[behind - self.first] = False
            self._renumber(stay)
            self.forgotten[reason] += before - self.live_rows

    def _tell(self, positions: Int64s, reason: Reason) -> Int64s:
        """Return those of some rows that have not gone before, and tell the listener that they go now."""
        fresh = positions[~self.columns.at("gone", positions)] if self.gone_rows else positions
        if self.on_forget is not None and len(fresh):
            self.on_forget(fresh, reason)
        return fresh

    def _renumber(self, stay: Bools) -> None:
        """Keep only some rows, at positions from 0 on, in new arrays and with a new index."""
        self.columns.keep(np.flatnonzero(self.payload.keep(self.first, stay)))
        self.renumbered += 1
        self.gone_rows = int(np.count_nonzero(self.columns.held("gone"))) if self.purges else 0
        self.fell = last_fall(self.columns.held("time"), BOTTOMLESS_US)
        for index in self._indexes:
            index.rebuild(self.rows)
        self._count(self.first, self.count)

    def _count(self, start: int, stop: int) -> None:
        """Count linked rows in the side's count window: what pushes others out, in order of time.

        After rows were taken back or got new positions, all rows held are counted again: those that were
        forgotten had left the window and are older than all that are inside, so they count for none of them.
        """
        if self.counting is not None:
            self.counting.count(start, stop)

    def _make_room(self, rows: int) -> None:
        if self.count + rows > _MAX_POSITION:
            self._renumber(np.ones(self.rows, np.bool_))
        if self.rows + rows > _MAX_POSITION:
            raise InvalidValue(f"stream {self.name!r}: more than {_MAX_POSITION:,} rows in its window")
        self.columns.make_room(rows)
        for index in self._indexes:
            index.fit(self.rows + rows)


def passed(side: SideState, oldest: int) -> int:
    """How many rows of a side, from the first one on, are older than `oldest` (or ended before it)."""
    lasting = side.columns.held(side.lifetime)
    in_order = side.lifetime == "time" and side.ordered
    return int(lasting.searchsorted(oldest)) if in_order else int(expired_prefix(lasting, oldest))
