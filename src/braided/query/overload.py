"""What a join may lose when there is not enough CPU or memory: the one part of a query that is lossy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Literal, TypeAlias, get_args

from braided.query.durations import Duration
from braided.query.errors import InvalidValue
from braided.query.kinds import duration, whole
from braided.query.values import Value

MOST_ROWS = 1 << 53  # whole numbers that a float still represents
ProbeAllocation = Literal[
    "jaqpot", "greedy-path", "dp-knapsack", "best-halfjoin", "equal-halfjoin", "global-productivity",
    "equal-best", "selectivity-best",
]  # fmt: skip
InputAllocation = Literal[
    "equal", "proportional", "inverse", "window-proportional", "window-inverse", "random"
]  # fmt: skip
Rows: TypeAlias = Annotated[int, whole(1, MOST_ROWS, f"at least 1 and at most {MOST_ROWS:,}")]
WindowSplit = Literal["max-slow", "max-fast", "proportional", "inverse", "equal"]


class Overload(Value):
    """Budgets; results are a subset of the exact ones, as large as the policies can make it.

    `probes` is how many rows may probe in a batch; instead, `target_batch` is how long a batch may take, and
    as many probe as fit. `allocation` says whose they are: "jaqpot", "greedy-path", "dp-knapsack",
    "best-halfjoin", "equal-halfjoin", "global-productivity", "equal-best" or "selectivity-best".

    With `shed="input"` `probes` is how many rows are let in at all, shared among the streams by `allocation`
    ("equal", "proportional", "inverse", "window-proportional", "window-inverse", "random"); the rest is
    dropped before it is stored, and counted.

    `state_rows` is how many rows may be stored after a batch; windows then shrink below the query's, as
    `window_split` says ("max-slow", "max-fast", "proportional", "inverse", "equal"). Both together ration
    rows and windows.
    """

    probes: Rows | None = None
    target_batch: Annotated[Duration, partial(duration, zero=False)] | None = None
    _: dataclasses.KW_ONLY
    state_rows: Rows | None = None
    allocation: ProbeAllocation | InputAllocation = "jaqpot"
    shed: Literal["probes", "input"] = "probes"
    window_split: WindowSplit = "max-slow"

    def _check(self) -> None:
        for option, mistake in self._mistakes():
            raise InvalidValue(f"Overload: {mistake}", option=option, value=getattr(self, option))

    def _mistakes(self) -> Iterator[tuple[str, str]]:
        known = get_args(InputAllocation if self.drops_input else ProbeAllocation)
        unlimited = self.probes is None and self.target_batch is None
        if self.probes is not None and self.target_batch is not None:
            yield "target_batch", "give probes or target_batch, not both"
        if unlimited and self.state_rows is None:
            yield "probes", "give a budget: probes, target_batch or state_rows"
        if self.allocation not in known:
            wrong = f"allocation={self.allocation!r} does not go with shed={self.shed!r}"
            yield "allocation", f"{wrong}; use one of {', '.join(map(repr, known))}"
        if unlimited and self.drops_input:
            yield "shed", "shed='input' needs probes, how many rows a batch are let in"

    @property
    def rations(self) -> bool:
        """Whether probes are rationed."""
        return not self.drops_input and (self.probes is not None or self.target_batch is not None)

    @property
    def drops_input(self) -> bool:
        """Whether rows are dropped before they are stored."""
        return self.shed == "input"
