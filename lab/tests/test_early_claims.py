"""Every verdict of the early-throughput lab can fail: outcomes are right, wrong, noise, or tell nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from braided_lab import early_claims, early_spark, early_throughput
from braided_lab.early_claims import FLUSH_ALONE, HASH_MERGE, IN_MEMORY, MANAGER_ALONE, OURS, RPJ, STATE_SPILL
from braided_lab.early_measure import Run
from braided_lab.report import Mean, Report

GIVEN = early_throughput.parameters()
SIZE: dict[str, Any] = {**GIVEN["full"], "scale": 1.0}
SIZE["experiments"] = [e for e in SIZE["experiments"] if e != "spark"]
RESULTS = 500_000.0
AS_CLAIMED = {IN_MEMORY: 80.0, OURS: 90.0, STATE_SPILL: 200.0, RPJ: 240.0, HASH_MERGE: 300.0}
Seconds = Callable[[str, str, str, int], float]


def a_run(seconds: float, at_end: float, first_s: float) -> Run:
    """A run with 100K results after some seconds, and a part of all at the input's end."""
    curve = np.array([(0.0, 0), (first_s, 1), (seconds, 100_000), (9e5, RESULTS)])
    counts = dict.fromkeys(("merges", "read_rows", "disk_s"), 0.0)
    return Run(curve, {**counts, "results_at_input_end": at_end * RESULTS})


def claims_of(seconds: Seconds, *, seeds: int = 4, more: float = 0.2, first: float = 130.0) -> dict[str, str]:
    """The verdicts of all claims, by claim; noise of a per mille."""
    rng, cells = np.random.default_rng(1), dict[tuple[str, str, str], list[Run]]()
    for case in early_throughput.cases(GIVEN, SIZE):
        for name in case.runs:
            at_end = 0.1 * (1 + more) if name == FLUSH_ALONE else 0.1
            first_s = {IN_MEMORY: 1.0, HASH_MERGE: first}.get(name, 1.0)
            cells[case.experiment, case.variation, name] = [
                a_run(max(seconds(case.experiment, case.variation, name, seed), first_s + 1)
                      * (1 + rng.normal() / 1000), at_end * (1 + rng.normal() / 1000), first_s)
                for seed in range(seeds)
            ]  # fmt: skip
    report = Report("early-throughput", 1, {})
    early_claims.add(report, cells, GIVEN, SIZE)
    assert len({c.claim for c in report.claims}) == len(report.claims) == 36
    return {c.claim: c.verdict for c in report.claims}


def as_claimed(experiment: str, _: str, name: str, seed: int) -> float:
    if name == OURS and experiment in ("alpha", "keeping"):
        return 100.0
    return AS_CLAIMED.get(name, 150.0)


def holding(verdicts: dict[str, str], *, but: tuple[str, ...] = ()) -> list[str]:
    """The claims that hold."""
    return [c for c, v in verdicts.items() if v in ("reproduced", "same direction") and not c.startswith(but)]


SAME = (
    "Figure 11",
    "Ours, 4 bursty: adaptive-global alone has as many",
    "Figure 13, 5 joins: hash-merge has no",
)
ALONE = "IV, 4 bursty"


def test_all_hold_if_all_is_as_claimed() -> None:
    found = claims_of(as_claimed, more=0.03)
    assert set(found.values()) == {"reproduced"}


def test_none_holds_if_the_rivals_are_ahead() -> None:
    """And all in memory is far ahead, so that it could be told."""
    wrong = {IN_MEMORY: 30.0, OURS: 300.0, STATE_SPILL: 240.0, RPJ: 200.0, HASH_MERGE: 90.0}
    found = claims_of(
        lambda e, v, n, s: 200.0 if e in ("alpha", "keeping") else wrong.get(n, 150.0), more=-0.3
    )
    assert not holding(found, but=SAME)
    assert "not tested" not in {v for c, v in found.items() if STATE_SPILL in c}


def test_none_holds_if_all_take_as_long() -> None:
    found = claims_of(lambda e, v, n, s: 30.0 if n == IN_MEMORY else 100.0, more=0.0, first=3.0)
    assert not holding(found, but=SAME)


def test_none_holds_if_it_is_chance_who_is_ahead() -> None:
    """On the mean ours is ahead by a third, and in some seeds it is far behind."""

    def chance(_: str, __: str, name: str, seed: int) -> float:
        return {IN_MEMORY: 10.0, OURS: (20.0, 20.0, 20.0, 250.0)[seed]}.get(name, 150.0)

    assert not holding(claims_of(chance, more=0.0), but=SAME)


def test_nothing_is_tested_with_one_seed_or_if_memory_makes_no_difference() -> None:
    blind = claims_of(as_claimed, seeds=1)
    assert {v for c, v in blind.items() if not c.startswith(SAME[-1])} == {"not tested"}
    idle = claims_of(lambda e, v, n, s: 100.0, more=0.0)
    tested = [c for c, v in idle.items() if v != "not tested"]
    assert all(c.startswith((*SAME, ALONE, "Figure 9, 4 bursty: state-spill comes closest")) for c in tested)


def test_what_should_be_the_same_fails_if_it_is_not() -> None:
    slow = claims_of(
        lambda e, v, n, s: 200.0 if e == "flush" else as_claimed(e, v, n, s), more=0.5, first=3.0
    )
    assert [v for c, v in slow.items() if c.startswith(SAME)] == ["not reproduced"] * len(
        [c for c in slow if c.startswith(SAME)]
    )


@pytest.mark.parametrize(
    ("lead", "wanted", "most", "verdict"),
    [
        (Mean(0.35, 0.3, 0.4), 0.3, 0.5, "reproduced"),
        (Mean(0.35, -0.1, 0.8), 0.3, 0.5, "not reproduced"),  # within the noise
        (Mean(0.1, 0.05, 0.15), 0.3, 0.5, "same direction"),
        (Mean(0.01, 0.005, 0.015), 0.3, 0.5, "not reproduced"),  # no effect
        (Mean(-0.2, -0.3, -0.1), 0.3, 0.5, "not reproduced"),
        (Mean(0.1, 0.05, 0.15), 0.3, 0.12, "not tested"),
        (Mean(-1.2, -1.6, -0.9), 0.45, 0.39, "not reproduced"),  # so much can be told
        (Mean(0.9, -np.inf, np.inf), 0.3, 0.95, "not tested"),
    ],
)
def test_a_lead_is_judged_by_its_size_its_noise_and_what_can_be_seen(
    lead: Mean, wanted: float, most: float, verdict: str
) -> None:
    assert early_claims.verdict(lead, wanted, Mean(most, most, most)) == verdict


def test_manager_and_flush_policy_are_judged_each_by_itself() -> None:
    def slower(who: str) -> Seconds:
        return lambda e, v, n, s: 90.0 if n == who else as_claimed(e, v, n, s)

    for who, said in ((FLUSH_ALONE, "state manager"), (MANAGER_ALONE, "flush policy")):
        found = claims_of(slower(who), more=0.03)
        failed = [c for c, v in found.items() if v != "reproduced"]
        assert len(failed) == 1
        assert f"switching off the {said}" in failed[0]


def test_claims_on_spark_can_fail() -> None:
    few, many = early_spark.Outcome(0.2, 0.3, 9.0, 100), early_spark.Outcome(0.3, 0.8, 7.0, 100)
    kinds = early_spark.STATE_SPILL, early_spark.DEFER, early_spark.WITHIN
    as_is = dict(zip(kinds, ([few] * 3, [many] * 3, [few] * 3), strict=True))
    assert [c.verdict for c in early_spark.claims(as_is)] == ["reproduced", "not reproduced"]
    assert early_spark.claims({**as_is, kinds[1]: [many, few, few]})[0].verdict == "not reproduced"
    assert early_spark.claims({k: v[:1] for k, v in as_is.items()})[0].verdict == "not tested"
