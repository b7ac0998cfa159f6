"""Sharing a budget among streams: by weights, within caps, in whole rows (`window_split` for rows to store).

*Rows to admit* when there is CPU for only some of them (`let_in`; window-join, section 4.2). Two streams
admitted at rates a and b give results at a rate proportional to a * b, whatever the windows and keys
(Eq. 10), so with a + b fixed equal rates are best (Eq. 11); a stream slower than its share leaves the rest to
the others. With n streams the same product of n rates is largest when they are equal, so `equal` is best
there too. The other rules are the paper's rivals.

With `state_rows` windows are variables too (Eq. 14): results come at a rate of memory of one stream times
rows admitted of the other. Weights are then the rows each window may hold, so that "window-inverse" gives all
to the streams that store least, once the rows that the others' windows lack are admitted (at most half the
budget: beyond that the product falls again). With `max-slow` it is the paper's Max A / Max lambda_b.

>>> fill(50, (1, 1), (5, 100))  # the slower stream's remainder is given away
(5.0, 45.0)
>>> cut(50, (1, 1), (5, 100))  # or not
(5.0, 25.0)
>>> whole((2.5, 2.5), 5, turn=0), whole((2.5, 2.5), 5, turn=1)  # the odd row goes round
((3, 2), (2, 3))
>>> let_in("equal", 50, (5, 100), (60.0, 60.0))
(5.0, 45.0)
>>> let_in("inverse", 10, (80, 20), (9.0, 1.0))
(2.0, 8.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def let_in(
    allocation: str,
    budget: float,
    rows: Sequence[float],
    windows: Sequence[float],
    missing_rows: Sequence[float] = (),
) -> tuple[float, ...]:
    """Return how many rows of each stream to admit, of those that wait.

    With `state_rows`, `windows` are each stream's part of them, and `missing_rows` what it lacks of that.
    "random" is rows of all streams alike: proportional.
    """
    weights: Sequence[float] = rows
    first: Sequence[float] = [0.0] * len(rows)
    if allocation.startswith("window"):
        weights = [max(0.0, w) for w in windows]
    if allocation == "window-inverse" and missing_rows:  # first fill the windows
        first = fill(budget / 2, missing_rows, [*map(min, missing_rows, rows)])
    return _more(budget, first, weights_of(allocation.removeprefix("window-"), weights), rows)


def weights_of(rule: str, values: Sequence[float]) -> list[float]:
    """Return weights by a rule: "equal", "inverse", or in proportion to the values."""
    if rule == "equal":
        return [1.0] * len(values)
    if rule == "inverse":
        return [1 / v if v else math.inf for v in values]
    return [float(v) for v in values]


def _more(
    budget: float, first: Sequence[float], weights: Sequence[float], caps: Sequence[float]
) -> tuple[float, ...]:
    """Add to these parts what they leave of the budget, by weights."""
    rest = fill(budget - sum(first), weights, [c - f for c, f in zip(caps, first, strict=True)])
    return tuple(f + r for f, r in zip(first, rest, strict=True))


def fill(budget: float, weights: Sequence[float], caps: Sequence[float]) -> tuple[float, ...]:
    """Parts in proportion to the weights; what a cap leaves over goes to the others.

    An infinite weight comes before all others; a weight of zero gets nothing.
    """
    if math.inf in weights:
        first = fill(budget, [float(w == math.inf) for w in weights], caps)
        return _more(budget, first, [0.0 if w == math.inf else w for w in weights], caps)
    parts, left = [0.0] * len(weights), max(0.0, float(budget))
    open_ = [i for i, w in enumerate(weights) if w > 0 and caps[i] > 0]
    open_.sort(key=lambda i: caps[i] / weights[i])  # whoever reaches its cap comes before all that do not
    for n, i in enumerate(open_):
        parts[i] = min(float(caps[i]), left * weights[i] / sum(weights[j] for j in open_[n:]))
        left -= parts[i]
    return tuple(parts)


def cut(budget: float, weights: Sequence[float], caps: Sequence[float]) -> tuple[float, ...]:
    """Parts in proportion to the weights, each cut off at its cap; what is cut off is not used."""
    total = math.fsum(weights)
    return tuple(
        min(budget * w / total, float(cap)) if w > 0 else 0.0 for w, cap in zip(weights, caps, strict=True)
    )


def whole(parts: Sequence[float], budget: int, *, turn: int) -> tuple[int, ...]:
    """The parts in whole rows, at most `budget` in all; who gets an odd row changes with the turn."""
    rows = [math.floor(p + 1e-9) for p in parts]
    odd = min(budget, math.floor(sum(parts) + 1e-9)) - sum(rows)
    by_fraction = sorted(
        range(len(parts)), key=lambda i: (round(rows[i] - parts[i], 9), (i + turn) % len(parts))
    )
    for i in by_fraction[: max(0, odd)]:
        rows[i] += 1
    return tuple(rows)
