"""Fixed: partners are probed in the order the query lists its streams. The baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from braided.policies.decisions import Turn


@dataclass(frozen=True)
class Fixed:
    """The query's own order."""

    profile_rows: int = 0

    def order(self, driver: int, turn: Turn) -> tuple[int, ...]:
        """Every stream but the driver, in the order of the query."""
        return tuple(s for s in range(len(turn.stored_rows)) if s != driver)

    def fan_outs(self, driver: int, turn: Turn, order: Sequence[int]) -> list[float | None]:
        """Nothing is expected."""
        return [None for _ in order]
