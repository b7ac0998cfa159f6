"""Properties that must hold for any stream of rows, searched by Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import braided as bd
from braided.testing import assert_same_bag, expected
from tests.workloads import LATENESS_US, names_of, random_tables, stream

relaxed = settings(
    max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
windows = st.one_of(
    st.integers(1, 60).map(lambda us: f"{us} us"),
    st.just("unbounded"),
    st.builds(bd.CountWindow, st.integers(1, 4), per=st.sampled_from(["key", "stream"])),
)


@st.composite
def joins(draw: st.DrawFn) -> tuple[bd.JoinQuery, dict[str, pa.Table]]:
    names = names_of(draw(st.integers(2, 4)))
    query = bd.JoinQuery([stream(n, draw(windows)) for n in names])
    seed = draw(st.integers(0, 10_000))
    return query, random_tables(seed, names, rows=24, keys=draw(st.integers(1, 4)), span_us=60)


def push_in_pieces(
    live: bd.LocalJoin, tables: dict[str, pa.Table], cuts: Sequence[int], *, stop: int | None = None
) -> list[pa.Table]:
    """Push the tables in batches of the given sizes, taken in turn for each stream."""
    at = dict.fromkeys(tables, 0)
    results: list[pa.Table] = []
    n = 0
    while any(at[name] < tables[name].num_rows for name in tables):
        if stop is not None and n == stop:
            return results
        batch = {}
        for i, name in enumerate(tables):
            size = cuts[(n + i) % len(cuts)]
            batch[name] = tables[name].slice(at[name], size)
            at[name] += size
        results.append(live.push(batch))
        n += 1
    return [*results, live.end()]


def live_join(query: bd.JoinQuery, tables: dict[str, pa.Table]) -> bd.LocalJoin:
    return bd.LocalJoin(query, schemas={name: table.schema for name, table in tables.items()})


@relaxed
@given(joins(), st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any))
def test_batching_never_changes_the_result(join: Any, cuts: list[int]) -> None:
    query, tables = join
    live = live_join(query, tables)
    results = push_in_pieces(live, tables, [*cuts, 1])
    assert all(t.num_rows == 0 for t in live.late().values())
    assert_same_bag(pa.concat_tables(results), expected(query, tables))


@relaxed
@given(joins(), st.integers(0, 2**32 - 1))
def test_permuting_on_time_rows_never_changes_the_result(join: Any, seed: int) -> None:
    query, tables = join
    rng = np.random.default_rng(seed)
    wanted = bd.run_local(query, tables, batch_rows=7)
    shuffled = {}
    for name, table in tables.items():
        us = table["t"].cast(pa.int64()).to_numpy()
        order = np.argsort(us + rng.uniform(0, LATENESS_US, len(us)), kind="stable")
        shuffled[name] = table.take(pa.array(order))
    assert_same_bag(bd.run_local(query, shuffled, batch_rows=5), wanted)


@relaxed
@given(joins(), st.integers(0, 12), st.integers(1, 9))
def test_snapshot_and_restore_anywhere_changes_nothing(join: Any, at: int, rows: int) -> None:
    query, tables = join
    wanted = bd.run_local(query, tables, batch_rows=rows)
    live = live_join(query, tables)
    results = []
    for n, start in enumerate(range(0, 24, rows)):
        if n == at:
            before = live.stats()
            live = bd.LocalJoin(query).restore(live.snapshot())
            after = live.stats()
            assert before.results == after.results
            assert before.half_joins.keys() == after.half_joins.keys()
            assert [s.live_rows for s in before.streams.values()] == [
                s.live_rows for s in after.streams.values()
            ]
        results.append(live.push({name: t.slice(start, rows) for name, t in tables.items()}))
    results.append(live.end())
    assert_same_bag(pa.concat_tables(results), wanted)
