"""The keys one stream is closed for: state of its own, as small as it can be kept.

All keys up to a rank, all from a rank on, and single ones. Single keys that are neighbours go into a set,
`_main`; what becomes of others goes into a table, `_recent`, and from time to time into the set. Keys that
every stream is closed for are *forgotten*: nothing can come of them any more. What is a member never depends
on when the parts were put together.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.kernels import closing
from braided.engine.promises.key_sets import MAX_RANK, MIN_RANK, Intervals, KeyTable, Pairs
from braided.engine.sides.keys import KeyFormat, Keys
from braided.policies.arrays import Bools, Int64s

_FEW = 1 << 16
_SHORT, _NEIGHBOURS = 128, 4  # entries of a set that is searched at once; keys in a run of them, at least
_SIGN = np.int64(MIN_RANK)
NO_RANK, NO_RANK_ABOVE = MIN_RANK - 1, MAX_RANK + 1


class ClosedKeys:
    """The keys one stream is closed for.

    With `ages` single keys are dropped some time after they were closed (see `age`): that is always right, it
    only lets others go later.
    """

    def __init__(self, keys: KeyFormat, *, ages: bool = False) -> None:
        self._keys, self._ages = keys, ages
        self._kind: Any = Intervals if keys.ordered else Pairs
        self.upto, self.since = NO_RANK, NO_RANK_ABOVE  # closed: all up to the one, and from the other on
        self._set(self._kind(), self._kind())

    def _set(self, main: Any, young: Any) -> None:
        """Remember single keys, and those of them that were closed since the latest ageing."""
        self._main, self._young = main, young
        self._recent, self._more = KeyTable(), 0  # by how many single keys the table changes the set

    def known(self, keys: KeyFormat) -> ClosedKeys:
        """The same, with more known of the types of keys: unsigned numbers may be ranked otherwise."""
        self._put_together()
        later, sets = copy.copy(self), (self._main, self._young)
        later._keys = keys
        if self._keys.ordered and pa.uint64() in keys.types and pa.uint64() not in self._keys.types:
            sets = tuple(type(s)(s.a ^ _SIGN, s.b ^ _SIGN) for s in sets)
            later.upto = self.upto ^ MIN_RANK if self.upto >= 0 else NO_RANK
            later.since = NO_RANK_ABOVE if self.since > MAX_RANK else max(0, self.since) ^ MIN_RANK
        later._set(*sets)
        return later

    def __len__(self) -> int:
        """How many entries are searched for a key."""
        return len(self._main) + len(self._recent)

    @property
    def count(self) -> int:
        """How many single keys are remembered."""
        return int(self._main.keys) + self._more

    def contains(self, keys: Keys) -> Bools:
        """Which keys are closed."""
        closed = self._single(keys)
        if self._keys.ordered and (self.upto > NO_RANK or self.since < NO_RANK_ABOVE):
            ranks = self._keys.ranks(keys.hashes)
            closed |= (ranks <= self.upto) | (ranks >= self.since)
        return closed

    def add(self, keys: Keys) -> None:
        """Close single keys."""
        new = keys.pick(~self.contains(keys))
        if not len(new):
            return
        terms = self._terms(*new.words)
        if (run := self._run(terms)) is not None:
            self._main = self._main.plus(run.a, run.b)
        else:
            self._more += self._recent.put(*new.words, closing.CLOSED)
        if self._ages:
            self._young = self._young.plus(*terms)
        if self._keys.ordered:  # intervals have a rank on either side
            if (terms[0] == MIN_RANK).any():
                self.close_ranges(upto=MIN_RANK)
            if (terms[0] == MAX_RANK).any():
                self.close_ranges(since=MAX_RANK)
        self._tidy()

    def forget(self, keys: Keys) -> None:
        """Single keys that all streams are closed for: no need to remember them."""
        single = keys.pick(self._single(keys))
        if len(single):
            if (run := self._run(self._terms(*single.words))) is not None:
                self._main = self._main.minus(run.a, run.b)
            else:
                self._more -= self._recent.put(*single.words, closing.FORGOTTEN)
            self._tidy()
        if len(self._young):
            self._young = self._young.minus(*self._terms(*keys.words))

    def age(self, most: int = -1) -> None:
        """Drop the single keys that were closed before the latest ageing, if more than `most` came since."""
        if len(self._young) > most:
            self._set(self._young, self._kind())

    def single_ones(self, low: int, high: int) -> Keys:
        """The single keys from one rank to another; of ordered keys only."""
        self._put_together()
        part = self._main.between(low, high)
        ranks = [np.arange(a, b + 1, dtype=np.int64) for a, b in zip(part.a, part.b, strict=True)]
        return Keys(self._keys.hashes_of_ranks(np.concatenate([part.a[:0], *ranks])))

    def close_ranges(self, upto: int = NO_RANK, since: int = NO_RANK_ABOVE) -> None:
        """Close all keys up to a rank, and all from a rank on; single keys there need not be remembered."""
        if upto > self.upto or since < self.since:
            self.upto, self.since = max(self.upto, upto), min(self.since, since)
            self._put_together()
            self._set(*(s.between(self.upto + 1, self.since - 1) for s in (self._main, self._young)))

    # from and to a checkpoint

    def save(self, name: str, arrays: dict[str, Int64s]) -> dict[str, int]:
        """Add its arrays under a name, and return its numbers."""
        self._put_together()
        for part, keys in (("", self._main), ("/young", self._young)):
            arrays[f"{name}{part}/a"], arrays[f"{name}{part}/b"] = keys.a, keys.b
        return {"upto": self.upto, "since": self.since}

    def load(self, name: str, numbers: Mapping[str, int], arrays: Mapping[str, Int64s]) -> None:
        """Go on from what was saved."""
        self.upto, self.since = numbers["upto"], numbers["since"]
        parts = (f"{name}{part}" for part in ("", "/young"))
        self._set(*(self._kind(arrays[f"{part}/a"], arrays[f"{part}/b"]) for part in parts))

    # parts of the above

    def _terms(self, hashes: Int64s, checks: Int64s) -> tuple[Int64s, Int64s]:
        """Keys as sets have them."""
        if not self._keys.ordered:
            return hashes, checks
        ranks = self._keys.ranks(hashes)
        return ranks, ranks

    def _single(self, keys: Keys) -> Bools:
        """Which keys are remembered one by one."""
        states = self._recent.states(*keys.words)
        closed: Bools = states == closing.CLOSED
        if len(self._main):
            closed |= self._main.has(*self._terms(*keys.words)) & (states == 0)
        return closed

    def _run(self, terms: tuple[Int64s, Int64s]) -> Any:
        """Keys as a set if that is short because they are neighbours: then no table is needed. Else None."""
        if not self._keys.ordered or len(self._recent):
            return None
        run = self._kind.of(*terms)
        short = len(run) <= len(terms[0]) // _NEIGHBOURS or len(self._main) + len(run) <= _SHORT
        return run if short else None

    def _tidy(self) -> None:
        if len(self._recent) > max(_FEW, len(self._main) // 4):
            self._put_together()

    def _put_together(self) -> None:
        """Put what became of single keys lately into the set."""
        if len(self._recent):
            closed = self._terms(*self._recent.having(closing.CLOSED))
            forgotten = self._terms(*self._recent.having(closing.FORGOTTEN))
            self._set(self._main.plus(*closed).minus(*forgotten), self._young)
