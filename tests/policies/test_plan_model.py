"""Paths and their productivity against the paper's numbers (golden J1, J3, J8, J10, J11, J17), and sizes.

J19 (results double from budget 300 to 600, then triple to 900) is not tested anywhere: beyond what freshness
takes, results grow at most linearly with the budget, and no line does both.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from braided.policies.flow import predict
from braided.policies.plan_model import Path, PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan, flat, linear
from braided.testing.samples.plans import random_plan
from tests.policies.plans import AB, ABC, figure_2a, figure_4, figure_10, random_model


def test_productivity_of_half_joins() -> None:
    model = figure_2a()
    assert [model.productivity(h) for h in model.half_joins] == [2.5, 5.0]  # J1
    model = figure_10()
    assert [model.productivity(h) for h in model.half_joins] == [0.5, 5.0, 5.0, 1.0]  # J3


def test_productivity_of_paths() -> None:
    found = [path.productivity for path in figure_10().paths]
    assert found == pytest.approx([1.6666666666666667, 4.166666666666667, 1.0])  # J8


def test_a_path_is_divided_so_that_all_that_is_produced_is_consumed() -> None:
    def divided(path: Path, probes: float) -> list[float]:
        return [probes / path.cost * phi for phi in path.phi[:-1]]

    assert divided(figure_10().path("b"), 600) == pytest.approx((100, 500))  # J10
    assert divided(figure_4().path("a"), 15) == pytest.approx((11, 4))  # J17
    assert figure_4().path("a").phi == pytest.approx((1, 4 / 11, 4 / 11))
    assert divided(figure_4().path("b"), 16) == pytest.approx((11, 5))


def test_the_path_table() -> None:
    paths = figure_4().paths
    assert [path.productivity for path in paths] == pytest.approx([4 / 15, 0.3125, 0.1])  # J11
    assert [path.full_cost for path in paths] == pytest.approx([100 * 15 / 11, 100 * 16 / 11, 100])
    assert [path.rate * path.output for path in paths] == pytest.approx([400 / 11, 500 / 11, 10])


def test_paths_follow_definition_3() -> None:
    model = figure_10()
    assert [str(h) for h in model.path("a").half_joins] == ["a>b", "(a b)>c"]
    assert [str(h) for h in model.path("c").half_joins] == ["c>(a b)"]
    assert model.path("a").entry == {"a": 1.0, AB: 0.5}


def test_the_path_of_a_flat_plan_is_a_probe_order() -> None:
    orders: dict[Plan, tuple[Plan, ...]] = {"a": ("c", "b")}
    model = plan_model(
        flat("abc"),
        dict.fromkeys("abc", 10.0),
        windows=dict.fromkeys("abc", 10.0),
        selectivity={flat("abc"): 0.02, HalfJoin("a", "c"): 0.005},
        orders=orders,
    )
    assert [str(h) for h in model.path("a").half_joins] == ["a>c", "a>b"]
    assert model.path("a").phi == pytest.approx((1, 0.5, 1))
    assert model.path("a").cost == pytest.approx(1.5)
    assert model.intermediates == ()


def test_a_path_through_a_wide_operator_enters_its_state_with_complete_rows_only() -> None:
    wide = ("a", "b", "c")
    model = plan_model(
        (wide, "d"),
        dict.fromkeys("abcd", 10.0),
        sizes={"a": 10, "b": 20, "c": 30, "d": 40, wide: 50},
        selectivity={wide: 0.1, (wide, "d"): 0.01},
    )
    assert [str(h) for h in model.path("a").half_joins] == ["a>b", "a>c", "(a b c)>d"]
    assert model.path("a").phi == pytest.approx((1, 2, 6, 2.4))
    assert model.path("a").entry == {"a": 1.0, wide: pytest.approx(6.0)}


def consistent(plan: Plan, seed: int) -> PlanModel:
    """All selectivities by operator, all sizes by time windows."""
    rng = np.random.default_rng(seed)
    names = [f"s{i}" for i in range(5)]
    rates = {name: float(rng.uniform(1, 9)) for name in names}
    windows = {name: float(rng.uniform(5, 50)) for name in names}
    operators = random_model(rng, plan).operators
    return plan_model(
        plan, rates, windows=windows, selectivity={op: float(rng.uniform(0.01, 0.1)) for op in operators}
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_derived_state_holds_the_combinations_of_live_rows(seed: int) -> None:
    plan = random_plan(np.random.default_rng(seed), 5, width=3)
    model = consistent(plan, seed)
    for node in model.intermediates:
        assert isinstance(node, tuple)
        pairs = math.prod(model.sizes[child] for child in node)
        assert model.sizes[node] == pytest.approx(pairs * model.selectivity(node) ** (len(node) - 1))


@pytest.mark.parametrize("seed", range(10))
def test_a_derived_lifetime_is_that_of_the_first_expiring_of_all_streams(seed: int) -> None:
    model = consistent(random_plan(np.random.default_rng(seed), 5, width=3), seed)
    full = predict(model)
    for node in model.intermediates:
        streams = [path.stream for path in model.paths if node in path.entry]
        rate = sum(1 / model.lifetimes[stream] for stream in streams)
        assert model.lifetimes[node] == pytest.approx(1 / rate)
        assert model.sizes[node] == pytest.approx(full.arrivals[node] / rate)


def test_every_plan_yields_the_same_full_output_if_selectivities_agree() -> None:
    one_key = 0.05  # any two rows match with this chance, whatever they are made of
    rates, windows = {"a": 3.0, "b": 5.0, "c": 7.0, "d": 2.0}, {"a": 4.0, "b": 3.0, "c": 2.0, "d": 6.0}
    shapes: list[Plan] = [flat("abcd"), linear("abcd"), (("a", "b"), ("c", "d")), (("a", "b", "c"), "d")]
    outputs = []
    for plan in shapes:
        nodes = random_model(np.random.default_rng(0), plan).operators
        model = plan_model(plan, rates, windows=windows, selectivity=dict.fromkeys(nodes, one_key))
        outputs.append(predict(model).output)
    assert outputs == pytest.approx([outputs[0]] * 4)


def test_streams_at_rest_leave_empty_states() -> None:
    windows = dict.fromkeys("abc", 10.0)
    model = plan_model(ABC, dict.fromkeys("abc", 0.0), windows=windows, selectivity={AB: 0.1, ABC: 0.1})
    assert set(model.sizes.values()) == {0.0}
    assert predict(model).output == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rates": {"a": 1.0}}, "b"),
        ({"rates": {"a": -1.0, "b": 1.0}}, "rates, sizes, selectivities are finite and not negative"),
        ({"windows": {"a": 1.0}}, "b"),
        ({"selectivity": {}}, "'a', 'b'"),
        ({"orders": {"a": ("a",)}}, "an input probes all others"),
    ],
)
def test_models_that_cannot_be_meant_are_refused(change: dict[str, object], says: str) -> None:
    right: dict[str, object] = {
        "rates": {"a": 1.0, "b": 1.0},
        "windows": {"a": 1.0, "b": 1.0},
        "selectivity": {AB: 0.1},
    }
    with pytest.raises((AssertionError, KeyError), match=says):  # no user's doing: our own mistake
        plan_model(AB, **{**right, **change})  # type: ignore[arg-type]


def test_models_compare_by_value() -> None:
    assert figure_10() == figure_10()
    assert figure_10() != figure_4()


def test_an_intermediate_without_a_window_above_one_with_is_never_endless() -> None:
    """Only some have windows, a stream brings nothing, no age is known: a size was infinite, then nan."""
    plan: Plan = (((("a", "b"), "c"), "d"), "e")
    rates = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 1.0, "e": 1.0}
    caps: dict[Plan, float] = {("a", "b"): 2.0, ((("a", "b"), "c"), "d"): 1.0}
    known: dict[Plan | HalfJoin, float] = dict.fromkeys(
        (("a", "b"), (("a", "b"), "c"), ((("a", "b"), "c"), "d"), plan), 1.0
    )
    model = plan_model(plan, rates, sizes=dict.fromkeys("abcde", 1.0), selectivity=known, caps=caps)
    assert model.sizes[("a", "b"), "c"] == 2.0  # a row a batch, for as long as rows stay in (a b)
    assert all(map(math.isfinite, model.sizes.values()))
    assert math.isfinite(predict(model, settle=True).output)
