"""The workload of early-throughput (VII): when rows arrive, and which keys they have.

Steady rows come evenly. Slow and bursty ones come at a fixed rate while a source is ON and not at all while
it is OFF; both last Pareto times, so that some silences are very long (errata, A7).

| A7 | here |
| --- | --- |
| a, mean | `shape`, `mean` |
| x_m = mean (a - 1) / a, X = x_m / U^(1/a) | `pareto` |

Keys come in *buckets*, each with all its keys at a source or not, with equal probability. A bucket is a
partition group of the engine; every set of sources has as many buckets, so that seeds differ in which buckets
join, and not in how many do.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braided.engine.kernels import hashing
from braided.engine.sides.groups import group_of
from braided.policies.arrays import Int64s

Floats = npt.NDArray[np.float64]
ROW_ID, KEY = "id", "key"


@dataclass(frozen=True)
class Bursts:
    """How a source behaves, in seconds and rows a second; `rate` is the average over ON and OFF."""

    rate: float
    shape: float
    on_s: float
    off_s: float


def steady(rng: np.random.Generator, rows: int, rate: float) -> Floats:
    """Arrival times at an even rate; sources do not begin in step."""
    return np.asarray((np.arange(rows) + rng.random()) / rate, np.float64)


def bursty(rng: np.random.Generator, rows: int, bursts: Bursts) -> Floats:
    """Arrival times of a source that is ON and OFF in turn."""
    rate = bursts.rate * (bursts.on_s + bursts.off_s) / bursts.on_s
    on, off = np.zeros(0), np.zeros(0)
    while on.sum() * rate < rows + 1:
        on = np.append(on, pareto(rng, 1_000, bursts.on_s, bursts.shape))
        off = np.append(off, pareto(rng, 1_000, bursts.off_s, bursts.shape))
    busy = (np.arange(rows) + rng.random()) / rate  # while ON
    burst = np.searchsorted(np.cumsum(on), busy, side="right")
    waited = np.cumsum(off) if rng.random() < bursts.off_s / (bursts.on_s + bursts.off_s) else _after(off)
    return busy + waited[burst]


def _after(off: Floats) -> Floats:
    """The silences before each burst, of a source that begins with one."""
    return np.append(0.0, np.cumsum(off)[:-1])


def pareto(rng: np.random.Generator, count: int, mean: float, shape: float) -> Floats:
    """Pareto times.

    >>> times = pareto(np.random.default_rng(1), 100_000, 1.0, 1.5)
    >>> bool(times.min() >= 1 / 3), bool(0.8 < times.mean() < 1.3)
    (True, True)
    """
    return np.asarray(mean * (shape - 1) / shape / (1 - rng.random(count)) ** (1 / shape))


@dataclass(frozen=True)
class Source:
    """One input: its rows in order, and when each arrives, in seconds."""

    rows: pa.RecordBatch
    times: Floats


def keys_of(rng: np.random.Generator, sources: int, rows: int, key_range: int, bits: int) -> list[Int64s]:
    """The keys of every source's rows, from buckets that it has; there are 2 ** bits."""
    buckets = _buckets(np.arange(key_range, dtype=np.int64), bits)
    has = rng.permutation(np.arange(1 << bits) % (1 << sources))
    if not (has == (1 << sources) - 1).any():
        raise ValueError(f"{1 << bits} buckets are too few for {sources} sources; use a larger scale")
    pools = [np.flatnonzero((has[buckets] >> i) & 1) for i in range(sources)]
    return [rng.choice(pool, rows).astype(np.int64) for pool in pools]


def _buckets(keys: Int64s, bits: int) -> Int64s:
    return group_of(hashing.hash_words(keys), bits)


def sources_of(
    keys: Sequence[Int64s], times: Sequence[Floats], tuple_bytes: int, names: Sequence[str]
) -> dict[str, Source]:
    """Rows with a key, a number and a payload that makes them as wide as wanted."""
    found = {}
    for name, of_source, when in zip(names, keys, times, strict=True):
        columns = {
            KEY: pa.array(of_source),
            ROW_ID: pa.array(np.arange(len(of_source))),
            "payload": _payload(len(of_source), tuple_bytes - 16),
        }
        found[name] = Source(pa.record_batch(columns), when)
    return found


def _payload(rows: int, width: int) -> pa.Array:
    data = pa.py_buffer(bytes(rows * width))
    return pa.Array.from_buffers(pa.binary(width), rows, [None, data])


def expected(sources: Mapping[str, Source]) -> tuple[int, dict[str, int]]:
    """How many results there are, and by source the sum of the numbers of their rows."""
    keys = {name: s.rows.column(KEY).to_numpy() for name, s in sources.items()}
    ids = {name: s.rows.column(ROW_ID).to_numpy() for name, s in sources.items()}
    size = 1 + max(int(k.max(initial=0)) for k in keys.values())
    counts = {name: np.bincount(k, minlength=size) for name, k in keys.items()}
    sums = {}
    for name in sources:
        of_key = np.zeros(size, np.int64)
        np.add.at(of_key, keys[name], ids[name])
        others: Any = np.prod([c for other, c in counts.items() if other != name], axis=0)
        sums[name] = int((of_key * others).sum())
    return int(np.prod(list(counts.values()), axis=0).sum()), sums


def alphabet(count: int) -> list[str]:
    """Names of sources: A, B, C ..."""
    return [chr(ord("A") + i) for i in itertools.islice(itertools.count(), count)]
