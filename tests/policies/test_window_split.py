"""Windows that maximise results: never below a rule, as good as a general optimiser, within the room."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from scipy.optimize import minimize

from braided.policies.window_split import Made, Storing, cost, output, settled, split
from braided.query.overload import WindowSplit
from tests.seeds import seeds

RULES = tuple(rule for rule in get_args(WindowSplit) if rule != "best")


def drawn(rng: np.random.Generator, *, tree: bool) -> Storing:
    """Two to six streams whose windows take more room than there is; in a linear tree or a flat plan."""
    streams = int(rng.integers(3 if tree else 2, 7))
    rates, caps = 10 ** rng.uniform(0, 2, streams), 10 ** rng.uniform(2, 4, streams)
    sizes = rng.uniform(50, 500, streams) if rng.random() < 0.5 else np.ones(streams)
    made = [
        Made(tuple(range(n)), float(caps[:n].mean() * rng.uniform(0.2, 5)), float(sizes[:n].sum()))
        for n in range(2, streams)
    ]
    whole = Storing(0, tuple(rates), tuple(caps), tuple(sizes), tuple(caps), made if tree else ())
    budget = cost(whole, whole.caps) * 10 ** rng.uniform(-2, -0.1)
    return Storing(budget, whole.rates, whole.caps, whole.sizes, whole.live, whole.made)


def results(storing: Storing, windows: tuple[float, ...]) -> float:
    return float(output(storing, np.array([windows]))[0])


def optimum(storing: Storing, rng: np.random.Generator) -> float:
    """The most that a general optimiser finds, from several starts."""
    caps, best = np.array(storing.caps), 0.0
    room = {"type": "ineq", "fun": lambda x: 1 - cost(storing, x * caps) / storing.budget}
    for _ in range(6):
        found = minimize(
            lambda x: -np.log(max(1e-300, results(storing, tuple(np.maximum(x, 0) * caps)))),
            rng.uniform(0, 0.3, len(caps)), bounds=[(0, 1)] * len(caps), constraints=room, method="SLSQP",
        )  # fmt: skip
        windows = tuple(np.clip(found.x, 0, 1) * caps)
        if cost(storing, windows) <= 1.0001 * storing.budget:
            best = max(best, results(storing, windows))
    return best


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("seed", seeds(15))
def test_best_is_what_an_optimiser_finds(seed: int, *, tree: bool) -> None:
    rng = np.random.default_rng(seed)
    storing = drawn(rng, tree=tree)
    windows = split("best", storing)
    assert cost(storing, windows) == pytest.approx(storing.budget, rel=1e-3)
    assert all(0 <= w <= cap * (1 + 1e-9) for w, cap in zip(windows, storing.caps, strict=True))
    assert results(storing, windows) >= (0.99 if tree else 0.9999) * optimum(storing, rng)


@pytest.mark.parametrize("seed", seeds(30))
def test_best_is_never_below_a_rule(seed: int) -> None:
    storing = drawn(np.random.default_rng(seed), tree=False)
    best = results(storing, split("best", storing))
    for rule in RULES:
        assert best >= results(storing, split(rule, storing)) * (1 - 1e-6), rule


def test_with_two_streams_it_is_all_memory_to_the_slower_one() -> None:
    for rates, caps in (((10, 50), (5000, 5000)), ((50, 10), (5000, 300)), ((7, 7.1), (600, 600))):
        storing = Storing(1000, rates, caps)
        assert split("best", storing) == pytest.approx(split("max-slow", storing))


def test_equal_rates_share_equally_and_gain_a_third() -> None:
    storing = Storing(900, (10, 10, 10), (5000,) * 3)
    assert split("best", storing) == pytest.approx((300, 300, 300))
    slow = results(storing, split("max-slow", storing))
    assert results(storing, split("best", storing)) == pytest.approx(4 / 3 * slow)


def test_silent_streams_and_no_room_are_no_problem() -> None:
    assert sum(split("best", Storing(10, (0, 0, 0), (100, 100, 100)))) == pytest.approx(10)
    assert split("best", Storing(0, (1, 2, 3), (5, 5, 5))) == (0, 0, 0)
    silent = split("best", Storing(10, (0, 5, 0), (100, 100, 100)))
    assert silent == pytest.approx((5, 0, 5))  # only the others are met


def test_windows_follow_other_rates_only_where_that_promises_more() -> None:
    """With equal rates noise would let one stream pass after the other, and what is forgotten is gone."""
    noise, changed = Storing(100, (10, 10.2), (500, 500)), Storing(100, (10, 20), (500, 500))
    before = (10.2, 10.0)  # the second one was the slower one
    assert settled(noise, before) == ((0, 100), before)
    assert settled(changed, before) == ((100, 0), (10, 20))
    assert settled(noise, (0, 0)) == ((100, 0), (10, 10.2))
    grown = Storing(
        100, (10, 10.2), (500, 60)
    )  # as long as the second one's rows are few, the first one's stay
    assert settled(grown, before) == ((40, 60), before)


def test_a_window_that_may_hardly_grow_does_not_overflow() -> None:
    """Room was left that only a window of next to nothing could take: a running join met this step."""
    made = Made((0, 1), rows=73.0, size=1.0)
    rates = (9.999314403867588, 19.998628807735177, 4.999657201933794)
    storing = Storing(1200, rates, (802, 20, 400), live=(802, 20, 400), made=(made,))
    windows = split("best", storing)
    assert np.isfinite(windows).all()
    assert cost(storing, windows) <= 1200 * 1.001
    assert all(w <= cap for w, cap in zip(windows, storing.caps, strict=True))
