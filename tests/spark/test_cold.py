"""A memory budget on Spark: the same bag, whatever is hot, kept, rebuilt, retried or restarted."""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.spark.bucket import Bucket
from braided.spark.storage import folders
from braided.spark.storage.bucket_state import BucketState
from braided.spark.storage.cold import cold_pieces
from braided.spark.storage.store import Meta
from braided.spark.wire import blobs
from braided.testing import assert_same_bag, bag, expected
from braided.testing.samples.files import add_file
from tests.promised import KINDS, batches_of, data_of, plainly, promised_stream, promised_table
from tests.seeds import seeds
from tests.spark.streams import read, results, run, start
from tests.spark.test_bucket import Cluster
from tests.workloads import names_of, random_tables, stream, with_odd_names

SMALL = 5_000


@pytest.fixture
def own_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    return tmp_path / "arenas"


def budget(limit: int = SMALL, **options: Any) -> bd.Memory:
    options = {"defer": False, "groups": 16, "interval": "1 millisecond", **options}
    return bd.Memory(limit, **options)


def cold_rows(made: Cluster) -> int:
    """Rows in cold groups, as the state says."""
    metas = [Meta.decode(state.meta) for state in made.states if state.meta is not None]
    return sum(
        piece[1]
        for meta in metas
        for pieces in meta.numbers["features"]["spill"]["pieces"]
        for _, _, _, piece in pieces
    )


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize(("seed", "arena"), [(seed, seed % 3 > 0) for seed in seeds(6)])
def test_oracle_kept_rebuilt_and_retried_buckets(seed: int, arena: bool) -> None:
    names = names_of(2 + seed % 3)
    tables = random_tables(seed, names, rows=(90, 50, 24)[seed % 3], keys=12)
    streams = [stream(n, "40 us") if seed % 2 else bd.Stream(n, "k") for n in names]
    flush: Any = ("adaptive-global", "state-spill", "hash-merge")[seed % 3]
    plan: Any = ("mjoin", "linear")[seed // 2 % 2]
    query = bd.JoinQuery(streams, plan=plan, memory=budget(flush=flush))
    made = Cluster(query, tables, arena=arena)
    found, cold = [], 0
    for number, batch in enumerate(batches_of(tables, 6)):
        before = copy.deepcopy(made.states)
        first = made.push(batch)
        if number % 3 != 2:
            made.states = before  # the first attempt's state is lost
            second = made.push(batch)
            assert bag(first) == bag(second)
        found.append(first)
        cold = max(cold, cold_rows(made))
    assert cold > 0
    assert_same_bag(pa.concat_tables(found), expected(query, tables))


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_promises_and_cold_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds, names = rng.choice(KINDS[1:], 3).tolist(), names_of(3)
    tables, streams = {}, [promised_stream(n, k) for n, k in zip(names, kinds, strict=True)]
    for s, kind in zip(streams, kinds, strict=True):
        table = promised_table(rng, kind, rows=30, keys=10)
        tables[s.name] = table.drop_columns([c for c in ("p", "upto") if c not in (s.flag, s.upto)])
    query = bd.JoinQuery(streams, memory=budget(), tuning=bd.Tuning(purge="immediate"))
    made = Cluster(query, tables, arena=seed % 2 == 0)
    found = []
    for batch in batches_of(tables, 4):
        before = copy.deepcopy(made.states)
        made.push(batch)
        made.states = before
        found.append(made.push(batch))
    wanted = expected(plainly(query), {n: data_of(t) for n, t in tables.items()})
    assert_same_bag(pa.concat_tables(found), wanted)


@pytest.mark.usefixtures("own_root")
def test_a_budget_comes_and_grows_and_may_go_once_all_is_hot() -> None:
    tables = random_tables(1, names_of(2), rows=90, keys=12)
    streams = [bd.Stream(n, "k") for n in tables]
    exact = bd.JoinQuery(streams)
    batches = batches_of(tables, 6)
    made = Cluster(exact, tables, arena=True)
    found = [made.push(b) for b in batches[:4]]
    made.plan = dataclasses.replace(made.plan, query=dataclasses.replace(exact, memory=budget()))
    found += [made.push(b) for b in batches[4:9]]
    assert cold_rows(made) > 0
    for other, message in (
        (exact, "the limit may differ"),
        (dataclasses.replace(exact, memory=budget(groups=8)), "groups=16"),
    ):
        plan, states = made.plan, copy.deepcopy(made.states)
        made.plan = dataclasses.replace(made.plan, query=other)
        with pytest.raises(bd.BraidedError, match=message):
            made.push(batches[-1])
        made.plan, made.states = plan, states
    made.plan = dataclasses.replace(made.plan, query=dataclasses.replace(exact, memory=budget(80 * SMALL)))
    found += [made.push(b) for b in batches[9:12]]
    assert cold_rows(made) == 0
    made.plan = dataclasses.replace(made.plan, query=exact)
    assert len(batches) > 13
    for batch in batches[12:]:
        before = copy.deepcopy(made.states)
        first = made.push(batch)
        made.states = before
        assert bag(first) == bag(made.push(batch))
        found.append(first)
    assert_same_bag(pa.concat_tables(found), expected(exact, tables))


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize(("seed", "arena"), [(seed, seed % 3 > 0) for seed in seeds(6)])
def test_oracle_merges_that_wait(seed: int, arena: bool) -> None:
    """Any attempt's results with any attempt's state; idle batches in between; the rest at the end."""
    names = names_of(2 + seed % 2)
    tables = random_tables(seed, names, rows=(90, 50)[seed % 2], keys=12)
    streams = [stream(n, "40 us") if seed % 3 == 1 else bd.Stream(n, "k") for n in names]
    flush: Any = ("adaptive-global", "state-spill", "hash-merge")[seed % 3]
    plan: Any = ("mjoin", "linear")[seed // 2 % 2]
    query = bd.JoinQuery(streams, plan=plan, memory=budget(defer=True, flush=flush, take_along=seed % 4 < 2))
    made = Cluster(query, tables, arena=arena)
    found, cold = [], 0
    for number, batch in enumerate(batches_of(tables, 6)):
        for step in (functools.partial(made.push, batch), made.beat)[: 1 + number % 2]:
            before = copy.deepcopy(made.states)
            first = step()
            if number % 3 != 2:
                made.states = before  # the first attempt's state is lost, its results are not
                assert bag(first) == bag(step())
            found.append(first)
        cold = max(cold, cold_rows(made))
    assert cold > 0
    if seed % 4 == 3:  # the next batch settles all
        made.plan = dataclasses.replace(made.plan, query=dataclasses.replace(query, memory=budget()))
        found.append(made.beat())
    owed = made.owed()
    assert seed % 4 < 3 or not owed.num_rows
    assert bag(owed) == bag(made.owed())
    assert_same_bag(pa.concat_tables([*found, owed]), expected(query, tables))


@pytest.mark.usefixtures("own_root")
def test_silent_streams_let_merges_happen_until_nothing_is_owed() -> None:
    rng = np.random.default_rng(1)
    tables = {n: pa.table({"k": rng.integers(0, 100, 400), "v": ["x" * 20] * 400}) for n in "abc"}
    query = bd.JoinQuery([bd.Stream(n, "k") for n in "abc"], memory=budget(3 * SMALL, defer=True))
    made = Cluster(query, tables, arena=True)
    found = [made.push(b) for b in batches_of(tables, 8)]
    before = sum(f.num_rows for f in found)
    beats = [made.beat() for _ in range(20)]
    wanted = expected(query, tables)
    assert before < wanted.num_rows
    assert sum(b.num_rows > 0 for b in beats) > 2, "one group at a time"
    assert_same_bag(pa.concat_tables([*found, *beats]), wanted)


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
@pytest.mark.parametrize("flush", ["adaptive-global", "state-spill"])
def test_a_budget_comes_to_a_tree_and_what_rows_carry_changes(arena: bool, flush: Any) -> None:
    """Intermediate rows of before do not carry their groups, in memory or cold: they are recomputed."""
    tables = random_tables(2, names_of(3), rows=70, keys=12)
    exact = bd.JoinQuery([bd.Stream(n, "k") for n in tables], plan="linear")
    made, found = Cluster(exact, tables, arena=arena), []
    lineages: list[Any] = [None, "carried", "recomputed", "carried"]
    for number, batch in enumerate(batches_of(tables, 5)):
        lineage = lineages[number // 2 % 4] or ("carried" if number > 1 else None)
        memory = budget(flush=flush, lineage=lineage) if lineage else None
        made.plan = dataclasses.replace(made.plan, query=dataclasses.replace(exact, memory=memory))
        found.append(made.push(batch))
    assert cold_rows(made) > 0
    assert_same_bag(pa.concat_tables(found), expected(exact, tables))


@pytest.mark.usefixtures("own_root")
def test_cold_rows_in_todays_columns() -> None:
    """A stream that gets a column goes on: older rows have none, hot or cold."""
    tables = random_tables(4, names_of(2), rows=90, keys=12)
    query = bd.JoinQuery([bd.Stream(n, "k") for n in tables], memory=budget())
    batches = batches_of(tables, 9)
    made = Cluster(query, tables, arena=False)
    found = sum(made.push(b).num_rows for b in batches[:5])
    assert cold_rows(made) > 0
    more = {n: t.append_column("new", pa.array(range(t.num_rows))) for n, t in tables.items()}
    states, made = made.states, Cluster(query, more, arena=False)
    made.states = states
    found += sum(made.push(b).num_rows for b in batches_of(more, 9)[5:])
    assert found == expected(query, tables).num_rows


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize("memory", [None, budget()], ids=["exact", "memory"])
@pytest.mark.parametrize("arena", [False, True])
def test_payload_columns_may_have_any_name(memory: bd.Memory | None, arena: bool) -> None:
    """Columns named as ours (`__braided_hashes`) came back from cold groups as null, or raised."""
    tables = {
        name: with_odd_names(table) for name, table in random_tables(4, names_of(3), rows=60, keys=8).items()
    }
    query = bd.JoinQuery([stream(n, "40 us") for n in tables], plan="linear", memory=memory)
    made = Cluster(query, tables, arena=arena)
    found = [made.push(batch) for batch in batches_of(tables, 9)]
    assert memory is None or cold_rows(made) > 0
    assert_same_bag(pa.concat_tables(found), expected(query, tables))


@pytest.mark.usefixtures("own_root")
def test_cold_groups_stay_in_few_chunks() -> None:
    rng = np.random.default_rng(1)
    query = bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b", "k")], memory=budget())
    made = None
    for _ in range(40):
        tables = {n: pa.table({"k": rng.integers(0, 4000, 40), "v": rng.random(40)}) for n in "ab"}
        made = made or Cluster(query, tables, arena=True)
        made.push(tables)
    assert made is not None
    for state in made.states:
        assert state.meta is not None
        meta = Meta.decode(state.meta)
        known = [c.number for chunks in meta.parts.values() for c in chunks]
        known += [n for pieces in cold_pieces(meta).values() for p in pieces for n in p.chunks]
        assert sorted(known) == sorted(state.chunks)  # none is left behind
        assert len(known) < 2 * 16 * 12


def test_a_streaming_join_within_a_budget(spark: Any, tmp_path: Path) -> None:
    """Restarted, with another limit, and with groups in the state store: all results, once.

    With `resume`, as job files do, a start was refused while groups were cold: it took the number of groups
    by the limit, which is not the one on Spark, for the query's.
    """
    rng = np.random.default_rng(3)
    tables: dict[str, list[pa.Table]] = {n: [] for n in "abc"}
    for limit in ("64 kB", "200 kB"):
        streams = [bd.Stream(n, "k", window="unbounded") for n in tables]
        query = bd.JoinQuery(streams, memory=bd.Memory(limit))
        for _ in range(2):
            for n, parts in tables.items():
                parts.append(pa.table({"k": rng.integers(0, 300, 200), "v": ["x" * 50] * 200}))
                add_file(tmp_path / n, len(parts), parts[-1])
        frames = read(spark, tmp_path, {n: parts[0] for n, parts in tables.items()})
        checkpoint = str(tmp_path / "checkpoint")
        done = run(
            bd.spark.join(query, frames, buckets=4, checkpoint=checkpoint, resume=checkpoint), tmp_path
        )
    seen = bd.spark.metrics(done)
    assert seen.spilled_bytes > 0
    assert sum(s.live_rows + s.spilled_rows for s in seen.streams.values()) == 3 * 4 * 200
    assert sum(bd.spark.inspect_state(str(tmp_path / "checkpoint")).rows.values()) == 3 * 4 * 200
    whole = {n: pa.concat_tables(parts) for n, parts in tables.items()}
    exact = bd.JoinQuery([bd.Stream(n, "k", window="unbounded") for n in tables])
    assert bag(results(tmp_path)) == bag(expected(exact, whole))


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (bd.Memory("1 MB", flush="largest"), "not available on Spark; use"),
        (bd.Memory("1 MB", flush="rpj"), "not available on Spark; use"),
    ],
)
def test_what_is_refused(spark: Any, memory: bd.Memory, message: str) -> None:
    frame = spark.createDataFrame([(1,)], "k long")
    query = bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b", "k")], memory=memory)
    with pytest.raises(bd.BraidedError, match=message):
        bd.spark.join(query, {"a": frame, "b": frame})


def test_a_batch_join_within_a_budget(spark: Any) -> None:
    rng = np.random.default_rng(3)
    tables = {n: pa.table({"k": rng.integers(0, 200, 900), "v": ["x" * 90] * 900}) for n in "ab"}
    frames = {n: spark.createDataFrame(t.to_pandas()) for n, t in tables.items()}
    query = bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b", "k")], memory=bd.Memory("100 kB"))
    got = bd.spark.join(query, frames, buckets=2).count()
    assert got == expected(query, tables).num_rows


def test_results_keep_coming_while_every_source_is_silent(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    tables = {n: pa.table({"k": rng.integers(0, 200, 600), "v": ["x" * 75] * 600}) for n in "abc"}
    for n, table in tables.items():
        for part in range(3):
            add_file(tmp_path / n, part, table.slice(200 * part, 200))
    streams = [bd.Stream(n, "k", window="unbounded") for n in tables]
    query = bd.JoinQuery(streams, memory=bd.Memory("64 kB", defer=True))
    wanted = bag(expected(bd.JoinQuery(streams), tables))
    joined = bd.spark.join(query, read(spark, tmp_path, tables), buckets=2)

    done = run(joined, tmp_path)  # until all input is used up; then nothing runs
    early, owed = results(tmp_path), bd.spark.finish(str(tmp_path / "checkpoint"), spark=spark).toArrow()
    assert bd.spark.metrics(done).spilled_bytes > 0
    assert 0 < owed.num_rows < wanted.total(), (early.num_rows, owed.num_rows, wanted.total())
    assert bag(early) + bag(owed) == wanted

    live = start(joined, tmp_path)  # live, on the same checkpoint: only the heartbeat brings rows now
    try:
        grown, deadline = [early.num_rows], time.monotonic() + 120
        while grown[-1] < wanted.total() and time.monotonic() < deadline:
            time.sleep(0.2)
            grown.append(max(grown[-1], results(tmp_path).num_rows))
    finally:
        live.stop()
    assert len(set(grown)) > 2, "in several batches"
    assert bag(results(tmp_path)) == wanted
    assert bd.spark.finish(str(tmp_path / "checkpoint"), spark=spark).count() == 0


def test_finish_says_what_it_cannot_do(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(bd.BraidedError, match="no state of a Braided join can be read"):
        bd.spark.finish(str(tmp_path / "nowhere"), spark=spark)
    tables = {n: pa.table({"k": [1]}) for n in "ab"}
    for n, table in tables.items():
        add_file(tmp_path / n, 0, table)
    query = bd.JoinQuery([bd.Stream(n, "k", window="unbounded") for n in tables])
    run(bd.spark.join(query, read(spark, tmp_path, tables), buckets=2), tmp_path)
    with pytest.raises(bd.BraidedError, match=r"owes nothing.*defer=True"):
        bd.spark.finish(str(tmp_path / "checkpoint"), spark=spark)


@pytest.mark.usefixtures("own_root")
def test_what_is_known_of_groups_lasts_from_batch_to_batch() -> None:
    """Different keys were counted anew in every batch, and the first interval began in 1970."""
    rng, keys = np.random.default_rng(1), 400
    streams = [bd.Stream(n, "k", time="t", window="1 hour", lateness="0 s") for n in "ab"]
    memory = bd.Memory(40_000, defer=True, groups=4, state_manager=False, interval="1 microsecond")
    query = bd.JoinQuery(streams, memory=memory)
    made, came = None, set[int]()
    for n in range(50):
        values = {s: rng.integers(0, keys, 40) for s in "ab"}
        batch = {
            s: pa.table({"k": v, "t": pa.array(np.full(40, 1000 * n), pa.timestamp("us")), "id": v})
            for s, v in values.items()
        }
        made = made or Cluster(query, batch)
        made.push(batch)
        came |= {k for v in values.values() for k in v.tolist()}
    assert made is not None
    believed = owed = really = 0.0
    for number, state in enumerate(made.states):
        engine = BucketState(made.plan, number, copy.deepcopy(state)).engine(None)
        spilling = engine.core.features.get("spill")
        believed += spilling.disk.statistics.of[0].unique().sum()
        owed += engine.statistics().owed
        assert spilling.disk.statistics.began > 1.6e9
        assert spilling.phase.rate != 1e6 or not spilling.phase.rows
        really += sum(
            blobs.decode(b).num_rows for b in Bucket(made.plan, number, copy.deepcopy(state)).owed()
        )
    assert abs(believed / len(came) - 1) < 0.2
    assert 0.5 * really < owed < 2 * really


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
@pytest.mark.parametrize("defer", [True, False])
def test_a_where_that_fails_on_a_cold_row_fails_the_batch_that_brings_its_partner(
    defer: bool, arena: bool
) -> None:
    wide = pa.decimal128(38, 0)
    streams = [bd.Stream(n, "k") for n in "ab"]
    query = bd.JoinQuery(streams, where="a.v * b.v * b.v > 0", memory=budget(defer=defer))

    def rows(keys: Any, value: int) -> pa.Table:
        return pa.table({"k": keys, "v": pa.array([Decimal(value)] * len(keys), wide)})

    everything = np.arange(200)
    made = Cluster(query, {n: rows(everything, 1) for n in "ab"}, arena=arena)
    none = rows(everything[:0], 1)
    found = made.push({"a": rows(everything, 10**10), "b": none}).num_rows
    assert cold_rows(made) > 0
    before = copy.deepcopy(made.states)
    for _ in range(2):
        with pytest.raises(bd.BraidedError, match="has more than 76 digits"):
            made.push({"a": none, "b": rows(everything, 10**37)})
        made.states = copy.deepcopy(before)
    for _ in range(3):
        found += made.push({"a": none, "b": rows(everything[:50], 7)}).num_rows
    assert found + made.owed().num_rows == 150


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_owed_results_of_buckets_come_in_time(
    plan: Any, arena: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the times at which batches ended: rows keep coming, then they stop; some batches are repeated."""
    now, within, gap = [1_700_000_000.0], 20.0, 1.0
    monkeypatch.setattr(time, "time_ns", lambda: int(now[0] * 1e9))
    rng = np.random.default_rng(3)

    def rows(n: int) -> pa.Table:
        keys = rng.integers(5 * n - 200, 5 * n + 20, 40)
        return pa.table({"k": keys, "v": ["x" * 20] * 40, "at": np.full(40, now[0])})

    streams = [bd.Stream(n, "k") for n in "abc"]
    memory = budget(3 * SMALL, defer=True, owed_within=f"{within:g} seconds")
    query = bd.JoinQuery(streams, plan=plan, memory=memory)
    made = Cluster(query, {n: rows(0) for n in "abc"}, arena=arena)
    found, everything, delays = [], [], list[float]()
    for n in range(60):
        batch = {name: rows(n) for name in "abc"} if n < 30 else None
        before = copy.deepcopy(made.states)
        table = made.beat() if batch is None else made.push(batch)
        if n % 3 == 0:
            made.states = before
            assert bag(made.beat() if batch is None else made.push(batch)) == bag(table)
        found.append(table)
        everything += [] if batch is None else [batch]
        came = np.max([table[f"{name}_at"].to_numpy() for name in "abc"], axis=0)
        delays += (now[0] - came).tolist()
        now[0] += gap
    tables = {name: pa.concat_tables([b[name] for b in everything]) for name in "abc"}
    assert_same_bag(pa.concat_tables(found), expected(query, tables))
    assert gap < max(delays) <= within + 2 * gap
    assert not made.owed().num_rows
