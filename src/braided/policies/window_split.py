"""How far back windows reach when memory is short: rows to store of each stream (window-join, section 4.3).

A row of stream i finds what is stored of all others, so with windows of w_j rows results come at a rate of

    sum over streams i of  rate_i x product of w_j over all j but i       (but for the selectivity)

The paper has two streams: all memory to the slower one, whose rows are met by more probes; the faster one's
rows probe and pass (Eq. 13, `max-slow`). With n streams one window alone is worth nothing. `max-slow` then
lets the fastest stream pass and shares memory equally among the others, `max-fast` lets the slowest one pass.

`best` maximises the sum. In windows of time, t_j = w_j / rate_j, it is the elementary symmetric polynomial of
degree n - 1, whose root of that degree is concave: so what no exchange between two streams improves is the
best. Along such an exchange the sum is a parabola, and its peak is taken at once. With two streams that is
`max-slow`; with three of equal rates `equal`, a third more than `max-slow`; one of three with more than
half of all rows passes.

*Intermediates* take room, too: as many rows as pairs match, so with the product of the windows below. Then
what is stored bends, and exchanges are tried in steps that get smaller, from the rules' own answers.

What is forgotten does not come back, so windows are `settled`: they follow other rates only if that promises
more than 5 % more results. Else noise would let one of equal streams pass after the other, and store nothing
for long.

A window never grows beyond the query's (`caps`); what it cannot use goes to the others. Room is counted in
rows, or in bytes: `sizes` is what a row takes.

>>> def rows(rule, rates, caps=(5000,) * 3):
...     parts = split(rule, Storing(1000, rates, caps[: len(rates)]))
...     return tuple(round(part) for part in parts)
>>> rows("max-slow", (10, 50)), rows("best", (10, 50))
((1000, 0), (1000, 0))
>>> rows("max-slow", (10, 50), caps=(600, 5000))  # the query's window is full: the rest is B's
(600, 400)
>>> rows("max-slow", (10, 50, 20)), rows("best", (10, 50, 20)), rows("best", (10, 40, 20))
((500, 0, 500), (500, 0, 500), (500, 0, 500))
>>> rows("best", (10, 10, 10)), rows("best", (10, 30, 30))
((333, 333, 333), (455, 273, 273))
>>> made = Made((0, 1), rows=250_000, size=1.0)  # of them there would be too many: b passes
>>> tree = Storing(1000, (10, 12, 10), (5000,) * 3, live=(5000,) * 3, made=(made,))
>>> tuple(round(part) for part in split("best", tree)), round(cost(tree, split("best", tree)))
((500, 0, 500), 1000)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from braided.policies.arrays import Floats
from braided.policies.sharing import fill, weights_of

_SWEEPS = 50
_NEAR = 1e-9
_GAIN = 0.05
_STEPS = tuple(0.3 * 0.5**n for n in range(7))  # parts of a window that exchanges are tried with
_TRIES = 8  # with steps of one size
_STARTS = 3  # that exchanges begin from
_NEWTON = 6
_FARTHEST = (
    30.0  # of a step, in logarithms: where nearly all is at its cap, the slope points beyond all numbers
)


@dataclass(frozen=True)
class Made:
    """An intermediate: the streams it is made of, rows that are stored of it now, and the room of one."""

    streams: tuple[int, ...]
    rows: float
    size: float


@dataclass(frozen=True)
class Storing:
    """What may be stored: the room for it, rows of each stream in a batch, and the most its window holds.

    `sizes` is the room that a row of each stream takes (none: 1), and `live` the rows of streams that the
    intermediates were `made` of.
    """

    budget: float
    rates: Sequence[float]
    caps: Sequence[float]
    sizes: Sequence[float] = ()
    live: Sequence[float] = ()
    made: Sequence[Made] = ()

    @property
    def rooms(self) -> Sequence[float]:
        """The room of a row of each stream."""
        return self.sizes or (1.0,) * len(self.rates)


def split(rule: str, storing: Storing) -> tuple[float, ...]:
    """Return how many rows of each stream to store; the paper's rules leave intermediates out of account."""
    if rule == "best":
        return _best_tree(storing) if storing.made else _best(storing)
    if rule in ("max-slow", "max-fast"):
        sign, streams = 1 if rule == "max-slow" else -1, range(len(storing.rates))
        passing = max(streams, key=lambda i: (sign * storing.rates[i], i))
        weights = [1.0 if i == passing else math.inf for i in streams]
    else:
        weights = weights_of(rule if any(storing.rates) else "equal", storing.rates)
    return _filled(storing, weights)


def settled(storing: Storing, decided: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the best windows for the rates that were decided by, or for today's; and the rates taken."""
    now = split("best", storing)
    if not any(decided):
        return now, tuple(storing.rates)
    stay = split("best", replace(storing, rates=decided))
    promised = output(storing, np.array([stay, now]))
    changed = promised[1] > promised[0] * (1 + _GAIN)
    return (now, tuple(storing.rates)) if changed else (stay, tuple(decided))


def output(storing: Storing, windows: Floats) -> Floats:
    """Return the results a batch of each row of windows, but for the selectivity."""
    before, after = np.ones_like(windows), np.ones_like(windows)
    np.cumprod(windows[:, :-1], axis=1, out=before[:, 1:])
    np.cumprod(windows[:, :0:-1], axis=1, out=after[:, -2::-1])
    found: Floats = (before * after) @ np.asarray(storing.rates, float)
    return found


def cost(storing: Storing, windows: Sequence[float]) -> float:
    """Return the room that windows take, with intermediates."""
    rows = np.asarray(windows, float)[None, :]
    return float(_rooms(storing, rows, rows)[0].sum())


def _filled(storing: Storing, weights: Sequence[float]) -> tuple[float, ...]:
    rooms = storing.rooms
    weighed = [w * room for w, room in zip(weights, rooms, strict=True)]
    parts = fill(storing.budget, weighed, [cap * room for cap, room in zip(storing.caps, rooms, strict=True)])
    return tuple(part / room for part, room in zip(parts, rooms, strict=True))


def _best(storing: Storing) -> tuple[float, ...]:
    """Without intermediates: exchange between two streams, as long as that gains something."""
    windows = list(_filled(storing, [1.0] * len(storing.rates)))
    for _ in range(_SWEEPS):
        moved = sum(
            _exchange(storing, windows, *pair) for pair in itertools.combinations(range(len(windows)), 2)
        )
        if moved <= _NEAR * storing.budget:
            break
    return tuple(windows)


def _exchange(storing: Storing, windows: list[float], i: int, j: int) -> float:
    """Move room between two streams to the peak of the parabola along it; how much was moved."""
    rates, rooms, caps = storing.rates, storing.rooms, storing.caps
    others = [k for k in range(len(windows)) if k not in (i, j)]
    product = math.prod(windows[k] for k in others)
    both = sum(rates[k] * math.prod(windows[m] for m in others if m != k) for k in others)
    slope = (rates[j] * product + both * windows[j]) / rooms[i] - (
        rates[i] * product + both * windows[i]
    ) / rooms[j]
    bend = 2 * both / (rooms[i] * rooms[j])
    peak = slope / bend if bend > 0 else math.copysign(math.inf, slope) if slope else 0.0
    most = min(windows[j] * rooms[j], (caps[i] - windows[i]) * rooms[i])
    least = -min(windows[i] * rooms[i], (caps[j] - windows[j]) * rooms[j])
    step = min(max(peak, least), most)
    windows[i], windows[j] = windows[i] + step / rooms[i], windows[j] - step / rooms[j]
    return abs(step)


def _best_tree(storing: Storing) -> tuple[float, ...]:
    """With intermediates: from the best answers of simple rules, exchanges in ever smaller steps."""
    streams = range(len(storing.rates))
    passing = [[0.0 if i == j else 1.0 for i in streams] for j in streams]
    rules = [_filled(storing, weights) for weights in ([1.0] * len(streams), storing.rates, *passing)]
    windows = _fitted(storing, np.array([*rules, _best(storing)]))
    windows = windows[np.argsort(-output(storing, windows), kind="stable")[:_STARTS]]
    for step in np.repeat(_STEPS, _TRIES):
        there = _fitted(storing, _neighbours(windows, step)).reshape(len(windows), -1, len(streams))
        results = output(storing, there.reshape(-1, len(streams))).reshape(len(windows), -1)
        windows = there[np.arange(len(windows)), results.argmax(axis=1)]
    return tuple(windows[int(output(storing, windows).argmax())].tolist())


def _neighbours(windows: Floats, step: float) -> Floats:
    """Return each of some windows as it is, with one longer or shorter, and without one."""
    one = np.eye(windows.shape[1])
    mean = windows.mean(axis=1)[:, None, None]
    rows = windows[:, None, :]
    grown, shrunk = rows * (1 + step * one) + step * mean * one, rows * (1 - step * one)
    return np.concatenate([rows, grown, shrunk, rows * (1 - one)], axis=1).reshape(-1, windows.shape[1])


def _fitted(storing: Storing, windows: Floats) -> Floats:
    """Return windows made longer or shorter by one factor, so that they take just the room there is.

    Newton's method on logarithms: room is a sum of powers of the factor.
    """
    caps, fitted = np.asarray(storing.caps, float), windows
    for _ in range(_NEWTON):
        fitted = np.minimum(fitted, caps)
        parts, powers = _rooms(storing, fitted, caps)
        room, growth = parts.sum(axis=1), (parts * powers).sum(axis=1)
        open_ = growth > 0
        missing = np.log(np.divide(storing.budget, room, out=np.ones(len(room)), where=open_))
        step = missing * np.divide(room, growth, out=np.ones(len(room)), where=open_)
        fitted = fitted * np.exp(np.clip(step, -_FARTHEST, _FARTHEST))[:, None]
    within: Floats = np.minimum(fitted, caps)
    return within


def _rooms(storing: Storing, windows: Floats, caps: Floats) -> tuple[Floats, Floats]:
    """Return the room of each stream and intermediate, and with which power of a factor it grows.

    What is at its cap grows no more, but may shrink.
    """
    parts = [windows * np.asarray(storing.rooms, float)]
    for made in storing.made:
        pairs = math.prod(max(1.0, storing.live[i]) for i in made.streams)
        rows = made.rows / pairs * windows[:, list(made.streams)].prod(axis=1)
        parts.append((made.size * rows)[:, None])
    room = np.concatenate(parts, axis=1)
    crowded = room.sum(axis=1, keepdims=True) > storing.budget
    moving = ((windows > 0) & (crowded | (windows < caps))).astype(float)
    above = [moving[:, list(made.streams)].sum(axis=1, keepdims=True) for made in storing.made]
    return room, np.concatenate([moving, *above], axis=1)
