"""Count windows: rows are joined only once the watermark has passed them.

Whether a row is inside a count window at `now` can change as long as rows with a time up to `now` may
come. So rows are joined only once the watermark has passed them, in order of time: then every row
that matters for a combination is already known, and the combination is right or wrong for good.

A start with less lateness lifts the watermark beyond rows that still wait. They are joined in the next batch,
so until then nothing expires that they may meet.

Rows wait in pieces, the smaller behind the larger, so that a row is copied few times however small the
batches are. A stream's pieces are never changed: a failed batch goes back to those from before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from braided.engine.features import Feature, Host, Numbers, Step
from braided.engine.sides.side import Rows, concat_rows
from braided.engine.state import EngineState, Held, rows_of
from braided.engine.watermark import NONE_US
from braided.query.plan_tree import Plan


class CountWindows(Feature):
    """Holds rows back until both sides of "which rows are newer" are known."""

    name = "count_windows"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._waiting: list[list[Rows]] = [[] for _ in host.query.streams]
        self._before = self._waiting
        self._settled_us = NONE_US  # rows before this time have been joined

    def retains(self) -> Collection[Plan]:
        """Rows that wait, though the watermark has passed them, may meet any."""
        return self.host.query.names if self.host.watermark.us > self._settled_us else ()

    def enter(self, step: Step) -> None:
        """Store what the new watermark has passed, in order of time."""
        self._before = list(self._waiting)
        for i, name in enumerate(self.host.query.names):
            if (rows := step.arriving.get(name)) is not None:
                step.arriving[name] = self._settled(i, [rows], step.later.us)

    def commit(self, step: Step) -> None:
        """What the watermark has passed has been joined."""
        self._settled_us = step.later.us

    def undo(self) -> None:
        """Let the same rows wait again."""
        self._waiting = self._before

    def refill(self, stream: int, pieces: Sequence[Rows]) -> Sequence[Rows]:
        """Saved rows wait, or have been settled; the watermark as it was saved tells them apart."""
        intake, watermark = self.host.streams[stream], self.host.watermark
        assert intake is not None
        self._settled_us = watermark.us if watermark.ended else watermark.floor_us
        return [self._settled(stream, pieces or [intake.empty().rows], self._settled_us)]

    def save(self, state: EngineState) -> None:
        """Rows that wait are saved with those of their side."""
        for name, waiting in zip(self.host.query.names, self._waiting, strict=True):
            part = state.parts.get(rows_of(name))
            if isinstance(part, Held):
                state.parts[rows_of(name)] = dataclasses.replace(part, waiting=waiting)

    def describe(self, numbers: Numbers) -> None:
        """Rows that wait are held, too."""
        for waiting, of_stream in zip(self._waiting, numbers.streams, strict=True):
            for rows in waiting:
                of_stream["live_rows"] += len(rows)
                of_stream["live_bytes"] += rows.batch.nbytes + rows.hashes.nbytes + rows.times.nbytes

    def _settled(self, stream: int, arriving: Sequence[Rows], watermark_us: int) -> Rows:
        """The rows that the watermark has passed, of these and of those that wait, in order of time."""
        pieces = list(self._waiting[stream])
        for rows in arriving:
            pieces.append(rows)
            while len(pieces) > 1 and len(pieces[-2]) <= 2 * len(pieces[-1]):
                pieces[-2:] = [concat_rows(pieces[-2:])]
        passed = [rows.times < watermark_us for rows in pieces]
        settled = concat_rows([rows.pick(which) for rows, which in zip(pieces, passed, strict=True)])
        left = (rows.pick(~which) for rows, which in zip(pieces, passed, strict=True))
        self._waiting[stream] = [rows for rows in left if len(rows)]
        return settled.take(np.argsort(settled.times, kind="stable"))
