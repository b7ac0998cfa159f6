"""What our own two indexes cost: the window-join paper's unit-time model with our operations and figures.

The paper's hash pays for every row that leaves; ours lets rows leave for nothing, and pays for linking each
row that enters and for following its chains row by row. A scan pays for every row it looks at, eight or more
at a time, a little more for each stretch of 64 in which something is found, and for what it finds. So a scan
wins where most of what it looks at matches (few keys), or where rows enter but hardly any row probes.

    hash  = inserts * insert + probes * (probe + hops * hop + hits * match) + blocks * hops * round
    scan  = probes * (sweep + rows * row + stretches * stretch + hits * hit)

A block of probes walks its chains in rounds, one hop of each row at a time, so a small block pays for as many
rounds as a large one. `stretches` is how many of the stretches looked at hold a hit, if hits lie at random.
What both indexes have in common (storing a row,
forgetting it) decides nothing; it is part of a direction's cost all the same.

>>> few = Load(1e6, 1e4, rows=100, hops=50, hits=50)
>>> many = Load(1e3, 1e4, rows=1e5, hops=1, hits=1)
>>> [scan_ns(load, Costs()) < hash_ns(load, Costs()) for load in (few, many)]
[True, False]
"""

from __future__ import annotations

from dataclasses import dataclass

_STRETCH = 64
_OTHER_KEYS = 0.75  # rows of other keys on a chain, in an index with a slot per row


@dataclass(frozen=True)
class Costs:
    """Nanoseconds per operation; the defaults are of the machine Braided was developed on.

    `batch` and `store` are what a batch and a row cost with either index.
    """

    insert: float = 1.2
    probe: float = 8.0
    hop: float = 3.5
    match: float = 1.5
    round: float = 60.0
    sweep: float = 15.0
    row: float = 0.15
    stretch: float = 18.0
    hit: float = 2.8
    batch: float = 30_000.0
    store: float = 2.5


@dataclass(frozen=True)
class Load:
    """What a side goes through: probes and inserts, and per probe what an index looks at.

    `rows` are the stored rows a scan looks at, `hops` those a hash looks at, `hits` those with the key inside
    the time bounds; `blocks` is in how many blocks the probes are made.
    """

    probes: float
    inserts: float
    rows: float
    hops: float
    hits: float
    blocks: float = 1.0


def load_of(
    probes: float, inserts: float, *, stored: float, inside: float, share: float, blocks: float
) -> Load:
    """Return the load of a side: of its `stored` rows `inside` lie in a probe's time bounds.

    `share` of all have its key.
    """
    return Load(probes, inserts, inside, stored * share + _OTHER_KEYS, inside * share, blocks)


def hash_terms(load: Load) -> tuple[float, ...]:
    """How often each operation of a hash is done: insert, probe, hop, match, round."""
    of_probes = (load.probes * n for n in (1.0, load.hops, load.hits))
    return (load.inserts, *of_probes, load.blocks * load.hops)


def scan_terms(load: Load) -> tuple[float, ...]:
    """How often each operation of a scan is done: sweep, row, stretch, hit."""
    return tuple(load.probes * n for n in (1.0, max(1.0, load.rows), _stretches(load), load.hits))


def _stretches(load: Load) -> float:
    """In how many stretches of 64 rows a scan finds something."""
    rows = max(1.0, load.rows)
    density = min(1.0, load.hits / rows)
    looked = 1.0 if rows <= _STRETCH else rows / _STRETCH + 0.5  # the last stretch is not full
    return float(looked * (1 - (1 - density) ** (rows / looked)))


def hash_ns(load: Load, costs: Costs) -> float:
    """The time a hash takes for this load; written out, because it is asked before every batch."""
    probe = costs.probe + load.hops * costs.hop + load.hits * costs.match
    return load.inserts * costs.insert + load.probes * probe + load.blocks * load.hops * costs.round


def scan_ns(load: Load, costs: Costs) -> float:
    """The time a scan takes for this load."""
    rows, stretches = max(1.0, load.rows), _stretches(load)
    swept = costs.sweep + rows * costs.row + stretches * costs.stretch
    return load.probes * (swept + load.hits * costs.hit)
