"""Covers: the greedy against the linear program (golden J18), with caps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from braided.policies.freshness import cover_problem, refresh_rates, tightest_bounds
from braided.policies.set_cover import Cover, CoverProblem, greedy
from tests.policies.plans import reachable_bounds, some_models


def problem_of(costs: object, gains: object, needs: object, caps: object) -> CoverProblem:
    return CoverProblem(*(np.array(numbers, np.float64) for numbers in (costs, gains, needs, caps)))


def problems(count: int, *, seed: int = 0) -> list[CoverProblem]:
    """Covers of random plans whose bounds are 1.05 to 5 times what can be kept at all."""
    found = []
    for number, model in enumerate(some_models(count, seed=seed)):
        rng = np.random.default_rng([seed, number])
        bounds = reachable_bounds(model, tightest_bounds(model), float(rng.uniform(1.05, 5)))
        problem = cover_problem(model, refresh_rates(model, bounds))
        if any(problem.needs):
            found.append(problem)
    return found


def lp(problem: CoverProblem) -> Cover:
    """The least cost, by linear program."""
    gains = problem.gains * problem.caps
    scale = np.maximum(np.abs(gains).max(axis=1, initial=0.0), 1e-300)
    best = linprog(
        problem.costs * problem.caps, A_ub=-gains / scale[:, None], b_ub=-problem.needs / scale, bounds=(0, 1)
    )
    assert best.status == 0
    return problem.cover(best.x * problem.caps)


def excess_of_greedy(count: int, *, seed: int = 0) -> np.ndarray:
    """How much more the greedy's covers cost; for campaigns by hand, too."""
    return np.array([greedy(p).cost / lp(p).cost - 1 for p in problems(count, seed=seed)])


def test_greedy_is_close_to_the_least_cost() -> None:
    excess = excess_of_greedy(400)
    assert len(excess) > 300
    assert excess.min() > -1e-6
    assert excess.mean() <= 0.12
    assert np.percentile(excess, 95) <= 0.30


@pytest.mark.parametrize("solver", [lp, greedy])
def test_covers_cover_within_caps(solver: object) -> None:
    assert callable(solver)
    for problem in problems(60, seed=1):
        cover = solver(problem)
        assert (problem.gains @ cover.rows >= problem.needs * (1 - 1e-6)).all()
        assert all(-1e-9 <= n <= cap * (1 + 1e-9) for n, cap in zip(cover.rows, problem.caps, strict=True))
        assert cover.cost == pytest.approx(float(np.dot(problem.costs, cover.rows)))


def test_caps_force_a_dearer_path() -> None:
    problem = problem_of(costs=(1.0, 3.0), gains=((1.0, 1.0),), needs=(30.0,), caps=(20.0, 20.0))
    for solver in (lp, greedy):
        assert solver(problem).rows == pytest.approx((20, 10))
        assert solver(problem).cost == pytest.approx(50)


def test_paths_that_later_ones_made_superfluous_are_cut_back() -> None:
    # path 0 brings most per cost, but path 1 must be taken for the second state and covers the first, too
    problem = problem_of(
        costs=(1.0, 2.0), gains=((1.0, 1.0), (0.0, 0.5)), needs=(10.0, 5.0), caps=(99.0,) * 2
    )
    assert greedy(problem).rows == pytest.approx((0, 10))


def test_what_needs_nothing_costs_nothing() -> None:
    for needs, gains in (((), np.zeros((0, 2))), ((0.0,), ((1.0, 0.0),))):
        for solver in (lp, greedy):
            assert solver(problem_of((1.0, 1.0), gains, needs, (5.0, 5.0))).cost == 0
