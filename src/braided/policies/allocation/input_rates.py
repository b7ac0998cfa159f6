"""Which stream's rows to admit when there is CPU for only some of them (window-join, section 4.2).

Two streams admitted at rates a and b give results at a rate proportional to a * b, whatever the windows and
keys (Eq. 10), so with a + b fixed equal rates are best (Eq. 11); a stream slower than its share leaves the
rest to the others. With n streams the same product of n rates is largest when they are equal, so `equal` is
best there too. The other rules are the paper's rivals.

With `state_rows` windows are variables too (Eq. 14): results come at a rate of memory of one stream times
rows admitted of the other. Weights are then the rows each window may hold, so that "window-inverse" gives all
to the streams that store least, once the rows that the others' windows lack are admitted (at most half the
budget: beyond that the product falls again). With `max-slow` it is the paper's Max A / Max lambda_b.

>>> equal = Arrivals((5, 100), (60.0, 60.0))
>>> let_in("equal", 50, equal)
(5.0, 45.0)
>>> let_in("inverse", 10, Arrivals((80, 20), (9.0, 1.0)))
(2.0, 8.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from braided.policies.sharing import fill


@dataclass(frozen=True)
class Arrivals:
    """Rows that wait for admission, and the window of each stream; with `state_rows` its part of them.

    `missing_rows` are the rows each window lacks of that part.
    """

    rows: tuple[int, ...]
    windows: tuple[float, ...]
    missing_rows: tuple[float, ...] = ()


def let_in(allocation: str, budget: float, now: Arrivals) -> tuple[float, ...]:
    """Return how many rows of each stream to admit."""
    first = _refill(budget, now) if allocation == "window-inverse" else (0.0,) * len(now.rows)
    caps = [r - f for r, f in zip(now.rows, first, strict=True)]
    rest = fill(budget - sum(first), _weights(allocation, now), caps)
    return tuple(f + r for f, r in zip(first, rest, strict=True))


def _refill(budget: float, now: Arrivals) -> tuple[float, ...]:
    """Rows to fill the windows with, at most half the budget."""
    missing = now.missing_rows or (0.0,) * len(now.rows)
    caps = [min(m, r) for m, r in zip(missing, now.rows, strict=True)]
    return fill(budget / 2, missing, caps)


def _weights(allocation: str, now: Arrivals) -> list[float]:
    if allocation == "equal":
        return [1.0] * len(now.rows)
    values = [max(0.0, w) for w in now.windows] if allocation.startswith("window") else now.rows
    if allocation.endswith("inverse"):
        return [1 / v if v else math.inf for v in values]
    return [float(v) for v in values]  # proportional, and random: rows of all streams alike
