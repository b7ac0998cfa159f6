"""Sharing rules against the paper's figures (golden K8-K11, K13), and what no rule may do."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from braided.policies.sharing import fill, let_in, whole
from braided.policies.window_split import Storing, split
from braided.query.overload import InputAllocation, WindowSplit

RULES = get_args(InputAllocation)
SPLITS = get_args(WindowSplit)


def output(rates: tuple[float, ...], selectivity: float, windows: tuple[float, ...]) -> float:
    return selectivity * rates[0] * rates[1] * sum(windows)


@pytest.mark.parametrize(
    ("rule", "results"),
    [
        ("proportional", 3.2),
        ("inverse", 3.2),
        ("window-proportional", 1.8),
        ("window-inverse", 1.8),
        ("equal", 5),
    ],
)
def test_figure_8(rule: str, results: float) -> None:
    windows = (9.0, 1.0)
    rates = let_in(rule, 10, (80, 20), windows)
    assert sum(rates) == pytest.approx(10)
    assert output(rates, 0.02, windows) == pytest.approx(results)


def test_regulated_rates_of_the_papers_example() -> None:
    assert let_in("equal", 50, (5, 100), (60, 60)) == (5, 45)


@pytest.mark.parametrize(
    ("rule", "results"),
    [("max-slow", 250), ("max-fast", 50), ("proportional", 83.33), ("inverse", 216.67), ("equal", 150)],
)
def test_figure_9(rule: str, results: float) -> None:
    a, b = split(rule, Storing(1000, (10, 50), (1e9, 1e9)))
    assert 0.005 * (a * 50 + b * 10) == pytest.approx(results, abs=0.01)


@pytest.mark.parametrize(
    ("window_split", "rule", "results"),
    [
        ("max-slow", "window-proportional", 0),
        ("max-slow", "window-inverse", 10),
        ("max-fast", "window-inverse", 10),
        ("max-fast", "window-proportional", 0),
        ("equal", "equal", 5),
    ],
)
def test_figures_10_and_11(window_split: str, rule: str, results: float) -> None:
    """Rows and windows together, both windows full."""
    a, b = split(window_split, Storing(100, (30, 60), (1e9, 1e9)))
    rate_a, rate_b = let_in(rule, 10, (30, 60), (a, b))
    assert 0.01 * (a * rate_b + b * rate_a) == pytest.approx(results)


def test_equal_speeds_make_the_split_irrelevant() -> None:
    for rule in SPLITS:
        a, b = split(rule, Storing(100, (10, 10), (1e9, 1e9)))
        assert 0.01 * 10 * (a + b) == pytest.approx(10)


def test_windows_that_lack_rows_are_filled_first_but_with_half_the_budget_at_most() -> None:
    assert let_in("window-inverse", 10, (30, 60), (100, 0), (3, 0)) == (3, 7)
    assert let_in("window-inverse", 10, (30, 60), (100, 0), (100, 0)) == (5, 5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(20))
def test_no_rule_exceeds_the_budget_or_what_is_there(rule: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, budget = int(rng.integers(2, 6)), int(rng.integers(1, 300))
    rows = tuple(int(r) for r in rng.integers(0, 200, n))
    windows = tuple(float(w) for w in rng.integers(0, 5, n))
    parts = let_in(rule, budget, rows, windows, windows)
    taken = whole(parts, budget, turn=seed)
    assert sum(taken) <= budget
    assert all(0 <= t <= r for t, r in zip(taken, rows, strict=True))
    if not rule.startswith("window"):
        assert sum(taken) == min(budget, sum(rows))


@pytest.mark.parametrize("rule", SPLITS)
@pytest.mark.parametrize("seed", range(20))
def test_no_split_exceeds_the_budget_or_a_window(rule: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, budget = int(rng.integers(2, 6)), int(rng.integers(1, 300))
    caps = tuple(int(r) for r in rng.integers(0, 200, n))
    parts = split(rule, Storing(budget, tuple(rng.integers(1, 9, n).tolist()), caps))
    assert sum(parts) == pytest.approx(min(budget, sum(caps)))
    assert all(-1e-9 <= p <= c + 1e-9 for p, c in zip(parts, caps, strict=True))


def test_a_weight_of_zero_gets_nothing_and_an_infinite_one_comes_first() -> None:
    assert fill(10, (0, 1), (100, 4)) == (0, 4)
    assert fill(10, (float("inf"), 1), (4, 100)) == (4, 6)
