"""Unlimited: every row may probe every partner. The only allowance of an exact join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from braided.policies.decisions import Rations, Turn


@dataclass(frozen=True)
class Unlimited:
    """All of them."""

    budget: None = None

    def ration(self, turn: Turn, orders: Mapping[int, tuple[int, ...]], budget: float) -> Rations:
        """No limit."""
        shares = {driver: (1.0,) * len(order) for driver, order in orders.items()}
        return Rations(dict(orders), shares, {}, "no limit")
