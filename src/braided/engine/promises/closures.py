"""What streams have promised so far, and the rows that may be forgotten for it.

A stream is *closed* for a key if no row of it with that key is to come. Let every stored row owe nothing: it
has been joined with all rows that came before it. Then row x of stream i with key k may go if

(a) all other streams are closed for k: a result with x that is still to come would need a new row of
    another stream, and there is none; or
(b) some other stream j is closed for k and holds no row of k: every result of k needs a row of j, and
    there is none and none to come.

The same is true of an intermediate row made of the streams I: (a) if all streams outside I are closed, (b) as
it is. If j lost its rows by (b), no result of k is to come at all; if by (a), all others are closed and so is
j: again nothing is to come. So rows that were purged are rightly counted as not held, and the rule may be
applied until nothing changes.

Closures take effect between batches, so the order of rows inside a batch decides nothing. Only a key that a
unique stream brings twice is seen inside a batch. After a batch there are keys to *settle*: at once those of
rows that can be dropped on the fly or let others be, later (when purging is due) those that were closed by a
punctuation, or by the end of a cluster.

Under a memory budget rows may be on disk, which owe results and are held without being seen: of the keys of
their partition groups nothing is forgotten.

The output can be told, too (`emit_punctuations`): a key is *complete* when all streams are closed for it, or
by (b). That is looked at after every batch for the keys it touched, and said once.

A key that all streams are closed for is *done*: it is forgotten by each of them, and remembered once for all,
because it may be closed again (a punctuation that is sent twice, or of a unique stream), and so that a row of
it is noticed. Of keys that are done only so many are remembered: neighbours take no room, but others might.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.intake import Arrival, Intake
from braided.engine.operators.inputs import Input
from braided.engine.operators.tree import Tree
from braided.engine.promises.stored_keys import holds, purge, stored_keys
from braided.engine.sides.closed_keys import ClosedKeys, Keys, together
from braided.engine.sides.keys import KeyFormat
from braided.engine.sides.side import SideState
from braided.engine.watermark import NONE_US
from braided.policies import purging
from braided.policies.arrays import Bools, Int64s
from braided.query.bounds import INFINITE_US
from braided.query.errors import BrokenPromise, InvalidType
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import leaves
from braided.query.stream import Stream

Arrivals: TypeAlias = Sequence[Arrival | None]
_MOST_DONE = 1 << 16


class Closures:
    """The closures of a join whose streams promise something."""

    def __init__(self, query: JoinQuery, keys: KeyFormat, parts: int = 1) -> None:
        """`parts` is over how many engines the join is spread."""
        self._query, self._keys, self._parts = query, keys, parts
        retention_us = max(query.bounds.retention_us(i) for i in range(len(query.streams)))
        self._age_us = None if retention_us >= INFINITE_US else retention_us
        self._aged_us: int | None = None  # where the watermark was when keys were last aged
        self.closed = [self._no_keys() for _ in query.streams]
        self._open: list[Keys | None] = [None] * len(query.streams)  # of clustered streams: the latest keys
        self._now: list[Keys] = []
        self._later: list[Keys] = []
        self._scanned = self._ranges  # that stored rows were judged by
        self._moves = 0  # closures of ranges that stored rows were not judged by yet
        self._done = self._no_keys()
        self._announced = self._no_keys()  # and not done
        self.on_disk: Callable[[Int64s], Bools] | None = None  # of which keys, by hash, rows may be on disk
        self.announcements = 0  # since the start
        self._told = self._ranges  # that the output was told of
        self._touched: list[Keys] = []  # keys that the latest batch touched, if the output is to be told
        if query.emit_punctuations:
            self._check_values()

    def _no_keys(self) -> ClosedKeys:
        return ClosedKeys(self._keys, ages=self._age_us is not None)

    @property
    def _ranges(self) -> list[tuple[int, int]]:
        return [(c.upto, c.since) for c in self.closed]

    def known(self, keys: KeyFormat) -> Closures:
        """The same, with more known of the types of keys."""
        if keys == self._keys:
            return self
        later = Closures(self._query, keys, self._parts)
        later.closed = [closed.known(keys) for closed in self.closed]
        later._open, later._now, later._later = list(self._open), list(self._now), list(self._later)
        later._announced, later.announcements = self._announced.known(keys), self.announcements
        later._done = self._done.known(keys)
        later._aged_us, later._moves = self._aged_us, self._moves
        later.on_disk = self.on_disk
        return later

    def check(self, arrivals: Arrivals, intakes: Sequence[Intake | None]) -> list[Arrival | None]:
        """Arrivals with their keys, without rows that break a promise; or the first such row raises."""
        checked: list[Arrival | None] = []
        for i, (arrival, intake) in enumerate(zip(arrivals, intakes, strict=True)):
            if arrival is None or intake is None:
                checked.append(arrival)
                continue
            keys = intake.keys_of(arrival.rows)
            first = keys.first_ones()
            broken = self._broken(i, keys, first)
            if broken is not None:
                if self._query.tuning.on_violation == "raise":
                    raise BrokenPromise(self._said(i, arrival, int(np.flatnonzero(broken)[0])))
                first &= ~broken
                arrival = dataclasses.replace(
                    arrival, rows=arrival.rows.pick(~broken), violations=int(broken.sum())
                )
            checked.append(dataclasses.replace(arrival, keys=keys.pick(first)))
        return checked

    def _broken(self, i: int, keys: Keys, first: Bools) -> Bools | None:
        """Which rows of a stream, by their keys, must not come; None if none."""
        stream = self._query.streams[i]
        if not stream.promises or not len(keys):
            return None
        doubled = stream.unique and not first.all()
        if not doubled and not self._is_closed(i, keys.pick(first)).any():
            return None
        broken = self._is_closed(i, keys)
        return broken | ~first if doubled else broken

    def _is_closed(self, i: int, keys: Keys) -> Bools:
        """Which keys a stream is closed for."""
        return self.closed[i].contains(keys) | self._done.contains(keys)

    def after(self, arrivals: Arrivals, watermark_us: int) -> None:
        """A batch is done: close what it closed, and note which keys are to be settled."""
        self._age(watermark_us)
        before = len(self._now), len(self._later)
        came = [(i, a, a.keys) for i, a in enumerate(arrivals) if a is not None and a.keys is not None]
        for i, arrival, keys in came:
            self._close(i, arrival, keys)
        for i, _, keys in came:
            others = np.zeros(len(keys), np.bool_)
            for j in range(len(self.closed)):
                if i != j:
                    others |= self._is_closed(j, keys)
            if others.any():
                self._now.append(keys.pick(others))
        if self._query.emit_punctuations:
            self._touched = [*self._now[before[0] :], *self._later[before[1] :]]

    def announce(self, tree: Tree) -> list[pa.Array] | None:
        """The keys that the latest batch made complete, as their columns; None if there are none."""
        if not self._query.emit_punctuations:
            return None
        touched = [*self._touched, *self._in_ranges_since(tree, self._told)]
        self._touched, self._told = [], self._ranges
        touched = [keys for keys in touched if len(keys)]
        if not touched:
            return None
        keys = together(touched)
        said = self._announced.contains(keys) | self._done.contains(keys)
        keys = keys.pick(keys.first_ones() & ~said)
        closed, finished, _, _ = self._judged(tree, keys)
        keys = keys.pick(finished | _all_but(closed, ()))
        if not len(keys):
            return None
        self._announced.add(keys)
        self.announcements += len(keys)
        return [self._keys.values(keys.hashes)] if keys.values is None else list(keys.values)

    def purge(self, tree: Tree, *, idle: bool) -> list[int]:
        """Forget rows that can join no more, as far as purging is due; how many of each stream."""
        pending = self._moves + sum(map(len, self._later))
        parts = list(self._now)
        all_of_them = purging.due(self._query.tuning, pending, idle=idle, parts=self._parts)
        if all_of_them:
            parts += self._later
            parts += self._in_ranges_since(tree, self._scanned)
        parts = [keys for keys in parts if len(keys)]
        purged = self._settle(tree, together(parts)) if parts else [0] * len(self.closed)
        self._now = []
        if all_of_them:
            self._later, self._scanned, self._moves = [], self._ranges, 0
        return purged

    # from and to a checkpoint

    def kept(self) -> tuple[dict[str, Any], dict[str, Int64s]]:
        """As plain numbers and named arrays."""
        said: dict[str, Any] = {"closed": [], "scanned": [list(s) for s in self._scanned]}
        said["moves"], said["aged_us"] = self._moves, self._aged_us
        arrays: dict[str, Int64s] = {}
        said["done"] = _put(arrays, "done", self._done)
        if self._query.emit_punctuations:
            said["announcements"], said["told"] = self.announcements, [list(s) for s in self._told]
            said["announced"] = _put(arrays, "announced", self._announced)
        for i, closed in enumerate(self.closed):
            said["closed"].append(_put(arrays, str(i), closed))
            if (opened := self._open[i]) is not None:
                arrays[f"{i}/open/a"], arrays[f"{i}/open/b"] = opened.words
        for name, parts in (("now", self._now), ("later", self._later)):
            if parts:
                arrays[f"{name}/a"], arrays[f"{name}/b"] = together(parts).words
        return said, arrays

    def restore(self, said: Mapping[str, Any], arrays: Mapping[str, Int64s]) -> None:
        """Go on from what was kept."""
        for i, closed in enumerate(self.closed):
            closed.restore(said["closed"][i], _got(arrays, str(i)))
            self._open[i] = self._kept_keys(arrays, f"{i}/open")
        self._scanned = [(upto, since) for upto, since in said["scanned"]]
        self._moves, self._aged_us = said["moves"], said["aged_us"]
        self._done.restore(said["done"], _got(arrays, "done"))
        if "announcements" in said:
            self.announcements = said["announcements"]
            self._told = [(upto, since) for upto, since in said["told"]]
            self._announced.restore(said["announced"], _got(arrays, "announced"))
        self._now = [k for k in [self._kept_keys(arrays, "now")] if k is not None]
        self._later = [k for k in [self._kept_keys(arrays, "later")] if k is not None]

    # parts of the above

    def _check_values(self) -> None:
        for stream in self._query.streams:
            if stream.arrival != "any" and not self._keys.exact:
                raise InvalidType(
                    f"stream {stream.name!r}: emit_punctuations=True with arrival={stream.arrival!r} needs a "
                    "key of one number, date or time column; leave one of them out"
                )

    def _kept_keys(self, arrays: Mapping[str, Int64s], name: str) -> Keys | None:
        if f"{name}/a" not in arrays:
            return None
        return Keys(arrays[f"{name}/a"], None if self._keys.exact else arrays[f"{name}/b"])

    def _close(self, i: int, arrival: Arrival, keys: Keys) -> None:
        """What one stream's part of a batch closes."""
        stream, closed = self._query.streams[i], self.closed[i]
        over = [arrival.punctuated] if arrival.punctuated is not None else []
        if stream.unique and len(keys):
            closed.add(keys)  # none is done: it would have broken a promise
            self._now.append(keys)
        if stream.arrival in ("ordered", "descending") and self._keys.ordered:
            if len(keys):
                ranks = self._keys.ranks(keys.hashes)
                if stream.arrival == "ordered":
                    closed.close_upto(int(ranks.max()) - 1)
                else:
                    closed.close_since(int(ranks.min()) + 1)
                self._moves += len(keys)
        elif stream.arrival != "any":
            over += self._clusters(i, keys, whole=arrival.brought and arrival.whole)
        if arrival.upto is not None:
            closed.close_upto(_first(self._keys.ranks(np.array([arrival.upto]))))
            self._moves += max(1, arrival.punctuations)  # only one engine of several counts them
        for part in over:
            new = part.pick(~self._done.contains(part))
            if len(new):
                closed.add(new)
                self._later.append(new)

    def _clusters(self, i: int, keys: Keys, *, whole: bool) -> list[Keys]:
        """Keys whose rows are over: of the latest batch with rows, and not of this one.

        A batch of which rows could not be taken tells nothing: they may have had any key.
        """
        opened = self._open[i]
        if not whole:
            if len(keys):
                self._open[i] = keys if opened is None else together([opened, keys])
            return []
        self._open[i] = keys
        return [] if opened is None else [opened.pick(opened.first_ones() & ~_among(opened, keys))]

    def _age(self, watermark_us: int) -> None:
        """Where rows expire, closed keys are dropped after as long again: nothing waits for them."""
        if self._age_us is None or watermark_us == NONE_US:
            return
        if self._aged_us is None:
            self._aged_us = watermark_us
        elif watermark_us - self._aged_us > self._age_us:
            self._aged_us = watermark_us
            for known in (*self.closed, self._done, self._announced):
                known.age()

    def _in_ranges_since(self, tree: Tree, before: Sequence[tuple[int, int]]) -> list[Keys]:
        """Keys of stored rows, and single closed ones, in ranges that were closed since then."""
        found: list[Keys] = []
        for closed, (upto, since) in zip(self.closed, before, strict=True):
            if (closed.upto, closed.since) == (upto, since):
                continue
            for name in self._query.names:
                if (side := tree.sides.get(name)) is not None:
                    keys = stored_keys(side)
                    ranks = self._keys.ranks(keys.hashes)
                    below = (ranks > upto) & (ranks <= closed.upto)
                    found.append(keys.pick(below | ((ranks < since) & (ranks >= closed.since))))
            for other in self.closed:
                found += [
                    other.single_ones(upto + 1, closed.upto),
                    other.single_ones(closed.since, since - 1),
                ]
        return found

    def _judged(self, tree: Tree, keys: Keys) -> tuple[Any, Bools, Any, Bools]:
        """By stream and key: what is closed; of which keys no result is to come; whose rows may go.

        And of which keys rows may be on disk.
        """
        sides = [tree.sides.get(name) for name in self._query.names]
        closed = np.array([self._is_closed(i, keys) for i in range(len(sides))])
        held = np.array([_holds(side, keys, known) for side, known in zip(sides, closed, strict=True)])
        spilled = np.zeros(len(keys), np.bool_) if self.on_disk is None else self.on_disk(keys.hashes)
        held |= spilled
        while True:
            finished: Bools = (closed & ~held).any(axis=0)
            may = np.array([finished | _all_but(closed, [i]) for i in range(len(sides))]) & ~spilled
            if not (held & closed & may).any():
                return closed, finished, may, spilled
            held &= ~may

    def _settle(self, tree: Tree, keys: Keys) -> list[int]:
        """Forget the rows of some keys that can join no more, and the keys that nothing can come of."""
        keys = keys.pick(keys.first_ones())
        closed, finished, may, spilled = self._judged(tree, keys)
        all_closed = _all_but(closed, ())
        sides = [tree.sides.get(name) for name in self._query.names]
        purged = [
            purge(side, keys.pick(gone)) if side is not None and gone.any() else 0
            for side, gone in zip(sides, may, strict=True)
        ]
        for source, side in tree.intermediates:
            gone = (finished | _all_but(closed, _places(self._query, source))) & ~spilled
            if gone.any():
                purge(side, keys.pick(gone))
        if all_closed.any():
            done = keys.pick(all_closed)
            for known in (*self.closed, self._announced):
                known.forget(done)
            if len(self._done) > _MOST_DONE:
                self._done = self._no_keys()
            self._done.add(done)
        return purged

    def _said(self, i: int, arrival: Arrival, row: int) -> str:
        """Which promise a row breaks."""
        stream = self._query.streams[i]
        values = [arrival.rows.batch.column(column)[row].as_py() for column in stream.key_columns]
        key = repr(values[0]) if len(values) == 1 else repr(tuple(values))
        return (
            f"stream {stream.name!r}: a row with key {key} came, but {self._promise(i, arrival, row)}; mend "
            "the source or leave the promise out, or count such rows and leave them out with "
            "bd.Tuning(on_violation='count')"
        )

    def _promise(self, i: int, arrival: Arrival, row: int) -> str:
        stream, closed = self._query.streams[i], self.closed[i]
        if self._keys.ordered:
            rank = int(self._keys.ranks(arrival.rows.hashes[row : row + 1])[0])
            if rank <= closed.upto and stream.arrival == "ordered":
                return _order(stream, "below")
            if rank <= closed.upto and stream.upto is not None:
                return f"a punctuation had closed all keys up to a larger {stream.upto}"
            if rank >= closed.since and stream.arrival == "descending":
                return _order(stream, "above")
        if stream.unique:
            return "unique=True says that no key comes twice, and this one did"
        if stream.punctuation is not None and stream.arrival == "any":
            return "a punctuation had said that no more of them would come"
        if stream.punctuation is not None:
            return "a punctuation or the end of its cluster had said that no more of them would come"
        return f"arrival={stream.arrival!r} says that rows of a key come together, and its rows were over"


def _put(arrays: dict[str, Int64s], name: str, keys: ClosedKeys) -> dict[str, int]:
    """Add a set's arrays under a name; its numbers."""
    said, parts = keys.kept()
    arrays.update({f"{name}/{number}": part for number, part in enumerate(parts)})
    return said


def _got(arrays: Mapping[str, Int64s], name: str) -> list[Int64s]:
    """A set's arrays."""
    return [arrays[f"{name}/{number}"] for number in range(4) if f"{name}/{number}" in arrays]


def _first(numbers: Int64s) -> int:
    return int(numbers[0])


def _order(stream: Stream, side: str) -> str:
    return f"arrival={stream.arrival!r} says that no key comes {side} an earlier batch's"


def _among(keys: Keys, others: Keys) -> Bools:
    """Which keys are among others."""
    first = together([others, keys]).first_ones()
    return ~first[len(others) :]


def _holds(side: SideState | None, keys: Keys, known: Bools) -> Bools:
    """Which keys a side holds rows of; asked only where it is known to matter."""
    held = ~known
    if side is not None and known.any():
        held[known] = holds(side, keys.pick(known))
    return held


def _all_but(closed: Bools, places: Sequence[int]) -> Bools:
    """For which keys all streams are closed but some."""
    others = [i for i in range(len(closed)) if i not in places]
    found: Bools = np.asarray(closed[others].all(axis=0))
    return found


def _places(query: JoinQuery, source: Input) -> list[int]:
    return [query.names.index(name) for name in leaves(source.node)]
