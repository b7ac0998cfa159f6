"""What policies are asked, and what they answer: frozen values, streams named by their number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from braided.policies.arrays import Int64s


@dataclass(frozen=True)
class Turn:
    """A moment inside a batch, and all that a policy may know of it.

    `waiting_rows` are the buffers whose turn has not come, `stored_rows` what each side shows to a probe,
    `recent_rows` those of each stream that came lately, older batches counting less (`fade`).
    `selectivity[i][j]` is the share of pairs (row of i, stored row of j) that match, None while it is not
    known. `order` is the order the driver stream's rows last probed in, and `profile[n, j]` how many rows of
    j the n-th of some of its rows matches, if the policy asks for it.
    """

    waiting_rows: tuple[int, ...]
    stored_rows: tuple[int, ...]
    recent_rows: tuple[float, ...] = ()
    selectivity: tuple[tuple[float | None, ...], ...] = ()
    order: tuple[int, ...] = ()
    profile: Int64s | None = None

    def fan_out(self, driver: int, partner: int) -> float | None:
        """How many rows of the partner a row of the driver stream is expected to match."""
        share = self.selectivity[driver][partner] if self.selectivity else None
        return None if share is None else share * self.stored_rows[partner]


@dataclass(frozen=True)
class ProbePlan:
    """One driver stream's turn: the order its rows probe in, and what part of them may probe each partner.

    `shares[i]` belongs to `order[i]`: of the stream's rows for the first partner, of the combinations found
    so far for a later one. `allowed` are the probes that should come of it, if they are rationed.
    """

    driver: int
    order: tuple[int, ...]
    shares: tuple[float, ...]
    allowed: tuple[float, ...] | None = None


Rations: TypeAlias = Mapping[int, ProbePlan]  # who may probe in a batch, by driver stream


@runtime_checkable
class BufferPolicy(Protocol):
    """A driver policy that takes whole buffers: the one with the highest score goes next.

    It is asked again after each buffer, because that buffer's rows are stored then.
    """

    def score(self, turn: Turn, stream: int) -> float:
        """Return the score of this stream's buffer."""

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""


@runtime_checkable
class RowPolicy(Protocol):
    """A driver policy that takes single rows: the one with the smallest key among the buffers' first ones."""

    def keys(self, times: Int64s) -> Int64s:
        """One key for each row of a buffer, given their times; keys never fall."""

    def reason(self, turn: Turn, stream: int) -> str:
        """Why this stream's rows come when they do."""


DriverPolicy = BufferPolicy | RowPolicy


def next_buffer(policy: BufferPolicy, turn: Turn) -> int:
    """The waiting buffer with the highest score; ties go to the larger, then to the earlier stream."""
    waiting = [j for j, rows in enumerate(turn.waiting_rows) if rows]
    return max(waiting, key=lambda j: (policy.score(turn, j), turn.waiting_rows[j], -j))
