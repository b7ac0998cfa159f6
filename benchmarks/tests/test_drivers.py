"""The benchmark of driver policies: what it joins is what it says, and ratios are taken round by round."""

from __future__ import annotations

import pytest

import braided as bd
from braided_benchmarks import drivers
from braided_benchmarks.drivers import DEFAULT, POLICIES, Work


@pytest.mark.parametrize("rates", drivers.RATES)
@pytest.mark.parametrize("fan_out", drivers.FAN_OUTS)
def test_a_row_meets_as_many_rows_as_it_says(rates: str, fan_out: str) -> None:
    live, batches = bd.LocalJoin(drivers.query(DEFAULT)), Work(6_000, fan_out, rates).batches(10, 1)
    found = [live.push(batch).num_rows for batch in batches][drivers.WINDOW_BATCHES :]
    rows = [t.num_rows for t in batches[0].values()]
    mean_rows = (rows[0] * rows[1] * rows[2]) ** (1 / 3)
    expected = 3 * mean_rows * drivers.FAN_OUTS[fan_out] ** 2  # any of three rows may be the last
    assert sum(found) / len(found) == pytest.approx(expected, rel=0.5)


def test_ratios_compare_what_ran_in_the_same_round() -> None:
    seconds = {policy: [1.0, 10.0, 4.0] for policy in POLICIES} | {"timestamp": [2.0, 15.0, 8.0]}
    found = drivers.ratios(seconds)
    assert str(found["timestamp"]) == "2.00 (1.50 to 2.00)"
    assert found[DEFAULT] == drivers.Ratio(1.0, 1.0, 1.0)


def test_a_small_run_has_a_line_for_each_work_and_two_for_all() -> None:
    said: list[str] = []
    asked = ["--rows", "60", "--rounds", "1", "--fan-outs", "low", "high", "--rates", "equal"]
    assert drivers.main(asked, said.append) == 0
    assert [line.split(" | ")[0] for line in said[2:]] == [
        "| 60 rows, low fan-out, equal",
        "| 60 rows, high fan-out, equal",
        "| geometric mean",
        "| worst",
    ]


def test_policies_that_disagree_on_results_are_an_error() -> None:
    with pytest.raises(AssertionError, match="disagree"):
        drivers._agree(Work(60, "low", "equal"), {5, 6})
