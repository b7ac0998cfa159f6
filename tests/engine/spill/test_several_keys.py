"""A memory budget for joins with several keys: the bag of the definition, and no more rows than without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import assert_same_bag, expected
from tests.engine.spill.test_spilling import small
from tests.operators.test_plans import FOUR, GRAPHS, graph_tables
from tests.promised import batches_of
from tests.seeds import seeds

_LATER_US = 10_000


def later(table: pa.Table, moment: int) -> pa.Table:
    """A row like the first of a table, at another time."""
    time = pa.array([_LATER_US * moment]).cast(table.schema.field("t").type)
    return table.slice(0, 1).set_column(table.schema.get_field_index("t"), "t", time)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("turn", seeds(3))
def test_oracle_join_graphs_under_a_budget(graph: str, turn: int) -> None:
    on, plans = GRAPHS[graph]
    seed = 7 * turn + list(GRAPHS).index(graph)
    rng = np.random.default_rng(seed)
    tables = graph_tables(seed, FOUR)
    streams = [
        bd.Stream(n, time="t", window=f"{20 + 9 * i} us", lateness="12 us") for i, n in enumerate(FOUR)
    ]
    for plan in plans:
        query = bd.JoinQuery(streams, on=on, plan=plan, memory=small(seed))
        live, spilled = bd.LocalJoin(query), 0
        found: list[pa.Table] = []
        for number, batch in enumerate(batches_of(tables, 6)):
            found.append(live.push(batch))
            spilled = max(spilled, sum(s.spilled_rows for s in live.stats().streams.values()))
            if rng.random() < 0.3:
                found.append(live.push({}))
            if number == 3 and query.memory and not query.memory.one_sided:
                live = bd.LocalJoin(query).restore(live.snapshot())
        assert spilled > 0 or seed % 35 == 5  # with few rows they may all fit
        everything = tables
        for moment in (1, 2):
            last = {n: later(t, moment) for n, t in tables.items()}
            everything = {n: pa.concat_tables([everything[n], t]) for n, t in last.items()}
            found += [live.push(last), *(live.push({}) for _ in range(30))]
        seen = live.stats()
        held = [s.live_rows + s.spilled_rows for s in seen.streams.values()]
        held += [i.live_rows + i.spilled_rows for i in seen.intermediates.values()]
        assert sum(held) <= 2 * len(held), held
        found.append(live.end())
        wanted = expected(bd.JoinQuery(streams, on=on), everything)
        assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), wanted)


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_oracle_a_graph_without_windows_is_saved_and_restored(plan: Any, defer: bool) -> None:
    on = [("s0.k", "s1.k"), ("s1.m", "s2.m")]
    tables = {n: t.slice(0, 18) for n, t in graph_tables(5, FOUR[:3]).items()}
    streams = [bd.Stream(n, time="t") for n in FOUR[:3]]
    query = bd.JoinQuery(streams, on=on, plan=plan, memory=bd.Memory(6_000, defer=defer))
    live, found = bd.LocalJoin(query), []
    for batch in batches_of(tables, 4):
        found.append(live.push(batch))
        live = bd.LocalJoin(query).restore(live.snapshot())
    assert sum(s.spilled_rows for s in live.stats().streams.values()) > 0
    found.append(live.end())
    assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), expected(query, tables))
