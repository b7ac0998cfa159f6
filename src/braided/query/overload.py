"""What a join may lose when there is not enough CPU or memory: the one part of a query that is lossy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, get_args

from braided.query.durations import Duration
from braided.query.errors import InvalidType, InvalidValue
from braided.query.kinds import above_zero, by_name, duration, size, whole
from braided.query.plan_tree import Plan, label
from braided.query.values import Value

MOST_ROWS = 1 << 53  # whole numbers that a float still represents
ProbeAllocation = Literal[
    "jaqpot", "least-loss", "greedy-path", "dp-knapsack", "best-halfjoin", "equal-halfjoin",
    "global-productivity", "equal-best", "selectivity-best",
]  # fmt: skip
InputAllocation = Literal[
    "equal", "proportional", "inverse", "window-proportional", "window-inverse", "random"
]  # fmt: skip
_rows = whole(1, MOST_ROWS, f"at least 1 and at most {MOST_ROWS:,}")
Rows: TypeAlias = Annotated[int, _rows]
WindowSplit = Literal["best", "max-slow", "max-fast", "proportional", "inverse", "equal"]
_weights = by_name(above_zero(), "a stream's name", "a weight")


def _intermediate_rows(owner: str, option: str, given: Any) -> int | tuple[tuple[str, int], ...]:
    """Read rows, for all intermediates or by node: a tuple of streams, or how `explain` writes it."""
    if isinstance(given, int) and not isinstance(given, bool):
        return int(_rows(owner, option, given))
    named = given
    if isinstance(given, Mapping):
        named = {node if isinstance(node, str) else label(node): rows for node, rows in given.items()}
    elif not isinstance(given, tuple | list):
        wanted = "a number of rows, or one for each intermediate, such as {('a', 'b'): 1000}"
        raise InvalidType.must(option, wanted, given, owner=owner)
    read: tuple[tuple[str, int], ...] = by_name(_rows, "an intermediate", "rows")(owner, option, named)
    return read


class Overload(Value):
    """Budgets; results are a subset of the exact ones, as large as the policies can make it.

    `probes` is how many rows may probe in a batch; instead, `target_batch` is how long a batch may take, and
    as many probe as fit. `allocation` says whose they are: "jaqpot" (None means it), "least-loss",
    "greedy-path", "dp-knapsack", "best-halfjoin", "equal-halfjoin", "global-productivity", "equal-best" or
    "selectivity-best". With `intermediate_rows` an intermediate holds only so many of its newest rows (one
    number, or one by node): "jaqpot" is then the paper's algorithm; where intermediates expire with their
    rows it is "least-loss". Where a budget is too small for all bounds on age, `weights` say which streams
    count more. `clock` is what ages are told by: the largest time seen ("event"), or the "wall" clock.

    Who may probe is decided again when an average over `averaging` batches has moved by more than `epsilon`,
    and the new decision is taken if it promises more than `p` more results.

    With `shed="input"` `probes` is how many rows are let in at all, shared among the streams by `allocation`
    ("equal", which None means, "proportional", "inverse", "window-proportional", "window-inverse", "random");
    the rest is dropped before it is stored, and counted. `target_batch` goes with it as well.

    `state_rows` is how many rows may be stored after a batch, intermediates included, `state_bytes` the same
    in bytes; windows then shrink below the query's, as `window_split` says ("best", "max-slow", "max-fast",
    "proportional", "inverse", "equal"). Both together ration rows and windows.
    """

    probes: Rows | None = None
    target_batch: Annotated[Duration, partial(duration, zero=False)] | None = None
    _: dataclasses.KW_ONLY
    state_rows: Rows | None = None
    state_bytes: Annotated[int | str, size] | None = None
    allocation: ProbeAllocation | InputAllocation | None = None
    shed: Literal["probes", "input"] = "probes"
    window_split: WindowSplit = "best"
    intermediate_rows: Annotated[int | Mapping[Any, int], _intermediate_rows] | None = None
    clock: Literal["event", "wall"] = "event"
    weights: Annotated[Mapping[str, float], _weights] | None = None
    epsilon: Annotated[float, above_zero()] = 0.08
    p: Annotated[float, above_zero()] = 0.05
    averaging: Annotated[int, whole(1, 1000, "from 1 to 1000 batches")] = 8

    def _check(self) -> None:
        for option, mistake in self._mistakes():
            raise InvalidValue(f"Overload: {mistake}", option=option, value=getattr(self, option))

    def _mistakes(self) -> Iterator[tuple[str, str]]:
        known = get_args(InputAllocation if self.drops_input else ProbeAllocation)
        unlimited = self.probes is None and self.target_batch is None
        if self.probes is not None and self.target_batch is not None:
            yield "target_batch", "give probes or target_batch, not both"
        if self.state_rows is not None and self.state_bytes is not None:
            yield "state_bytes", "give state_rows or state_bytes, not both"
        if unlimited and not self.cuts_windows and self.intermediate_rows is None:
            yield (
                "probes",
                "give a budget: probes, target_batch, state_rows, state_bytes, intermediate_rows",
            )
        if self.allocation is not None and self.allocation not in known:
            wrong = f"allocation={self.allocation!r} does not go with shed={self.shed!r}"
            yield "allocation", f"{wrong}; use one of {', '.join(map(repr, known))}"
        if unlimited and self.drops_input:
            yield "shed", "shed='input' needs probes, how many rows a batch are let in, or target_batch"

    @property
    def rule(self) -> str:
        """The allocation that is asked for, by name."""
        return self.allocation or ("equal" if self.drops_input else "jaqpot")

    def rows_of(self, node: Plan) -> int | None:
        """How many rows an intermediate may hold; None: all that may still join."""
        if self.intermediate_rows is None or isinstance(self.intermediate_rows, int):
            return self.intermediate_rows
        return dict(self.intermediate_rows).get(label(node))

    @property
    def cuts_windows(self) -> bool:
        """Whether stored rows are bounded, so that windows may be cut."""
        return self.state_rows is not None or self.state_bytes is not None

    @property
    def rations(self) -> bool:
        """Whether probes are rationed."""
        return not self.drops_input and (self.probes is not None or self.target_batch is not None)

    @property
    def drops_input(self) -> bool:
        """Whether rows are dropped before they are stored."""
        return self.shed == "input"
