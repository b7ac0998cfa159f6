"""Chains of the hash index against lists: after any inserts, undos and departures a slot holds its rows."""

from __future__ import annotations

import numpy as np
import pytest

from braided.engine.kernels import index
from tests.seeds import seeds

SHIFT = 62  # four slots


def chains(link: np.ndarray, head: np.ndarray, base: int, first: int) -> dict[int, list[int]]:
    """The positions of every slot, newest first, as a probe walks them."""
    walked: dict[int, list[int]] = {}
    for slot, newest in enumerate(head.tolist()):
        p = newest
        while p >= first:
            walked.setdefault(slot, []).append(p)
            p = int(link[p - base])
    return walked


def by_slot(hashes: np.ndarray, base: int, positions: list[int]) -> dict[int, list[int]]:
    wanted: dict[int, list[int]] = {}
    for p in sorted(positions, reverse=True):
        wanted.setdefault(int(np.uint64(hashes[p - base]) >> np.uint64(SHIFT)), []).append(p)
    return wanted


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_inserted_undone_and_unlinked_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base, rows = 100, 60
    hashes = rng.integers(-(2**63), 2**63 - 1, rows)
    link, head = np.full(rows, -1, np.int32), np.full(4, -1, np.int32)
    nulls = set((base + np.flatnonzero(rng.random(rows) < 0.2)).tolist())
    for p in nulls:
        link[p - base] = index.UNLINKED
    index.insert(hashes, link, head, SHIFT, base, base, base + 40)
    held = [p for p in range(base, base + 40) if p not in nulls]
    assert chains(link, head, base, base) == by_slot(hashes, base, held)

    index.insert(hashes, link, head, SHIFT, base, base + 40, base + rows)
    index.undo(hashes, link, head, SHIFT, base, base + 40, base + rows)
    assert chains(link, head, base, base) == by_slot(hashes, base, held)

    first = base + 7  # older rows have expired: chains end there
    gone = rng.random(rows) < 0.4
    going = np.array([p for p in held if p >= first and gone[p - base]], np.int64)
    index.unlink(hashes, link, head, SHIFT, base, first, gone, going)
    left = [p for p in held if p >= first and not gone[p - base]]
    assert chains(link, head, base, first) == by_slot(hashes, base, left)
    assert (link[going - base] == index.UNLINKED).all()


@pytest.mark.parametrize("seed", seeds(5))
def test_oracle_where_times_expire_and_fall(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for rows in (0, 1, 30):
        times = np.sort(rng.integers(0, 20, rows)) if seed % 2 else rng.integers(0, 20, rows)
        newest = int(rng.integers(0, 10))
        seen = [newest, *times.tolist()]
        falls = [i for i, t in enumerate(times.tolist()) if t < max(seen[: i + 1])]
        assert index.last_fall(times, newest) == (falls[-1] if falls else -1)
        passed = next((i for i, t in enumerate(times.tolist()) if t >= 10), rows)
        assert index.expired_prefix(times, 10) == passed
