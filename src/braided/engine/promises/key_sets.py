"""Sets of keys: intervals of ranks where keys are ordered, else pairs of hashes; and a table of states.

Sets are a pair of sorted arrays that are never changed. Neighbouring ranks become one interval, so keys that
are closed in about their order take hardly any room. The smallest and the largest rank are never members: an
interval always has a rank on either side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from braided.engine.kernels import closing
from braided.policies.arrays import Bools, Int64s

MIN_RANK, MAX_RANK = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class KeySet:
    """What both kinds of sets are made of; `a` is sorted."""

    a: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    b: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        """How many entries are stored."""
        return len(self.a)

    def plus(self, a: Int64s, b: Int64s) -> Self:
        """With more members."""
        return self.of(np.concatenate([self.a, a]), np.concatenate([self.b, b])) if len(a) else self

    @classmethod
    def of(cls, a: Int64s, b: Int64s) -> Self:
        """Entries in any order, some perhaps twice."""
        raise NotImplementedError


class Intervals(KeySet):
    """Ranks, as intervals from `a` to `b`."""

    @classmethod
    def of(cls, lows: Int64s, highs: Int64s) -> Self:
        """Intervals in any order, or single ranks; those that meet become one."""
        inner = (lows > MIN_RANK) & (highs < MAX_RANK)
        lows, highs = lows[inner], highs[inner]
        order = np.argsort(lows, kind="stable")
        lows, reached = lows[order], np.maximum.accumulate(highs[order])
        begins = np.ones(len(lows), np.bool_)
        begins[1:] = lows[1:] - 1 > reached[:-1]
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(lows))[: len(starts)] - 1
        return cls(lows[starts], reached[ends])

    @property
    def keys(self) -> int:
        """How many ranks are members."""
        return int((self.b - self.a + 1).sum())

    def minus(self, lows: Int64s, highs: Int64s) -> Self:
        """Without some intervals or single ranks; each lies in one of the intervals here, or outside."""
        inside = self.has(lows, highs)
        gone = self.of(lows[inside], highs[inside])
        lows, highs = np.append(self.a, gone.b + 1), np.append(self.b, gone.a - 1)
        return self._not_empty(np.sort(lows), np.sort(highs))

    def between(self, low: int, high: int) -> Self:
        """Members from one rank to another, whatever ranks these are."""
        low, high = (min(max(rank, MIN_RANK), MAX_RANK) for rank in (low, high))
        return self._not_empty(np.maximum(self.a, low), np.minimum(self.b, high))

    @classmethod
    def _not_empty(cls, lows: Int64s, highs: Int64s) -> Self:
        return cls(lows[lows <= highs], highs[lows <= highs])

    def has(self, ranks: Int64s, _: Int64s) -> Bools:
        """Which ranks are members."""
        out = np.zeros(len(ranks), np.bool_)
        closing.in_intervals(self.a, self.b, ranks, out)
        return out


class Pairs(KeySet):
    """Keys as hash `a` and check `b`."""

    @classmethod
    def of(cls, hashes: Int64s, checks: Int64s) -> Self:
        """Some keys."""
        order = np.lexsort((checks, hashes))
        hashes, checks = hashes[order], checks[order]
        new = np.ones(len(hashes), np.bool_)
        new[1:] = (hashes[1:] != hashes[:-1]) | (checks[1:] != checks[:-1])
        return cls(hashes[new], checks[new])

    @property
    def keys(self) -> int:
        """How many keys are members."""
        return len(self)

    def minus(self, hashes: Int64s, checks: Int64s) -> Self:
        """Without some keys."""
        stay = ~self.of(hashes, checks).has(self.a, self.b)
        return type(self)(self.a[stay], self.b[stay])

    def has(self, hashes: Int64s, checks: Int64s) -> Bools:
        """Which keys are members."""
        out = np.zeros(len(hashes), np.bool_)
        closing.in_pairs(self.a, self.b, hashes, checks, out)
        return out


class KeyTable:
    """States of keys, found by their two hashes; a key that is not there has state 0."""

    def __init__(self) -> None:
        self._used = 0
        self._make(6)

    def __len__(self) -> int:
        return self._used

    def states(self, hashes: Int64s, checks: Int64s) -> npt.NDArray[np.int8]:
        """The states of keys."""
        out = np.zeros(len(hashes), np.int8)
        if self._used:
            closing.states_of(*self._arrays, 64 - self._bits, hashes, checks, out)
        return out

    def put(self, hashes: Int64s, checks: Int64s, state: int) -> int:
        """Enter keys with a state; how many had another before."""
        most = 2 * (self._used + len(hashes))
        if most > 1 << self._bits:
            entered = {known: self.having(known) for known in (closing.CLOSED, closing.FORGOTTEN)}
            self._make(most.bit_length() + 1)
            for known, keys in entered.items():
                closing.set_states(*self._arrays, 64 - self._bits, *keys, np.int8(known))
        shift = 64 - self._bits
        new, changed = closing.set_states(*self._arrays, shift, hashes, checks, np.int8(state))
        self._used += new
        return int(changed)

    def having(self, state: int) -> tuple[Int64s, Int64s]:
        """The keys of a state."""
        hashes, checks, states = self._arrays
        return hashes[states == state], checks[states == state]

    def _make(self, bits: int) -> None:
        self._bits, size = bits, 1 << bits
        self._arrays = np.empty(size, np.int64), np.empty(size, np.int64), np.zeros(size, np.int8)
