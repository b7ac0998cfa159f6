"""Owed results come within the time that was asked for, while rows keep coming and when they stop."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.engine.saving import load, save
from braided.engine.site import Site
from braided.policies.flush.deadlines import due
from braided.testing import bag
from tests.seeds import seeds

WITHIN, GAP = 30.0, 2.0


@pytest.mark.parametrize("seed", seeds(20))
def test_oracle_nothing_is_late_that_could_be_in_time(seed: int) -> None:
    """Jobs that fit one after the other, with a chance to work every second: all are over in time."""
    rng = np.random.default_rng(seed)
    jobs = 12
    since, seconds = rng.uniform(0, 40, jobs), rng.uniform(0.1, 2.0, jobs)
    within, now, done = 30.0, 0.0, np.full(jobs, np.inf)
    while (done == np.inf).any():
        waiting = np.where((since <= now) & (done == np.inf), since, np.inf)
        chosen = due(waiting, seconds, within_s=within, next_s=now + 1)
        assert len(chosen) < jobs or now > 0  # it waits as long as it can
        for job in chosen.tolist():
            now += seconds[job]
            done[job] = now
        now += 1
    assert (done <= since + within + 1e-9).all()


class Clocked:
    """An engine whose clock is set by hand; rows tell when they came."""

    def __init__(self, memory: bd.Memory | None, plan: Any) -> None:
        streams = [bd.Stream(n, "k") for n in "abc"]
        self.now = 100.0
        self.engine = Engine(bd.JoinQuery(streams, plan=plan, memory=memory), Site(clock=lambda: self.now))
        self.found: list[pa.Table] = []
        self.delays: list[float] = []

    def push(self, keys: dict[str, Any]) -> None:
        rows = {n: pa.table({"k": k, "at": np.full(len(k), self.now)}) for n, k in keys.items()}
        steps = itertools.chain(self.engine.before(idle=not rows), [self.batch(rows)])
        self.take(itertools.chain.from_iterable(steps))
        self.now += GAP

    def take(self, tables: Any) -> None:
        for table in tables:
            self.found.append(table)
            came = np.max([table[f"{n}_at"].to_numpy() for n in "abc"], axis=0)
            self.delays += (self.now - came).tolist()

    def batch(self, rows: dict[str, pa.Table]) -> Any:
        return self.engine.step(self.engine.accept(rows), eager=False)


@pytest.mark.parametrize("plan", ["mjoin", "linear"])
@pytest.mark.parametrize("flush", ["adaptive-global", "state-spill", "hash-merge", "rpj"])
def test_owed_results_come_in_time(flush: Any, plan: Any) -> None:
    options: dict[str, Any] = {"flush": flush, "disk_rate": 1e6}
    kinds = (None, bd.Memory(30_000, owed_within=f"{WITHIN:g} s", **options), bd.Memory(30_000, **options))
    free, timed, late = (Clocked(memory, plan) for memory in kinds)
    rng = np.random.default_rng(1)
    for n in range(60):
        keys = {name: rng.integers(20 * n - 400, 20 * n + 20, 30) for name in "abc"} if n < 45 else {}
        for join in (free, timed, late):
            join.push(keys)
    assert timed.engine.statistics().owed_seconds <= WITHIN
    assert max(timed.delays) > GAP  # they wait
    assert max(timed.delays) <= WITHIN + GAP
    for join in (free, timed, late):
        join.take(itertools.chain.from_iterable(join.engine.finish()))
    assert max(late.delays) > WITHIN + GAP or (flush, plan) == ("adaptive-global", "mjoin")
    assert bag(pa.concat_tables(timed.found)) == bag(pa.concat_tables(free.found))
    assert bag(pa.concat_tables(late.found)) == bag(pa.concat_tables(free.found))


def test_a_saved_state_knows_how_long_results_have_waited() -> None:
    streams = [bd.Stream(n, "k") for n in "ab"]
    query = bd.JoinQuery(streams, memory=bd.Memory(5000, owed_within="1 hour"))
    now = 100.0
    engine = Engine(query, Site(clock=lambda: now))
    for _ in range(4):
        rows = {n: pa.table({"k": np.arange(100)}) for n in "ab"}
        list(engine.step(engine.accept(rows), eager=False))
        now += 10
    waited = engine.statistics().owed_seconds
    assert waited > 0
    state = save(engine)
    now = 5.0
    again = Engine(query, Site(clock=lambda: now))
    load(again, state)
    assert again.statistics().owed_seconds == waited


def test_bad_deadlines_are_named() -> None:
    with pytest.raises(bd.BraidedError, match="owed_within says how long results may wait, and with defer=F"):
        bd.Memory("1 MB", owed_within="3 s", defer=False)
    with pytest.raises(bd.BraidedError, match="with take_along=False rows in memory wait until"):
        bd.Memory("1 MB", owed_within="3 s", take_along=False)
    wrong: Any
    for wrong in ("0 s", "soon", -1):
        with pytest.raises(bd.BraidedError, match="owed_within"):
            bd.Memory("1 MB", owed_within=wrong)
    query = bd.JoinQuery([bd.Stream(n, "k") for n in "ab"], memory=bd.Memory("1 MB", owed_within="3 seconds"))
    assert "3 seconds after it came at the latest" in query.explain()
