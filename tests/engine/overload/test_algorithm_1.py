"""Algorithm 1 of jaqpot for a user: windows of intermediates, bounds on age, budgets, clocks; no lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.query.plan_tree import Plan, intermediates, label, leaves, operators
from tests.seeds import seeds

SECOND = 1_000_000
PLANS: dict[str, Plan] = {
    "linear": ((("a", "b"), "c"), "d"),
    "bushy": (("a", "b"), ("c", "d")),
}


@dataclass(frozen=True)
class Setting:
    """Four streams with keys of their own for each operator, windows by time, and bounds on age."""

    plan: Plan
    rates: dict[str, int]
    window_s: int
    domains: tuple[int, ...]
    factor: float
    rows: int
    several_keys: bool = True

    @property
    def links(self) -> list[tuple[str, str]]:
        return [(leaves(node[0])[-1], leaves(node[1])[0]) for node in operators(self.plan)]

    def query(self, overload: bd.Overload | None, *, fresh: bool = True) -> bd.JoinQuery:
        freshness = f"{round(self.factor * self.window_s * 1000)} ms" if fresh and overload else None
        streams = [
            bd.Stream(n, time="t", window=f"{self.window_s} seconds", freshness=freshness)
            for n in leaves(self.plan)
        ]
        on = [(f"{a}.k{i}", f"{b}.k{i}") for i, (a, b) in enumerate(self.links)]
        return bd.JoinQuery(streams, on, plan=self.plan, overload=overload)

    def batch(self, rng: np.random.Generator, at: int) -> dict[str, pa.Table]:
        return {n: self._rows(rng, n, at) for n in leaves(self.plan)}

    def _rows(self, rng: np.random.Generator, name: str, at: int) -> pa.Table:
        rows = int(rng.poisson(self.rates[name]))
        columns: dict[str, Any] = {"t": np.sort(rng.integers(at * SECOND, (at + 1) * SECOND, rows))}
        columns |= {
            f"k{i}": rng.integers(0, self.domains[i], rows)
            for i, pair in enumerate(self.links)
            if name in pair
        }
        return pa.table(columns)


def drawn(rng: np.random.Generator, plan: str) -> Setting:
    """Productivities of 0.5 to 3 at each operator, intermediates of a few batches."""
    rates = {n: int(rng.integers(200, 600)) for n in "abcd"}
    window_s = int(rng.integers(6, 12))
    domains = tuple(int(window_s * 400 / rng.uniform(1, 3)) for _ in range(3))
    return Setting(
        PLANS[plan], rates, window_s, domains, float(rng.uniform(2, 4)), int(rng.integers(600, 2000))
    )


def run(
    setting: Setting, overload: bd.Overload, batches: int, seed: int
) -> tuple[bd.LocalJoin, list[Any], list[int]]:
    """All batches; the statistics and results of each."""
    rng, live = np.random.default_rng(seed), bd.LocalJoin(setting.query(overload))
    seen, results = [], []
    for at in range(batches):
        results.append(live.push(setting.batch(rng, at)).num_rows)
        seen.append(live.stats())
    return live, seen, results


def saturation(setting: Setting) -> float:
    """Probes a batch with all rows probing."""
    _, seen, _ = run(setting, bd.Overload(10**6, intermediate_rows=setting.rows), 30, 0)
    probes = [sum(h.probes for h in s.half_joins.values()) for s in seen]
    return float(np.diff(probes[15:]).mean())


@pytest.mark.parametrize("number", seeds(4))
def test_needed_states_are_refreshed_at_their_rates(number: int) -> None:
    setting = drawn(np.random.default_rng([3, number]), ("linear", "bushy")[number % 2])
    for part in (0.4, 0.6, 0.8):  # the first budget that keeps the bounds
        overload = bd.Overload(round(part * saturation(setting)), intermediate_rows=setting.rows)
        _, seen, _ = run(setting, overload, 60, number)
        rationing = seen[-1].rationing
        if not rationing.problem:
            break
    assert not rationing.problem
    assert "freshness: " in rationing.reason
    assert 0 < rationing.freshness_share <= 1
    for node in intermediates(setting.plan):
        states = [s.intermediates[label(node)] for s in seen[30:]]
        needed = np.mean([s.refresh_rows or 0 for s in states])
        assert np.mean([s.entered_rows for s in states]) >= 0.95 * needed
        assert states[-1].live_rows <= setting.rows + states[-1].entered_rows


def test_rows_that_push_others_out_have_come_in() -> None:
    """A full state renumbers its rows when it lets some go: it seemed to get none, or fewer than none."""
    setting = Setting(PLANS["linear"], dict.fromkeys("abcd", 200), 8, (800, 800, 800), 3.0, 50)
    rng, live = np.random.default_rng(1), bd.LocalJoin(setting.query(bd.Overload(intermediate_rows=50)))
    matched = 0
    for at in range(12):
        live.push(setting.batch(rng, at))
        seen = live.stats()
        before, matched = matched, sum(seen.half_joins[pair].matches for pair in (("a", "b"), ("b", "a")))
        assert seen.intermediates["(a b)"].entered_rows == matched - before
    assert seen.intermediates["(a b)"].expired_rows > 1000
