"""How selective each half-join is, and how many rows each stream brings, estimated from recent batches.

Every turn brings evidence: n rows of stream i were compared with m stored rows of j, and k
pairs matched. Evidence fades by half with every 4,000 probes, so that the estimate follows drifting data and
one small batch does not decide.

A stream's rows fade by a quarter with every batch that brings any. So they sum up to four batches' worth, and
if two streams exchange their rates, the one that is faster now has more of them after three batches:

>>> recent = np.zeros(2)
>>> for rows in [(400, 40)] * 20 + [(40, 400)] * 3:
...     recent = fade(recent, rows)
>>> recent.astype(int).tolist()
[765, 992]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from braided.policies.arrays import Floats, Int64s

HALF_LIFE = 4_000
_FADING = 0.75
_ENOUGH = 100  # probes, or matches, from which on an estimate is believed


def fade(recent: Floats, rows: Sequence[int]) -> Floats:
    """Return the recent rows by stream once a batch has brought more; one without any changes nothing."""
    return recent * _FADING + rows if any(rows) else recent


@dataclass
class Estimates:
    """Fading sums of probes, pairs compared, and matches, for each (probing, probed) pair of streams."""

    sums: Floats
    given: Mapping[tuple[int, int], float]  # by the user

    def add(self, driver: int, probes: Int64s, matches: Int64s, stored: Sequence[int]) -> None:
        """A turn's evidence, one number per stream; `stored` is what the rows were compared with."""
        fading = 0.5 ** (probes / HALF_LIFE)
        fresh = np.stack([probes, probes * np.asarray(stored, np.float64), matches])
        self.sums[:, driver] = self.sums[:, driver] * fading + fresh

    def selectivity(self) -> tuple[tuple[float | None, ...], ...]:
        """The share of pairs that match; None where too little was seen, the user's where it was given."""
        probes, pairs, matches = self.sums
        known = ((probes >= _ENOUGH) | (matches >= _ENOUGH)) & (pairs > 0)
        share = np.divide(matches, pairs, out=np.zeros_like(pairs), where=pairs > 0)
        streams = range(len(probes))
        return tuple(
            tuple(self.given.get((i, j), float(share[i, j]) if known[i, j] else None) for j in streams)
            for i in streams
        )

    def copy(self) -> Estimates:
        """The same, to go back to."""
        return dataclasses.replace(self, sums=self.sums.copy())
