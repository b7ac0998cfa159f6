"""What our own two indexes cost: the unit-time model of `window_cost` with our operations and our figures.

The paper's hash pays for every row that leaves; ours lets rows leave for nothing, and pays for linking each
row that enters and for following its chains row by row. A scan pays for every row it looks at, eight or more
at a time, a little more for each stretch of 64 in which something is found, and for what it finds. So a scan
wins where most of what it looks at matches (few keys), or where rows enter but hardly any row probes.

    hash  = inserts * insert + probes * (probe + hops * hop + hits * found)
    scan  = probes * (sweep + log2(rows) * search + rows * row + stretches * stretch + hits * hit)

`stretches` is how many of the stretches looked at hold a hit, if hits lie at random; the search finds where
the time bounds begin and end. Leaving out what both
have in common (storing the row, forgetting it, writing the result), the difference is what decides.

>>> few, many = Load(1e6, 1e4, rows=100, hops=50, hits=50), Load(1e3, 1e4, rows=1e5, hops=1, hits=1)
>>> [scan_ns(load, Costs()) < hash_ns(load, Costs()) for load in (few, many)]
[True, False]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_STRETCH = 64


@dataclass(frozen=True)
class Costs:
    """Nanoseconds per operation; the defaults are of the machine Braided was developed on.

    `batch` and `store` are what storing and forgetting rows cost with either index, per batch and per row.
    """

    insert: float = 1.2
    probe: float = 6.0
    hop: float = 2.5
    found: float = 2.5
    sweep: float = 5.0
    search: float = 3.0
    row: float = 0.12
    stretch: float = 13.0
    hit: float = 2.8
    batch: float = 15_000.0
    store: float = 4.0


@dataclass(frozen=True)
class Load:
    """What a side went through: probes and inserts, and per probe what was or would be looked at.

    `rows` are stored rows a scan looks at, `hops` rows that a hash looks at, `hits` rows with the key that
    are inside the time bounds.
    """

    probes: float
    inserts: float
    rows: float
    hops: float
    hits: float


def hash_terms(load: Load) -> tuple[float, ...]:
    """How often each operation of a hash is done: insert, probe, hop, found."""
    return load.inserts, load.probes, load.probes * load.hops, load.probes * load.hits


def scan_terms(load: Load) -> tuple[float, ...]:
    """How often each operation of a scan is done: sweep, search, row, stretch, hit."""
    rows = max(1.0, load.rows)
    density = min(1.0, load.hits / rows)
    stretches = rows / _STRETCH * (1 - (1 - density) ** min(_STRETCH, rows))
    search = math.log2(rows) if rows > _STRETCH else 0.0
    return tuple(load.probes * n for n in (1.0, search, rows, stretches, load.hits))


def hash_ns(load: Load, costs: Costs) -> float:
    """The time a hash takes for this load."""
    return _sum(hash_terms(load), (costs.insert, costs.probe, costs.hop, costs.found))


def scan_ns(load: Load, costs: Costs) -> float:
    """The time a scan takes for this load."""
    return _sum(scan_terms(load), (costs.sweep, costs.search, costs.row, costs.stretch, costs.hit))


def direction_ns(load: Load, costs: Costs, *, scanned: bool, batches: int = 1) -> float:
    """The whole cost of a direction (window-join, Eq. 1): probes, and rows that enter and leave."""
    stored = batches * costs.batch + load.inserts * costs.store
    return stored + (scan_ns if scanned else hash_ns)(load, costs)


def _sum(terms: tuple[float, ...], weights: tuple[float, ...]) -> float:
    return sum(t * w for t, w in zip(terms, weights, strict=True))
