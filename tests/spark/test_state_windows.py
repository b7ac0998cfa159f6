"""Windows of intermediates and budgets of stored rows over all buckets: what is held, also after restarts."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import braided as bd
from braided.policies.statistics import JoinMetrics
from braided.testing import bag
from tests.seeds import seeds, some_pairs
from tests.spark.test_bucket import BUCKETS, Cluster, batches
from tests.workloads import names_of, random_tables

NAMES = names_of(4)
LINEAR, BUSHY = "linear", (("s0", "s1"), ("s2", "s3"))
NODES = {"linear": ["(s0 s1)", "((s0 s1) s2)"], "bushy": ["(s0 s1)", "(s2 s3)"]}
SEVERAL = [("s0.k", "s1.k"), ("s1.n", "s2.n"), ("s2.k", "s3.k")]


def query(
    overload: bd.Overload | None, plan: Any = LINEAR, *, on: Any = None, **options: Any
) -> bd.JoinQuery:
    key = None if on else "k"
    streams = [
        bd.Stream(n, key, time="t", window="90 us", lateness="20 us", **(options if n == "s0" else {}))
        for n in NAMES
    ]
    return bd.JoinQuery(streams, on, plan=plan, overload=overload)


def workload(seed: int) -> dict[str, pa.Table]:
    """Few values of n, so that several keys meet as well."""
    made = random_tables(seed, NAMES, rows=60, keys=9, nulls=False)
    return {n: t.set_column(2, "n", pa.array([v % 4 for v in t["n"].to_pylist()])) for n, t in made.items()}


def latest(cluster: Cluster) -> JoinMetrics:
    """What the buckets reported last; an attempt that was lost has reported, too."""
    cluster.reports = cluster.reports[-BUCKETS:]
    return cluster.seen()


def rows_of(cluster: Cluster) -> dict[str, int]:
    """Rows of intermediates that the next batch finds."""
    other = copy.deepcopy(cluster)
    other.beat()
    return {n: i.live_rows for n, i in latest(other).intermediates.items()}


def check_windows(cluster: Cluster, most: dict[str, int]) -> None:
    """Each bucket trims before the next batch, and holds at least one row."""
    for name, rows in most.items():
        held = latest(cluster).intermediates[name]
        assert held.live_rows <= max(rows, BUCKETS) + held.entered_rows


def lost_of(found: list[pa.Table], q: bd.JoinQuery, tables: dict[str, pa.Table]) -> int:
    """How many of all results are missing; none is wrong."""
    live = bd.LocalJoin(q)
    exact = sum((bag(live.push(batch)) for batch in batches(tables, 10)), start=Counter())
    got = bag(pa.concat_tables(found))
    assert not got - exact
    assert got
    return exact.total() - got.total()


@pytest.mark.parametrize(
    ("rows", "on"), some_pairs([12, {"(s0 s1)": 8}, {("s0", "s1"): 20, "((s0 s1) s2)": 5}], [None, SEVERAL])
)
def test_oracle_intermediates_hold_only_so_many_rows_over_all_buckets(rows: Any, on: Any) -> None:
    lost = 0
    for seed in seeds(1):
        q, tables = query(bd.Overload(intermediate_rows=rows), on=on), workload(seed)
        keeping, rebuilding, found = Cluster(q, tables, arena=True), Cluster(q, tables), []
        most = {n: r for n in NODES["linear"] if (r := q.overload.rows_of(_node(n))) is not None}  # type: ignore[union-attr]
        for batch in batches(tables, 10):
            found.append(keeping.push_twice(batch))
            assert bag(found[-1]) == bag(rebuilding.push(batch))
            check_windows(keeping, most)
            held = rows_of(rebuilding)
            assert all(held[n] <= max(r, BUCKETS) for n, r in most.items())
        lost += lost_of(found, query(None, on=on), tables)
        assert latest(keeping).exact_again is None or not lost
    assert lost > 0


def _node(name: str) -> Any:
    return {"(s0 s1)": ("s0", "s1"), "((s0 s1) s2)": (("s0", "s1"), "s2"), "(s2 s3)": ("s2", "s3")}[name]


@pytest.mark.parametrize("promise", [{}, {"arrival": "ordered"}, {"idle_after": "5 seconds"}], ids=str)
def test_oracle_other_windows_and_another_plan_after_a_restart(promise: dict[str, Any]) -> None:
    """Rows of intermediates that were cut stay so under the same plan; another one makes its own."""
    tables = workload(3)
    if "arrival" in promise:
        tables["s0"] = tables["s0"].sort_by("k")
    asked: list[tuple[Any, Any]] = [
        (40, LINEAR),
        (8, LINEAR),
        ({"(s0 s1)": 16}, LINEAR),
        (12, BUSHY),
        (None, BUSHY),
        (6, LINEAR),
    ]
    cluster: Cluster | None = None
    found: list[pa.Table] = []
    for (rows, plan), batch in zip(asked, batches(tables, 10), strict=True):
        overload = bd.Overload(10**6, intermediate_rows=rows)
        before, cluster = cluster, Cluster(query(overload, plan, **promise), tables)
        if before is not None:
            cluster.states = before.states
        found.append(cluster.push_twice(batch))
        most = {
            n: r for n in NODES["linear" if plan == LINEAR else "bushy"] if (r := overload.rows_of(_node(n)))
        }
        check_windows(cluster, most)
    assert lost_of(found, query(None, **promise), tables) > 0


def test_a_join_is_exact_again_once_no_row_that_was_cut_could_be_met() -> None:
    """Six batches with more pairs than the window holds; then few, far apart."""
    q = query(bd.Overload(intermediate_rows=20))
    tables = workload(1)
    cluster, exact = Cluster(q, tables), bd.LocalJoin(query(None))
    since, lost = [], []
    quiet = [_quiet(1000 + 200 * n) for n in range(4)]
    for batch in [*batches(tables, 10), *quiet]:
        cluster.reports.clear()
        found, wanted = bag(cluster.push(batch)), bag(exact.push(batch))
        assert not found - wanted
        lost.append((wanted - found).total())
        since.append(cluster.seen().exact_again)
    assert any(lost[:6])
    assert None in since
    assert since[-1] is not None
    assert not any(lost[since[-1] :])
    assert exact.stats().results > 0


def _quiet(at: int) -> dict[str, pa.Table]:
    like, times = workload(1), pa.array([at, at + 1]).cast(pa.timestamp("us"))
    return {n: t.slice(0, 2).set_column(t.column_names.index("t"), "t", times) for n, t in like.items()}


@pytest.mark.parametrize("budget", [{"state_rows": 60}, {"state_bytes": 9000}], ids=str)
@pytest.mark.parametrize("on", [None, SEVERAL], ids=["one key", "several"])
def test_oracle_stored_rows_keep_to_the_budget_over_all_buckets_with_intermediates(
    budget: dict[str, Any], on: Any
) -> None:
    """Of best windows and of intermediates with windows of their own, too."""
    lost = 0
    for windowed in (None, 10):
        tables = workload(2)
        asked = bd.Overload(**budget, window_split="best", intermediate_rows=windowed)
        cluster, found = Cluster(query(asked, on=on), tables), []
        for batch in batches(tables, 10):
            found.append(cluster.push_twice(batch))
            seen = latest(cluster)
            streams = sum(s.live_rows for s in seen.streams.values())
            made = sum(i.live_rows for i in seen.intermediates.values())
            assert streams + made <= budget.get("state_rows", 1 << 60)
            assert 64 * (streams + made) <= budget.get("state_bytes", 1 << 60)
        lost += lost_of(found, query(None, on=on), tables)
    assert lost > 0
