"""A fixed index: what the query says, whatever happens.

>>> Fixed(scanned=True).choose(Load(0, 0, 0, 0, 0), Choice(scanned=False)).scanned
True
"""

from __future__ import annotations

from dataclasses import dataclass

from braided.policies.decisions import Choice
from braided.policies.index_cost import Load


@dataclass(frozen=True)
class Fixed:
    """Always the same."""

    scanned: bool

    @property
    def start(self) -> Choice:
        """What a side begins with."""
        return Choice(self.scanned)

    def choose(self, load: Load, now: Choice, stored_rows: int = 0) -> Choice:
        """The same."""
        return Choice(self.scanned)
