"""What a join may lose when there is not enough CPU or memory: the one part of a query that is lossy."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from braided.query.durations import Duration, to_text, to_us
from braided.query.errors import InvalidValue, about, require_choice, require_whole
from braided.query.values import PlainDict, freeze, value_class

MOST_ROWS = 1 << 53  # whole numbers that a float still represents
Shed = Literal["probes", "input"]
ProbeAllocation = Literal[
    "jaqpot", "greedy-path", "dp-knapsack", "best-halfjoin", "equal-halfjoin", "global-productivity",
    "equal-best", "selectivity-best",
]  # fmt: skip
InputAllocation = Literal[
    "equal", "proportional", "inverse", "window-proportional", "window-inverse", "random"
]  # fmt: skip
WindowSplit = Literal["max-slow", "max-fast", "proportional", "inverse", "equal"]


@value_class
class Overload(PlainDict):
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

    probes: int | None = None
    target_batch: Duration | None = None
    state_rows: int | None = dataclasses.field(default=None, kw_only=True)
    allocation: ProbeAllocation | InputAllocation = dataclasses.field(default="jaqpot", kw_only=True)
    shed: Shed = dataclasses.field(default="probes", kw_only=True)
    window_split: WindowSplit = dataclasses.field(default="max-slow", kw_only=True)

    def __post_init__(self) -> None:
        for option in ("probes", "state_rows"):
            rows = getattr(self, option)
            if rows is not None:
                wanted = f"at least 1 and at most {MOST_ROWS:,}"
                require_whole("Overload", option, rows, 1, MOST_ROWS, wanted)
        if self.target_batch is not None:
            with about("target_batch"):
                us = to_us(self.target_batch, owner="Overload: target_batch")
            if us <= 0:
                raise InvalidValue.must("target_batch", "above zero", self.target_batch, owner="Overload")
            freeze(self, target_batch=to_text(us))
        if self.probes is not None and self.target_batch is not None:
            raise InvalidValue("Overload: give probes or target_batch, not both", option="target_batch")
        if self.probes is None and self.target_batch is None and self.state_rows is None:
            raise InvalidValue("Overload: give a budget: probes, target_batch or state_rows", option="probes")
        require_choice("Overload", "shed", self.shed, get_args(Shed))
        require_choice("Overload", "window_split", self.window_split, get_args(WindowSplit))
        self._check_allocation()

    @property
    def rations(self) -> bool:
        """Whether probes are rationed."""
        return not self.drops_input and (self.probes is not None or self.target_batch is not None)

    @property
    def drops_input(self) -> bool:
        """Whether rows are dropped before they are stored."""
        return self.shed == "input"

    def _check_allocation(self) -> None:
        probes, rows = get_args(ProbeAllocation), get_args(InputAllocation)
        require_choice("Overload", "allocation", self.allocation, (*probes, *rows))
        known = rows if self.drops_input else probes
        if self.allocation not in known:
            raise InvalidValue(
                f"Overload: allocation={self.allocation!r} does not go with shed={self.shed!r}; "
                f"use one of {', '.join(map(repr, known))}",
                option="allocation",
                value=self.allocation,
            )
        if self.drops_input and self.probes is None and self.target_batch is None:
            raise InvalidValue(
                "Overload: shed='input' needs probes, how many rows a batch are let in", option="shed"
            )
