"""Sharing a budget among streams: by weights, within caps, in whole rows.

>>> fill(50, (1, 1), (5, 100))  # the slower stream's remainder is given away
(5.0, 45.0)
>>> cut(50, (1, 1), (5, 100))  # or not
(5.0, 25.0)
>>> whole((2.5, 2.5), 5, turn=0), whole((2.5, 2.5), 5, turn=1)  # the odd row goes round
((3, 2), (2, 3))
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def fill(budget: float, weights: Sequence[float], caps: Sequence[float]) -> tuple[float, ...]:
    """Parts in proportion to the weights; what a cap leaves over goes to the others.

    An infinite weight comes before all others; a weight of zero gets nothing.
    """
    first = [math.isinf(w) for w in weights]
    if any(first):
        part = fill(budget, [float(f) for f in first], caps)
        rest = fill(budget - sum(part), [0.0 if f else w for f, w in zip(first, weights, strict=True)], caps)
        return tuple(a + b for a, b in zip(part, rest, strict=True))
    parts = [0.0] * len(weights)
    open_ = [i for i, w in enumerate(weights) if w > 0 and caps[i] > 0]
    left = float(budget)
    while open_ and left > 0:
        total = sum(weights[i] for i in open_)
        capped = [i for i in open_ if parts[i] + left * weights[i] / total >= caps[i]]
        if not capped:
            for i in open_:
                parts[i] += left * weights[i] / total
            break
        for i in capped:
            left -= caps[i] - parts[i]
            parts[i] = float(caps[i])
        open_ = [i for i in open_ if i not in capped]
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
