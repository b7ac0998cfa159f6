"""What a window join costs per unit of time, by index and direction (window-join, sections 3 and 4.1).

A direction "A to B" is a half-join: rows of A probe the window of B, and rows of B enter and leave it. Its
cost counts the rows touched, times the weight of touching one. The two directions are independent, so each
has an index of its own: HHJ, NNJ, HNJ and NHJ are the four combinations, the first letter for A's window.

| paper | here |
| --- | --- |
| lambda, T, |B| = NKey(B) = 1/sigma_b | `Side.rate`, `Side.window`, `Side.keys` |
| B = T * lambda | `Side.rows` |
| C_n, C_h | `Weights.scan`, `Weights.hash` |
| C_A>B(NLJ), C_A>B(HJ) (Eq. 2, 3) | `scan_cost`, `hash_cost` |
| C_AB(HHJ, NNJ, HNJ) (Eq. 4, 5, 6) | `join_cost` |
| Eq. 7, Eq. 8 | `crossover`, `prefers_scan` |
| r_o (Eq. 9) | `output_rate` |

The hash of the paper scans a bucket for every row that leaves, which is why a scan can win. Ours does not
(see `braided.policies.index_cost`): these formulas describe the paper's join, measured here beside ours.

>>> slow, fast = Side(rate=10, window=60, keys=10), Side(rate=100, window=60, keys=10)
>>> prefers_scan(slow.rate, fast)  # a tenth of the rows probe what the others have to leave
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Index = Literal["hash", "scan"]
Invalidation = Literal["active", "lazy"]


@dataclass(frozen=True)
class Weights:
    """The cost of touching one row in a scan and in a hash; the paper's own are the defaults."""

    scan: float = 0.5
    hash: float = 0.65

    @property
    def ratio(self) -> float:
        """How much more a row costs in a hash."""
        return self.hash / self.scan


@dataclass(frozen=True)
class Side:
    """One stream: rows per unit of time, how long they stay, and how many different keys they have."""

    rate: float
    window: float
    keys: float

    @property
    def rows(self) -> float:
        """Rows inside the window."""
        return self.rate * self.window

    @property
    def bucket(self) -> float:
        """Rows in a hash bucket, if there is a bucket for each key."""
        return self.rows / self.keys


PAPER = Weights()


def scan_cost(
    probing: float, probed: Side, weights: Weights = PAPER, invalidation: Invalidation = "active"
) -> float:
    """Nested loops (Eq. 2): every probe touches the whole window; a row is touched as it enters and leaves.

    Lazily, expired rows pile up until the next probe, which finds their end by binary search.
    """
    if invalidation == "active":
        return (probing * probed.rows + 2 * probed.rate) * weights.scan
    search = math.floor(math.log2(math.ceil(probed.rate / probing)) + 1)
    return (probing * (probed.rows + search) + probed.rate) * weights.scan


def hash_cost(
    probing: float, probed: Side, weights: Weights = PAPER, invalidation: Invalidation = "active"
) -> float:
    """Hash (Eq. 3): a probe touches a bucket, and so does every row that leaves.

    Lazily, a probe drops what has expired in its bucket while it walks it. The paper has no formula for
    that; between two probes of a bucket probed.rate / probing rows expire in it, each touched once.
    """
    leaving = probed.rate * (probed.bucket + 1) if invalidation == "active" else 2 * probed.rate
    return (probing * probed.bucket + leaving) * weights.hash


def direction_cost(
    index: Index,
    probing: float,
    probed: Side,
    weights: Weights = PAPER,
    invalidation: Invalidation = "active",
) -> float:
    """The cost of one direction (Eq. 1) with the index of the probed window."""
    cost = hash_cost if index == "hash" else scan_cost
    return cost(probing, probed, weights, invalidation)


def join_cost(
    index_a: Index,
    index_b: Index,
    a: Side,
    b: Side,
    weights: Weights = PAPER,
    invalidation: Invalidation = "active",
) -> float:
    """Both directions (Eq. 4, 5, 6)."""
    to_b = direction_cost(index_b, a.rate, b, weights, invalidation)
    return to_b + direction_cost(index_a, b.rate, a, weights, invalidation)


def crossover(keys: float, weights: Weights = PAPER) -> float:
    """How much faster than the probing stream the probed one must be for a scan to win (Eq. 7)."""
    return (keys - weights.ratio) / weights.ratio


def exact_crossover(probing: float, probed: Side, weights: Weights = PAPER) -> float:
    """The same without Eq. 7's approximation: the ratio of rates at which both costs are equal.

    Both costs grow with the probed rate, so it cancels: what is left is linear in it.
    """
    per_rate = probed.window * (weights.hash / probed.keys)
    linear = probing * probed.window * (weights.hash / probed.keys - weights.scan)
    linear += weights.hash - 2 * weights.scan
    return -linear / per_rate / probing


def prefers_scan(probing: float, probed: Side, weights: Weights = PAPER) -> bool:
    """The algorithm determinant (Eq. 8)."""
    return probed.rate / probing > crossover(probed.keys, weights)


def output_rate(a: Side, b: Side) -> float:
    """Results per unit of time (Eq. 9)."""
    return min(1 / a.keys, 1 / b.keys) * a.rate * b.rate * (a.window + b.window)
