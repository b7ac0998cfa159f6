"""What an operator remembers from batch to batch: counts of all half-joins, and what to decide on."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braided.engine.fields import load_fields, save_fields
from braided.engine.kernels.tables import TALLY_COLUMNS
from braided.policies.arrays import Floats, Int64s
from braided.policies.choice import Policies
from braided.policies.decisions import ProbePlan, Turn
from braided.policies.estimates import Estimates, fade
from braided.policies.index import Choice

SIDE_MEMORIES = 4  # numbers that `operators.indexing` remembers of each side
_ARRAYS = ("tallies", "seen_rows", "recent_rows", "index_changes", "memories")
_COUNTS = ("switches", "profile_probes", "driven_rows", "batches")


@dataclass(frozen=True)
class Decided:
    """A driver stream's turn, and what was known when it was decided."""

    turn: Turn
    plan: ProbePlan


class Learned:
    """What one operator has learned; `tallies` has a matrix, driver by partner, for each kernel's tally."""

    def __init__(self, streams: int, policies: Policies) -> None:
        self.tallies: Int64s = np.zeros((TALLY_COLUMNS, streams, streams), np.int64)
        self.seen_rows: Int64s = np.zeros(streams, np.int64)
        self.recent_rows: Floats = np.zeros(streams)
        self.index_changes: Int64s = np.zeros(streams, np.int64)
        self.memories = np.zeros((streams, SIDE_MEMORIES))
        self.estimates = Estimates(np.zeros((3, streams, streams)), policies.given)
        self.choices = [policies.index(i).start for i in range(streams)]
        self.switches = self.profile_probes = self.driven_rows = self.batches = 0
        self.orders: dict[int, tuple[int, ...]] = {}
        self.profiles: dict[int, Int64s] = {}
        self.turns: tuple[Decided, ...] = ()

    def arrive(self, rows: Sequence[int]) -> None:
        """Count a batch's rows by stream; those of earlier batches fade."""
        self.seen_rows += rows
        self.recent_rows = fade(self.recent_rows, rows)

    def copy(self) -> Learned:
        """Return the same, to go back to."""
        other = copy.copy(self)
        vars(other).update({name: v.copy() for name, v in vars(self).items() if hasattr(v, "copy")})
        return other

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
