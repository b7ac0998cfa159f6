"""The loop of monitoring, analysing and actuating: when it acts, and what it leaves."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import subprocess
import sys

import pytest

from braided.engine.overload.adaptation import Adaptation, Thresholds
from braided.engine.overload.monitor import Monitor
from braided.policies.allocation import greedy_path
from braided.policies.allocation.question import Allocation, Question
from braided.policies.flow import predict
from braided.policies.plan_model import PlanModel, frozen, plan_model
from braided.policies.statistics import Adapted
from braided.query.plan_tree import HalfJoin, Plan, flat
from tests.policies.plans import AB, ABC, figure_10, path_probes

STREAMS = flat("abc")


def three(
    a: float = 100.0, b: float = 100.0, c: float = 100.0, sizes: dict[Plan, float] | None = None
) -> PlanModel:
    """A flat plan; rows of c find most results a probe."""
    states: dict[Plan, float] = sizes or {"a": 1000.0, "b": 2000.0, "c": 500.0}
    return plan_model(STREAMS, {"a": a, "b": b, "c": c}, sizes=states, selectivity={STREAMS: 0.001})


def ask(model: PlanModel | None = None, budget: float = 200.0) -> Question:
    return Question(model or three(), budget)


def run(adaptation: Adaptation, questions: list[Question], start: int = 0) -> list[Adapted | None]:
    found = []
    for batch, question in enumerate(questions, start):
        adaptation.begin(batch, question)
        found.append(adaptation.adapt(batch))
    return found


# monitoring


def test_averages_are_plain_means_at_first_and_follow_the_window_later() -> None:
    monitor = Monitor(window=4)
    for rate in (100, 200, 300, 400, 650):
        monitor.observe(ask(three(a=rate)))
    assert monitor.averages["rate of a"] == pytest.approx(250 + (650 - 250) / 4)


def test_what_moved_is_said_in_words() -> None:
    monitor = Monitor(window=1)
    assert monitor.moved(0.08) == ()
    monitor.observe(ask())
    assert monitor.moved(0.08) == ()  # there was no analysis it could have moved from
    monitor.before = monitor.averages
    monitor.observe(ask(three(a=107)))
    assert monitor.moved(0.08) == ()
    monitor.observe(ask(three(a=109, c=0), budget=300))
    assert monitor.moved(0.08) == ("rate of a: 100 -> 109", "rate of c: 100 -> 0", "budget: 200 -> 300")


def test_slow_drift_is_measured_from_the_last_analysis() -> None:
    monitor = Monitor(window=1)
    monitor.observe(ask())
    monitor.before = monitor.averages
    for rate in range(101, 110):
        assert not monitor.moved(0.08)
        monitor.observe(ask(three(a=rate)))
    assert monitor.moved(0.08) == ("rate of a: 100 -> 109",)


def test_a_question_of_averages_derives_what_followed_from_the_rest() -> None:
    rates, windows = dict.fromkeys("abc", 100.0), dict.fromkeys("abc", 10.0)
    model = plan_model(ABC, rates, windows=windows, selectivity={("a", "b"): 0.001, ABC: 0.001})
    monitor = Monitor()
    monitor.observe(Question(model, 100.0))
    again = monitor.question(Question(model, 100.0)).model
    assert again.sizes == model.sizes
    assert again.settles == model.settles
    assert "size of (a b)" not in monitor.averages


# analysing and actuating


def test_the_first_allocation_is_there_at_once() -> None:
    adaptation = Adaptation()
    adaptation.begin(0, ask())
    assert adaptation.allocation is not None
    assert [r.taken for r in adaptation.records] == [True]
    assert adaptation.adapt(0) is None


def test_steady_statistics_start_no_analysis() -> None:
    assert run(Adaptation(), [ask()] * 20) == [None] * 20


def test_a_change_that_pays_is_taken_and_says_why() -> None:
    adaptation = Adaptation(thresholds=Thresholds(window=1))
    other = ask()
    better = ask(three(sizes={"a": 50.0, "b": 2000.0, "c": 9000.0}))
    run(adaptation, [other])
    before = adaptation.allocation
    found = run(adaptation, [better], start=1)[0]
    assert found is not None
    assert found.taken
    assert found.batch == 1
    assert found.reason.startswith("size of a: 1000 -> 50; size of c: 500 -> 9000; ")
    assert "results expected" in found.reason
    assert adaptation.allocation is not before
    assert run(adaptation, [better] * 3, start=2) == [None] * 3


def test_a_change_that_does_not_pay_is_recorded_and_left() -> None:
    adaptation = Adaptation(thresholds=Thresholds(window=1))
    run(adaptation, [ask()])
    before = adaptation.allocation
    found = run(adaptation, [ask(three(a=112, b=112, c=112))], start=1)[0]
    assert found is not None
    assert not found.taken
    assert adaptation.allocation is before
    assert run(adaptation, [ask(three(a=112, b=112, c=112))], start=2) == [None]  # not asked again


def test_an_allocation_above_the_budget_is_replaced_whatever_the_gain() -> None:
    adaptation = Adaptation(thresholds=Thresholds(window=1))
    found = run(adaptation, [ask(), ask(budget=100.0)])[1]
    assert found is not None
    assert found.taken
    assert "costs 200 of 100 probes" in found.reason


def starving(b: float) -> PlanModel:
    """Rows of c find most results a probe, but feed no intermediate."""
    sizes: dict[Plan, float] = {"a": 5000, "b": 700, "c": 3000, AB: 2000}
    rates = {"a": 500.0, "b": b, "c": 300.0}
    return plan_model(ABC, rates, sizes=sizes, selectivity={AB: 0.0001, ABC: 0.001})


def test_an_allocation_that_lets_rows_get_old_is_replaced_even_at_a_loss() -> None:
    adaptation = Adaptation(thresholds=Thresholds(window=1))
    run(adaptation, [Question(starving(700.0), 300.0)])
    assert adaptation.allocation is not None
    assert path_probes(starving(700.0), adaptation.allocation) == {"a": 0.0, "b": 0.0, "c": 300.0}
    found = run(adaptation, [Question(starving(800.0), 300.0, {"a": 30.0})], start=1)[0]
    assert found is not None
    assert found.taken
    assert found.reason == (
        "rate of b: 700 -> 800; age allowed to a: 30; 600 -> 300 results expected; "
        "too few rows come into (a b) under the present allocation"
    )


def test_a_new_probe_order_is_a_reason() -> None:
    adaptation = Adaptation()
    model = three()
    turned = dataclasses.replace(model, orders=frozen({**model.orders, "a": ("c", "b")}))
    found = run(adaptation, [ask(model), ask(turned)])[1]
    assert found is not None
    assert found.reason.startswith("order of a: b c -> c b; ")


def test_another_plan_is_analysed_at_once() -> None:
    adaptation = Adaptation()
    run(adaptation, [ask(), Question(figure_10(), 100.0)])
    assert adaptation.allocation is not None
    assert set(adaptation.allocation.allowances) == set(figure_10().half_joins)


def test_only_the_last_sixteen_records_are_kept() -> None:
    adaptation = Adaptation(thresholds=Thresholds(window=1))
    run(adaptation, [ask(three(a=100 * 1.2**n)) for n in range(30)])
    assert [r.batch for r in adaptation.records] == list(range(14, 30))


def test_runs_are_deterministic() -> None:
    questions = [ask(three(a=100 + 60 * (n % 7), c=100 + 45 * (n % 5))) for n in range(40)]
    runs = []
    for _ in range(2):
        adaptation = Adaptation(thresholds=Thresholds(window=3))
        runs.append((run(adaptation, questions), adaptation.save()))
    assert runs[0] == runs[1]
    assert sum(found is not None for found in runs[0][0]) > 5


# analyses that fail


def test_a_failing_analysis_is_logged_once_and_leaves_the_allocation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(question: Question) -> Allocation:
        if question.model.rates["a"] > 100:
            raise ZeroDivisionError("no such luck")
        return greedy_path.allocate(question)

    adaptation = Adaptation(analyse=fails, thresholds=Thresholds(window=1))
    run(adaptation, [ask()])
    before = adaptation.allocation
    with caplog.at_level(logging.WARNING):
        found = run(adaptation, [ask(three(a=200)), ask(three(a=400))], start=1)
    assert adaptation.allocation is before
    assert [f and (f.taken, f.reason.split("; ")[-1]) for f in found] == [
        (False, "the analysis failed: ZeroDivisionError: no such luck")
    ] * 2
    assert [r.levelname for r in caplog.records] == ["WARNING"]


def test_if_the_first_analysis_fails_all_half_joins_get_the_same_share(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(question: Question) -> Allocation:
        raise ValueError("never")

    adaptation = Adaptation(analyse=fails)
    adaptation.begin(0, ask())
    assert adaptation.allocation is not None
    assert adaptation.allocation.spent == pytest.approx(200)
    assert len(caplog.records) == 1


def test_no_analysis_imports_scipy() -> None:
    """Bounds on age need a cover of states; the exact solver was SciPy's, whose import takes 0.7 s."""
    code = """
from tests.engine.overload.test_adaptation import *
from tests.policies.plans import reachable_bounds
from braided.policies.freshness import tightest_bounds
model = figure_10()
question = Question(model, 4000.0, reachable_bounds(model, tightest_bounds(model), 1.5))
adaptation = Adaptation()
adaptation.begin(0, question)
assert adaptation.allocation.freshness.feasible and adaptation.allocation.freshness_spent > 0
adaptation.allowances(model, 300.0)
assert adaptation.adapt(0) is None
assert "scipy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# checkpoints


def moved_on(adaptation: Adaptation, plan: Plan = STREAMS) -> Adaptation:
    """The same in another process."""
    other = Adaptation(thresholds=Thresholds(window=1))
    other.load(json.loads(json.dumps(adaptation.save())), plan)
    return other


def test_an_allocation_goes_on_in_another_process() -> None:
    adaptation = Adaptation(thresholds=Thresholds(window=1))
    questions = [ask(three(a=100 + 60 * (n % 7), c=100 + 45 * (n % 5))) for n in range(20)]
    run(adaptation, questions[:10])
    other = moved_on(adaptation)
    assert other.allocation is not None
    assert adaptation.allocation is not None
    assert other.allocation.allowances == adaptation.allocation.allowances
    assert other.records == adaptation.records
    for question in questions:
        rations = [a.allowances(question.model, 150.0) for a in (adaptation, other)]
        assert rations[0] == rations[1]
    rest = [run(a, questions[10:], start=10) for a in (adaptation, other)]
    assert rest[0] == rest[1]
    assert adaptation.save() == other.save()


def test_nested_plans_go_on_too() -> None:
    adaptation = Adaptation()
    run(adaptation, [Question(figure_10(), 300.0)])
    other = moved_on(adaptation, ABC)
    assert adaptation.allocation is not None
    assert other.allocation is not None
    assert other.allocation.allowances[HalfJoin(("a", "b"), "c")] == pytest.approx(250)
    assert other.allocation.output == adaptation.allocation.output


def test_an_allocation_of_another_plan_is_left() -> None:
    adaptation = Adaptation()
    run(adaptation, [ask()])
    other = moved_on(adaptation, ABC)
    assert other.allocation is None
    assert set(other.allowances(three(), 1.0).values()) == {math.inf}


# all together


def test_a_burst_is_followed_and_taken_back() -> None:
    """Rates of the best stream double for 20 batches; the probes made stay at the budget throughout."""
    adaptation = Adaptation()
    budget, spent, allowed = 350.0, [], []
    before = three()
    for batch in range(60):
        now = three(c=200.0) if 20 <= batch < 40 else three(a=40, b=40, c=40) if batch >= 40 else three()
        adaptation.begin(batch, Question(before, budget))
        allowances = adaptation.allowances(now, budget)
        spent.append(predict(now, allowances).spent)
        allowed.append(allowances)
        adaptation.adapt(batch)
        before = now
    assert max(spent) <= budget * 1.01
    assert min(spent[:40]) >= budget * 0.95
    assert allowed[10] != allowed[35]
    assert set(allowed[40].values()) == {math.inf}  # exact again with the first batch that can be
    assert len(adaptation.records) >= 2
