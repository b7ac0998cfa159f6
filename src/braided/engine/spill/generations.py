"""Which rows of one operator's partition groups are on disk, flush by flush.

Rows of a group that were flushed together are one generation; generations that have been merged are one, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from braided.engine.spill.files import Piece
from braided.policies.arrays import Bools, Floats

_FOREVER = 1 << 63  # later than any piece dies


class Stored(NamedTuple):
    """A piece of one group: rows of the input at `place`, in the generation with this number."""

    number: int
    place: int
    piece: Piece


class Generations:
    """What one operator has on disk; a generation's number tells when it was flushed."""

    def __init__(self, inputs: int, groups: int) -> None:
        self._of: dict[int, list[Stored]] = {}
        self.rows = np.zeros((inputs, groups), np.int64)
        self._owing = np.zeros(groups, np.bool_)

    def __bool__(self) -> bool:
        return bool(self._of)

    def __iter__(self) -> Iterator[tuple[int, Stored]]:
        return ((group, stored) for group, several in self._of.items() for stored in several)

    @property
    def groups(self) -> Bools:
        """Which groups have rows on disk."""
        return np.asarray(self.rows.any(axis=0))

    @property
    def owing(self) -> Bools:
        """Which groups have generations that have not met."""
        return self._owing.copy()

    def crowded(self, most: int, smaller: Floats) -> Bools:
        """Which groups have an input with at least this many pieces that are `smaller`."""
        chosen = np.zeros(self.rows.shape[1], np.bool_)
        for group, several in self._of.items():
            if len(several) >= most:
                small = Counter(s.place for s in several if s.piece.rows < smaller[group])
                chosen[group] = max(small.values(), default=0) >= most
        return chosen

    def of(self, groups: Bools, smaller: Floats | None = None) -> list[Stored]:
        """What is on disk of some groups, generation by generation; or only what is `smaller`."""
        most = np.full(len(groups), np.inf) if smaller is None else smaller
        stored = [
            s
            for group in np.flatnonzero(groups).tolist()
            for s in self._of.get(group, ())
            if s.piece.rows < most[group]
        ]
        return sorted(stored, key=lambda s: s.number)

    def put(self, group: int, stored: Stored) -> None:
        """One more piece of a group."""
        several = self._of.setdefault(group, [])
        self._owing[group] |= bool(several) and several[0].number != stored.number
        several.append(stored)
        self.rows[stored.place, group] += stored.piece.rows

    def meet(self, groups: Bools) -> None:
        """All generations of some groups have met: each group has one, with the number of its last."""
        for group in np.flatnonzero(self.owing & groups).tolist():
            last = max(stored.number for stored in self._of[group])
            self._of[group] = [stored._replace(number=last) for stored in self._of[group]]
        self._owing &= ~groups

    def drop(self, groups: Bools, watermark_us: int = _FOREVER, smaller: Floats | None = None) -> list[Piece]:
        """Forget pieces of some groups that the watermark has passed, if they are `smaller`; return them."""
        dropped = []
        most = np.full(len(groups), np.inf) if smaller is None else smaller
        for group in np.flatnonzero(self.groups & groups).tolist():
            self._owing[group] = False
            for stored in self._of.pop(group):
                self.rows[stored.place, group] -= stored.piece.rows
                if stored.piece.dies_us < watermark_us and stored.piece.rows < most[group]:
                    dropped.append(stored.piece)
                else:
                    self.put(group, stored)
        return dropped
