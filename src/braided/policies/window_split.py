"""How many rows of each stream to store when memory is short (window-join, section 4.3).

Two streams with rates a < b that may store M rows in all: a row of the slower stream is met by more probes,
so the slower one gets all memory, and the faster one's rows probe and pass (Eq. 13): `max-slow`. A window
never grows beyond the query's; what it cannot use goes to the others.

With n streams results come at a rate of the sum over streams of its rate times the product of all *other*
windows, so a single window is worth nothing. The natural extension: `max-slow` lets the fastest stream probe
and pass and shares the memory equally among the others, which is best for that stream's term; `max-fast`,
its opposite, lets the slowest one pass. Both are the paper's rules if n is 2.

>>> split("max-slow", 1000, rates=(10, 50), caps=(5000, 5000))
(1000.0, 0.0)
>>> split("max-slow", 1000, rates=(10, 50), caps=(600, 5000))  # the query's window is full: the rest is B's
(600.0, 400.0)
>>> split("max-slow", 1000, rates=(10, 50, 20), caps=(5000,) * 3)
(500.0, 0.0, 500.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from braided.policies.sharing import fill


def split(rule: str, budget: float, *, rates: Sequence[float], caps: Sequence[float]) -> tuple[float, ...]:
    """How many rows of each stream to store; `caps` are the rows its window would hold."""
    if rule not in ("max-slow", "max-fast"):
        return fill(budget, _weights(rule, rates), caps)
    streams = range(len(rates))
    passing = max(streams, key=lambda i: (rates[i] if rule == "max-slow" else -rates[i], i))
    others = fill(budget, [float(i != passing) for i in streams], caps)
    rest = fill(budget - sum(others), [float(i == passing) for i in streams], caps)
    return tuple(a + b for a, b in zip(others, rest, strict=True))


def _weights(rule: str, rates: Sequence[float]) -> list[float]:
    if rule == "equal" or not any(rates):
        return [1.0] * len(rates)
    if rule == "inverse":
        return [1 / r if r else math.inf for r in rates]
    return [float(r) for r in rates]
