"""Selectivity: the partner with the smallest expected fan-out is probed first.

A probe that finds nothing ends the search, so partners that rarely match save the work of all
others. The fan-out is what was observed for this half-join (matches per probe); until enough probes
were seen, one match is assumed and the smaller state goes first.

>>> seen = HalfJoinCounts(probes=((0, 200, 200),) * 3, matches=((0, 400, 10),) * 3)
>>> Selectivity().order(0, Turn((1, 1, 1), (9, 9, 9)), seen)
(2, 1)
"""

from __future__ import annotations

from dataclasses import dataclass

from braided.policies.decisions import HalfJoinCounts, Turn


@dataclass(frozen=True)
class Selectivity:
    """Smallest expected fan-out first."""

    enough_probes: int = 100

    def order(self, driver: int, turn: Turn, counts: HalfJoinCounts) -> tuple[int, ...]:
        """Every stream but the driver, by expected fan-out, then by stored rows."""
        partners = [s for s in range(len(turn.stored_rows)) if s != driver]

        def expected(partner: int) -> tuple[float, int, int]:
            probes = counts.probes[driver][partner]
            known = probes >= self.enough_probes
            fan_out = counts.matches[driver][partner] / probes if known else 1.0
            return fan_out, turn.stored_rows[partner], partner

        return tuple(sorted(partners, key=expected))
