"""What a batch costs around the index: taking rows in, storing them, making results; measured once and saved.

Small joins of two streams run over a grid of batch sizes and numbers of keys. From their times the work of
the index is taken off (`policies.index_cost`); the rest is explained by batches, rows and results. Rows have
a key, a time and two numbers; texts cost more.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from braided.engine import calibration
from braided.engine.engine import Engine
from braided.policies.index_cost import hash_ns, load_of
from braided.query.join_query import JoinQuery
from braided.query.stream import Stream
from braided.query.tuning import Tuning

_ROWS = (64, 1_024, 8_192)  # of a stream in a batch
_FOUND = (0.1, 1.0, 20.0)  # rows that a row finds
_WINDOW = 4  # batches
_BATCHES = 16
_US = 1_000_000


@dataclass(frozen=True)
class Around:
    """Nanoseconds for a batch and operator, a row that comes in, and a result (or an intermediate row)."""

    batch: float
    row: float
    result: float


@cache
def around_costs() -> Around:
    """The costs on this machine, from the file if there is one."""
    return calibration.remembered(Around, "engine-costs", measure)


def measure() -> Around:
    """Run joins over the grid."""
    rng, costs = np.random.default_rng(2), calibration.machine_costs()
    points: list[calibration.Point] = []
    for rows, found in itertools.product(_ROWS, _FOUND):
        keys = max(1, round(rows * _WINDOW / found))
        ns, results = _run(rng, rows, keys)
        side = load_of(
            rows,
            rows,
            stored=rows * _WINDOW,
            inside=rows * _WINDOW,
            share=1 / keys,
            blocks=max(1, rows / 4080),
        )
        points.append(((1.0, 2.0 * rows, results), max(1_000.0, ns - 2 * hash_ns(side, costs))))
    return Around(*calibration.fit(points))


def _run(rng: np.random.Generator, rows: int, keys: int) -> tuple[float, float]:
    """The nanoseconds and results of a batch, once windows are full: medians."""
    streams = [Stream(name, key="k", time="t", window=f"{_WINDOW} seconds") for name in "ab"]
    engine = Engine(JoinQuery(streams, tuning=Tuning(index="hash")))
    times, made = [], []
    for number in range(_BATCHES):
        batch = {name: _rows(rng, rows, keys, number) for name in "ab"}
        began = time.process_time()
        made.append(sum(piece.num_rows for piece in engine.step(engine.accept(batch), eager=False)))
        times.append(time.process_time() - began)
    full = slice(_WINDOW + 1, None)
    return 1e9 * float(np.median(times[full])), float(np.median(made[full]))


def _rows(rng: np.random.Generator, rows: int, keys: int, number: int) -> pa.Table:
    times = np.sort(rng.integers(number * _US, (number + 1) * _US, rows))
    columns = {"k": rng.integers(0, keys, rows), "t": pa.array(times).cast(pa.timestamp("us"))}
    return pa.table(columns | {name: rng.integers(0, 1 << 30, rows) for name in ("x", "y")})
