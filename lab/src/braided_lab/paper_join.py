"""The window-join paper's join as an object: rows at constant rates, windows filled first, then timed.

>>> rows = arriving(rate_a=10, rate_b=20, keys=(5, 5), seconds=3, seed=1)
>>> join = PaperJoin(rows, "HNJ", window_seconds=2)
>>> join.advance(2)  # the windows are full now; what follows counts
0.0
>>> seconds = join.advance(1)
>>> join.touches("B", "insert"), join.touches("B", "probe")  # 20 rows entered; 10 probes of 40 rows each
(20, 400)
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np

from braided.policies.arrays import Int64s
from braided_lab import paper_window
from braided_lab.paper_window import (
    ARRAY,
    BRANCHED,
    BUCKETS,
    COUNTED,
    FOLLOWING,
    HEADS,
    INSERT,
    INVALIDATE,
    KIND,
    LAST_RESULT,
    LINKED,
    PEAK,
    PROBE,
    ROOM,
    SCAN,
    SPAN,
    STRIDE,
    WRITTEN,
)
from braided_lab.window_cost import Invalidation

Buckets = Literal["array", "linked"]
Results = Literal["written", "branched", "counted"]
Operation = Literal["probe", "insert", "invalidate"]

SECOND = 1_000_000_000
_PHASE = 0.318  # of an interval of A, so that no two rows arrive together
_RESULTS: dict[Results, int] = {"counted": COUNTED, "written": WRITTEN, "branched": BRANCHED}
_OPERATIONS: dict[Operation, int] = {"probe": PROBE, "insert": INSERT, "invalidate": INVALIDATE}


@dataclass(frozen=True)
class Rows:
    """Two streams merged in order of time: whose row it is (0 for A), its key, its time in nanoseconds."""

    sides: Int64s
    keys: Int64s
    times: Int64s
    buckets: tuple[int, int]

    def of(self, side: int) -> tuple[Int64s, Int64s]:
        """One stream's keys and times."""
        mine = self.sides == side
        return self.keys[mine], self.times[mine]


@dataclass(frozen=True)
class Layout:
    """What the paper leaves open: what buckets are made of, and how results leave (see `paper_window`)."""

    buckets: Buckets = "array"
    results: Results = "written"

    def __str__(self) -> str:
        return f"{self.buckets} buckets, results {self.results}"


def arriving(*, rate_a: int, rate_b: int, keys: tuple[int, int], seconds: int, seed: int) -> Rows:
    """Evenly spaced rows of uniform keys, as the paper's feeder sends them; a bucket for each key."""
    rng = np.random.default_rng(seed)
    phase = int(_PHASE * SECOND / rate_a)
    times = [np.arange(r * seconds, dtype=np.int64) * SECOND // r for r in (rate_a, rate_b)]
    times[0] += phase
    found = [rng.integers(0, n, len(t)) for n, t in zip(keys, times, strict=True)]
    return merged(found, times, buckets=keys)


def merged(keys: list[Int64s], times: list[Int64s], *, buckets: tuple[int, int]) -> Rows:
    """Two streams in order of time; of two rows of the same time that of A comes first."""
    sides = np.repeat(np.arange(2), [len(t) for t in times])
    order = np.argsort(np.concatenate(times), kind="stable")
    return Rows(sides[order], np.concatenate(keys)[order], np.concatenate(times)[order], buckets)


class PaperJoin:
    """One of HHJ, NNJ, HNJ, NHJ (the first letter is A's window), or one way from A to B: H or N.

    Rows are let in by `advance`, the first call of which only fills the windows: nothing of it is counted.
    """

    def __init__(
        self,
        rows: Rows,
        name: str,
        *,
        window_seconds: float,
        layout: Layout | None = None,
        invalidation: Invalidation = "active",
    ) -> None:
        self.rows, self.name, self.layout = rows, name, layout or Layout()
        self.invalidation = invalidation
        self.one_way = len(name) == 1
        kinds = ("N" + name) if self.one_way else name[:2]
        span = round(window_seconds * SECOND)
        self._windows = [self._window(side, kinds[side], span) for side in (0, 1)]
        self._touched = np.zeros((2, 3), np.int64)
        self.per_row = np.zeros((len(rows.sides), 3), np.int64)
        self._out = np.zeros(int(LAST_RESULT) + 1, np.int64)
        self._next = self._results = self._begun = 0
        self._seconds, self._filled = 0.0, False

    def advance(self, seconds: float) -> float:
        """Let in the rows of so many more seconds; returns the CPU seconds that took (0 for the first)."""
        self._seconds += seconds
        end = int(np.searchsorted(self.rows.times, round(self._seconds * SECOND)))
        began = time.process_time()
        self._run(end)
        took = time.process_time() - began
        if not self._filled:
            self._filled, self._begun, self._results, took = True, end, 0, 0.0
            self._touched[:] = 0
        return took

    def _run(self, end: int) -> None:
        lazy, how = self.invalidation == "lazy", _RESULTS[self.layout.results]
        rows, (a, b) = self.rows, self._windows
        self._results = paper_window.advance(
            self._next, end, rows.sides, rows.keys, rows.times, *a, *b, self.one_way, lazy, how,
            self._out, self._results, self._touched, self.per_row,
        )  # fmt: skip
        self._next = end

    @property
    def results(self) -> int:
        """Results since the windows were filled."""
        return self._results

    @property
    def counted(self) -> slice:
        """The rows that arrived since the windows were filled."""
        return slice(self._begun, self._next)

    def touches(self, window: Literal["A", "B"], operation: Operation) -> int:
        """Rows touched in a window by an operation, since the windows were filled."""
        return int(self._touched["AB".index(window), _OPERATIONS[operation]])

    def touched(self) -> dict[str, int]:
        """Rows touched since the windows were filled, by kind of window."""
        scan, by_hash, _ = self.per_row[self.counted].sum(axis=0).tolist()
        return {"scan": scan, "hash": by_hash}

    def peak(self, window: Literal["A", "B"]) -> int:
        """The most rows a window ever held."""
        return int(self._windows["AB".index(window)][1][PEAK])

    def _window(self, side: int, letter: str, span: int) -> tuple[Int64s, Int64s]:
        """Its rows and its state, see `paper_window`."""
        keys, times = self.rows.of(side)
        buckets, held = self.rows.buckets[side], self._most_held(times, span)
        kind = SCAN if letter == "N" else LINKED if self.layout.buckets == "linked" else ARRAY
        stride = int(np.bincount(keys % buckets, minlength=1).max())
        rows = np.zeros((5, max(held, buckets * stride) if kind == ARRAY else held), np.int64)
        rows[FOLLOWING] = np.arange(1, rows.shape[1] + 1)
        state = np.full(HEADS + buckets, -1 if kind == LINKED else 0, np.int64)
        state[:HEADS] = 0
        state[[KIND, SPAN, STRIDE, ROOM, BUCKETS]] = kind, span, stride, held, buckets
        return rows, state

    def _most_held(self, times: Int64s, span: int) -> int:
        """Room for every row a ring could have to hold at once.

        Active: those of a window and one more. Lazy: those that come between two probes, too; a bucket of
        a hash may never be probed, then it needs room for all.
        """
        if self.invalidation == "lazy":
            return len(times) + 1
        alive = np.arange(1, len(times) + 1) - np.searchsorted(times, times - span, side="right")
        return int(alive.max(initial=0)) + 2
