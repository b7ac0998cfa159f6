"""Unit-time costs: both ways to charge the upkeep of states give the same totals (errata to Eq. 13-15)."""

from __future__ import annotations

import pytest

from braided.policies.flow import predict
from braided.policies.plan_cost import Work, half_join_costs, operator_cost
from braided.policies.plan_model import PlanModel
from braided.query.plan_tree import HalfJoin, Plan
from tests.policies.plans import figure_2a, some_models


def work_of(model: PlanModel) -> dict[Plan, Work]:
    return {state: Work(3.0 + i, 0.5 + i, 0.25) for i, state in enumerate(model.orders)}


def test_equations_13_to_15() -> None:
    work: dict[Plan, Work] = {"a": Work(5, 2, 1), "b": Work(3, 4, 2)}
    costs = half_join_costs(figure_2a(), work)
    assert costs[HalfJoin("a", "b")] == 500 * (3 + 2 + 1)
    assert costs[HalfJoin("b", "a")] == 700 * (5 + 4 + 2)
    assert operator_cost(costs, ("a", "b")) == 10700


@pytest.mark.parametrize("number", range(12))
def test_the_total_of_an_operator_does_not_depend_on_who_pays(number: int) -> None:
    model = some_models(12)[number]
    own = half_join_costs(model, work_of(model))
    probed = half_join_costs(model, work_of(model), upkeep="probed")
    for operator in model.operators:
        assert operator_cost(own, operator) == pytest.approx(operator_cost(probed, operator))


def test_rows_that_may_not_probe_still_cost_their_upkeep() -> None:
    model = figure_2a()
    costs = half_join_costs(model, {"a": Work(5), "b": Work(3)}, flow=predict(model, {}))
    assert operator_cost(costs, ("a", "b")) == 2 * 1200
