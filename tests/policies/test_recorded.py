"""What is decided for all buckets: the whole budget at most, where it buys most; few rows dropped early."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from braided.policies.recorded import Curve, Decision, Keep, Rows, keep, moved, parts
from tests.seeds import seeds


def random_curve(rng: np.random.Generator) -> Curve:
    budget = float(rng.choice([0.5, 3, 40, 1e6]))
    results = np.sort(rng.integers(0, 50, 3)).tolist() if rng.random() < 0.8 else [0, 0, 0]
    return Curve(tuple(zip((0.5 * budget, budget, 2 * budget), map(float, results), strict=True)))


def test_oracle_steps_are_the_concave_hull() -> None:
    """No line between two points of the curve lies above it, and it goes through some of them."""
    for seed in seeds(50):
        rng = np.random.default_rng(seed)
        budgets = rng.choice(20, int(rng.integers(1, 6)), replace=False)
        points = [(float(x), float(rng.integers(0, 20))) for x in budgets]
        steps = Curve(tuple(sorted(points))).steps()
        slopes = [slope for _, slope in steps]
        assert slopes == sorted(slopes, reverse=True)
        assert all(size > 0 and slope >= 0 for size, slope in steps)
        ends = np.cumsum([0.0, *(size for size, _ in steps)])
        height = np.cumsum([0.0, *(size * slope for size, slope in steps)])
        for x, y in points:
            if x > 0:
                assert np.interp(x, ends, height) >= y - 1e-9
        assert height[-1] == pytest.approx(max([0.0, *(y for x, y in points if x > 0)]))


def test_oracle_parts_are_at_most_the_budget_and_nearly_all_of_it() -> None:
    for seed in seeds(100):
        rng = np.random.default_rng(seed)
        curves = {label: random_curve(rng) for label in range(int(rng.integers(1, 300)))}
        given = parts(curves, sum(curve.points[1][0] for curve in curves.values()))
        if not any(y for curve in curves.values() for _, y in curve.points):
            assert given == {}
            continue
        assert given.keys() == curves.keys()
        assert min(given.values()) >= 0
        assert 0.999 < sum(given.values()) <= 1


def test_oracle_no_other_parts_are_expected_to_buy_much_more() -> None:
    """Steps that are about as steep are taken alike, so a tenth may be lost, and no more."""
    for seed in seeds(50):
        rng = np.random.default_rng(seed)
        budget = 60.0
        curves = {}
        for label in range(3):
            slopes = np.sort(rng.random(3))[::-1]
            curves[label] = Curve(
                tuple((10.0 * (i + 1), float(10 * slopes[: i + 1].sum())) for i in range(3))
            )
        given = parts(curves, budget)
        steps = sorted((s for curve in curves.values() for _, s in curve.steps()), reverse=True)
        best = 10 * sum(steps[:6])
        bought = sum(
            np.interp(budget * part, [0, 10, 20, 30], [0, *(y for _, y in curves[label].points)])
            for label, part in given.items()
        )
        assert bought >= 0.9 * best - 1e-3


def test_buckets_that_expect_as_much_get_as_much() -> None:
    """Without this the first labels got all, the others nothing."""
    alike = {label: Curve(((5, 10 + label / 100), (10, 20 + label / 50), (20, 40))) for label in range(4)}
    assert set(parts(alike, 40).values()) == {0.25}
    ample = {label: Curve(((50, 8), (100, 8), (200, 8))) for label in range(4)}
    assert set(parts(ample, 400).values()) == {0.25}


def test_many_buckets_get_the_whole_budget() -> None:
    """Parts in thousandths were a quarter too small for 256 buckets."""
    given = parts({label: Curve(((5, 10), (10, 20), (20, 40))) for label in range(256)}, 2560)
    assert sum(given.values()) > 0.999


def test_nothing_is_decided_where_no_result_is_expected() -> None:
    """The first label got three quarters of the budget."""
    assert parts({0: Curve(((5, 0), (10, 0), (20, 0))), 1: Curve(((5, 0), (10, 0), (20, 0)))}, 20) == {}


@pytest.mark.parametrize(
    ("rows", "left", "wanted"),
    [
        (Rows(0, 0, 0, 0), 0, None),  # nothing came
        (Rows(1000, 1000, 0, 2), 0, None),  # nothing is short
        (Rows(1000, 1000, 300, 2), 0, None),  # not worth it
        (Rows(1000, 1000, 900, 0), 0, None),  # nobody can read it
        (Rows(1000, 1000, 900, 2), 0, Keep(0.125, 63)),
        (Rows(1000, 125, 25, 2), 0, Keep(0.125, 63)),  # it stays so
        (Rows(1000, 125, 0, 2), 0, Keep(0.25, 125)),  # more is let in
        (Rows(1000, 125, 0, 2), 300, Keep(0.425, 213)),  # far more
        (Rows(1000, 125, 0, 2), 900, None),
        (Rows(1000, 10, 10, 4), 0, Keep(0.001, 1)),  # at least a row, so that more can come
        (Rows(1000, 0, 0, 4), 0, Keep(0.001, 1)),
    ],
)
def test_what_is_sent(rows: Rows, left: float, wanted: Keep | None) -> None:
    assert keep(rows, left) == wanted


def test_rows_that_are_late_are_no_reason_to_drop_any() -> None:
    """Story: two thirds of a stream's rows were late, none was shed; half of all rows were dropped early.

    What did not enter was taken for shed. Only rows that buckets shed count.
    """
    assert keep(Rows(offered=900, sent=900, shed=0, tasks=1)) is None


def test_oracle_what_is_sent_settles_above_what_goes_through() -> None:
    """Whatever comes, buckets have enough to choose from after a few batches, and then little more."""
    for seed in seeds(50):
        rng = np.random.default_rng(seed)
        quota, tasks, kept = int(rng.integers(1, 500)), int(rng.integers(1, 5)), None
        for batch in range(60):
            if batch % 20 == 0:
                offered = int(rng.integers(1, 5000))
            part = 1.0 if kept is None else kept.part(offered // tasks)
            sent = round(part * offered)
            if batch % 20 > 12:
                assert sent >= min(quota, offered) * 0.95
                assert sent <= max(1.6 * quota, min(offered, 1.25 * quota + 2 * tasks)) or kept is None
            kept = keep(Rows(offered, sent, max(0, sent - quota), tasks), max(0, quota - sent))


def test_oracle_few_rows_are_all_sent() -> None:
    for seed in seeds(50):
        rng = np.random.default_rng(seed)
        kept = Keep(float(rng.random()), int(rng.integers(1, 100)))
        for seen in range(kept.rows + 1):
            assert kept.part(seen) == 1
        parts_ = [kept.part(seen) for seen in range(kept.rows + 300)]
        assert parts_ == sorted(parts_, reverse=True)
        assert all(part * seen >= min(seen, kept.rows) - 1e-9 for seen, part in enumerate(parts_))
        assert parts_[-1] >= kept.share


def test_a_decision_moves_by_more_than_a_tenth() -> None:
    before = Decision(7, {1: 0.5, 2: 0.5}, {"a": Keep(0.1, 100)}, 1000)
    assert not moved(before, before)
    assert not moved(before, dataclasses.replace(before, parts={1: 0.45, 2: 0.55}))
    assert moved(before, dataclasses.replace(before, parts={1: 0.35, 2: 0.65}))
    assert not moved(before, dataclasses.replace(before, keep={"a": Keep(0.105, 104)}))
    assert moved(before, dataclasses.replace(before, keep={"a": Keep(0.12, 104)}))
    assert moved(before, dataclasses.replace(before, keep={"a": Keep(0.1, 50)}))
    assert moved(before, dataclasses.replace(before, keep={"b": Keep(0.1, 100)}))
    assert moved(before, dataclasses.replace(before, rows=800))
    assert moved(before, dataclasses.replace(before, rows=None))
    assert moved(before, dataclasses.replace(before, of=8))


def test_an_old_decision_ends_with_its_reason() -> None:
    """Story: after a restart with an ample budget nothing was to be decided, so nothing was written.

    What the log still held went on dropping most rows. Nothing is news where something was decided, and
    none where nothing was, whatever the budget.
    """
    assert moved(Decision(7, keep={"a": Keep(0.1, 9)}), Decision(8))
    assert moved(Decision(), Decision(7, keep={"a": Keep(0.1, 9)}))
    assert not moved(Decision(), Decision(8))
    assert not moved(Decision(7), Decision(8))


def test_decisions_are_read_as_they_were_written() -> None:
    for decision in (
        Decision(),
        Decision(3, parts={1021: 0.25, 94: 0.75}),
        Decision(2**32 - 1, keep={'a "b"': Keep(1e-5, 7)}, rows=0),
    ):
        assert Decision.read(decision.text()) == decision


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "7", "null", "{}", '{"of":1,"parts":[1]}', '{"of":1,"keep":{"a":1}}', '{"of":"x"}'),
        Decision(5, {1: 0.5}).text()[:-3],
    ],
)
def test_what_is_no_decision_decides_nothing(text: str) -> None:
    assert Decision.read(text).empty
