"""Flat against tree in the join, and random shedding: one key, so that both plans have the same results.

Time windows, intermediates that expire with their components, jaqpot in every plan. Budgets are parts of the
linear tree's probes with all rows probing, as counted. *Random shedding* drops rows before they are stored;
how many are let in follows from the model, so that the linear tree's probes are about the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from braided.policies.flow import predict
from braided.policies.plan_model import plan_model
from braided.query.plan_tree import HalfJoin, Plan, operators
from braided_lab.jaqpot_engine import Run, run
from braided_lab.jaqpot_settings import PLANS, Lab, log_uniform
from braided_lab.jaqpot_workload import SECOND_US, Batch

SHAPES: dict[str, Any] = {
    "linear tree": PLANS["linear"],
    "bushy tree": PLANS["bushy"],
    "flat": "mjoin",
}
SHEDDING = "linear tree, random shedding"
_COUNTED = 30
_HALVINGS = 30


@dataclass(frozen=True)
class OneKey:
    """Four streams with one key."""

    rates: Mapping[str, float]
    seconds: int
    keys: int

    def query(self, plan: Any, overload: bd.Overload | None) -> bd.JoinQuery:
        """The join under one plan."""
        streams = [bd.Stream(n, "k", time="t", window=f"{self.seconds} seconds") for n in self.rates]
        tuning = bd.Tuning(index="hash")
        return bd.JoinQuery(
            streams, plan=plan, overload=overload, tuning=tuning, select={n: f"{n}.t" for n in self.rates}
        )

    def batches(self, rng: np.random.Generator) -> list[Batch]:
        """Enough to fill all windows, and some that count."""
        return [
            {n: self._rows(rng, rate, at) for n, rate in self.rates.items()}
            for at in range(self.seconds + 5 + _COUNTED)
        ]

    def let_in(self, probes: float) -> float:
        """Which part of the rows a linear tree can have for so many probes a batch."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._probes(middle) <= probes else (low, middle)
        return low

    def _probes(self, kept: float) -> float:
        plan = PLANS["linear"]
        same: dict[Plan | HalfJoin, float] = dict.fromkeys(operators(plan), 1 / self.keys)
        rates = {n: kept * rate for n, rate in self.rates.items()}
        windows = dict.fromkeys(self.rates, float(self.seconds))
        return predict(plan_model(plan, rates, windows=windows, selectivity=same)).spent

    @staticmethod
    def _keys(rng: np.random.Generator, rows: int, keys: int) -> np.ndarray:
        return rng.integers(0, keys, rows)

    def _rows(self, rng: np.random.Generator, rate: float, at: int) -> pa.Table:
        rows = int(rng.poisson(rate))
        times = np.sort(rng.integers(at * SECOND_US, (at + 1) * SECOND_US, rows))
        return pa.table({"k": self._keys(rng, rows, self.keys), "t": times})


def flat_rows(lab: Lab, say: Callable[[str], object]) -> list[dict[str, Any]]:
    """Shares of all results, by plan and budget, setting by setting."""
    say("join, flat against tree")
    given = lab.given["rows"]["flat"]
    shares: dict[tuple[str, float], list[tuple[float, float]]] = {}
    costs: list[float] = []
    for number in range(lab.size["rows_settings"]):
        rng = lab.rng("rows-flat", number)
        drawn = _drawn(rng, given["range"])
        batches = drawn.batches(rng)
        whole = {name: _counted(drawn, shape, None, batches) for name, shape in SHAPES.items()}
        all_, saturation = (_mean(n) for n in (whole["linear tree"].results, whole["linear tree"].probes))
        costs.append(_mean(whole["flat"].probes) / saturation)
        for budget in given["budgets"]:
            probes = budget * saturation
            for name, shape in SHAPES.items():
                done = _counted(drawn, shape, bd.Overload(round(probes)), batches)
                shares.setdefault((name, budget), []).append(
                    (_mean(done.results) / all_, _mean(done.probes) / probes)
                )
            rows = round(drawn.let_in(probes) * sum(drawn.rates.values()))
            shed = bd.Overload(max(1, rows), shed="input", allocation="random")
            done = _counted(drawn, PLANS["linear"], shed, batches)
            shares.setdefault((SHEDDING, budget), []).append(
                (_mean(done.results) / all_, _mean(done.probes) / probes)
            )
    found: list[dict[str, Any]] = [
        {
            "experiment": "rows-flat", "plan": plan, "budget": budget,
            "share": round(float(np.mean([s for s, _ in values])), 4),
            "shares": [round(s, 4) for s, _ in values],
            "spent": round(float(np.mean([n for _, n in values])), 4),
        }
        for (plan, budget), values in shares.items()
    ]  # fmt: skip
    return [*found, {"experiment": "rows-flat-cost", "flat_over_linear": [round(c, 3) for c in costs]}]


def _counted(drawn: OneKey, shape: Any, overload: bd.Overload | None, batches: list[Batch]) -> Run:
    return run(bd.LocalJoin(drawn.query(shape, overload)), batches)


def _mean(values: np.ndarray) -> float:
    return float(values[-_COUNTED:].mean())


def _drawn(rng: np.random.Generator, within: Mapping[str, Any]) -> OneKey:
    rates = {n: float(rng.uniform(*within["rates"])) for n in "abcd"}
    seconds = int(rng.integers(*within["windows"]))
    productivity = log_uniform(rng, *within["productivities"])
    return OneKey(rates, seconds, max(2, round(seconds * np.mean(list(rates.values())) / productivity)))
