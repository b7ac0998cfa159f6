"""Looking partners up, through chains and by comparing with all, against Python's loops."""

from __future__ import annotations

import numpy as np
import pytest

from braided.engine.kernels import index, partners
from tests.seeds import seeds

SHIFT = 61  # eight slots


@pytest.mark.parametrize("seed", seeds(10))
def test_oracle_partners_of_keys_inside_time_ranges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, base = int(rng.integers(0, 40)), int(rng.integers(0, 5))
    first, count = base + int(rng.integers(0, rows // 3 + 1)), base + rows
    hashes = rng.integers(0, 4, rows) << 61 | rng.integers(0, 2, rows)
    times, link = (
        rng.integers(0, 20, rows),
        np.where(rng.random(rows) < 0.1, index.UNLINKED, -1).astype(np.int32),
    )
    head = np.full(8, -1, np.int32)
    index.insert(hashes, link, head, SHIFT, base, first, count)
    visible, most = int(rng.integers(first, count + 1)), int(rng.choice([1, 2, 99]))
    keys = rng.integers(0, 4, 12) << 61 | rng.integers(0, 2, 12)
    keyed, low = rng.random(12) < 0.9, rng.integers(0, 20, 12)
    high = low + rng.integers(-2, 12, 12)
    wanted = {
        i: {
            p for p in range(first, visible)
            if keyed[i] and hashes[p - base] == keys[i] and low[i] <= times[p - base] <= high[i]
            and link[p - base] != index.UNLINKED
        }
        for i in range(12)
    }  # fmt: skip
    asked = visible, most, keys, keyed, low, high
    by_chain = hashes, times, link, head, SHIFT, base, first
    for kernel, side in (
        (partners.partners_of, by_chain),
        (partners.partners_among_all, (hashes, times, link, base, first)),
    ):
        which, positions = np.empty(400, np.int64), np.empty(400, np.int64)
        found = kernel(*side, *asked, which, positions)
        assert which[:found].tolist() == sorted(which[:found].tolist())
        for i in range(12):
            got = positions[:found][which[:found] == i].tolist()
            assert len(got) == len(set(got)) == min(most, len(wanted[i]))
            assert set(got) <= wanted[i]
        few = np.empty(2, np.int64), np.empty(2, np.int64)
        assert kernel(*side, *asked, *few) == found  # without room it says how much is needed
