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

Of an as-of stream k the newest row counts that is not after T = max over i of t_i, at most `age` older:
`D[k][i] = age`, and `D[i][k]` is what D says of T - t_i. That is necessary, not sufficient.

An optional stream (see `outer`) is bounded by the required ones alone, and bounds none of them: two optional
streams have no bound between them, and required ones are closed without it. A combination of required rows at
times t_i cannot get a partner of stream k any more once the watermark has passed its *deadline*,
min over i of t_i + D[i][k]. It is final with the latest of them, and what it may consist of, or have as a
partner, is needed until then.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from braided.query.durations import to_text, to_us
from braided.query.errors import InvalidValue
from braided.query.stream import Stream

INFINITE_US = 1 << 61
Pair: TypeAlias = tuple[str, str]
Matrix: TypeAlias = list[list[int]]
Within: TypeAlias = tuple[tuple[Pair, tuple[str, str]], ...]


@dataclass(frozen=True)
class Bounds:
    """The closed matrix; an entry of `INFINITE_US` does not bound. Some streams may be `optional`.

    With `mutual` two streams are optional to each other (a full join).
    """

    matrix: tuple[tuple[int, ...], ...]
    optional: frozenset[int] = frozenset()
    mutual: bool = False
    as_of: frozenset[int] = frozenset()

    @property
    def any(self) -> bool:
        """Whether any pair of streams is bounded at all."""
        finite = sum(bound < INFINITE_US for row in self.matrix for bound in row)
        return finite > len(self.matrix)  # a stream's bound to itself always is

    @property
    def span_us(self) -> int:
        """Return how far apart the rows of a result can be, optional ones from each other aside."""
        return max(map(self.reach_us, range(len(self.matrix))))

    def reach_us(self, i: int) -> int:
        """Return how much newer than a row of stream i the rows of its results can be."""
        others = self.core if i in self.optional and not self.mutual else range(len(self.matrix))
        return max(self.matrix[i][j] for j in others if j != i)

    def retention_us(self, i: int) -> int:
        """Return how far the watermark must pass a row of stream i before no future row can join it.

        And before no combination that it may be a partner of is still to become final.
        """
        if i not in self.optional:
            own = [bound for j, bound in enumerate(self.matrix[i]) if j != i]
            return max([*own, *self._until_final(i, [1 - i])] if self.mutual else own)
        return max([*(self.matrix[i][j] for j in self.core), *self._until_final(i, self.core)])

    def _until_final(self, i: int, met: Sequence[int]) -> list[int]:
        """Return how long after a row of stream i rows of these streams that it meets become final."""
        others = {0, 1} if self.mutual else self.optional
        return [
            min(INFINITE_US, self.matrix[i][j] + self.matrix[j][k])
            for j in met for k in others if k != j
        ]  # fmt: skip

    @functools.cached_property
    def core(self) -> tuple[int, ...]:
        """The required streams."""
        return tuple(i for i in range(len(self.matrix)) if i not in self.optional)

    def deadline_us(self, k: int) -> int | None:
        """Return how long after the newest required row a partner of stream k may come; None: always."""
        if k in self.as_of:
            return 0
        bound_us = max(self.matrix[i][k] for i in self.core)
        return None if min(self.matrix[i][k] for i in self.core) >= INFINITE_US else bound_us

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
    ages_us = {k: to_us(s.as_of.age) for k, s in enumerate(streams) if s.as_of is not None}
    windows_us = [INFINITE_US if s.window_us is None else s.window_us for s in streams]
    size, mutual = range(len(streams)), any(s.how == "full" for s in streams)
    optional = frozenset(i for i in size if streams[i].optional)
    matrix = [
        [0 if i == j else INFINITE_US if {i, j} <= optional else windows_us[i] for j in size] for i in size
    ]
    for first, second, low_us, high_us in within_us:
        matrix[first][second] = min(matrix[first][second], high_us)
        matrix[second][first] = min(matrix[second][first], -low_us)
    names, core = [s.name for s in streams], [i for i in size if i not in optional]
    _shorten(matrix, core, names)
    closed = [list(row) for row in matrix]
    for k in sorted(optional):
        alone = [list(row) for row in closed]
        for i in core if k in ages_us else ():
            alone[k][i], alone[i][k] = ages_us[k], max(closed[i][j] for j in core)
        _shorten(alone, sorted([*core, k]), names)
        for i in core:
            matrix[i][k], matrix[k][i] = alone[i][k], alone[k][i]
    return Bounds(tuple(tuple(row) for row in matrix), optional, mutual, frozenset(ages_us))


def _shorten(matrix: Matrix, streams: Sequence[int], names: Sequence[str]) -> None:
    """Run Floyd-Warshall in place, over some streams; a negative cycle is a contradiction."""
    direct = [list(row) for row in matrix]
    via = [list(range(len(matrix))) for _ in matrix]
    for k, i, j in itertools.product(streams, repeat=3):
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
