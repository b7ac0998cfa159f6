"""Rows by bucket: blobs of rows on their way to a stage, and the control rows that go with them.

One task's rows of one input go to the buckets of the stage that joins them (`routing`), in as few blobs as
possible, and each bucket learns how many rows go to it, to the buckets before it and to all.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs
from braided.spark.wire.packed import NO_STREAM, Blob, Newest, Packed, latest, to_arrow
from braided.spark.wire.routing import Router

_FLUSH_BYTES = 64 << 20  # rows that a task holds back, for fewer and larger blobs


class Bucketing:
    """One task's rows of one of a stage's inputs, by bucket; blobs are numbered in the order they are made.

    `counts` is what the task has seen of its input, named as in `Packed`, and `newest_us` the newest time.
    """

    def __init__(self, plan: JoinPlan, number: int = NO_STREAM) -> None:
        self._plan, self._number, self._part, self._seq = plan, number, _partition(), 0
        self._labels = plan.labels
        self._began_us = time.time_ns() // 1000
        self._first = np.cumsum([0, *(live.buckets for live in plan.live)]).tolist()  # buckets of epochs
        self._by_bucket = np.zeros(len(plan.labels), np.int64)
        self._joining = 0
        self._held: dict[tuple[int, bool], list[pa.RecordBatch]] = {}
        self._held_bytes = 0
        self.counts: Counter[str] = Counter()
        self.early = 0  # rows that can join, and were dropped
        self.keyless = 0  # rows that are stored, and meet nothing
        self.reads = False  # whether the task could read which
        self.newest_us: int | None = None

    @functools.cached_property
    def _routers(self) -> list[Router]:
        return [Router(live, self._number) for live in self._plan.live]

    @functools.cached_property
    def _closing(self) -> list[Router]:
        return [Router(live, self._number, closing=True) for live in self._plan.live]

    def saw(self, newest_us: int | None) -> None:
        """Note the newest time of some rows."""
        self.newest_us = latest((self.newest_us, newest_us))

    def add(self, rows: pa.RecordBatch, epoch: int = 0, *, copied: bool = False) -> Iterator[pa.RecordBatch]:
        """Take stored rows that can join, for an epoch; hand out packed rows once there are many.

        Epochs count from the newest; rows that went to a newer one are `copied`.
        """
        self._held.setdefault((epoch, copied), []).append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= _FLUSH_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The rows that are held, as packed rows with a blob each."""
        held, self._held, self._held_bytes = self._held, {}, 0
        packed: list[Packed] = []
        for (epoch, copied), rows in held.items():
            whole = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
            for cells, piece in self._routes(self._routers, whole, epoch):
                self._joining += 0 if copied else piece.num_rows
                self._by_bucket[cells] += piece.num_rows
                packed += self._rows(cells, blobs.encode(piece), copied=copied)
        if packed:
            yield to_arrow(packed)

    def punctuations(self, rows: pa.RecordBatch, epoch: int = 0) -> Iterator[pa.RecordBatch]:
        """Punctuations of keys, for the buckets of these keys; those of the newest epoch count them."""
        for cells, piece in self._routes(self._closing, rows, epoch):
            counts = 0 if epoch else piece.num_rows
            yield to_arrow(self._rows(cells, blobs.encode(piece), closing=True, punctuations=counts))

    def tell(self, rows: pa.RecordBatch, promised: Sequence[str], epoch: int) -> Iterator[pa.RecordBatch]:
        """Values that a stream promises something about, for all buckets that may have rows with them."""
        for cells, piece in self._routes(self._closing, rows, epoch):
            yield to_arrow(self._rows(cells, blobs.encode(piece.select(promised)), told=True))

    def to_all(self, punctuations: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Punctuations for every bucket; they are counted elsewhere."""
        yield to_arrow(self._rows(range(len(self._labels)), blobs.encode(punctuations), closing=True))

    def passing(self, blob: Blob) -> pa.RecordBatch:
        """A blob that is none of the stage's business, as a packed row.

        All of a task's go to one bucket, by the task's number: a repeated attempt must choose the same.
        """
        return to_arrow(self._rows([self._part % len(self._labels)], blob, stream=NO_STREAM))

    def control(self, leaves_us: Newest | None = None, **others: Any) -> pa.RecordBatch:
        """A row for every bucket: counts go to the first, so that sums are right; times go to all.

        `began_us` is when this task began, by its own clock: no result depends on it, only later budgets.
        """
        upto = np.cumsum(self._by_bucket).tolist()
        row = Packed(
            self._labels[0], self._number, self._part, self._seq, newest_us=self.newest_us,
            rows_upto=upto[0], rows_total=upto[-1], began_us=self._began_us, leaves_us=leaves_us,
            dropped=self.counts["null_keys"] + self.counts["null_times"] + self.keyless,
            joining=self._joining, early=self.early, reads=self.reads,
        )._replace(**others)  # fmt: skip
        behind = zip(self._labels[1:], upto[:-1], upto[1:], strict=True)
        rest = (row._replace(bucket=b, rows_before=n, rows_upto=m) for b, n, m in behind)
        counts: dict[str, Any] = {**self.counts, "shed_rows": self.early}
        return to_arrow([row._replace(**counts), *rest])

    def decided(self, by_label: Mapping[int, tuple[float, int]]) -> pa.RecordBatch:
        """Tell each bucket what was decided for it."""
        return to_arrow(
            [Packed(label, NO_STREAM, 0, 0, decided=by_label.get(label, (0.0, -1))) for label in self._labels]
        )

    def _routes(
        self, routers: Sequence[Router], rows: pa.RecordBatch, epoch: int
    ) -> Iterator[tuple[list[int], pa.RecordBatch]]:
        """Pieces of an epoch's rows, each with the buckets that it goes to, among those of all epochs."""
        first = self._first[epoch]
        for cells, piece in routers[epoch].routes(rows):
            yield [first + cell for cell in cells], piece

    def _rows(
        self, cells: Sequence[int], blob: Blob, *, copied: bool = False, punctuations: int = 0, **others: Any
    ) -> list[Packed]:
        """A blob for some buckets; the first of them counts what is in it, unless all are copies."""
        row = Packed(0, self._number, self._part, self._seq, blob=blob)._replace(**others)
        self._seq += 1
        rows = [row._replace(bucket=self._labels[c], copied=copied or i > 0) for i, c in enumerate(cells)]
        return [rows[0]._replace(punctuations=punctuations), *rows[1:]]


def _partition() -> int:
    """The number of the task's part of the data."""
    from pyspark import TaskContext  # noqa: PLC0415  (only inside a task)

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
