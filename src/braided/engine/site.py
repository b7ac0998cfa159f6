"""Where and how one engine runs: alone in a process, or as a part of a join that is spread over several."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from braided.engine.sides.columns import Allocate
from braided.policies.choice import Policies
from braided.query.plan_tree import Plan
from braided.query.subplans import Subplan


@dataclass(frozen=True)
class Decided:
    """What was decided for all engines together: this one's part of the probes, and rows that all let in.

    None: each goes by its own rows, and by what it learned itself.
    """

    part: float | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Share:
    """One engine's share of what several have: numbers `before`..`upto` of `total`, of rows or of engines.

    A row that several engines get counts in each; `different` is how many rows there are (None: `total`).
    `decided` is what was decided for this engine, if anything new was.
    """

    before: int
    upto: int
    total: int
    different: int | None = None
    decided: Decided | None = None

    @property
    def copied(self) -> bool:
        """Whether several engines get the same row."""
        return self.different is not None and self.different < self.total

    def of_budget(self, budget: int) -> int:
        """The part of a budget that this share may use; all shares add up to the budget."""
        total = max(1, self.total)
        return budget * self.upto // total - budget * self.before // total

    @property
    def rows(self) -> int:
        """This engine's rows."""
        return self.upto - self.before


@dataclass(frozen=True)
class Site:
    """Where and how an engine runs.

    `allocate` gives the arrays of each side their place. `part` is this engine's of a join that is spread
    over several. `subplan` names the operators that run here, if not all: results are then the rows that are
    handed on. `store` takes the rows that a memory budget has no room for (None: files). With `repeatable`
    nothing runs in the background. With `retried` any attempt at a batch may be the one that counts: rows
    expire only when the next batch begins, so that the last one can be taken back, and the caller makes room
    and measures time. `state_windows` say how many rows a side holds between batches, lossy. `policies` gives
    each operator's policies in place of the query's. `owns` are the times from and before which the oldest
    row of a result must lie; other results are another engine's.
    """

    allocate: Callable[[str], Allocate] | None = None
    part: Share = Share(0, 1, 1)
    subplan: Subplan | None = None
    store: Any = None
    clock: Callable[[], float] = time.monotonic
    repeatable: bool = False
    retried: bool = False
    state_windows: Mapping[Plan, int] = field(default_factory=dict)
    policies: Callable[[tuple[Plan, ...]], Policies] | None = None
    owns: tuple[int, int] | None = None
