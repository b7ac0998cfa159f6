"""Which rows of one operator's partition groups are on disk, flush by flush.

Rows of a group that were flushed together are one generation; generations that have been merged are one, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from braided.engine.spill.files import Piece
from braided.policies.arrays import Bools, Int64s


@dataclass(frozen=True)
class Generation:
    """Rows of a group that have met each other: pieces, by input; `number` orders generations."""

    number: int
    pieces: tuple[tuple[Piece, ...], ...]

    @property
    def all(self) -> list[Piece]:
        """The pieces of all inputs."""
        return [piece for pieces in self.pieces for piece in pieces]


class Generations:
    """What one operator has on disk."""

    def __init__(self, inputs: int, groups: int) -> None:
        self._of: dict[int, list[Generation]] = {}
        self.rows = np.zeros((inputs, groups), np.int64)

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def groups(self) -> Bools:
        """Which groups have rows on disk."""
        found: Bools = self.rows.sum(axis=0) > 0
        return found

    @property
    def owing(self) -> Bools:
        """Which groups have generations that have not met."""
        found = np.zeros(self.rows.shape[1], np.bool_)
        found[[g for g, generations in self._of.items() if len(generations) > 1]] = True
        return found

    def crowded(self, most: int) -> Bools:
        """Which groups have an input of at least this many pieces."""
        found = np.zeros(self.rows.shape[1], np.bool_)
        for group, generations in self._of.items():
            of_inputs = zip(*(g.pieces for g in generations), strict=True)
            found[group] = any(sum(map(len, pieces)) >= most for pieces in of_inputs)
        return found

    def add(self, number: int, pieces: Sequence[dict[int, Piece]]) -> None:
        """A flush: by input, the piece of each group."""
        for group in sorted({g for by_group in pieces for g in by_group}):
            parts = tuple((p[group],) if group in p else () for p in pieces)
            self.put(group, Generation(number, parts))

    def put(self, group: int, generation: Generation) -> None:
        """One more generation of a group."""
        self._of.setdefault(group, []).append(generation)
        self.rows[:, group] += [sum(p.rows for p in pieces) for pieces in generation.pieces]

    def by_number(self, groups: Int64s) -> list[Generation]:
        """Some groups' generations, of one number as one: keys tell groups apart."""
        found: dict[int, list[Generation]] = {}
        for group in groups.tolist():
            for generation in self._of.get(group, ()):
                found.setdefault(generation.number, []).append(generation)
        return [_joined(several) for _, several in sorted(found.items())]

    def met(self, group: int) -> None:
        """All generations of a group have met: they are one."""
        if len(found := self._of.get(group, [])) > 1:
            self._of[group] = [_joined(found)]

    def drop(self, group: int) -> list[Piece]:
        """Forget a group; what was on disk of it."""
        self.rows[:, group] = 0
        return [p for generation in self._of.pop(group, ()) for p in generation.all]

    def drop_dead(self, watermark_us: int) -> list[Piece]:
        """Forget the pieces that the watermark has passed, of groups whose generations have met."""
        gone: list[Piece] = []
        for group, generations in list(self._of.items()):
            if len(generations) > 1:
                continue
            (one,) = generations
            gone += [p for p in one.all if p.dies_us < watermark_us]
            left = tuple(tuple(p for p in pieces if p.dies_us >= watermark_us) for pieces in one.pieces)
            self._of[group] = [Generation(one.number, left)]
            self.rows[:, group] = [sum(p.rows for p in pieces) for pieces in left]
            if not any(left):
                del self._of[group]
        return gone

    def dead_rows(self, watermark_us: int) -> int:
        """Rows of pieces that the watermark has passed."""
        return sum(p.rows for _, g in self for p in g.all if p.dies_us < watermark_us)

    def __iter__(self) -> Iterator[tuple[int, Generation]]:
        for group, generations in self._of.items():
            for generation in generations:
                yield group, generation


def _joined(generations: Sequence[Generation]) -> Generation:
    """Several generations as one, with the number of the last."""
    of_inputs = zip(*(g.pieces for g in generations), strict=True)
    return Generation(generations[-1].number, tuple(tuple(itertools.chain(*pieces)) for pieces in of_inputs))
