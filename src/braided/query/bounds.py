"""The one time condition of a join: a matrix of bounds, closed by shortest paths.

A combination is inside iff `time_j - time_i <= D[i][j]` for every ordered pair of streams.
A time window of stream i is `D[i][j] = window_i` for all j: with `now` the newest time of the
combination, `now - time_i <= window_i`. A `within` bound tightens single entries.

Closing by shortest paths changes no result (a path's bounds add up), and shows how long a row of
stream i can still meet rows to come: `retention_i = max over j of D[i][j]`.

    orders.window = 2 h, payments.window = 2 h, within(orders, payments) = (0, 1 h)

    D           orders   payments
    orders         0        1 h      a payment comes at most 1 h after its order
    payments       0         0       ... and never before it
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from braided.query.durations import to_text
from braided.query.errors import InvalidValue
from braided.query.stream import Stream

INFINITE_US = 1 << 61
Pair: TypeAlias = tuple[str, str]
Matrix: TypeAlias = list[list[int]]
Within: TypeAlias = tuple[tuple[Pair, tuple[str, str]], ...]


@dataclass(frozen=True)
class Bounds:
    """The closed matrix; an entry of `INFINITE_US` does not bound."""

    matrix: tuple[tuple[int, ...], ...]

    @property
    def any(self) -> bool:
        """Whether any pair of streams is bounded at all."""
        finite = sum(bound < INFINITE_US for row in self.matrix for bound in row)
        return finite > len(self.matrix)  # a stream's bound to itself always is

    @property
    def span_us(self) -> int:
        """Return how far apart the rows of a result can be."""
        return max(map(max, self.matrix))

    def retention_us(self, i: int) -> int:
        """Return how far the watermark must pass a row of stream i before no future row can join it."""
        return max(bound for j, bound in enumerate(self.matrix[i]) if j != i)

    def between(self, groups: Sequence[Sequence[int]]) -> Bounds:
        """Return what holds between the newest times of groups of streams if all bounds between them hold.

        Let N be the newest time of group I. For a row of stream c in group J and every a in I,
        `time_c - N <= time_c - time_a <= D[a][c]`; N of J is the time of some such c. So the newest times
        differ by at most the largest over c of the smallest over a of D[a][c]. For groups of one stream
        that is D itself; for larger ones it is necessary, not sufficient.
        """
        return Bounds(
            tuple(
                tuple(0 if i is j else max(min(self.matrix[a][c] for a in i) for c in j) for j in groups)
                for i in groups
            )
        )


def close(streams: Sequence[Stream], within_us: Sequence[tuple[int, int, int, int]]) -> Bounds:
    """Close the bounds of the streams' windows and of `(first, second, low_us, high_us)` entries."""
    windows_us = [INFINITE_US if s.window_us is None else s.window_us for s in streams]
    size = range(len(streams))
    matrix = [[0 if i == j else windows_us[i] for j in size] for i in size]
    for first, second, low_us, high_us in within_us:
        matrix[first][second] = min(matrix[first][second], high_us)
        matrix[second][first] = min(matrix[second][first], -low_us)
    _shorten(matrix, [s.name for s in streams])
    return Bounds(tuple(tuple(row) for row in matrix))


def _shorten(matrix: Matrix, names: Sequence[str]) -> None:
    """Run Floyd-Warshall in place; a negative cycle is a contradiction."""
    size = range(len(matrix))
    direct = [list(row) for row in matrix]
    via = [list(size) for _ in size]
    for k, i, j in itertools.product(size, repeat=3):
        legs_us = matrix[i][k], matrix[k][j]
        if max(legs_us) < INFINITE_US and sum(legs_us) < matrix[i][j]:
            if i == j:
                _contradiction(i, k, via, direct, names)
            matrix[i][j] = sum(legs_us)
            via[i][j] = via[i][k]


def _contradiction(i: int, k: int, via: Matrix, direct: Matrix, names: Sequence[str]) -> None:
    path = [i]
    for goal in (k, i):
        while path[-1] != goal or len(path) == 1:
            path.append(via[path[-1]][goal])
    steps = [f"{names[b]} - {names[a]} <= {to_text(direct[a][b])}" for a, b in itertools.pairwise(path)]
    total = to_text(sum(direct[a][b] for a, b in itertools.pairwise(path)))
    cycle = f"the cycle {' -> '.join(names[p] for p in path)}: {'; '.join(steps)}"
    asked = f"together they ask for a time before itself ({total})"
    raise InvalidValue(f"within: the bounds contradict each other along {cycle}; {asked}; loosen one of them")
