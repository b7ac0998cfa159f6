"""XJoin's time stamps: which pairs of rows have been joined already.

A row has the time it arrived and the time it departed from memory (`NEVER`, while it is there). Times are
numbers of one counter, and no two events share one: every arrival, flush and run of the second stage takes
its own. So it does not matter where the paper writes < and where <=.

| Urhan and Franklin | here |
| --- | --- |
| ATS, DTS | `Stamps.arrived`, `Stamps.departed` |
| a pair (DTSlast, ProbeTS) | `Runs.last_departures[i]`, `Runs.probed_at[i]` |

A pair was joined in the first stage iff both rows were in memory at the same time: the later one found the
earlier one when it arrived. It was joined in the second stage iff in some run one of them was on disk (it had
departed by `last_departure`) and the other one in memory (`arrived <= probed_at < departed`). Each run uses
all of a disk portion, which only grows, so both numbers of the runs only rise; hence of the runs that used a
row while another had arrived, the first is the one to look at: if the other was gone by then, it stayed so.

>>> runs = Runs()
>>> runs.add(last_departure=10, probed_at=20)
>>> on_disk = Stamps(np.array([1, 2]), np.array([10, 15]))  # the second departed after that run's last
>>> later = Stamps(np.array([12, 18]), np.array([NEVER, NEVER]))
>>> produced((on_disk, later), (runs, Runs()))
array([ True, False])
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from braided.policies.arrays import Bools, Int64s

NEVER = 1 << 62  # the departure of a row that is in memory


@dataclass(frozen=True)
class Stamps:
    """When rows arrived in memory and departed from it."""

    arrived: Int64s
    departed: Int64s


@dataclass
class Runs:
    """The second stage's runs over one disk portion, oldest first."""

    last_departures: list[int] = field(default_factory=list)
    probed_at: list[int] = field(default_factory=list)

    def add(self, *, last_departure: int, probed_at: int) -> None:
        """All rows that had departed by then have probed the other stream's memory portion."""
        self.last_departures.append(last_departure)
        self.probed_at.append(probed_at)

    def joined(self, on_disk: Stamps, other: Stamps) -> Bools:
        """Which pairs a run has joined."""
        if not self.probed_at:
            return np.zeros(len(on_disk.departed), np.bool_)
        first = np.maximum(
            np.searchsorted(self.last_departures, on_disk.departed),
            np.searchsorted(self.probed_at, other.arrived),
        )
        return np.append(self.probed_at, NEVER)[first] < other.departed

    def since(self, departed: Int64s) -> Int64s:
        """For rows on disk: what arrived later, and is in memory now, they have not met."""
        if not self.probed_at:
            return departed
        return np.where(departed <= self.last_departures[-1], self.probed_at[-1], departed)


def produced(pairs: tuple[Stamps, Stamps], runs: tuple[Runs, Runs]) -> Bools:
    """Which pairs of rows of one partition have been joined before; `runs` are over the disk portions."""
    left, right = pairs
    together = (left.arrived < right.departed) & (right.arrived < left.departed)
    return together | runs[0].joined(left, right) | runs[1].joined(right, left)
