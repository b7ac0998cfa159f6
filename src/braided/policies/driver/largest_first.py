"""Largest first: whole buffers in turn, as ties always go.

For rationed probes in place of policies that take single rows: there, which rows a rationed row sees would
depend on the order in which rows of a batch come.
"""

from __future__ import annotations

from dataclasses import dataclass

from braided.policies.decisions import Turn


@dataclass(frozen=True)
class LargestFirst:
    """No buffer scores more than another, so the larger one goes next."""

    def score(self, turn: Turn, stream: int) -> float:
        """The same for all."""
        return 0.0

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return "the largest first"
