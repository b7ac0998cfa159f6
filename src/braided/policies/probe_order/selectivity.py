"""Selectivity: the partner with the smallest expected fan-out is probed first.

    fan-out_l = sigma_jl * |ht_l|

A probe that finds nothing ends the search, so partners that rarely match save the work of all others. The
selectivity is the user's, or what this half-join showed recently; while nothing is known, one match is
assumed and the smaller state goes first.

>>> known = ((None, 0.5, 0.01),) * 3
>>> Selectivity().order(0, Turn((1, 1, 1), (9, 9, 9), selectivity=known))
(2, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from braided.policies.decisions import Turn


@dataclass(frozen=True)
class Selectivity:
    """Smallest expected fan-out first."""

    profile_rows: int = 0

    def order(self, driver: int, turn: Turn) -> tuple[int, ...]:
        """Every stream but the driver, by expected fan-out, then by stored rows."""
        partners = [s for s in range(len(turn.stored_rows)) if s != driver]

        def expected(partner: int) -> tuple[float, int, int]:
            fan_out = turn.fan_out(driver, partner)
            return 1.0 if fan_out is None else fan_out, turn.stored_rows[partner], partner

        return tuple(sorted(partners, key=expected))

    def fan_outs(self, driver: int, turn: Turn, order: Sequence[int]) -> list[float | None]:
        """What the order was chosen by."""
        return [turn.fan_out(driver, partner) for partner in order]
