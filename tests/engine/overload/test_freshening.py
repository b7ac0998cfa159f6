"""Bounds on age in batches: averaged, committed, and what is said when they cannot be kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine import snapshot
from braided.engine.engine import Engine
from braided.engine.fields import load_fields, save_fields
from braided.engine.overload.freshening import Freshening
from braided.engine.site import Site
from braided.policies.freshness import FreshnessPlan
from braided.query.plan_tree import Plan

SECOND = 1_000_000
LEAVES: dict[Plan, int] = {"a": 60, "b": 60, "c": 60}


def test_a_bound_in_batches_follows_the_clock() -> None:
    freshening = Freshening(("a",), {"a": 20 * SECOND}, {})
    assert freshening.bounds() == {}
    for clock in range(4):
        freshening.batch_done(clock * SECOND, (clock * SECOND,))
    assert freshening.bounds() == {"a": 20.0}
    for clock in range(5, 200, 2):
        freshening.batch_done(clock * SECOND, (clock * SECOND,))
    assert freshening.bounds()["a"] == pytest.approx(10, rel=0.01)
    again = Freshening(("a",), {"a": 20 * SECOND}, {})
    load_fields(again, Freshening.saved, save_fields(freshening, Freshening.saved))
    assert again.bounds() == freshening.bounds()


def test_what_would_do_is_said_in_time() -> None:
    freshening = Freshening(("a",), {"a": 9 * SECOND}, {})
    for clock in range(3):
        freshening.batch_done(clock * SECOND, (clock * SECOND,))
    cheap = FreshnessPlan({}, {}, 3.0, {"a": 9.0})
    none = FreshnessPlan({}, {}, float("inf"), {"a": 10.05}, problem="too tight")
    assert freshening.problem(cheap) == freshening.problem(None) == ""
    assert freshening.problem(none) == (
        "freshness cannot be kept with any budget; these bounds would do: a 11 seconds"
    )


def query(freshness: str, rows: int | None) -> bd.JoinQuery:
    streams = [bd.Stream(n, time="t", freshness=freshness) for n in "abc"]
    on = [("a.x", "b.x"), ("b.y", "c.y")]
    return bd.JoinQuery(streams, on, plan=(("a", "b"), "c"), overload=bd.Overload(40, intermediate_rows=rows))


def batch(rng: np.random.Generator, at: int) -> dict[str, pa.Table]:
    return {
        n: pa.table(
            {
                "x": rng.integers(0, 30, 20),
                "y": rng.integers(0, 30, 20),
                "t": np.sort(rng.integers(at * SECOND, (at + 1) * SECOND, 20)),
            }
        )
        for n in "abc"
    }


def said(freshness: str, *, windows: bool = True) -> tuple[str, float]:
    rng = np.random.default_rng(1)
    asked, saved = query(freshness, 60 if windows else None), None
    for at in range(30):
        engine = Engine(asked, Site(repeatable=True, state_windows=LEAVES))
        if saved is not None:
            snapshot.load(engine, saved)
        for _ in engine.step(engine.accept(batch(rng, at))):
            pass
        saved = snapshot.save(engine)
    seen = engine.statistics().rationing
    assert seen is not None
    return seen.problem, seen.freshness_share


def test_bounds_reach_the_allocation_and_what_is_infeasible_reaches_the_user() -> None:
    """A run that moves to a new engine after every batch, so that all of it must be committed."""
    problem, share = said("30 seconds")
    assert not problem
    assert 0 < share < 1
    problem, share = said("3 seconds")
    assert "these bounds would do: a " in problem
    assert share < 1


def test_states_that_expire_with_their_components_need_no_freshening() -> None:
    assert said("3 seconds", windows=False) == ("", 0.0)
