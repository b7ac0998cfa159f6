"""How much of the input one key brings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braided.engine.intake import Arrival

_SAMPLE = 4096  # rows a stream: a key with 1 % of the rows is found with 41 of them


def hottest_rows(arrivals: Sequence[Arrival | None]) -> int:
    """About how many of the rows that arrived have the key that most have; from evenly spread samples."""
    samples, weights = [], []
    for arrival in arrivals:
        if arrival is not None and len(arrival.rows):
            hashes = arrival.rows.hashes
            step = -(-len(hashes) // _SAMPLE)
            samples.append(hashes[::step])
            weights.append(np.full(len(samples[-1]), arrival.offered_rows / len(samples[-1])))
    if not samples:
        return 0
    _, which = np.unique(np.concatenate(samples), return_inverse=True)
    return round(float(np.bincount(which, np.concatenate(weights)).max()))
