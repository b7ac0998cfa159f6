"""What the options of `Overload` do: when it is decided again, by what averages, for whom; and bad values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.policies.statistics import Adapted
from tests.engine.overload.test_infeasible import Short, setting

SECOND = 1_000_000
STEADY = {"a": 40, "b": 40, "c": 40}
MORE = {"a": 160, "b": 40}
KEYS, OTHER_KEYS = {"a": 20, "b": 20, "c": 20}, {"a": 20, "b": 20, "c": 1000}


def adaptations(
    later: dict[str, int], keys: dict[str, int] | None = None, **options: Any
) -> tuple[Adapted, ...]:
    """What was decided while other rates, or keys, hold from the tenth batch on."""
    streams = [bd.Stream(n, "k", time="t", window="3 seconds") for n in later]
    live, rng = (
        bd.LocalJoin(bd.JoinQuery(streams, overload=bd.Overload(60, **options))),
        np.random.default_rng(1),
    )
    for at in range(20):
        batch = {}
        for name, rows in later.items():
            rows = STEADY[name] if at < 10 else rows
            numbers = np.arange(rows) % (KEYS if at < 10 or keys is None else keys)[name]
            times = np.linspace(at * SECOND, (at + 1) * SECOND - 1, rows).astype(np.int64)
            batch[name] = pa.table({"k": rng.permutation(numbers), "t": times})
        live.push(batch)
    rationing = live.stats().rationing
    assert rationing is not None
    return tuple(one for one in rationing.adaptations if one.batch >= 10)


def test_epsilon_is_how_far_an_average_moves_before_it_is_decided_again() -> None:
    assert any("rate of a: 40 -> " in one.reason for one in adaptations(MORE))
    assert not adaptations(MORE, epsilon=4.0)
    steady = {"a": 40, "b": 40}
    assert not any("rate of a" in one.reason for one in adaptations(steady))


def test_averaging_is_how_many_batches_an_average_is_over() -> None:
    first = {n: adaptations(MORE, averaging=n, epsilon=0.3)[0] for n in (1, 8)}
    assert {n: one.batch for n, one in first.items()} == {1: 10, 8: 10}
    assert "rate of a: 40 -> 160" in first[1].reason
    assert "rate of a: 40 -> 55" in first[8].reason  # an eighth of the way
    assert len(adaptations(MORE, averaging=1, epsilon=0.3)) < len(adaptations(MORE, averaging=8, epsilon=0.3))


def test_p_is_how_many_more_results_a_new_decision_must_promise() -> None:
    taken = {p: [one.taken for one in adaptations(STEADY, OTHER_KEYS, p=p)] for p in (0.05, 1e6)}
    assert any(taken[0.05])
    assert taken[1e6]
    assert not any(taken[1e6])


def test_streams_with_more_weight_get_more_where_not_all_bounds_can_be_kept() -> None:
    short = Short(setting("bushy", 120, 8, 1.5, 2.0, 2000), 0.15)
    entered = {}
    for name in ("a", "c"):
        _, seen = short.results(weights={name: 10.0})
        states = [s.intermediates for s in seen[-20:]]
        entered[name] = [np.mean([s[node].entered_rows for s in states]) for node in ("(a b)", "(c d)")]
    assert entered["a"][0] > 1.5 * entered["c"][0]
    assert entered["c"][1] > 1.5 * entered["a"][1]


def test_the_budget_that_all_bounds_are_said_to_need_keeps_them() -> None:
    short = Short(setting("linear", 120, 8, 2.0, 2.0, 3000), 0.1)
    _, seen = short.results()
    needs = seen[-1].rationing.freshness_needs
    assert f"freshness needs {needs:,} probes a batch, and the budget covers" in seen[-1].rationing.problem
    assert needs > 5 * short.budget
    assert not short.results(probes=round(1.1 * needs))[1][-1].rationing.problem


TREE: Any = (("a", "b"), "c")


def asked(plan: Any = TREE, **options: Any) -> bd.JoinQuery:
    streams = [bd.Stream(n, "k", time="t", window="3 seconds") for n in "abc"]
    return bd.JoinQuery(streams, plan=plan, overload=bd.Overload(50, **options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0}, r"Overload: epsilon must be .*above 0; got 0"),
        ({"epsilon": math.nan}, r"Overload: epsilon must be .*; got nan"),
        ({"p": -0.1}, r"Overload: p must be .*above 0; got -0.1"),
        ({"p": "much"}, r"Overload: p must be .*; got 'much'"),
        ({"averaging": 0}, r"Overload: averaging must be from 1 to 1000 batches; got 0"),
        ({"averaging": 2.5}, r"Overload: averaging must be .*; got 2.5"),
        ({"weights": {"x": 2}}, r"Overload: weights: no stream 'x'"),
        ({"weights": {"a": 0}}, r"Overload: weights.*above 0; got 0"),
        ({"weights": 3}, r"Overload: weights must .*; got 3"),
        ({"intermediate_rows": {("a", "c"): 5}}, r"plan has no intermediate '\(a c\)'; it has \(a b\)$"),
        ({"intermediate_rows": 0}, r"Overload: intermediate_rows must be at least 1 .*; got 0"),
        ({"intermediate_rows": {("a", "b"): 0}}, r"Overload: intermediate_rows.*at least 1.*; got 0"),
        ({"intermediate_rows": "many"}, r"intermediate_rows must be a number of rows, or one for each"),
        ({"intermediate_rows": 5, "plan": "mjoin"}, r"one operator joins all streams, so there are none"),
        ({"clock": "sun"}, r"Overload: clock must be one of 'event', 'wall'; got 'sun'"),
        ({"state_rows": 5, "state_bytes": 5000}, r"Overload: give state_rows or state_bytes, not both"),
    ],
)  # fmt: skip
def test_a_bad_value_is_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(bd.BraidedError, match=words) as wrong:
        asked(**options)
    assert "\n" not in str(wrong.value)


def test_freshness_below_the_window_is_one_sentence() -> None:
    for window, freshness, least in (
        ("3 seconds", "2 seconds", "3 seconds"),
        (bd.CountWindow(5), 4, "5 rows"),
    ):
        with pytest.raises(
            bd.BraidedError, match=rf"must be at least the window, {least}; raise it, or shorten"
        ):
            bd.JoinQuery(
                [bd.Stream(n, "k", time="t", window=window, freshness=freshness) for n in "ab"],
                overload=bd.Overload(5),
            )
