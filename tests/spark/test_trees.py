"""Trees of operators and rationed probes in buckets: the same bag, kept, rebuilt or retried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import braided as bd
from braided.spark.bucket import Bucket
from braided.spark.plan import JoinPlan
from braided.spark.storage import folders
from braided.spark.wire import blobs
from braided.testing import assert_same_bag, bag, expected
from tests.spark.test_bucket import BUCKETS, Cluster, batches
from tests.workloads import names_of, random_tables, stream

FOUR = names_of(4)
PLANS: dict[str, Any] = {
    "linear": "linear",
    "bushy": (("s0", "s1"), ("s2", "s3")),
    "wide": (("s0", "s1", "s2"), "s3"),
}


def query_of(plan: str, probes: int | None = None, window: str = "60 us") -> bd.JoinQuery:
    overload = bd.Overload(probes) if probes else None
    return bd.JoinQuery([stream(n, window) for n in FOUR], plan=PLANS.get(plan, "mjoin"), overload=overload)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("rows", [3, 20])
def test_oracle_trees_in_buckets(plan: str, rows: int) -> None:
    for seed in range(2):
        tables = random_tables(seed, FOUR, rows=50, keys=8)
        query = query_of(plan)
        cluster = Cluster(query, tables)
        found = [cluster.push(b) for b in batches(tables, rows)]
        assert_same_bag(pa.concat_tables(found), expected(query, tables))
        del cluster.reports[:-BUCKETS]
        seen = cluster.seen()
        assert seen.intermediates.keys() == {"(s0 s1)", "((s0 s1) s2)"} or plan != "linear"
        assert seen.exact_again == 0
        assert seen.driver_streams


@pytest.mark.parametrize("after", ["flat", *PLANS])
@pytest.mark.parametrize("before", ["flat", *PLANS])
def test_oracle_the_plan_may_change_between_batches(before: str, after: str) -> None:
    tables = random_tables(7, FOUR, rows=50, keys=8)
    first, second = (Cluster(query_of(plan), tables) for plan in (before, after))
    found = []
    for number, batch in enumerate(batches(tables, 10)):
        cluster = first if number % 4 < 2 else second
        other = second if cluster is first else first
        found.append(cluster.push(batch))
        other.states = cluster.states
    assert_same_bag(pa.concat_tables(found), expected(query_of("flat"), tables))


class Kept(Cluster):
    """Buckets that keep their engines in an arena; `retry` runs each batch twice from the same state."""

    def __init__(self, query: bd.JoinQuery, tables: dict[str, pa.Table], query_id: str, retry: bool) -> None:
        super().__init__(query, tables)
        schemas, arena = self.plan.schemas, f"test-{query_id}"
        self.plan = JoinPlan(query, schemas, BUCKETS, "drop", arena)
        self._query_id, self._retry = query_id, retry

    def push(self, batch: dict[str, pa.Table]) -> pa.Table:
        found = []
        for number, rows in enumerate(self.packed(batch)):
            if not rows:
                continue
            state = self.states[number]
            before = state.meta, dict(state.chunks)
            runs = []
            for attempt in range(2 if self._retry else 1):
                if attempt:
                    state.meta, state.chunks = before[0], dict(before[1])
                made = list(Bucket(self.plan, number, state, self._query_id).run(rows))
                runs.append([blobs.decode(row.blob) for row in made if row.blob is not None])
                self.reports += [row.report for row in made if row.report is not None]
            tables = [pa.Table.from_batches(r, self.plan.schema) for r in runs]
            assert all(bag(t) == bag(tables[0]) for t in tables)
            found.append(tables[-1])
        return pa.concat_tables(found)


@pytest.mark.parametrize(("plan", "probes"), [("linear", None), ("bushy", 60), ("flat", 60), ("linear", 60)])
def test_kept_retried_and_rebuilt_buckets_give_the_same_bag(
    plan: str, probes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = random_tables(5, FOUR, rows=120, keys=12)
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    query = query_of(plan, probes)
    rebuilt = Cluster(query, tables)
    ways = [
        rebuilt,
        Kept(query, tables, f"{plan}-{probes}-a", False),
        Kept(query, tables, f"{plan}-{probes}-b", True),
    ]
    for batch in batches(tables, 20):
        results = [bag(way.push(batch)) for way in ways]
        assert results[0] == results[1] == results[2]
    assert ways[1].seen().arena_hits > 0


def test_a_budget_is_shared_by_the_buckets_and_a_burst_ends() -> None:
    tables = random_tables(5, FOUR, rows=400, keys=30, span_us=4_000)
    for plan in ("flat", "linear"):
        query, exact = query_of(plan, 40), Cluster(query_of(plan), tables)
        cluster = Cluster(query, tables)
        lost, since = [], []
        sizes = [4] * 5 + [40] * 5 + [4] * 40
        at = 0
        for rows in sizes:
            batch = {n: t.slice(at, rows) for n, t in tables.items()}
            at += rows
            cluster.reports.clear()
            found, wanted = bag(cluster.push(batch)), bag(exact.push(batch))
            assert not found - wanted
            lost.append((wanted - found).total())
            if cluster.reports:
                seen = cluster.seen()
                assert seen.rationing is not None
                assert (seen.rationing.budget or 0) <= 40
                since.append(seen.exact_again)
        assert any(lost)
        assert since[-1] is not None
        assert not any(lost[since[-1] :])
