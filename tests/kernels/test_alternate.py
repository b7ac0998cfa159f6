"""Streams that take turns row by row, against a sort."""

from __future__ import annotations

import numpy as np
import pytest

from braided.engine.kernels.alternate import alternate
from braided.engine.kernels.tables import DRIVER, SEEN, START, STOP
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("most", [1, 3, 100])
def test_oracle_rows_come_in_order_of_their_keys(most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    begin, rows = [4, 0, 9], rng.integers(0, 12, 3).tolist()
    keys = [np.sort(rng.integers(0, 10, n)) for n in rows]
    limits = np.cumsum(rows)
    stops = np.array([b + n for b, n in zip(begin, rows, strict=True)])
    wanted = sorted((int(k), s, begin[s] + i) for s in range(3) for i, k in enumerate(keys[s]))
    taken, found = np.array(begin), list[tuple[int, int]]()
    while True:
        segments = np.zeros((most, SEEN + 3), np.int64)
        made = alternate(np.concatenate(keys), limits, taken, stops, segments)
        if not made:
            break
        for segment in segments[:made]:
            seen = [begin[s] + sum(1 for d, _ in found if d == s) for s in range(3)]
            assert segment[SEEN:].tolist() == seen
            found += [(int(segment[DRIVER]), p) for p in range(segment[START], segment[STOP])]
    assert found == [(s, p) for _, s, p in wanted]
    assert (taken == stops).all()
