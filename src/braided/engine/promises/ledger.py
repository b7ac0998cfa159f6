"""Which keys each stream is closed for: what punctuations, unique keys, orders and clusters have said so far.

A key that all streams are closed for is *done*: it is forgotten by each of them, and remembered once for all,
because it may be closed again (a punctuation that is sent twice, or of a unique stream), and so that a row of
it is noticed. Of keys that are done only a number are remembered: neighbours take no room, but others might.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from braided.engine.intake import Arrival, Intake
from braided.engine.promises.broken import broken_promise
from braided.engine.promises.closed_keys import ClosedKeys
from braided.engine.sides.keys import KeyFormat, Keys, concat_keys
from braided.engine.watermark import NONE_US
from braided.policies.arrays import Bools, Int64s
from braided.query.bounds import INFINITE_US
from braided.query.errors import InvalidType
from braided.query.join_query import JoinQuery

_MOST_DONE = _MOST_ANNOUNCED = 1 << 16


class Ledger:
    """The closed keys of a join's streams."""

    def __init__(self, query: JoinQuery, keys: KeyFormat) -> None:
        self._query, self.keys = query, keys
        retention_us = max(query.bounds.retention_us(i) for i in range(len(query.streams)))
        self._age_us = None if retention_us >= INFINITE_US else retention_us
        self._aged_us: int | None = None  # where the watermark was when keys were last aged
        self.closed = [self.no_keys() for _ in query.streams]
        self._open: list[Keys | None] = [None] * len(query.streams)  # of clustered streams: the latest keys
        self.done = self.no_keys()
        self.announced = self.no_keys()  # where rows expire, the latest ones; else those that are not done
        if query.emit_punctuations:
            self._check_values()

    def no_keys(self) -> ClosedKeys:
        """An empty set of keys."""
        return ClosedKeys(self.keys, ages=self._age_us is not None)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """By stream, the rank up to which and from which on all keys are closed."""
        return [(c.upto, c.since) for c in self.closed]

    def known(self, keys: KeyFormat) -> Ledger:
        """The same, with more known of the types of keys."""
        if keys == self.keys:
            return self
        later = Ledger(self._query, keys)
        later.closed = [closed.known(keys) for closed in self.closed]
        later.announced, later.done = self.announced.known(keys), self.done.known(keys)
        later._open, later._aged_us = list(self._open), self._aged_us
        return later

    def check(self, i: int, arrival: Arrival, intake: Intake) -> Arrival:
        """An arrival with its keys, without rows that break a promise; or the first such row raises."""
        keys = intake.keys_of(arrival.rows)
        first = keys.first_ones()
        broken = self._broken(i, keys, first)
        if broken is not None:
            if self._query.tuning.on_violation == "raise":
                row = int(np.flatnonzero(broken)[0])
                raise broken_promise(self._query.streams[i], self.closed[i], self.keys, arrival, row)
            first &= ~broken
            arrival = dataclasses.replace(
                arrival, rows=arrival.rows.pick(~broken), violations=int(broken.sum())
            )
        return dataclasses.replace(arrival, keys=keys.pick(first))

    def is_closed(self, i: int, keys: Keys) -> Bools:
        """Which keys a stream is closed for."""
        return self.closed[i].contains(keys) | self.done.contains(keys)

    def by_stream(self, keys: Keys) -> Any:
        """Which keys are closed, by stream."""
        return np.array([closed.contains(keys) for closed in self.closed]) | self.done.contains(keys)

    def close(self, i: int, arrival: Arrival, keys: Keys) -> tuple[list[Keys], int]:
        """Close what one stream's part of a batch closes, but for unique keys.

        The keys that were closed one by one, and how many closed ranges.
        """
        stream, closed = self._query.streams[i], self.closed[i]
        over = [arrival.punctuated] if arrival.punctuated is not None else []
        moves = 0
        if stream.arrival in ("ordered", "descending") and self.keys.ordered:
            if len(keys):
                ranks = self.keys.ranks(keys.hashes)
                if stream.arrival == "ordered":
                    closed.close_upto(int(ranks.max()) - 1)
                else:
                    closed.close_since(int(ranks.min()) + 1)
                moves += len(keys)
        elif stream.arrival != "any":
            over += self._clusters(i, keys, whole=arrival.brought and arrival.whole)
        if arrival.upto is not None:
            closed.close_upto(int(self.keys.ranks(np.array([arrival.upto]))[0]))
            moves += max(1, arrival.punctuations)  # only one engine of several counts them
        new = [part for keys_over in over if len(part := keys_over.pick(~self.done.contains(keys_over)))]
        for part in new:
            closed.add(part)
        return new, moves

    def announce(self, keys: Keys) -> None:
        """The output is told of some keys; what is repeated is told once, as far as it is remembered."""
        self.announced.add(keys)
        if self._age_us is not None and self.announced.young > _MOST_ANNOUNCED:
            self.announced.age()

    def finish(self, keys: Keys) -> None:
        """All streams are closed for some keys."""
        for known in self.closed if self._age_us is not None else (*self.closed, self.announced):
            known.forget(keys)
        if len(self.done) > _MOST_DONE:
            self.done = self.no_keys()
        self.done.add(keys)

    def age(self, watermark_us: int) -> None:
        """Where rows expire, closed keys are dropped after as long again: nothing waits for them."""
        if self._age_us is None or watermark_us == NONE_US:
            return
        if self._aged_us is None:
            self._aged_us = watermark_us
        elif watermark_us - self._aged_us > self._age_us:
            self._aged_us = watermark_us
            for known in (*self.closed, self.done):
                known.age()

    # from and to a checkpoint

    def save(self, arrays: dict[str, Int64s]) -> dict[str, Any]:
        """As plain numbers, and arrays by name."""
        for i, opened in enumerate(self._open):
            if opened is not None:
                put_keys(arrays, f"{i}/open", opened)
        return {
            "aged_us": self._aged_us,
            "sets": {name: keys.save(name, arrays) for name, keys in self._sets().items()},
        }

    def load(self, numbers: Mapping[str, Any], arrays: Mapping[str, Int64s]) -> None:
        """Go on from what was saved."""
        self._aged_us = numbers["aged_us"]
        self._open = [self.get_keys(arrays, f"{i}/open") for i in range(len(self._open))]
        for name, keys in self._sets().items():
            keys.load(name, numbers["sets"][name], arrays)

    def get_keys(self, arrays: Mapping[str, Int64s], name: str) -> Keys | None:
        """Keys that `put_keys` wrote."""
        if f"{name}/a" not in arrays:
            return None
        return Keys(arrays[f"{name}/a"], None if self.keys.exact else arrays[f"{name}/b"])

    # parts of the above

    def _sets(self) -> dict[str, ClosedKeys]:
        """All sets of keys, by the names that they are saved under."""
        return {
            "done": self.done,
            "announced": self.announced,
            **{str(i): c for i, c in enumerate(self.closed)},
        }

    def _check_values(self) -> None:
        for stream in self._query.streams:
            if stream.arrival != "any" and not self.keys.exact:
                raise InvalidType(
                    f"stream {stream.name!r}: emit_punctuations=True with arrival={stream.arrival!r} needs a "
                    "key of one number, date or time column; leave one of them out"
                )

    def _broken(self, i: int, keys: Keys, first: Bools) -> Bools | None:
        """Which rows of a stream, by their keys, must not come; None if none."""
        stream = self._query.streams[i]
        if not stream.promises or not len(keys):
            return None
        doubled = stream.unique and not first.all()
        if not doubled and not self.is_closed(i, keys.pick(first)).any():
            return None
        broken = self.is_closed(i, keys)
        return broken | ~first if doubled else broken

    def _clusters(self, i: int, keys: Keys, *, whole: bool) -> list[Keys]:
        """Keys whose rows are over: of the latest batch with rows, and not of this one.

        A batch of which rows could not be taken tells nothing: they may have had any key.
        """
        opened = self._open[i]
        if not whole:
            if len(keys):
                self._open[i] = keys if opened is None else concat_keys([opened, keys])
            return []
        self._open[i] = keys
        return [] if opened is None else [opened.pick(opened.first_ones() & ~_among(opened, keys))]


def put_keys(arrays: dict[str, Int64s], name: str, keys: Keys) -> None:
    """Add keys to arrays under a name."""
    arrays[f"{name}/a"], arrays[f"{name}/b"] = keys.words


def _among(keys: Keys, others: Keys) -> Bools:
    """Which keys are among others."""
    first = concat_keys([others, keys]).first_ones()
    return ~first[len(others) :]
