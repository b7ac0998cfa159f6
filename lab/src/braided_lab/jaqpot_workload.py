"""Rows for the engine that behave like a plan in numbers: Poisson arrivals, and keys for each operator.

With one common key all operators would share its selectivity. So neighbours are linked by columns of their
own, one for each operator: `a.k0 = b.k0`, `b.k1 = c.k1` ... Keys are drawn evenly from 1 / selectivity
values, hence a row finds (selectivity x rows of the state) matches on average, whatever the state's history.

Three ways to bound states, which the model has as well:

| states | the join | the model |
| --- | --- | --- |
| "count": all hold so many rows, as in the paper | `intermediate_rows`; streams: lab | sizes given |
| "newest": streams by time, of intermediates the newest rows | `window`, `intermediate_rows` | caps |
| "time": streams by time, intermediates expire with their components | `window`: the exact join | settles |

A batch is one unit of virtual time, a second. The first batches, which fill the states, span many seconds
each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

import braided as bd
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan, leaves, operators
from braided_lab.jaqpot_settings import Setting, bearable, log_uniform

States: TypeAlias = Literal["count", "newest", "time"]
Batch: TypeAlias = dict[str, pa.Table]
SECOND_US = 1_000_000
NO_LIMIT = bd.Overload(state_rows=1 << 53)  # freshness needs an overload to go with


@dataclass(frozen=True)
class Workload:
    """A plan in numbers, and rows that behave so."""

    model: PlanModel
    states: States = "count"

    @cached_property
    def setting(self) -> Setting:
        """With saturation and bounds, as in the fluid model."""
        return Setting(self.model)

    @property
    def state_windows(self) -> dict[Plan, int]:
        """Rows that states of streams hold; none if time bounds them."""
        return {n: rows for n, rows in self.held.items() if isinstance(n, str)}

    @property
    def held(self) -> dict[Plan, int]:
        """The most rows that states hold, where anything but time bounds them."""
        sizes = self.model.sizes if self.states == "count" else self.model.caps
        return {n: max(1, round(s)) for n, s in sizes.items()}

    def query(self, overload: bd.Overload | None, factor: float | None = None) -> bd.JoinQuery:
        """The join; with a factor, rows in results may be so many windows old. Results are times only."""
        bounds = self.setting.bounds(1.0)
        made = {n: rows for n, rows in self.held.items() if not isinstance(n, str)}
        if made and overload is not None:
            overload = dataclasses.replace(overload, intermediate_rows=made)
        elif overload is None and (made or factor is not None):
            overload = bd.Overload(intermediate_rows=made) if made else NO_LIMIT
        streams = [
            bd.Stream(
                name,
                time="t",
                window=None if self.states == "count" else _duration(bounds[name]),
                freshness=None if factor is None else _duration(factor * bounds[name]),
            )
            for name in self.model.streams
        ]
        on = [(f"{a}.k{n}", f"{b}.k{n}") for n, (a, b) in enumerate(links(self.model.plan))]
        return bd.JoinQuery(
            streams, on, plan=self.model.plan, overload=overload, tuning=bd.Tuning(index="hash"),
            select={name: f"{name}.t" for name in self.model.streams},
        )  # fmt: skip

    @property
    def filling_seconds(self) -> float:
        """How long it takes at most, with all rows probing, until every state is full."""
        full = self.setting.full
        times = {n: s / full.arrivals[n] for n, s in self.model.sizes.items() if full.arrivals[n]}
        return max(sum(times[node] for node in path.entry) for path in self.model.paths)

    def filling(self, rng: np.random.Generator, batches: int) -> Iterator[Batch]:
        """Few and long batches that fill all states; they end at time 0."""
        step = 1.2 * self.filling_seconds / batches
        for number in range(batches):
            yield self.batch(rng, (number - batches) * step, step)

    def batch(self, rng: np.random.Generator, at: float, seconds: float = 1.0) -> Batch:
        """The rows of a time, in order."""
        return {name: self._rows(rng, name, at, seconds) for name in self.model.streams}

    def _rows(self, rng: np.random.Generator, name: str, at: float, seconds: float) -> pa.Table:
        rows = int(rng.poisson(self.model.rates[name] * seconds))
        first, last = round(at * SECOND_US), round((at + seconds) * SECOND_US)
        columns: dict[str, Any] = {"t": np.sort(rng.integers(first, last, rows))}
        for number, pair in enumerate(links(self.model.plan)):
            if name in pair:
                columns[f"k{number}"] = rng.integers(0, domain(self.model, number), rows)
        return pa.table(columns)


def links(plan: Plan) -> list[tuple[str, str]]:
    """Which two streams each operator's columns are in: the neighbours where its inputs meet."""
    return [(leaves(node[0])[-1], leaves(node[1])[0]) for node in operators(plan)]


def domain(model: PlanModel, number: int) -> int:
    """How many keys an operator has."""
    return round(1 / model.selectivity(model.operators[number]))


def with_selectivities(model: PlanModel, given: Mapping[Plan, float]) -> PlanModel:
    """The same with other selectivities, each rounded to what whole keys can do."""
    rounded: dict[Plan | HalfJoin, float] = {n: 1 / round(1 / s) for n, s in given.items()}
    sizes = {n: float(round(s)) for n, s in model.sizes.items() if n not in model.settles}
    return plan_model(model.plan, model.rates, sizes=sizes, selectivity=rounded)


def workload(model: PlanModel, states: States) -> Workload:
    """Rows like a drawn model's; with time windows its intermediates' sizes follow from the rest.

    Of those "newest" is the newer half.
    """
    found = with_selectivities(model, {n: model.selectivity(n) for n in model.operators})
    return Workload(_halved(found) if states == "newest" else found, states)


def _halved(model: PlanModel) -> PlanModel:
    """The same with intermediates that hold half of what they would."""
    caps = {n: max(1.0, round(model.sizes[n] / 2)) for n in model.intermediates}
    own: dict[Plan, float] = {n: model.sizes[n] for n in model.streams}
    windows = {n: model.sizes[n] / model.rates[n] for n in model.streams}
    selectivity: dict[Plan | HalfJoin, float] = {n: model.selectivity(n) for n in model.operators}
    return plan_model(
        model.plan, model.rates, sizes=own, selectivity=selectivity, caps=caps, limits=windows
    )  # fmt: skip


def draw_exact(rng: np.random.Generator, plan: Plan, within: Mapping[str, Any]) -> PlanModel:
    """Like `draw_model`, for states bounded by time: productivities are those of the sizes that follow.

    A binary operator's state then holds selectivity x rows x rows (see `plan_model`).
    """
    rates = {name: float(rng.uniform(*within["rates"])) for name in leaves(plan)}
    sizes: dict[Plan, float] = {name: log_uniform(rng, *within["sizes"]) for name in leaves(plan)}
    selectivity: dict[Plan | HalfJoin, float] = {}
    for node in operators(plan):
        held = [sizes[child] for child in node]
        low, high = bearable(within["productivities"], held)
        selectivity[node] = log_uniform(rng, low, high) if low < high else math.sqrt(low * high)
        sizes[node] = selectivity[node] * math.prod(held)
    own: dict[Plan, float] = {name: sizes[name] for name in leaves(plan)}
    return plan_model(plan, rates, sizes=own, selectivity=selectivity)


def _duration(seconds: float) -> str:
    return f"{round(seconds * SECOND_US)} us"
