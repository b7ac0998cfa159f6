"""Rows that wait until the watermark has passed them; used when a window counts rows.

Whether a row is inside a count window at `now` can change as long as rows with a time up to `now` may
come. So rows are joined only once the watermark has passed them, in order of time: then every row
that matters for a combination is already known, and the combination is right or wrong for good.

Waiting rows are kept in pieces with their smallest time, so that a batch touches only pieces that
have something to give.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braided.engine.sides.side import Rows, concat_rows


@dataclass(frozen=True)
class Waiting:
    """The waiting rows of one stream; an immutable value, so that a failed batch changes nothing."""

    pieces: tuple[Rows, ...] = ()

    @property
    def rows(self) -> int:
        """How many wait."""
        return sum(len(p) for p in self.pieces)

    @property
    def nbytes(self) -> int:
        """Bytes they take."""
        return sum(int(p.batch.nbytes) + p.hashes.nbytes + p.times.nbytes for p in self.pieces)

    def add(self, rows: Rows) -> Waiting:
        """With more rows waiting; pieces of like size are joined."""
        if not len(rows):
            return self
        pieces = [*self.pieces, rows]
        while len(pieces) > 1 and len(pieces[-2]) <= 2 * len(pieces[-1]):
            pieces[-2:] = [concat_rows(pieces[-2:])]
        return Waiting(tuple(pieces))

    def settle(self, watermark_us: int, nothing: Rows) -> tuple[Rows, Waiting]:
        """The rows the watermark has passed, in order of time, and what still waits."""
        ready, rest = [], []
        for piece in self.pieces:
            passed = piece.times < watermark_us
            if passed.any():
                ready.append(piece.pick(passed))
                piece = piece.pick(~passed)
            if len(piece):
                rest.append(piece)
        if not ready:
            return nothing, self
        settled = concat_rows(ready)
        return settled.take(np.argsort(settled.times, kind="stable")), Waiting(tuple(rest))
