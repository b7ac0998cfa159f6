"""What policies are asked, and what they answer: frozen values, streams named by their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

UNLIMITED = 1 << 62


@dataclass(frozen=True)
class Turn:
    """A moment inside a batch: which buffers still wait, and what each side shows to a probe."""

    waiting_rows: tuple[int, ...]
    stored_rows: tuple[int, ...]


@dataclass(frozen=True)
class HalfJoinCounts:
    """Probes and matches of every half-join so far, as `[probing][probed]`."""

    probes: tuple[tuple[int, ...], ...]
    matches: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ProbePlan:
    """One driver stream's turn: the order its rows probe in, and how many may probe each partner.

    `allowance[i]` belongs to `order[i]`.
    """

    driver: int
    order: tuple[int, ...]
    allowance: tuple[int, ...]


class DriverPolicy(Protocol):
    """Chooses the stream whose buffered rows probe next; asked again after each buffer."""

    def choose(self, turn: Turn) -> int:
        """A stream whose `waiting_rows` is not zero."""
        ...


class ProbeOrderPolicy(Protocol):
    """Chooses the order in which a driver stream's rows probe the other streams."""

    def order(self, driver: int, turn: Turn, counts: HalfJoinCounts) -> tuple[int, ...]:
        """Every stream but the driver, once."""
        ...


class AllowancePolicy(Protocol):
    """Chooses how many rows may probe each partner."""

    def allow(self, driver: int, order: Sequence[int], turn: Turn) -> tuple[int, ...]:
        """One number of probes per partner of the order."""
        ...
