"""Rows that wait until the watermark has passed them; used when a window counts rows.

Whether a row is inside a count window at `now` can change as long as rows with a time up to `now` may
come. So rows are joined only once the watermark has passed them, in order of time: then every row
that matters for a combination is already known, and the combination is right or wrong for good.

Waiting rows are kept in pieces with their smallest time, so that a batch touches only pieces that
have something to give.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from braided.engine.sides.side import Rows
from braided.policies.arrays import Bools, Int64s


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
            pieces[-2:] = [joined(pieces[-2:])]
        return Waiting(tuple(pieces))

    def settle(self, watermark_us: int, nothing: Rows) -> tuple[Rows, Waiting]:
        """The rows the watermark has passed, in order of time, and what still waits."""
        ready, rest = [], []
        for piece in self.pieces:
            passed = piece.times < watermark_us
            if passed.any():
                ready.append(_where(piece, passed))
                piece = _where(piece, ~passed)
            if len(piece):
                rest.append(piece)
        if not ready:
            return nothing, self
        settled = joined(ready)
        return _taken(settled, np.argsort(settled.times, kind="stable")), Waiting(tuple(rest))


def joined(pieces: list[Rows]) -> Rows:
    """Several pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    linked: Bools | None = None
    if any(p.linked is not None for p in pieces):
        linked = np.concatenate([np.ones(len(p), np.bool_) if p.linked is None else p.linked for p in pieces])
    checks = [p.checks for p in pieces if p.checks is not None]
    return Rows(
        pa.concat_batches([p.batch for p in pieces]),
        np.concatenate([p.hashes for p in pieces]),
        np.concatenate([p.times for p in pieces]),
        linked,
        np.concatenate(checks) if checks else None,
    )


def _where(rows: Rows, mask: Bools) -> Rows:
    return rows if mask.all() else _picked(rows, mask, rows.batch.filter(pa.array(mask)))


def _taken(rows: Rows, order: Int64s) -> Rows:
    return _picked(rows, order, rows.batch.take(pa.array(order)))


def _picked(rows: Rows, which: Bools | Int64s, batch: pa.RecordBatch) -> Rows:
    return replace(
        rows,
        batch=batch,
        hashes=rows.hashes[which],
        times=rows.times[which],
        linked=None if rows.linked is None else rows.linked[which],
        checks=None if rows.checks is None else rows.checks[which],
    )
