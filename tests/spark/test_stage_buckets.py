"""Join graphs with several keys, stage by stage without Spark: buckets with their state in dicts."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.query.subplans import subplans
from braided.spark.bucket import Bucket
from braided.spark.plan import JoinPlan
from braided.spark.storage import folders
from braided.spark.storage.store import Meta
from braided.spark.wire import blobs
from braided.spark.wire.labels import labels
from braided.spark.wire.pack import pack, repack, tell
from braided.spark.wire.packed import Emitted, Packed, packed_rows, to_arrow
from braided.testing import assert_same_bag, bag, expected
from tests.operators.test_plans import GRAPHS, graph_tables
from tests.seeds import seeds
from tests.spark.test_bucket import BUCKETS, Memory, batches
from tests.workloads import names_of

FOUR = names_of(4)
TWO_KEYS = [("s0.k", "s1.k"), ("s1.m", "s2.m")]


class Stages:
    """All stages of a join and their buckets, fed with micro-batches as Spark would."""

    def __init__(
        self, query: bd.JoinQuery, tables: dict[str, pa.Table], late: Any = "drop", arena: str = ""
    ) -> None:
        schemas = tuple(tables[n].schema for n in query.names)
        self.plan = JoinPlan(query, schemas, BUCKETS, late, arena, staged=True)
        self.stages = self.plan.stages()
        self.states = [[Memory() for _ in range(BUCKETS)] for _ in self.stages]
        self.order = np.random.default_rng(0)

    def push(self, batch: dict[str, pa.Table]) -> pa.Table:
        made: dict[Any, list[list[Emitted]]] = {}  # what the two tasks of a stage hand on
        found: list[list[Emitted]] = []
        for stage, states in zip(self.stages, self.states, strict=True):
            packed = self._packed(stage, batch, made)
            found = made[stage.subplan.node] = [[], []]
            for number, rows in enumerate(packed):
                if rows:
                    found[number % 2] += Bucket(stage, number, states[number], "query").run(rows)
        results = [blobs.decode(row.blob) for row in itertools.chain(*found) if row.blob is not None]
        return pa.Table.from_batches(results, self.plan.schema)

    def _packed(self, stage: JoinPlan, batch: dict[str, pa.Table], made: Any) -> list[list[Packed]]:
        names = stage.query.names
        parts: list[tuple[Any, int, list[pa.RecordBatch]]] = []
        for number, node in enumerate(stage.inputs):
            if node in names and node in stage.subplan.inputs and node in batch:
                half = batch[node].num_rows // 2
                halves = (batch[node].slice(0, half), batch[node].slice(half))
                parts += [(pack, number, part.to_batches()) for part in halves]
            elif node in names and stage.first and node in batch:
                parts.append((tell, number, batch[node].select(["t"]).to_batches()))
            elif node not in names:
                for rows in made[node]:
                    parts.append((repack, number, [to_arrow(rows)] if rows else []))
        packed = packed_rows(out for work, n, rows in parts for out in work(stage, n, iter(rows)))
        packed = [packed[i] for i in self.order.permutation(len(packed))]
        return [[row for row in packed if row.bucket == label] for label in labels(BUCKETS)]

    def metas(self, stage: int) -> list[Meta]:
        return [Meta.decode(s.meta) for s in self.states[stage] if s.meta is not None]


def streams(names: list[str], **options: Any) -> list[bd.Stream]:
    options.setdefault("lateness", "12 us")
    return [bd.Stream(n, time="t", window=f"{20 + 9 * i} us", **options) for i, n in enumerate(names)]


def numbers_of(graph: str, plan: Any) -> int:
    query = bd.JoinQuery(streams(FOUR), on=GRAPHS[graph][0], plan=plan)
    return len(subplans(query.graph, query.tree))


def test_a_plan_is_cut_where_no_key_is_common() -> None:
    assert numbers_of("chain", "mjoin") == 3
    assert numbers_of("chain", (("s0", "s1"), ("s2", "s3"))) == 3
    assert numbers_of("star", "linear") == 3
    assert numbers_of("implied", (("s0", "s3"), ("s1", "s2"))) == 1
    assert numbers_of("two columns", "mjoin") == 2
    # the lower operator has two columns in its key, the one above only one of them
    assert numbers_of("two columns", (((("s0", "s1"), "s2")), "s3")) == 2


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_stages_give_the_definitions_bag(graph: str, seed: int) -> None:
    on, plans = GRAPHS[graph]
    tables = graph_tables(seed, FOUR)
    more: dict[str, list[Any]] = {
        "chain": [(("s0", "s1"), ("s2", "s3"))],
        "two columns": [((("s0", "s1"), "s2"), "s3")],  # its lower stage has operators of different keys
    }
    wanted = expected(bd.JoinQuery(streams(FOUR), on=on), tables)
    for plan in [*plans, *more.get(graph, [])]:
        query = bd.JoinQuery(streams(FOUR), on=on, plan=plan)
        for rows in (9, 1000):
            made = Stages(query, tables)
            assert_same_bag(pa.concat_tables([made.push(b) for b in batches(tables, rows)]), wanted)


@pytest.mark.parametrize("arena", [False, True])
def test_oracle_text_keys_and_engines_that_go_on(
    arena: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    tables = graph_tables(1, FOUR, key_type="string")
    query = bd.JoinQuery(streams(FOUR), on=GRAPHS["chain"][0], where="s0.n > s3.n")
    made = Stages(query, tables, arena="app" if arena else "")
    found = [made.push(b) for b in batches(tables, 5)]
    assert_same_bag(pa.concat_tables(found), expected(query, tables))
    folders_ = {p.parent.name for p in (tmp_path / "arenas").rglob("[0-9]")}
    assert ({"0", "1", "2"} <= folders_) == arena


def test_a_retried_batch_gives_the_same_bag_from_the_same_state() -> None:
    tables = graph_tables(2, FOUR)
    query = bd.JoinQuery(streams(FOUR), on=GRAPHS["cycle"][0])
    made = Stages(query, tables)
    found = []
    for batch in batches(tables, 9):
        before = copy.deepcopy(made.states)
        first = made.push(batch)
        made.states = before
        found.append(made.push(batch))
        assert bag(found[-1]) == bag(first)
    assert_same_bag(pa.concat_tables(found), expected(query, tables))


def test_a_lagging_stream_of_a_later_stage_holds_all_stages_back() -> None:
    """A first stage that judged by its own streams alone would forget rows that the last one still meets."""
    tables = graph_tables(3, FOUR[:3])
    query = bd.JoinQuery(streams(FOUR[:3], lateness="200 us"), on=TWO_KEYS)
    made = Stages(query, tables)
    ahead = {n: tables[n] for n in ("s0", "s1")}
    found = [made.push(b) for b in batches(ahead, 5)]
    found += [made.push({"s2": tables["s2"].slice(at, 3)}) for at in range(0, tables["s2"].num_rows, 3)]
    wanted = expected(query, tables)
    assert wanted.num_rows > 10
    assert_same_bag(pa.concat_tables(found), wanted)
    newest = [meta.newest_us for stage in (0, 1) for meta in made.metas(stage)]
    assert newest == [newest[0]] * (2 * BUCKETS)
    assert None not in newest[0].values()


def test_a_source_that_gives_other_rows_when_read_again_is_refused() -> None:
    tables = graph_tables(3, FOUR[:3])
    made = Stages(bd.JoinQuery(streams(FOUR[:3]), on=TWO_KEYS), tables)
    made.push({n: t.slice(0, 5) for n, t in tables.items()})
    later = {"s2": tables["s2"].slice(10)}
    handed = made._packed(made.stages[0], later, {})
    first = [
        found
        for number, rows in enumerate(handed)
        for found in Bucket(made.stages[0], number, made.states[0][number]).run(rows)
    ]
    packed = made._packed(made.stages[1], {}, {made.stages[0].subplan.node: [first]})
    with pytest.raises(bd.BraidedError, match="stream 's2': two reads of one micro-batch"):
        list(Bucket(made.stages[1], 0, made.states[1][0]).run(packed[0]))


def test_late_rows_and_null_keys_are_counted_once_and_late_ones_come_out() -> None:
    tables = graph_tables(4, FOUR[:3])
    query = bd.JoinQuery(streams(FOUR[:3]), on=TWO_KEYS)
    made = Stages(query, tables, "flag")
    first = made.push(tables)
    again = made.push({n: t.slice(0, 5) for n, t in tables.items()})
    keyed = {"s0": ["k"], "s1": ["k", "m"], "s2": ["m"]}
    null = {n: _null(tables[n], columns) for n, columns in keyed.items()}
    late = {n: 5 - _null(tables[n].slice(0, 5), columns) for n, columns in keyed.items()}
    assert first.filter(pa.compute.is_valid(first["late_stream"])).num_rows == 0
    said = again["late_stream"].to_pylist()
    assert {n: said.count(n) for n in keyed} == late
    assert len(said) == sum(late.values())
    for name, table in tables.items():
        metas = made.metas(0) + made.metas(1)
        counters = [meta.numbers["streams"][name]["counters"] for meta in metas]
        total = {
            what: sum(c.get(what, 0) for c in counters) for what in ("rows_in", "late_rows", "null_keys")
        }
        again_null = _null(table.slice(0, 5), keyed[name])
        assert total == {
            "rows_in": table.num_rows + 5,
            "late_rows": late[name],
            "null_keys": null[name] + again_null,
        }


def _null(table: pa.Table, columns: list[str]) -> int:
    return sum(any(v is None for v in row.values()) for row in table.select(columns).to_pylist())


def test_what_has_passed_is_forgotten_in_every_stage() -> None:
    rng = np.random.default_rng(1)
    tables = {
        n: pa.table({
            "k": rng.integers(0, 3, 1_000), "m": rng.integers(0, 3, 1_000),
            "t": pa.array(np.arange(1_000) * 10).cast(pa.timestamp("us")),
        })
        for n in FOUR[:3]
    }  # fmt: skip
    made = Stages(bd.JoinQuery(streams(FOUR[:3]), on=TWO_KEYS), tables)
    for batch in batches(tables, 50):
        made.push(batch)
    rows = [blobs.decode(d).num_rows for states in made.states for s in states for d in s.chunks.values()]
    assert sum(rows) < 300


@pytest.mark.parametrize("plan", ["linear", (("s0", "s1"), ("s2", "s3"))])
def test_another_plan_is_refused_before_anything_is_touched(plan: Any) -> None:
    on = [("s0.k", "s1.k"), ("s1.m", "s2.m"), ("s2.n", "s3.n")]
    tables = graph_tables(1, FOUR)
    made = Stages(bd.JoinQuery(streams(FOUR), on=on, plan=((("s2", "s1"), "s0"), "s3")), tables)
    made.push({n: t.slice(0, 10) for n, t in tables.items()})
    other = Stages(bd.JoinQuery(streams(FOUR), on=on, plan=plan), tables)
    other.states = copy.deepcopy(made.states)
    with pytest.raises(bd.BraidedError, match=r"plan=\[\[\['s2', 's1'\].*the plan is fixed; go back"):
        other.push({n: t.slice(10) for n, t in tables.items()})
    assert [[s.meta for s in states] for states in other.states] == [
        [s.meta for s in states] for states in made.states
    ]
