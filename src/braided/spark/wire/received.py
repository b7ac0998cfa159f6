"""One bucket's packed rows of a micro-batch, read: what goes into the engine.

Rows come in any order and from any attempt of a task, so they are sorted first; no order of arrival decides
anything. In a query of several stages only the first stages believe the tasks that pack rows how far time has
come; what these find is handed on, so that no two stages can differ.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa

from braided.engine.intake import Incoming
from braided.engine.operators.tree import Tree
from braided.engine.sides.side import Rows
from braided.engine.sides.storable import no_rows
from braided.engine.site import Decided, Share
from braided.engine.watermark import Clock
from braided.query.errors import InvalidValue
from braided.query.plan_tree import Plan
from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs
from braided.spark.wire.packed import NO_STREAM, Blob, Newest, Packed, latest

_ADDED = (
    "rows_in",
    "null_keys",
    "null_times",
    "shed_rows",
    "punctuations",
    "partial_punctuations",
)  # up, over all rows


class Received:
    """What one bucket of a stage received in a micro-batch."""

    def __init__(self, plan: JoinPlan, packed: Sequence[Packed]) -> None:
        self._plan = plan
        self._packed = sorted(packed, key=lambda p: (p.stream, p.copied, p.part, p.seq))

    @property
    def idle(self) -> bool:
        """Whether only time has passed."""
        return all(p.stream == NO_STREAM for p in self._packed)

    @property
    def began_us(self) -> int | None:
        """When the first task of the batch began, by its own clock."""
        return min((p.began_us for p in self._packed if p.began_us is not None), default=None)

    @property
    def clock(self) -> Clock | None:
        """The time that was recorded with the batch, if the clock runs."""
        beats = [(p.clock_s, p.run) for p in self._packed if p.clock_s is not None and p.run]
        return Clock(*max(beats)) if beats else None

    @property
    def passing(self) -> list[Blob]:
        """Blobs that are none of the stage's business."""
        return [p.blob for p in self._packed if p.stream == NO_STREAM and p.blob is not None]

    @property
    def share(self) -> Share:
        """Which rows of the whole batch are this bucket's, over all streams."""
        rows = [(p.rows_before, p.rows_upto, p.rows_total, p.joining) for p in self._packed]
        before, upto, total, different = map(sum, zip(*rows, strict=True))
        return Share(before, upto, total, different, self._decided)

    @property
    def _decided(self) -> Decided | None:
        """What was decided for this bucket, if that was told anew."""
        for part, rows in (p.decided for p in self._packed if p.decided is not None):
            return Decided(None if part < 0 else part, None if rows < 0 else rows)
        return None

    @property
    def sent(self) -> list[tuple[int, int, int]]:
        """Of each stream, the rows that came and those that were sent, to all buckets, and its tasks.

        No tasks, if one cannot read which rows are to be dropped.
        """
        of_streams = [self._of(i) for i in range(len(self._plan.query.streams))]
        told = [[p for p in packed if p.rows_total or p.early] for packed in of_streams]
        tasks = [len(t) if all(p.reads for p in t) else 0 for t in told]
        rows = [(sum(p.joining + p.early for p in t), sum(p.joining for p in t)) for t in told]
        return [(came, went, n) for (came, went), n in zip(rows, tasks, strict=True)]

    @functools.cached_property
    def newest_us(self) -> Newest:
        """The newest times of the streams, as far as this batch tells."""
        streams = range(len(self._plan.query.streams))
        leaves = [p.leaves_us for p in self._packed if p.leaves_us is not None]
        own = [[p.newest_us for p in self._of(i)] if self._plan.first else [] for i in streams]
        return [latest([*own[i], *(times_us[i] for times_us in leaves)]) for i in streams]

    def incoming(self) -> dict[str, Incoming]:
        """Each stream's part of the batch; of one that another stage joins only its newest time."""
        return {
            name: self._incoming(i)
            for i, name in enumerate(self._plan.query.names)
            if self.newest_us[i] is not None or self._of(i)
        }

    def handed(self, tree: Tree) -> dict[Plan, Rows]:
        """What lower stages made in this batch."""
        handed: dict[Plan, Rows] = {}
        for number in range(len(self._plan.query.streams), len(self._plan.inputs)):
            source = tree.inputs[self._plan.inputs[number]]
            rows = _rows(self._of(number))
            rows = no_rows(source.schema) if rows is None else rows
            handed[source.node] = tree.above(source.node).entering(source, rows)
        return handed

    def check_complete(self, before_us: Newest) -> None:
        """Raise if the first stages know of rows that this stage has not got: they would be too late here.

        A stream that a later stage joins is read twice in a batch; Spark reads the same rows then.
        `before_us` are the newest times that were known before the batch.
        """
        for name in () if self._plan.first else self._plan.subplan.streams:
            i = self._plan.query.names.index(name)
            here_us = latest([before_us[i], *(p.newest_us for p in self._of(i))])
            if latest([here_us, self.newest_us[i]]) != here_us:
                wrong = "two reads of one micro-batch gave different rows"
                need = "a join with several keys needs sources that give the same rows again"
                raise InvalidValue(f"stream {name!r}: {wrong}; {need}")

    def _incoming(self, i: int) -> Incoming:
        packed = self._of(i)
        brought = any(p.rows_total for p in packed) and not any(p.dropped for p in packed)
        sums = {name: sum(getattr(p, name) for p in packed) for name in _ADDED}
        total = sum(p.joining for p in packed)
        came = any(p.rows_total or p.dropped or p.early for p in packed)
        counted = {**sums, "newest_us": self.newest_us[i], "brought": brought, "came": came}
        counted["total_rows"] = total
        data = [p for p in packed if not p.closing and not p.told]
        own, copies = (_rows([p for p in data if p.copied == copied]) for copied in (False, True))
        rows = own if copies is None else copies if own is None else pa.concat_batches([own, copies])
        closing = _rows([p for p in packed if p.closing])
        told = _rows([p for p in packed if p.told])
        return Incoming(rows, closing, counted, 0 if copies is None else copies.num_rows, told)

    def _of(self, number: int) -> list[Packed]:
        """The packed rows of one of the stage's inputs."""
        return [p for p in self._packed if p.stream == number]


def _rows(packed: Sequence[Packed]) -> pa.RecordBatch | None:
    """The rows in the blobs of packed rows; None if there is no blob."""
    parts = [blobs.decode(p.blob) for p in packed if p.blob is not None]
    return pa.concat_batches(parts) if len(parts) > 1 else next(iter(parts), None)
