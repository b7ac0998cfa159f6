"""What the engine holds of one stream besides its stored rows: how it is read, and what was counted."""

from __future__ import annotations

from dataclasses import dataclass, fields

from braided.engine.intake import Arrival, Intake
from braided.engine.operators.layout import Layout
from braided.engine.sides.side import SideState


@dataclass
class Counters:
    """What one stream has seen since the start."""

    rows_in: int = 0
    late_rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    copied_rows: int = 0
    shed_rows: int = 0
    punctuations: int = 0
    violations: int = 0
    expired_rows: int = 0
    purged_rows: int = 0

    def count(self, arrival: Arrival) -> None:
        """Add what arrived in a batch."""
        for name in _OF_ARRIVALS:
            setattr(self, name, getattr(self, name) + getattr(arrival, name))


_OF_ARRIVALS = [f.name for f in fields(Counters) if f.name not in ("expired_rows", "purged_rows")]


@dataclass(frozen=True)
class StreamState:
    """One stream, once its schema is known."""

    layout: Layout
    intake: Intake
    side: SideState
