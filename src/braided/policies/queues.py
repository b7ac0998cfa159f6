"""Which queue is read next, and which of the rows read come first (metadata-join, 4.1, 4.2, 5.3, 5.4).

Priority: the stream whose rows are worth most in the state is read first, so that the rows of the others find
their partners and need not be stored. Each stream has a quota of rows; the first one by priority that has not
used its quota up is read. When all that have rows have used theirs up, all restart (of two streams this is
the paper's rule, which sets the other queue's iterator back).

Value: rows with keys that another stream is closed for by a punctuation finish those keys, and come first.

>>> by_priority(waiting=[500, 900], taken=[100, 40], quota=100)
Turn(place=1, rows=60, taken=(100, 100))
>>> by_priority(waiting=[400, 840], taken=[100, 100], quota=100)
Turn(place=0, rows=100, taken=(100, 0))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from braided.policies.arrays import Bools, Int64s
from braided.query.errors import UnknownName, did_you_mean
from braided.query.join_query import JoinQuery
from braided.query.scheduling import Scheduling
from braided.query.stream import Stream


@dataclass(frozen=True)
class Turn:
    """Which queue to read, how many rows, and how much of their quotas all have used then."""

    place: int
    rows: int
    taken: tuple[int, ...]


def by_priority(waiting: Sequence[int], taken: Sequence[int], quota: int) -> Turn:
    """The first queue with rows and some quota left; at least one queue has rows."""
    ready = [i for i, rows in enumerate(waiting) if rows and taken[i] < quota]
    if not ready:
        taken = [0] * len(taken)
        ready = [i for i, rows in enumerate(waiting) if rows]
    rows = min(waiting[ready[0]], quota - taken[ready[0]])
    used = tuple(t + rows if i == ready[0] else t for i, t in enumerate(taken))
    return Turn(ready[0], rows, used)


def at_random(waiting: Sequence[int], quota: int, rng: np.random.Generator) -> Turn:
    """Any queue with rows, each as likely as another."""
    ready = [i for i, rows in enumerate(waiting) if rows]
    place = ready[int(rng.integers(len(ready)))]
    return Turn(place, min(waiting[place], quota), (0,) * len(waiting))


def priorities(scheduling: Scheduling, query: JoinQuery) -> tuple[str, ...]:
    """All streams, the one to read first in front; those that `order` leaves out come last."""
    given = tuple(scheduling.order or ())
    for name in given:
        if name not in query.names:
            raise UnknownName(f"Scheduling: no stream {name!r}; {did_you_mean(name, query.names)}")
    usual = sorted(query.streams, key=lambda stream: not stream.unique)
    return (*given, *(s.name for s in usual if s.name not in given))


def may_overtake(query: JoinQuery, stream: Stream) -> bool:
    """Return whether rows of a stream may change places with others of it.

    Not where their order means something: what is late, which cluster or order they are in, or behind which
    range punctuation they come.
    """
    return not query.windowed and stream.arrival == "any" and stream.upto is None


def stays_in_cluster(stream: Stream) -> bool:
    """Return whether rows of a key come together: then continue with them once one has joined."""
    return stream.arrival != "any"


def cluster_end(codes: Int64s, stop: int) -> int:
    """Where the run of equal keys ends that the row before `stop` is in."""
    span = 64
    while True:
        other = np.flatnonzero(codes[stop : stop + span] != codes[stop - 1])
        if len(other):
            return stop + int(other[0])
        if stop + span >= len(codes):
            return len(codes)
        stop, span = stop + span, 2 * span


def urgent_first(urgent: Bools) -> tuple[Int64s, Int64s]:
    """The places of urgent rows, and of the others (the waiting pool), both in their order.

    Rows of one key, and its punctuation, are all urgent or all not: none overtakes another.
    """
    return np.flatnonzero(urgent), np.flatnonzero(~urgent)
