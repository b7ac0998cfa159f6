"""Count windows: rows are joined only once the watermark has passed them.

Whether a row is inside a count window at `now` can change as long as rows with a time up to `now` may
come. So rows are joined only once the watermark has passed them, in order of time: then every row
that matters for a combination is already known, and the combination is right or wrong for good.

A start with less lateness lifts the watermark beyond rows that still wait. They are joined in the next batch,
so until then nothing expires that they may meet.

An intermediate row is forgotten once one of its components has left its window. All are looked through when
as many rows have come, of the streams below it or its own, as half of those held: so a row is looked at few
times, and what is held is at most a few times what may still be found.

Rows wait in pieces, the smaller behind the larger, so that a row is copied few times however small the
batches are. A stream's pieces are never changed: a failed batch goes back to those from before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from braided.engine.features import Feature, Host, Numbers, Step
from braided.engine.operators.counted import Waiting
from braided.engine.sides.side import Rows, SideState, concat_rows
from braided.engine.state import EngineState, Held, rows_of
from braided.engine.watermark import END_US, NONE_US
from braided.query.plan_tree import Plan, leaves
from braided.query.windows import CountWindow


class CountWindows(Feature):
    """Holds rows back until both sides of "which rows are newer" are known."""

    name = "count_windows"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._waiting: list[list[Rows]] = [[] for _ in host.query.streams]
        self._before = self._waiting
        host.joined_us = NONE_US  # rows before this time have been joined
        self._ending = False  # in this step none waits any longer
        self._since: dict[Plan, int] = {}  # rows that came since intermediates were last looked through

    def enter(self, step: Step) -> None:
        """Store what the new watermark has passed, in order of time."""
        self._before = list(self._waiting)
        for i, name in enumerate(self.host.query.names):
            if (rows := step.arriving.get(name)) is not None:
                until_us = END_US if self._ending else step.later.us
                step.arriving[name] = self._settled(i, [rows], until_us)
        self._tell_who_waits()

    def commit(self, step: Step) -> None:
        """What the watermark has passed has been joined."""
        self.host.joined_us = END_US if self._ending else step.later.us
        self._ending = False
        for source, _ in self.host.tree.intermediates:
            came = [step.arriving.get(node) for node in (source.node, *leaves(source.node))]
            self._since.setdefault(source.node, 0)
            self._since[source.node] += sum(len(rows) for rows in came if rows is not None)

    def undo(self) -> None:
        """Let the same rows wait again."""
        self._waiting, self._ending = self._before, False

    def _tell_who_waits(self) -> None:
        """Rows that wait have arrived, too: they make others stale where freshness is in rows."""
        counted = self.host.tree.counted
        for stream, waiting in zip(self.host.query.streams, self._waiting, strict=True):
            if counted is not None and stream.freshness_rows is not None:
                counted.waiting[stream.name] = Waiting(waiting, by_key=stream.counts_keys)

    def expire(self) -> None:
        """Forget intermediate rows with a component that has left its window."""
        counted = self.host.tree.counted
        for source, side in self.host.tree.intermediates if counted is not None else ():
            if counted is not None and self._since.get(source.node, side.rows) > side.rows // 2:
                counted.forget_left(source, side)
                self._since[source.node] = 0

    def work(self, *, idle: bool, ended: bool) -> Iterator[dict[int, Any]]:
        """At the end none waits any longer, before others do what is left: a step for that alone."""
        if ended and any(self._waiting):
            self._ending = True
            yield {}

    def save(self, state: EngineState) -> None:
        """Rows that wait are a part of their own: of what arrived, all that is not settled."""
        for name, waiting in zip(self.host.query.names, self._waiting, strict=True):
            part = state.parts.get(rows_of(name))
            if isinstance(part, Held):
                none = SideState(name, part.side.payload.schema, window=CountWindow(1))
                state.parts[rows_of(name)] = dataclasses.replace(part, entered=None)
                state.parts[_part(name)] = dataclasses.replace(
                    part, side=none, waiting=waiting, oldest_us=self.host.joined_us
                )

    def load(self, state: EngineState, *, same_plan: bool) -> None:
        """Let rows wait again; what was settled is told by the watermark as it was saved."""
        watermark = self.host.watermark
        self.host.joined_us = watermark.us if watermark.ended else watermark.floor_us
        for i, (name, stream) in enumerate(zip(self.host.query.names, self.host.streams, strict=True)):
            part = state.parts.get(_part(name))
            if stream is not None and part is not None and part.batches:
                self._settled(i, stream.stored(part.batches), self.host.joined_us)

    def nbytes(self) -> int:
        """Rows that wait are held, too."""
        return sum(_nbytes(rows) for waiting in self._waiting for rows in waiting)

    def describe(self, numbers: Numbers) -> None:
        """Rows that wait are held, too."""
        for waiting, of_stream in zip(self._waiting, numbers.streams, strict=True):
            for rows in waiting:
                of_stream["live_rows"] += len(rows)
                of_stream["live_bytes"] += _nbytes(rows)

    def _settled(self, stream: int, arriving: Sequence[Rows], watermark_us: int) -> Rows:
        """The rows that the watermark has passed, of these and of those that wait, in order of time."""
        pieces = list(self._waiting[stream])
        for rows in (r for r in arriving if len(r) or not pieces):
            pieces.append(rows)
            while len(pieces) > 1 and len(pieces[-2]) <= 2 * len(pieces[-1]):
                pieces[-2:] = [concat_rows(pieces[-2:])]
        passed = [rows.times < watermark_us for rows in pieces]
        settled = concat_rows([rows.pick(which) for rows, which in zip(pieces, passed, strict=True)])
        left = (rows.pick(~which) for rows, which in zip(pieces, passed, strict=True))
        self._waiting[stream] = [rows for rows in left if len(rows)]
        return settled.take(np.argsort(settled.times, kind="stable"))


def _part(stream: str) -> str:
    return f"stream/{stream}/waiting"


def _nbytes(rows: Rows) -> int:
    return int(rows.batch.nbytes + rows.hashes.nbytes + rows.times.nbytes)
