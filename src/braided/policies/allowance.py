"""Unlimited: every row may probe every partner. The only allowance of an exact join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from braided.policies.decisions import Turn


@dataclass(frozen=True)
class Unlimited:
    """No limit on any half-join."""

    def allow(self, driver: int, order: Sequence[int], turn: Turn) -> tuple[float, ...]:
        """No limit."""
        return (1.0,) * len(order)
