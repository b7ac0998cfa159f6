"""What is decided for all buckets of a join together, out of what they report of a batch (`Overload`).

*Probes* go where they buy most: every bucket says what results it expects of its own budget, of half and of
twice as much (a `Curve`); the whole budget is given out in steps, the steepest first. A tenth of it still
goes by rows, so that buckets with nothing keep learning.

*Rows* are dropped before they are sent where many more come than are let in: of each stream a quarter more
than buckets let in last time, twice as many if they let all in that came. A task that has no more rows than
its part of that drops none, so what ends a burst is not dropped for it.

A decision is recorded before the batch in which it holds, and changes only if it moves by more than a tenth:
a recorded change is a batch of its own where nothing else comes.

>>> steep, flat = Curve(((50, 90), (100, 160), (200, 160))), Curve(((50, 10), (100, 20), (200, 30)))
>>> parts({0: steep, 1: flat}, 200)
{0: 0.5, 1: 0.5}
>>> parts({0: steep, 1: flat}, 100)
{0: 1.0, 1: 0.0}
>>> keep(Rows(offered=1000, sent=1000, entered=100, tasks=2)), keep(Rows(100, 100, 100, 2))
(Keep(share=0.125, rows=63), None)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

_MORE = 1.25  # rows that are sent, of those that are let in
_GROWN = 2.0  # the same where none was left over
_WORTH = 1.5  # as many rows as are sent must come, for dropping them early to be worth it
_MOVED = 0.1
BY_ROWS = 0.1  # of a budget


@dataclass(frozen=True)
class Curve:
    """Results that a bucket expects of some budgets, the smallest first."""

    points: tuple[tuple[float, float], ...]

    def steps(self) -> list[tuple[float, float]]:
        """Return pieces of budget with what a probe of each buys, ever less: the curve's concave hull."""
        hull: list[tuple[float, float]] = [(0.0, 0.0)]
        for x, y in self.points:
            while len(hull) > 1 and _slope(hull[-1], (x, y)) >= _slope(hull[-2], hull[-1]):
                hull.pop()
            if x > hull[-1][0]:
                hull.append((x, max(y, hull[-1][1])))
        return [(b[0] - a[0], _slope(a, b)) for a, b in itertools.pairwise(hull)]


@dataclass(frozen=True)
class Rows:
    """A stream's rows of a batch: that came, that were sent to buckets, that these let in; and its tasks."""

    offered: int
    sent: int
    entered: int
    tasks: int


@dataclass(frozen=True)
class Keep:
    """What a task sends of a stream's rows: this share, or as many rows if that is more."""

    share: float
    rows: int

    def part(self, seen: int) -> float:
        """Return the share of rows to send of so many."""
        return min(1.0, max(self.share, self.rows / max(1, seen)))


def parts(curves: Mapping[int, Curve], budget: float) -> dict[int, float]:
    """Return each bucket's part of a budget, by what it buys."""
    steps = [(slope, label, probes) for label, curve in curves.items() for probes, slope in curve.steps()]
    given = dict.fromkeys(curves, 0.0)
    left = budget
    for _, label, probes in sorted(steps, key=lambda step: (-step[0], step[1])):
        taken = min(left, probes)
        given[label] += taken
        left -= taken
    spent = sum(given.values())
    return {
        label: math.floor(1000 * taken / spent) / 1000 if spent else 0.0 for label, taken in given.items()
    }


def keep(rows: Rows) -> Keep | None:
    """Return what tasks send of a stream that brings far more rows than are let in; None: all."""
    wanted = rows.entered * (_GROWN if rows.sent <= rows.entered < rows.offered else _MORE)
    if not rows.tasks or rows.offered < _WORTH * max(1.0, wanted):
        return None
    return Keep(float(f"{wanted / rows.offered:.3g}"), math.ceil(wanted / rows.tasks))


def moved(before: Mapping[str, object], now: Mapping[str, object]) -> bool:
    """Tell whether a decision, as plain values, is another by more than a tenth in any of its numbers."""
    old, new = dict(_numbers(before)), dict(_numbers(now))
    return old.keys() != new.keys() or any(
        abs(new[name] - value) > _MOVED * max(abs(value), abs(new[name])) + 0.005
        for name, value in old.items()
    )


def _numbers(decision: object, name: str = "") -> list[tuple[str, float]]:
    if isinstance(decision, Mapping):
        return [n for key, part in decision.items() for n in _numbers(part, f"{name}/{key}")]
    if isinstance(decision, (list, tuple)):
        return [n for i, part in enumerate(decision) for n in _numbers(part, f"{name}/{i}")]
    assert isinstance(decision, (int, float))
    return [(name, float(decision))]


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0]) if b[0] > a[0] else 0.0
