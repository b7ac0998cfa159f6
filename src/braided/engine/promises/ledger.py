"""Which keys each stream is closed for: what punctuations, unique keys, orders and clusters have said so far.

A key that all streams are closed for is *done*: it is forgotten by each of them, and remembered once for all,
because it may be closed again (a punctuation that is sent twice, or of a unique stream), and so that a row of
it is noticed. Of keys that are done only a number are remembered: neighbours take no room, but others might.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.intake import Arrival, Intake
from braided.engine.promises.closed_keys import NO_RANK, NO_RANK_ABOVE, ClosedKeys
from braided.engine.promises.key_sets import Pairs
from braided.engine.sides.keys import KeyFormat, Keys, concat_keys
from braided.engine.watermark import NONE_US
from braided.policies.arrays import Bools, Int64s
from braided.query.bounds import INFINITE_US
from braided.query.errors import BrokenPromise, InvalidType
from braided.query.join_query import JoinQuery
from braided.query.stream import Stream

_MOST_DONE = _MOST_ANNOUNCED = 1 << 16
_NO_RANGES = NO_RANK, NO_RANK_ABOVE
_NO_KEYS = Keys(np.empty(0, np.int64))


@dataclass(frozen=True)
class Closing:
    """What one stream's part of a batch closes: keys that it brought, others one by one, ranges."""

    brought: Keys
    over: tuple[Keys, ...]
    upto: int
    since: int
    moves: int  # how many closed ranges
    opened: Keys  # of a clustered stream: the latest keys

    @property
    def single(self) -> list[Keys]:
        """The keys that are closed one by one."""
        return [part for part in (self.brought, *self.over) if len(part)]


class Ledger:
    """The closed keys of a join's streams."""

    def __init__(self, query: JoinQuery, keys: KeyFormat) -> None:
        self._query, self.keys = query, keys
        retention_us = max(query.bounds.retention_us(i) for i in range(len(query.streams)))
        self._age_us = None if retention_us >= INFINITE_US else retention_us
        self._aged_us: int | None = None  # where the watermark was when keys were last aged
        self.closed = [self._no_keys() for _ in query.streams]
        self._open = [_NO_KEYS] * len(query.streams)  # of clustered streams: the latest keys
        self.done = self._no_keys()
        self.announced = self._no_keys()  # where rows expire, the latest ones; else those that are not done
        for stream in query.streams if query.emit_punctuations and not keys.exact else ():
            if stream.arrival != "any":
                raise InvalidType(
                    f"stream {stream.name!r}: emit_punctuations=True with arrival={stream.arrival!r} needs a "
                    "key of one number, date or time column; leave one of them out"
                )

    def _no_keys(self) -> ClosedKeys:
        return ClosedKeys(self.keys, ages=self._age_us is not None)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """By stream, the rank up to which and from which on all keys are closed."""
        return [(c.upto, c.since) for c in self.closed]

    @property
    def closes(self) -> bool:
        """Whether any stream is closed for any key."""
        return any(map(len, (*self.closed, self.done))) or any(r != _NO_RANGES for r in self.ranges)

    def known(self, keys: KeyFormat) -> Ledger:
        """The same, with more known of the types of keys."""
        later = copy.copy(self)
        later.keys, later._open = keys, list(self._open)
        later.closed = [closed.known(keys) for closed in self.closed]
        later.announced, later.done = self.announced.known(keys), self.done.known(keys)
        return later

    def check(self, i: int, arrival: Arrival, intake: Intake) -> Arrival:
        """An arrival with its keys, without rows that break a promise; or the first such row raises.

        Rows at other engines may have more keys.
        """
        stream, keys = self._query.streams[i], intake.keys_of(arrival.rows)
        keyed = arrival.rows.linked  # None: all have a key
        first = keys.first_ones() if keyed is None else _first_of(keys, keyed)
        repeated = (~first if keyed is None else keyed & ~first) & stream.unique
        if stream.promises and (repeated.any() or self.is_closed(i, keys.pick(first)).any()):
            broken = repeated | self.is_closed(i, keys)
            broken = broken if keyed is None else broken & keyed
            if self._query.tuning.on_violation == "raise":
                row = int(broken.argmax())
                hash_ = keys.hashes[row : row + 1]
                raise _broken_promise(stream, self.closed[i], self.keys, arrival.rows.batch.slice(row), hash_)
            first &= ~broken
            arrival = arrival.pick(~broken, violations=int(broken[: arrival.own_rows].sum()))
        return dataclasses.replace(arrival, keys=keys.pick(first) if arrival.told is None else arrival.told)

    def is_closed(self, i: int, keys: Keys) -> Bools:
        """Which keys a stream is closed for."""
        return self.closed[i].contains(keys) | self.done.contains(keys)

    def by_stream(self, keys: Keys) -> Any:
        """Which keys are closed, by stream."""
        return np.array([closed.contains(keys) for closed in self.closed]) | self.done.contains(keys)

    def closing(self, i: int, arrival: Arrival, keys: Keys) -> Closing:
        """Return what one stream's part of a batch closes; nothing is closed by asking."""
        stream, upto, since = self._query.streams[i], NO_RANK, NO_RANK_ABOVE
        over, moves, opened = [arrival.punctuated or _NO_KEYS], 0, self._open[i]
        if stream.arrival in ("ordered", "descending") and self.keys.ordered:
            if len(keys):
                ranks, moves = self.keys.ranks(keys.hashes), len(keys)
                if stream.arrival == "ordered":
                    upto = int(ranks.max()) - 1
                else:
                    since = int(ranks.min()) + 1
        elif stream.arrival != "any":
            ended, opened = self._clusters(i, keys, whole=arrival.brought and arrival.whole)
            over.append(ended)
        if arrival.upto is not None:
            upto = max(upto, int(self.keys.ranks(np.array([arrival.upto]))[0]))
            moves += max(1, arrival.punctuations)  # only one engine of several counts them
        return Closing(keys if stream.unique else _NO_KEYS, tuple(over), upto, since, moves, opened)

    def close(self, i: int, closing: Closing) -> list[Keys]:
        """Close it; return the keys that were closed one by one, besides unique ones."""
        closed, self._open[i] = self.closed[i], closing.opened
        closed.add(closing.brought)  # none is done: it would have broken a promise
        closed.close_ranges(closing.upto, closing.since)
        new = [part for over in closing.over if len(part := over.pick(~self.done.contains(over)))]
        for part in new:
            closed.add(part)
        return new

    def closes_with(self, i: int, closing: Closing | None, keys: Keys) -> Bools:
        """Which keys a stream is closed for once that is closed."""
        closed = self.is_closed(i, keys)
        for part in closing.single if closing is not None else ():
            closed |= Pairs.of(*part.words).has(*keys.words)
        if closing is not None and self.keys.ordered and closing.moves:
            ranks = self.keys.ranks(keys.hashes)
            closed |= (ranks <= closing.upto) | (ranks >= closing.since)
        return closed

    def announce(self, keys: Keys) -> None:
        """The output is told of some keys; what is repeated is told once, as far as it is remembered."""
        self.announced.add(keys)
        self.announced.age(_MOST_ANNOUNCED)  # only where rows expire: no key is young elsewhere

    def finish(self, keys: Keys) -> None:
        """All streams are closed for some keys."""
        for known in self.closed if self._age_us is not None else (*self.closed, self.announced):
            known.forget(keys)
        if len(self.done) > _MOST_DONE:
            self.done = self._no_keys()
        self.done.add(keys)

    def age(self, watermark_us: int, needed: Callable[[], Keys] | None = None) -> None:
        """Where rows expire, closed keys are dropped after as long again: nothing waits for them.

        Those that are `needed` stay.
        """
        if self._age_us is None or watermark_us == NONE_US:
            return
        if self._aged_us is None:
            self._aged_us = watermark_us
        elif watermark_us - self._aged_us > self._age_us:
            self._aged_us = watermark_us
            keys = needed() if needed is not None else _NO_KEYS
            for known in (*self.closed, self.done):
                stay = keys.pick(known.contains(keys))
                known.age()
                known.add(stay)

    # from and to a checkpoint

    def save(self, arrays: dict[str, Int64s]) -> dict[str, Any]:
        """As plain numbers, and arrays by name."""
        for i, opened in enumerate(self._open):
            put_keys(arrays, f"{i}/open", [opened])
        sets = {name: keys.save(name, arrays) for name, keys in self._sets().items()}
        return {"aged_us": self._aged_us, "sets": sets}

    def load(self, numbers: Mapping[str, Any], arrays: Mapping[str, Int64s]) -> None:
        """Go on from what was saved."""
        self._aged_us = numbers["aged_us"]
        self._open = [self.get_keys(arrays, f"{i}/open") for i in range(len(self._open))]
        for name, keys in self._sets().items():
            keys.load(name, numbers["sets"][name], arrays)

    def get_keys(self, arrays: Mapping[str, Int64s], name: str) -> Keys:
        """Keys that `put_keys` wrote, if it did."""
        hashes, checks = (arrays.get(f"{name}/{part}", _NO_KEYS.hashes) for part in "ab")
        return Keys(hashes, None if self.keys.exact else checks)

    # parts of the above

    def _sets(self) -> dict[str, ClosedKeys]:
        """All sets of keys, by the names that they are saved under."""
        sets = {"done": self.done, "announced": self.announced}
        return sets | {str(i): closed for i, closed in enumerate(self.closed)}

    def _clusters(self, i: int, keys: Keys, *, whole: bool) -> tuple[Keys, Keys]:
        """Keys whose rows are over, of the latest batch with rows and not of this one; the latest keys now.

        A batch of which rows could not be taken tells nothing: they may have had any key.
        """
        opened = self._open[i]
        if not whole:
            return _NO_KEYS, concat_keys([opened, keys])
        return opened.pick(concat_keys([keys, opened]).first_ones()[len(keys) :]), keys


def _first_of(keys: Keys, chosen: Bools) -> Bools:
    """Which of the chosen keys did not come before among them."""
    first = np.zeros(len(keys), np.bool_)
    first[chosen] = keys.pick(chosen).first_ones()
    return first


def put_keys(arrays: dict[str, Int64s], name: str, parts: list[Keys]) -> None:
    """Add keys, if there are any, to arrays under a name."""
    if any(map(len, parts)):
        arrays[f"{name}/a"], arrays[f"{name}/b"] = concat_keys(parts).words


def _broken_promise(
    stream: Stream, closed: ClosedKeys, keys: KeyFormat, rows: pa.RecordBatch, hash_: Int64s
) -> BrokenPromise:
    """Say which promise of a stream the first of some rows breaks; its key has this hash."""
    values = tuple(rows.column(column)[0].as_py() for column in stream.key_columns)
    below = above = False
    if keys.ordered:
        (rank,) = keys.ranks(hash_).tolist()
        below, above = rank <= closed.upto, rank >= closed.since
    if below and stream.arrival == "ordered":
        promise = "arrival='ordered' says that no key comes below an earlier batch's"
    elif above and stream.arrival == "descending":
        promise = "arrival='descending' says that no key comes above an earlier batch's"
    elif below and stream.upto is not None:
        promise = f"a punctuation had closed all keys up to a larger {stream.upto}"
    elif stream.unique:
        promise = "unique=True says that no key comes twice, and this one did"
    elif stream.punctuation is not None:
        also = "" if stream.arrival == "any" else " or the end of its cluster"
        promise = f"a punctuation{also} had said that no more of them would come"
    else:
        promise = f"arrival={stream.arrival!r} says that rows of a key come together, and its rows were over"
    return BrokenPromise(
        f"stream {stream.name!r}: a row with key {(values[0] if len(values) == 1 else values)!r} came, but "
        f"{promise}; mend the source or leave the promise out, or count such rows and leave them out with "
        "bd.Tuning(on_violation='count')"
    )
