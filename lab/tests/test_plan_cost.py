"""Unit-time costs: both ways to charge the upkeep of states give the same totals (errata to Eq. 13-15)."""

from __future__ import annotations

import pytest

from braided.policies.flow import predict
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan
from braided_lab.jaqpot import parameters
from braided_lab.jaqpot_optimum import random_settings
from braided_lab.jaqpot_settings import Lab
from braided_lab.plan_cost import Work, half_join_costs, operator_cost


def figure_2a() -> PlanModel:
    """One join whose two half-joins have selectivities of their own."""
    selectivity: dict[Plan | HalfJoin, float] = {HalfJoin("a", "b"): 0.005, HalfJoin("b", "a"): 0.001}
    return plan_model(("a", "b"), {"a": 500, "b": 700}, sizes={"a": 5000, "b": 500}, selectivity=selectivity)


def work_of(model: PlanModel) -> dict[Plan, Work]:
    return {state: Work(3.0 + i, 0.5 + i, 0.25) for i, state in enumerate(model.orders)}


def test_equations_13_to_15() -> None:
    work: dict[Plan, Work] = {"a": Work(5, 2, 1), "b": Work(3, 4, 2)}
    costs = half_join_costs(figure_2a(), work)
    assert costs[HalfJoin("a", "b")] == 500 * (3 + 2 + 1)
    assert costs[HalfJoin("b", "a")] == 700 * (5 + 4 + 2)
    assert operator_cost(costs, ("a", "b")) == 10700


def test_the_total_of_an_operator_does_not_depend_on_who_pays() -> None:
    given = parameters()
    lab = Lab({**given, "quick": {**given["quick"], "optimum_plans": 12}}, quick=True, seed=1)
    models = [setting.model for setting in random_settings(lab)]
    assert len(models) == 12
    for model in models:
        own = half_join_costs(model, work_of(model))
        probed = half_join_costs(model, work_of(model), upkeep="probed")
        for operator in model.operators:
            assert operator_cost(own, operator) == pytest.approx(operator_cost(probed, operator))


def test_rows_that_may_not_probe_still_cost_their_upkeep() -> None:
    model = figure_2a()
    costs = half_join_costs(model, {"a": Work(5), "b": Work(3)}, flow=predict(model, {}))
    assert operator_cost(costs, ("a", "b")) == 2 * 1200
