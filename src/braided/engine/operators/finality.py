"""When rows of the core are final: no optional stream may bring a partner of them any more.

A row of the core has rows of required streams at times t_i. Stream k may bring a partner as long as the
watermark has not passed min over i of t_i + D[i][k]; with a null in a column that joins k, never, and neither
if k is closed for its key. Of an as-of stream no row counts that is after the newest of the t_i. The row is
final once the watermark has passed the latest of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from braided.engine.sides.side import BOTTOMLESS_US
from braided.policies.arrays import Bools, Int64s
from braided.query.bounds import INFINITE_US
from braided.query.join_graph import ColumnName
from braided.query.join_query import JoinQuery

ALWAYS_US = BOTTOMLESS_US - 1  # final before any watermark


class Finality:
    """Tells when rows of some required streams are final."""

    def __init__(self, query: JoinQuery, core: Sequence[str], optional: Sequence[str]) -> None:
        self._core, graph, numbers = core, query.graph, {n: i for i, n in enumerate(query.names)}
        matrix = query.bounds.matrix
        self._bounds = [{i: matrix[numbers[i]][numbers[k]] for i in core} for k in optional]
        self._as_of = [k in query.kinds.as_of for k in optional]
        self._columns: list[list[ColumnName]] = [
            [c for a in graph.attributes if graph.has(a, k) for c in a if c[0] in core] for k in optional
        ]

    def beside(self, closed: Sequence[Bools], times: Callable[[str], Int64s]) -> Int64s:
        """The same for rows without nulls, where some of the optional streams are closed for them."""
        final = np.full(len(closed[0]), ALWAYS_US, np.int64)
        for k, of_stream in enumerate(closed):
            until = self._until(k, len(final), times)
            until[of_stream] = ALWAYS_US
            final = np.maximum(final, until)
        return final

    def of(
        self, batch: pa.RecordBatch, places: Mapping[ColumnName, int], times: Callable[[str], Int64s]
    ) -> Int64s:
        """Return the watermark that each row's last partner does not survive; some rows never have one."""
        final = np.full(batch.num_rows, ALWAYS_US, np.int64)
        for k, columns in enumerate(self._columns):
            until = self._until(k, batch.num_rows, times)
            for column in columns:
                values = batch.column(places[column])
                if values.null_count:
                    until[~np.asarray(values.is_valid())] = ALWAYS_US
            final = np.maximum(final, until)
        return final

    def _until(self, k: int, rows: int, times: Callable[[str], Int64s]) -> Int64s:
        """The last watermark that partners of one stream may come at."""
        if self._as_of[k]:
            return np.asarray(np.maximum.reduce([times(stream) for stream in self._core]))
        until = np.full(rows, INFINITE_US, np.int64)
        for stream, bound in self._bounds[k].items():
            if bound < INFINITE_US:
                until = np.minimum(until, times(stream) + bound)
        return until
