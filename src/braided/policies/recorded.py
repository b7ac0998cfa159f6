"""What is decided for all buckets of a join together, out of what they report of a batch (`Overload`).

*Probes* go where they buy most: every bucket says what results it expects of its own budget, of half and of
twice as much (a `Curve`); the whole budget is given out in steps, the steepest first, steps that are about as
steep alike. A tenth of it still goes by rows, so that buckets with nothing keep learning. If no probe is
expected to find anything, nothing is decided.

*Rows* are dropped before they are sent where many more come than are let in: of each stream a quarter more
are sent than went through last time. Where buckets shed none of those, as many more as the budget had room
for, and at least twice as many. A task that has no more rows than its part of that drops none, so what ends a
burst is not dropped for it.

A decision is recorded before the batch in which it holds, and changes only if it moves by more than a tenth:
a recorded change is a batch of its own where nothing else comes. It says which budget it is `of`, and holds
for no other one.

>>> steep, flat = Curve(((50, 90), (100, 160), (200, 160))), Curve(((50, 10), (100, 20), (200, 30)))
>>> parts({0: steep, 1: flat}, 200)
{0: 0.5, 1: 0.5}
>>> parts({0: steep, 1: flat}, 100)
{0: 1.0, 1: 0.0}
>>> keep(Rows(offered=1000, sent=1000, shed=900, tasks=2)), keep(Rows(1000, 1000, 0, 2))
(Keep(share=0.125, rows=63), None)
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_MORE = 1.25  # rows that are sent, of those that went through
_GROWN = 2.0  # the same where none was shed
_WORTH = 1.5  # as many rows as are sent must come, for dropping them early to be worth it
_MOVED = 0.1
_ALIKE = 0.9  # of the steepest step's slope: as steep
_PARTS = 10**6
BY_ROWS = 0.1  # of a budget


@dataclass(frozen=True)
class Curve:
    """Results that a bucket expects of some budgets, the smallest first."""

    points: tuple[tuple[float, float], ...]

    def steps(self) -> list[tuple[float, float]]:
        """Return pieces of budget with what a probe of each buys, ever less: the curve's concave hull."""
        hull: list[tuple[float, float]] = [(0.0, 0.0)]
        for x, y in self.points:
            if x <= hull[-1][0]:
                continue
            y = max(y, hull[-1][1])
            while len(hull) > 1 and _slope(hull[-1], (x, y)) >= _slope(hull[-2], hull[-1]):
                hull.pop()
            hull.append((x, y))
        return [(b[0] - a[0], _slope(a, b)) for a, b in itertools.pairwise(hull)]


@dataclass(frozen=True)
class Rows:
    """A stream's rows of a batch: that came, that were sent to buckets, that these shed; and its tasks."""

    offered: int
    sent: int
    shed: int
    tasks: int


@dataclass(frozen=True)
class Keep:
    """What a task sends of a stream's rows: this share, or as many rows if that is more."""

    share: float
    rows: int

    def part(self, seen: int) -> float:
        """Return the share of rows to send of so many."""
        return min(1.0, max(self.share, self.rows / max(1, seen)))


@dataclass(frozen=True)
class Decision:
    """What was decided: each bucket's part of the probes, what is sent of streams, the rows all let in.

    `of` tells by which budget; what says nothing of a part, a stream or rows leaves them free.
    """

    of: int = 0
    parts: Mapping[int, float] = field(default_factory=dict)
    keep: Mapping[str, Keep] = field(default_factory=dict)
    rows: int | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing was decided."""
        return not self.parts and not self.keep and self.rows is None

    def text(self) -> str:
        """Return it as `read` reads it."""
        plain: dict[str, Any] = {"of": self.of}
        plain |= {"parts": self.parts} if self.parts else {}
        plain |= {"keep": {n: [k.share, k.rows] for n, k in self.keep.items()}} if self.keep else {}
        plain |= {"rows": self.rows} if self.rows is not None else {}
        return json.dumps(plain, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Decision:
        """Return what a text says; nothing if it is none of ours."""
        try:
            plain = json.loads(text)
            parts = {int(label): float(part) for label, part in plain.get("parts", {}).items()}
            kept = {n: Keep(float(share), int(most)) for n, (share, most) in plain.get("keep", {}).items()}
            rows = plain.get("rows")
            return cls(int(plain["of"]), parts, kept, None if rows is None else int(rows))
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()


def parts(curves: Mapping[int, Curve], budget: float) -> dict[int, float]:
    """Return each bucket's part of a budget, by what it buys; none if it buys nothing anywhere."""
    steps = [(slope, label, probes) for label, curve in curves.items() for probes, slope in curve.steps()]
    steep = sorted((step for step in steps if step[0] > 0), key=lambda step: (-step[0], step[1]))
    given, left = dict.fromkeys(curves, 0.0), budget
    while steep and left > 0:
        alike = [step for step in steep if step[0] >= _ALIKE * steep[0][0]]
        wanted = sum(probes for _, _, probes in alike)
        for _, label, probes in alike:
            given[label] += probes * min(1.0, left / wanted)
        left -= wanted
        steep = steep[len(alike) :]
    spent = sum(given.values())
    return {label: math.floor(_PARTS * taken / spent) / _PARTS for label, taken in given.items() if spent}


def keep(rows: Rows, left: float = 0.0) -> Keep | None:
    """Return what tasks send of a stream that brings far more rows than go through; None: all.

    The budget had room for as many rows more as were `left`.
    """
    through = rows.sent - rows.shed
    if not rows.tasks or (not rows.shed and rows.sent == rows.offered):
        return None
    wanted = max(1.0, _MORE * through if rows.shed else max(_GROWN * through, through + left))
    if rows.offered < _WORTH * wanted:
        return None
    return Keep(float(f"{wanted / rows.offered:.3g}"), math.ceil(wanted / rows.tasks))


def moved(before: Decision, now: Decision) -> bool:
    """Tell whether a decision is another by more than a tenth: of the budget, or of any number of rows."""
    if before.empty or now.empty:
        return before.empty != now.empty
    if (before.of, before.parts.keys(), before.keep.keys()) != (now.of, now.parts.keys(), now.keep.keys()):
        return True
    elsewhere = sum(abs(now.parts[label] - part) for label, part in before.parts.items())
    pairs: list[tuple[float | None, float | None]] = [(before.rows, now.rows)]
    for name, kept in before.keep.items():
        pairs += [(kept.share, now.keep[name].share), (kept.rows, now.keep[name].rows)]
    return elsewhere > 2 * _MOVED or _differ(pairs)


def _differ(pairs: Iterable[tuple[float | None, float | None]]) -> bool:
    return any(
        (a is None) != (b is None) if a is None or b is None else abs(a - b) > _MOVED * max(abs(a), abs(b))
        for a, b in pairs
    )


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])
