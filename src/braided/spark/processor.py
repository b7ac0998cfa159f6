"""The stateful operator Spark runs: one call per bucket and micro-batch.

Spark rebuilds the processor for every task and also runs `init` once in a process of the driver, so this
module imports nothing heavy, and the plan travels as bytes; the work is in `bucket`.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd

    from braided.spark.plan import JoinPlan


class JoinProcessor(StatefulProcessor):
    """Joins the packed rows of a bucket with its state."""

    def __init__(self, plan: JoinPlan) -> None:
        self._plan_bytes = pickle.dumps(plan)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables."""
        self._ahead_seconds = 0.0  # that budgets explain, by the buckets of this task
        self._meta = handle.getValueState("meta", "data binary")
        self._chunks = handle.getMapState("chunks", "number long", "data binary")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Process one bucket's rows of a micro-batch."""
        import pandas as pd  # noqa: PLC0415

        from braided.spark.bucket import Bucket  # noqa: PLC0415
        from braided.spark.wire.packed import encoded, gathered, packed_frames  # noqa: PLC0415

        plan, label = _plan(self._plan_bytes), int(key[0])
        if label not in plan.labels:  # of an epoch that has gone
            self._meta.clear()
            self._chunks.clear()
            return
        bucket = Bucket(*plan.place(label), self, _query_id(), self._ahead_seconds)
        for made in gathered(bucket.run(packed_frames(label, rows))):
            columns = {"report": [row.report for row in made], "data": [encoded(row) for row in made]}
            yield pd.DataFrame(columns, dtype=object)
        self._ahead_seconds += bucket.paced_seconds

    def close(self) -> None:
        """Nothing to give back."""

    # the bucket's view of the state store

    def get(self, number: int) -> bytes | None:
        """A chunk's bytes; the small value's number is negative."""
        stored = self._meta.get() if number < 0 else self._chunks.getValue((number,))
        return None if stored is None else bytes(stored[0])

    def put(self, number: int, data: bytes) -> None:
        """Write a chunk, or the small value."""
        if number < 0:
            self._meta.update((data,))
        else:
            self._chunks.updateValue((number,), (data,))

    def remove(self, number: int) -> None:
        """Forget a chunk."""
        self._chunks.removeKey((number,))


@functools.lru_cache(maxsize=16)
def _plan(data: bytes) -> JoinPlan:
    """The plan, and what was computed from it, once per worker."""
    plan: JoinPlan = pickle.loads(data)
    return plan


def _query_id() -> str:
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return (context.getLocalProperty("sql.streaming.queryId") if context else None) or ""
