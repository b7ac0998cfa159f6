"""Count windows: rows are joined only once the watermark has passed them (see `waiting`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from braided.engine.count_windows.waiting import Waiting
from braided.engine.features import Feature, Host, Numbers, Step
from braided.engine.sides.side import Rows
from braided.engine.state import EngineState, Held, rows_of


class CountWindows(Feature):
    """Holds rows back until both sides of "which rows are newer" are known."""

    name = "count_windows"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.waiting = [Waiting() for _ in host.query.streams]
        self._before = self.waiting

    def enter(self, step: Step) -> None:
        """Store what the new watermark has passed, in order of time."""
        self._before = list(self.waiting)
        for i, name in enumerate(self.host.query.names):
            if (rows := step.arriving.get(name)) is not None:
                step.arriving[name] = self._settled(i, [rows], step.later.us)

    def undo(self) -> None:
        """Let the same rows wait again."""
        self.waiting = self._before

    def refill(self, stream: int, pieces: Sequence[Rows]) -> Sequence[Rows]:
        """Saved rows wait, or have been settled; the watermark tells them apart."""
        return [self._settled(stream, pieces, self.host.watermark.us)]

    def save(self, state: EngineState) -> None:
        """Rows that wait are saved with those of their side."""
        for name, waiting in zip(self.host.query.names, self.waiting, strict=True):
            part = state.parts.get(rows_of(name))
            if isinstance(part, Held):
                state.parts[rows_of(name)] = dataclasses.replace(part, waiting=waiting.pieces)

    def describe(self, numbers: Numbers) -> None:
        """Rows that wait are held, too."""
        for waiting, of_stream in zip(self.waiting, numbers.streams, strict=True):
            if waiting.rows:
                of_stream["live_rows"] += waiting.rows
                of_stream["live_bytes"] += waiting.nbytes

    def _settled(self, stream: int, pieces: Sequence[Rows], watermark_us: int) -> Rows:
        """The rows that the watermark has passed, of these and of those that wait."""
        intake, waiting = self.host.streams[stream], self.waiting[stream]
        assert intake is not None
        for rows in pieces:
            waiting = waiting.add(rows)
        settled, self.waiting[stream] = waiting.settle(watermark_us, intake.empty().rows)
        return settled
