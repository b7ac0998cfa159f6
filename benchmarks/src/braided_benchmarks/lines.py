"""What a benchmark reports, line by line, and how it tells how far it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One line of the report: a ratio, what it must reach, and the seconds behind it."""

    work: str
    ratio: float
    bar: float | None
    ours: str
    rival: str
    more_is_better: bool = False

    @property
    def verdict(self) -> str:
        """Whether the bar is reached; empty where there is none."""
        if self.bar is None:
            return ""
        reached = self.ratio >= self.bar if self.more_is_better else self.ratio <= self.bar
        return "reached" if reached else "MISSED"


def quiet(_: str) -> None:
    """Say nothing of how far a benchmark is."""
