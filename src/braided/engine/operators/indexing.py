"""Which side has an index: before each batch, every side's policy hears what the batch will ask of it.

Known then: how many rows arrive, how many are stored, and over which span of time, so also how many of them
lie inside the bounds of a probe. How many have a probe's key is taken from the batches before, fading by half
with each, or in a first large batch from samples of the arriving keys. An index decides how rows are found,
never which; it changes only here, before anything is stored, so that a batch can be undone.
"""

from __future__ import annotations

from collections.abc import Sequence

from braided.engine.kernels import tables
from braided.engine.kernels.index import last_fall
from braided.engine.kernels.probe import BLOCK_ROWS
from braided.engine.operators.learned import SIDE_MEMORIES, Learned
from braided.engine.operators.mjoin import FlatJoin
from braided.engine.sides.side import Rows, SideState
from braided.policies.arrays import Int64s
from braided.policies.index_cost import Load, load_of
from braided.query.bounds import INFINITE_US

_FADING = 0.5
_SAMPLE = 256

# what is remembered of a side: rows of other streams that came, their probes here, and summed over the probes
# the stored rows they were compared with by key, and those of them that had it
ARRIVED, PROBES, COMPARED, SAME_KEY = range(SIDE_MEMORIES)


def choose(join: FlatJoin, sides: Sequence[SideState | None], arriving: Sequence[Rows | None]) -> None:
    """Give every side the index for the batch that is about to be stored."""
    policies, learned = join.policies, join.learned
    counts = [0 if rows is None else len(rows) for rows in arriving]
    for i, side in enumerate(sides):
        if side is None:
            continue
        policy, now = policies.index(i), learned.choices[i]
        load = None if policy.costs is None else _expected(join, i, side, counts, arriving)
        if load is not None:
            learned.choices[i] = policy.choose(load, now, side.rows)
            learned.index_changes[i] += learned.choices[i].scanned != now.scanned
        side.index.scan(learned.choices[i].scanned)


def learn(
    join: FlatJoin, before: Learned, sides: Sequence[SideState | None], rows: Sequence[Rows | None]
) -> None:
    """Remember what a batch asked of the sides that choose; `before` is what was known when it began."""
    if all(join.policies.index(i).costs is None for i in range(len(sides))):
        return
    learned, arrived = join.learned, [0 if r is None else len(r) for r in rows]
    everything = sum(arrived)
    fresh = (learned.tallies - before.tallies).sum(axis=1)
    counts = fresh[[tables.PROBES, tables.OFFERED, tables.LOOKED, tables.SAME_KEY]].T.tolist()
    for i, (side, (probes, offered, looked, same_key)) in enumerate(zip(sides, counts, strict=True)):
        if side is not None and probes:
            now = everything - arrived[i], probes, looked if side.index.scanned else offered, same_key
            learned.memories[i] = learned.memories[i] * _FADING + now


def _expected(
    join: FlatJoin, stream: int, side: SideState, counts: Sequence[int], arriving: Sequence[Rows | None]
) -> Load | None:
    """Estimate what a batch will ask of a side; None if there is nothing to go by."""
    coming = sum(counts) - counts[stream]
    if not coming:
        return None
    seen, bounds_us = join.learned.memories[stream].tolist(), join.bounds.matrix
    share = seen[SAME_KEY] / seen[COMPARED] if seen[COMPARED] else _sampled(arriving, stream)
    if share is None:
        return None
    probes = coming * (seen[PROBES] / max(1.0, seen[ARRIVED]) if seen[PROBES] else 1.0)
    stored = side.rows + counts[stream]
    others = [i for i, n in enumerate(counts) if n and i != stream]
    reach_us = max(bounds_us[stream][i] + bounds_us[i][stream] for i in others)
    inside = stored * _part_inside(side, arriving[stream], reach_us)
    blocks = max(1.0, probes / BLOCK_ROWS)
    return load_of(probes, counts[stream], stored=stored, inside=inside, share=share, blocks=blocks)


def _part_inside(side: SideState, entering: Rows | None, reach_us: int) -> float:
    """The part of a side's rows that a scan looks at: those inside the time bounds of a probe."""
    if not side.ordered or reach_us >= INFINITE_US:
        return 1.0
    stored = side.columns.held("time")
    new = entering.times if entering is not None else stored[:0]
    oldest = int(stored[0]) if len(stored) else int(new[0]) if len(new) else 0
    newest = int(stored[-1]) if len(stored) else oldest
    if len(new) and last_fall(new, newest) >= 0:
        return 1.0
    span = (int(new[-1]) if len(new) else newest) - oldest
    return min(1.0, max(0, reach_us) / span) if span > 0 else 1.0


def _sampled(arriving: Sequence[Rows | None], stream: int) -> float | None:
    """The share of pairs of arriving rows with equal keys, by samples; None of a small batch."""
    own = arriving[stream]
    others = [r for i, r in enumerate(arriving) if i != stream and r is not None and len(r) >= _SAMPLE]
    if own is None or len(own) < _SAMPLE or not others:
        return None
    keys = _some(own.hashes)
    return max(float((keys[:, None] == _some(rows.hashes)).mean()) for rows in others)


def _some(values: Int64s) -> Int64s:
    return values[:: max(1, len(values) // _SAMPLE)]
