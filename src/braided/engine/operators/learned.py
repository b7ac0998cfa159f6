"""What an operator remembers from batch to batch: counts of all half-joins, and what to decide on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from braided.engine.fields import load_fields, save_fields
from braided.engine.kernels.tables import PROBES, TALLY_COLUMNS
from braided.policies.arrays import Int64s
from braided.policies.choice import Policies
from braided.policies.decisions import ProbePlan, Turn
from braided.policies.estimates import Estimates
from braided.policies.index import Choice

SIDE_MEMORIES = 4  # numbers that `operators.indexing` remembers of each side
_ARRAYS = ("tallies", "seen_rows", "index_changes", "memories")
_COUNTS = ("switches", "profile_probes", "driven_rows", "batches")


@dataclass(frozen=True)
class Decided:
    """A driver stream's turn, and what was known when it was decided."""

    turn: Turn
    plan: ProbePlan


@dataclass
class Learned:
    """What one operator has learned; `tallies` has a matrix, driver by partner, for each kernel's tally."""

    tallies: Int64s
    seen_rows: Int64s
    index_changes: Int64s
    memories: npt.NDArray[np.float64]
    estimates: Estimates
    choices: list[Choice]
    switches: int = 0
    profile_probes: int = 0
    driven_rows: int = 0
    batches: int = 0
    orders: dict[int, tuple[int, ...]] = field(default_factory=dict)
    profiles: dict[int, Int64s] = field(default_factory=dict)
    turns: tuple[Decided, ...] = ()

    @classmethod
    def nothing(cls, streams: int, policies: Policies) -> Learned:
        """Start before the first batch."""
        seen_rows, index_changes = np.zeros((2, streams), np.int64)
        return cls(
            np.zeros((TALLY_COLUMNS, streams, streams), np.int64),
            seen_rows,
            index_changes,
            np.zeros((streams, SIDE_MEMORIES)),
            Estimates(np.zeros((3, streams, streams)), policies.given),
            [policies.index(i).start for i in range(streams)],
        )

    def copy(self) -> Learned:
        """Return the same, to go back to."""
        copies = {name: value.copy() for name, value in vars(self).items() if hasattr(value, "copy")}
        return dataclasses.replace(self, **copies)

    def probed_since(self, before: Learned) -> int:
        """Return how many probes there were since then."""
        return int(self.tallies[PROBES].sum() - before.tallies[PROBES].sum())

    def save(self) -> dict[str, Any]:
        """Return it as plain numbers; the last turns and profiles are not part of it."""
        return {
            **save_fields(self, _ARRAYS + _COUNTS),
            "choices": [[c.scanned, c.regret_ns] for c in self.choices],
            "estimates": self.estimates.sums.tolist(),
            "orders": [list(self.orders.get(i, ())) for i in range(len(self.seen_rows))],
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from saved numbers."""
        load_fields(self, _COUNTS, saved)
        for name in _ARRAYS:
            getattr(self, name)[:] = saved[name]
        self.estimates.sums[:] = saved["estimates"]
        self.choices = [Choice(*c) for c in saved["choices"]]
        self.orders = {i: tuple(order) for i, order in enumerate(saved["orders"]) if order}
