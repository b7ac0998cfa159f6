"""Running the shipped `LocalJoin` over batches, with everything a lab wants to know of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import braided as bd


@dataclass(frozen=True)
class Batch:
    """One batch: CPU seconds, rows, results, probes, and the way there: (seconds, results, rows consumed)."""

    seconds: float
    rows: int
    results: int
    probes: int
    curve: np.ndarray

    def share_at(self, seconds: float, column: int = 1) -> float:
        """The part of the results (or of the rows, column 2) that was there after so many seconds.

        Between two pieces it is taken to grow evenly.
        """
        total = (self.results, self.rows)[column - 1]
        return float(np.interp(seconds, self.curve[:, 0], self.curve[:, column]) / total) if total else 1.0


@dataclass(frozen=True)
class Run:
    """All batches of a run, and how often the driver stream changed."""

    batches: tuple[Batch, ...]
    switches: int

    def seconds(self, part: slice) -> float:
        """CPU seconds of some batches."""
        return sum(b.seconds for b in self.batches[part])

    def probes(self, part: slice, *, later: bool = False) -> int:
        """Probes of some batches; `later` leaves out the first one of each row."""
        return sum(b.probes - (b.rows if later else 0) for b in self.batches[part])


def run(query: bd.JoinQuery, batches: list[dict[str, pa.Table]], *, chunk_rows: int) -> Run:
    """Join all batches, reading results as they come."""
    live = bd.LocalJoin(query)
    done = []
    for batch in batches:
        before, results, seconds = live.stats(), 0, 0.0
        curve = [(0.0, 0, 0)]
        began = time.process_time()
        for table in live.stream(batch, chunk_rows=chunk_rows):
            seconds += time.process_time() - began  # looking costs time, too: the clock stands meanwhile
            results += table.num_rows
            curve.append((seconds, results, live.stats().driven_rows - before.driven_rows))
            began = time.process_time()
        seconds += time.process_time() - began
        rows = sum(t.num_rows for t in batch.values())
        curve.append((seconds, results, rows))
        probes = _probes(live.stats()) - _probes(before)
        done.append(Batch(seconds, rows, results, probes, np.array(curve)))
    return Run(tuple(done), live.stats().driver_switches)


def _probes(seen: bd.Statistics) -> int:
    return sum(h.probes for h in seen.half_joins.values())


def by_period(tables: Mapping[str, pa.Table], batches: int, span: int) -> list[dict[str, pa.Table]]:
    """Tables in order of time, cut into so many periods."""
    edges = np.linspace(0, span, batches + 1)[1:-1]
    cuts = {
        name: [0, *np.searchsorted(table["t"].cast(pa.int64()).to_numpy(), edges).tolist(), table.num_rows]
        for name, table in tables.items()
    }
    return list(_slices(tables, cuts, batches))


def _slices(
    tables: Mapping[str, pa.Table], cuts: Mapping[str, list[int]], batches: int
) -> Iterator[dict[str, pa.Table]]:
    for n in range(batches):
        yield {name: t.slice(cuts[name][n], cuts[name][n + 1] - cuts[name][n]) for name, t in tables.items()}
