"""Where only a share of the rows may probe: a subset, drawn by lot, whatever the order of the rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.engine.features import Host, Step
from braided.engine.overload.feature import Overloading
from braided.policies.decisions import ProbePlan, Rations, Turn
from braided.policies.driver import DRIVER_POLICIES
from braided.query.plan_tree import Plan
from braided.testing import bag, expected
from tests.workloads import names_of, random_tables, stream


class Some(Overloading):
    """Fixed shares for every driver stream."""

    def __init__(self, host: Host, shares: tuple[float, ...]) -> None:
        super().__init__(host)
        self.shares, self.limited = shares, True

    def enter(self, step: Step) -> None:
        self._known = self.host.tree.foreseen(step.arriving)

    def allow(self, operator: tuple[Plan, ...], turn: Turn) -> Rations:
        orders = self._known[operator].orders
        allowed = {i: tuple(turn.waiting_rows[i] * s for s in self.shares) for i in orders}
        return {i: ProbePlan(i, order, self.shares, allowed[i]) for i, order in orders.items()}


def rationed(query: bd.JoinQuery, *shares: float) -> Engine:
    return Engine(query, features={"overload": lambda host: Some(host, shares)})


def found(engine: Engine, batches: list[dict[str, pa.Table]]) -> pa.Table:
    pieces = [t for b in batches for t in engine.step(engine.accept(b))]
    return pa.concat_tables(pieces) if pieces else pa.table({})


@pytest.mark.parametrize("driver", DRIVER_POLICIES)
@pytest.mark.parametrize("index", ["hash", "scan"])
@pytest.mark.parametrize("shares", list(itertools.product((0.0, 0.4, 1.0), repeat=2)))
def test_oracle_rationed_probes_give_a_subset_whatever_the_order(
    driver: Any, index: Any, shares: tuple[float, ...]
) -> None:
    names = names_of(3)
    query = bd.JoinQuery(
        [stream(n, "90 us") for n in names], tuning=bd.Tuning(driver_stream=driver, index=index)
    )
    tables = random_tables(4, names, rows=54, keys=2)
    batches = [{n: t.slice(at, 18) for n, t in tables.items()} for at in (0, 18, 36)]
    exact = bag(expected(query, tables))
    result = bag(found(rationed(query, *shares), batches))
    assert not result - exact
    if min(shares) in (0.0, 1.0):
        assert result.total() == (0 if 0.0 in shares else exact.total())
    else:
        assert 0 < result.total() < exact.total()


def test_the_same_rows_probe_in_whatever_order_they_come() -> None:
    names = names_of(3)
    rng = np.random.default_rng(1)
    query = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="1 second") for n in names])
    tables = {
        n: pa.table({"k": rng.integers(0, 3, 60), "t": pa.array(np.arange(60)).cast(pa.timestamp("us"))})
        for n in names
    }
    first = bag(found(rationed(query, 0.5, 0.7), [tables]))
    assert first
    for _ in range(4):
        shuffled = {n: t.take(pa.array(rng.permutation(60))) for n, t in tables.items()}
        assert bag(found(rationed(query, 0.5, 0.7), [shuffled])) == first


def test_shares_of_few_rows_are_met_on_average() -> None:
    """Rounded down, a quarter of three rows was none, in every batch: small budgets were never used."""
    names = names_of(2)
    rng = np.random.default_rng(1)
    query = bd.JoinQuery([bd.Stream(n, key="k") for n in names])
    batches = [{n: pa.table({"k": rng.integers(0, 40, 3)}) for n in names} for _ in range(400)]
    engine = rationed(query, 0.25)
    found(engine, batches)
    probes = sum(h.probes for h in engine.statistics().half_joins.values())
    assert probes == pytest.approx(400 * 2 * 3 * 0.25, rel=0.1)


def test_a_share_is_never_exceeded_at_the_first_partner_and_about_met_later() -> None:
    names = names_of(3)
    rng = np.random.default_rng(1)
    query = bd.JoinQuery([bd.Stream(n, key="k") for n in names], tuning=bd.Tuning(probe_order="fixed"))
    tables = {n: pa.table({"k": rng.integers(0, 40, 2_000)}) for n in names}
    engine = rationed(query, 0.25, 0.5)
    found(engine, [tables])
    seen = engine.statistics()
    drivers = seen.driver_streams
    probes = sum(seen.half_joins[d, seen.probe_orders[d][0]].probes for d in drivers)
    assert probes <= 3 * 500
    last = drivers[-1]
    first, second = (seen.half_joins[last, p] for p in seen.probe_orders[last])
    assert 0 < second.probes < 0.9 * first.matches
    assert first.allowance == 500
