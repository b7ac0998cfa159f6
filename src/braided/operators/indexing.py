"""Which side has an index: before each batch, every side's policy hears what the batch will ask of it.

How many rows arrive and how many are stored is known then; what a probe meets among them (rows inside its
time bounds, rows on its chain, hits) is taken from the batches before, fading by half with each. An index
decides how rows are found, never which; it changes only here, before anything is stored, so that a batch can
be undone.
"""

from __future__ import annotations

from collections.abc import Sequence

from braided.kernels.probe import BLOCK_ROWS
from braided.operators.mjoin import SIDE_MEMORIES, Learned
from braided.policies.choice import Policies
from braided.policies.index_cost import Load
from braided.state.side import SideState

_ENOUGH = 16  # rows with the same key seen before their times tell what part is inside the bounds
_FADING = 0.5
_OTHER_KEYS = 0.75  # rows of other keys on a chain, in an index with a slot per row

# what is remembered of a side: rows of other streams that came, their probes here, and summed over the probes
# the stored rows, those inside the time bounds, those on the chain, and the hits
ARRIVED, PROBES, OFFERED, INSIDE, HOPS, HITS = range(SIDE_MEMORIES)


def choose(
    policies: Policies, learned: Learned, sides: Sequence[SideState | None], arriving: Sequence[int]
) -> None:
    """Give every side the index for the batch that is about to be stored."""
    for i, side in enumerate(sides):
        policy, now = policies.index(i), learned.choices[i]
        load = None if side is None else _expected(learned, i, side.rows, arriving)
        if side is not None and load is not None:
            learned.choices[i] = chosen = policy.choose(load, now, side.rows)
            learned.index_changes[i] += chosen.scanned != now.scanned
        if side is not None:
            side.scan(learned.choices[i].scanned)


def learn(
    learned: Learned, before: Learned, sides: Sequence[SideState | None], arrived: Sequence[int]
) -> None:
    """Remember what a batch asked of every side; `before` is what was known when it began."""
    everything = sum(arrived)
    counts = [
        (getattr(learned, n) - getattr(before, n)).sum(axis=0).tolist()
        for n in ("probes", "offered", "looked", "same_key", "matches")
    ]
    for i, side in enumerate(sides):
        probes, offered, looked, same_key, matches = (count[i] for count in counts)
        if side is None or not probes:
            continue
        if side.scanned:
            part = looked / offered if offered else 1.0
            inside, hops = float(looked), same_key / part + _OTHER_KEYS * probes if part else 0.0
        else:
            known = side.ordered and same_key >= _ENOUGH
            inside, hops = offered * (matches / same_key if known else 1.0), float(looked)
        fresh = everything - arrived[i], probes, offered, inside, hops, matches
        learned.memories[i] = learned.memories[i] * _FADING + fresh


def _expected(learned: Learned, stream: int, stored: int, arriving: Sequence[int]) -> Load | None:
    """What a batch will ask of a side; None while nothing is known of it."""
    seen = learned.memories[stream].tolist()
    if not seen[PROBES]:
        return None
    coming = sum(arriving) - arriving[stream]
    probes = coming * seen[PROBES] / max(1.0, seen[ARRIVED])
    # a probe may see what is stored, and on average half of what the batch brings
    rows = stored + arriving[stream] / 2
    offered = max(1.0, seen[OFFERED])
    inside, hops, hits = (rows * seen[n] / offered for n in (INSIDE, HOPS, HITS))
    blocks = max(1.0, probes / BLOCK_ROWS)
    return Load(probes, arriving[stream], inside, hops, hits, blocks)
