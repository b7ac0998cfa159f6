"""Sets of keys: intervals of ranks where keys are ordered, else pairs of hashes; and a table of states.

Sets are a pair of sorted arrays that are never changed. Neighbouring ranks become one interval, so keys that
are closed in about their order take hardly any room. The smallest and the largest rank are never members: an
interval always has a rank on either side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from braided.engine.kernels import closing
from braided.policies.arrays import Bools, Int64s

States: TypeAlias = npt.NDArray[np.int8]
MIN_RANK, MAX_RANK = -(1 << 63), (1 << 63) - 1


def _nothing() -> Int64s:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class KeySet:
    """What both kinds of sets are made of; `a` is sorted."""

    a: Int64s = field(default_factory=_nothing)
    b: Int64s = field(default_factory=_nothing)

    def __len__(self) -> int:
        """How many entries are stored."""
        return len(self.a)

    def union(self, other: Self) -> Self:
        """Members of either."""
        if not len(other):
            return self
        return self.of(np.concatenate([self.a, other.a]), np.concatenate([self.b, other.b]))

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

    def mark(self, ranks: Int64s, _: Int64s, out: Bools) -> None:
        """Set what is a member to true."""
        if len(self):
            closing.in_intervals(self.a, self.b, ranks, out)

    def minus(self, other: Self) -> Self:
        """Members of this one alone; all of the other's are members here."""
        if not len(other):
            return self
        lows = np.sort(np.concatenate([self.a, other.b + 1]))
        highs = np.sort(np.concatenate([self.b, other.a - 1]))
        return type(self)(lows[lows <= highs], highs[lows <= highs])

    def between(self, low: int, high: int) -> Self:
        """Members from one rank to another."""
        lows, highs = np.maximum(self.a, low), np.minimum(self.b, high)
        return type(self)(lows[lows <= highs], highs[lows <= highs])


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

    def mark(self, hashes: Int64s, checks: Int64s, out: Bools) -> None:
        """Set what is a member to true."""
        if len(self):
            closing.in_pairs(self.a, self.b, hashes, checks, out)

    def minus(self, other: Self) -> Self:
        """Members of this one alone."""
        gone = np.zeros(len(self), np.bool_)
        other.mark(self.a, self.b, gone)
        return type(self)(self.a[~gone], self.b[~gone])


class KeyTable:
    """States of keys, found by their two hashes; a key that is not there has state 0."""

    def __init__(self) -> None:
        self._used, self._bits = 0, 6
        self._make()

    def __len__(self) -> int:
        return self._used

    def states(self, hashes: Int64s, checks: Int64s) -> States:
        """The states of keys."""
        out = np.zeros(len(hashes), np.int8)
        if self._used:
            closing.states_of(*self._table, hashes, checks, out)
        return out

    def put(self, hashes: Int64s, checks: Int64s, state: int) -> int:
        """Enter keys with a state; how many had another before."""
        most = 2 * (self._used + len(hashes))
        if most > 1 << self._bits:
            entered = {known: self.having(known) for known in (closing.CLOSED, closing.FORGOTTEN)}
            self._bits = most.bit_length() + 1
            self._make()
            for known, keys in entered.items():
                closing.set_states(*self._table, *keys, np.int8(known))
        new, changed = closing.set_states(*self._table, hashes, checks, np.int8(state))
        self._used += new
        return int(changed)

    def having(self, state: int) -> tuple[Int64s, Int64s]:
        """The keys of a state."""
        these = self._states == state
        return self._hashes[these], self._checks[these]

    def _make(self) -> None:
        size = 1 << self._bits
        self._hashes, self._checks = np.empty(size, np.int64), np.empty(size, np.int64)
        self._states = np.zeros(size, np.int8)

    @property
    def _table(self) -> tuple[Int64s, Int64s, States, int]:
        return self._hashes, self._checks, self._states, 64 - self._bits
