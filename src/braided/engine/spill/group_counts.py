"""What partition groups of one operator take in and give out, interval by interval.

Different keys of a group are counted by marking places in a table by their hash (linear counting): its share
of places that stayed empty tells how many there were.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braided.engine.sides.groups import group_of
from braided.policies.arrays import Floats, Int64s
from braided.policies.keeping import Smoothed
from braided.query.memory import Memory

_PLACES_SHARE = 128  # of the limit: what the tables of all operators together may take
_LEAST_BITS, _MOST_BITS = 5, 16
LOCAL, OVERALL = -2, -1


class GroupCounts:
    """Counts of the groups of one operator."""

    def __init__(self, memory: Memory, inputs: int, operators: int) -> None:
        self._bits = memory.group_bits
        groups = 1 << self._bits
        room = memory.limit_bytes // _PLACES_SHARE // operators // groups
        self._place_bits = min(_MOST_BITS, max(_LEAST_BITS, room.bit_length() - 1))
        self._places = np.zeros((groups, 1 << self._place_bits), np.bool_)
        self._counts = np.zeros((inputs + 2, groups))  # arrived by input, local, overall
        self._smoothed = Smoothed(memory.statistics, alpha=memory.alpha, average_of=memory.average_of)
        self._inputs = inputs
        self.silent = [True] * inputs  # by input, whether the latest batch brought nothing

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._places.nbytes + 4 * self._counts.nbytes

    def arrived(self, place: int, hashes: Int64s) -> None:
        """Rows arrive at an input."""
        self.silent[place] = False
        self.count(place, group_of(hashes, self._bits))
        self._places.reshape(-1)[group_of(hashes, self._bits + self._place_bits)] = True

    def count(self, what: int, groups: Int64s) -> None:
        """Count groups: of rows at an input, of combinations (`LOCAL`), of results (`OVERALL`)."""
        self._counts[what] += np.bincount(groups, minlength=self._counts.shape[1])

    def interval(self, share: float) -> None:
        """An interval is over; `share` is how much of one it was, if it was longer or shorter."""
        self._smoothed.observe(self._counts / share)
        self._counts = np.zeros_like(self._counts)

    def now(self) -> tuple[Floats, Floats, Floats]:
        """Rows arrived by input and group, own results and results in an interval."""
        known = self._smoothed.now
        counts = self._counts if known is None else known
        return counts[: self._inputs], counts[LOCAL], counts[OVERALL]

    def batch(self) -> None:
        """A batch begins."""
        self.silent = [True] * self._inputs

    def unique(self) -> Floats:
        """About how many different keys came in each group; at least one."""
        places = self._places.shape[1]
        empty = np.maximum(places - np.count_nonzero(self._places, axis=1), 0.5)
        found: Floats = np.maximum(1.0, -places * np.log(empty / places))
        return found

    # from and to a checkpoint

    def save(self) -> dict[str, Any]:
        """As plain numbers; which keys came is learned again."""
        return {"counts": self._counts.tolist(), "kept": self._smoothed.save()}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from saved numbers, if they are of as many groups."""
        counts = np.array(saved["counts"])
        if counts.shape == self._counts.shape:
            self._counts = counts
            self._smoothed.load(saved["kept"])
