"""One partition's disk-resident portion: the rows of its flushes, in one file of Arrow IPC messages.

Each flush appends one message: the rows' columns, and behind them when each row arrived. The rows of a flush
departed together, so that is kept once for all of them, in memory; with it, the runs of the second stage.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from braided.policies.arrays import Int64s
from braided_lab.xjoin_stamps import Runs, Stamps


class DiskPortion:
    """Rows of one stream and partition that have departed from memory."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema.append(pa.field("arrived", pa.int64()))
        self._flush_rows: list[int] = []
        self._departures: list[int] = []
        self.runs = Runs()
        self.rows = self.written_bytes = self.read_bytes = 0

    @property
    def last_departure(self) -> int:
        """When its latest rows departed."""
        return self._departures[-1]

    def write(self, columns: list[pa.Array], arrived: Int64s, departed: int) -> None:
        """Append the rows of a flush."""
        batch = pa.RecordBatch.from_arrays([*columns, pa.array(arrived)], schema=self._schema)
        with self._path.open("ab") as file:
            if not self._departures:
                self.written_bytes += file.write(self._schema.serialize())
            self.written_bytes += file.write(batch.serialize())
        self._flush_rows.append(batch.num_rows)
        self._departures.append(departed)
        self.rows += batch.num_rows

    def read(self) -> tuple[pa.RecordBatch, Stamps]:
        """All its rows, in the order they were written."""
        with pa.OSFile(str(self._path)) as file, pa.ipc.open_stream(file) as stream:
            table = stream.read_all()
        self.read_bytes += self.written_bytes
        (batch,) = table.combine_chunks().to_batches()
        last = len(self._schema) - 1
        departed = np.repeat(np.array(self._departures, np.int64), self._flush_rows)
        return batch.select(range(last)), Stamps(batch.column(last).to_numpy(), departed)

    def meetings(self, arrivals: Int64s) -> int:
        """How many pairs, whatever their keys, a run would make with rows in memory: those not made before.

        `arrivals` are those of the other stream's memory portion, in order.
        """
        since = self.runs.since(np.array(self._departures, np.int64))
        newer = len(arrivals) - np.searchsorted(arrivals, since, side="right")
        return int(newer @ np.array(self._flush_rows))
