"""Which rows of one operator's partition groups are on disk, flush by flush.

Rows of a group that were flushed together are one generation; generations that have been merged are one, too.
"""

from __future__ import annotations

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
        """Which groups have an input of so many pieces or more."""
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

    def of(self, group: int) -> list[Generation]:
        """The generations of a group, in order."""
        return list(self._of.get(group, ()))

    def pieces(self, group: int | None = None) -> Iterator[Piece]:
        """All pieces, or those of a group."""
        for g in list(self._of) if group is None else [group]:
            for generation in self._of.get(g, ()):
                for pieces in generation.pieces:
                    yield from pieces

    def met(self, group: int) -> None:
        """All generations of a group have met: they are one."""
        if len(found := self._of.get(group, [])) > 1:
            self._of[group] = [_joined(found, found[-1].number)]

    def drop(self, group: int) -> list[Piece]:
        """Forget a group; what was on disk of it."""
        gone = list(self.pieces(group))
        self._of.pop(group, None)
        self.rows[:, group] = 0
        return gone

    def drop_dead(self, watermark_us: int) -> list[Piece]:
        """Forget the pieces that the watermark has passed, of groups whose generations have met."""
        gone: list[Piece] = []
        for group, generations in list(self._of.items()):
            if len(generations) > 1:
                continue
            (one,) = generations
            gone += [p for pieces in one.pieces for p in pieces if p.dies_us < watermark_us]
            left = tuple(tuple(p for p in pieces if p.dies_us >= watermark_us) for pieces in one.pieces)
            self._of[group] = [Generation(one.number, left)]
            self.rows[:, group] = [sum(p.rows for p in pieces) for pieces in left]
            if not any(left):
                del self._of[group]
        return gone

    def dead_rows(self, watermark_us: int) -> int:
        """Rows of pieces that the watermark has passed."""
        return sum(p.rows for p in self.pieces() if p.dies_us < watermark_us)

    def __iter__(self) -> Iterator[tuple[int, Generation]]:
        for group, generations in self._of.items():
            for generation in generations:
                yield group, generation


def by_number(generations: Generations, groups: Int64s) -> list[Generation]:
    """Some groups' generations, those with the same number as one: groups are told apart by their keys."""
    found: dict[int, list[Generation]] = {}
    for group in groups.tolist():
        for generation in generations.of(group):
            found.setdefault(generation.number, []).append(generation)
    return [_joined(several, several[0].number) for _, several in sorted(found.items())]


def _joined(generations: Sequence[Generation], number: int) -> Generation:
    inputs = len(generations[0].pieces)
    return Generation(
        number, tuple(tuple(p for g in generations for p in g.pieces[i]) for i in range(inputs))
    )
