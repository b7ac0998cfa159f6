"""The fluid model: what flows under allowances (golden J2b, J5), and what rationing does to states."""

from __future__ import annotations

import pytest

from braided.policies.flow import predict
from braided.policies.plan_model import plan_model
from braided.query.plan_tree import HalfJoin, flat
from tests.policies.plans import AB, ABC, figure_2a, figure_10, some_models


def test_full_rate_of_one_join() -> None:
    assert predict(figure_2a()).output == 4750  # J2b


def test_the_papers_rounded_shares() -> None:
    model = figure_10()
    flow = predict(model, dict(zip(model.half_joins, (13, 130, 130, 27), strict=True)))  # J5
    assert (flow.arrivals[AB], flow.output) == (656.5, 677)
    assert flow.skipped[HalfJoin(AB, "c")] == 526.5
    assert flow.spent == 300


def test_an_allowance_without_rows_is_wasted() -> None:
    flow = predict(figure_10(), {HalfJoin("b", "a"): 20.0, HalfJoin(AB, "c"): 250.0})
    assert flow.probes[HalfJoin(AB, "c")] == 100
    assert flow.output == 500
    assert flow.spent == 120


def test_rows_that_may_not_probe_are_stored_all_the_same() -> None:
    flow = predict(figure_10(), {HalfJoin("b", "a"): 20.0})
    assert flow.arrivals[AB] == 100
    assert flow.output == 0


def test_no_more_rows_probe_than_arrive() -> None:
    flow = predict(figure_10(), dict.fromkeys(figure_10().half_joins, 1e9))
    assert flow.probes == predict(figure_10()).probes


def test_a_flat_plan_loses_what_may_not_go_on() -> None:
    model = plan_model(
        flat("abc"),
        dict.fromkeys("abc", 10.0),
        sizes=dict.fromkeys(flat("abc"), 100.0),
        selectivity={flat("abc"): 0.02},
    )
    flow = predict(model, {HalfJoin("a", "b"): 10.0, HalfJoin("a", "c"): 5.0})
    assert flow.output == 10
    assert flow.skipped[HalfJoin("a", "c")] == 15


def test_rationing_shrinks_the_states_that_follow_from_what_is_produced() -> None:
    rates, windows = {"a": 10.0, "b": 20.0, "c": 30.0}, {"a": 10.0, "b": 5.0, "c": 8.0}
    model = plan_model(ABC, rates, windows=windows, selectivity={AB: 0.01, ABC: 0.01})
    full = predict(model, settle=True)
    assert full.sizes == pytest.approx(dict(model.sizes))
    half = {h: (0.5 if h.driver in ("a", "b") else 1.0) * n for h, n in full.probes.items()}
    rationed = predict(model, half, settle=True)
    assert rationed.sizes[AB] == pytest.approx(model.sizes[AB] / 2)
    assert rationed.output == pytest.approx(full.output / 2)  # also rows of c meet half as many
    assert predict(model, half).output > rationed.output  # the paper's model: sizes as given


def test_a_given_size_does_not_follow_the_flow() -> None:
    flow = predict(figure_10(), {}, settle=True)
    assert flow.sizes[AB] == 200


@pytest.mark.parametrize("number", range(20))
def test_more_allowance_never_means_less_output(number: int) -> None:
    model = some_models(20)[number]
    full = predict(model).probes
    outputs = [
        predict(model, {h: part * n for h, n in full.items()}).output for part in (0.0, 0.2, 0.5, 0.9, 1.0)
    ]
    assert outputs == sorted(outputs)
    assert outputs[-1] == pytest.approx(predict(model).output)
