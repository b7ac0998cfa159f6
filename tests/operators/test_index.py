"""An index decides how rows are found, never which: hash, scan, any mix and any change give the same bag."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.engine.kernels.tables import LOOKED
from braided.engine.site import Site
from braided.policies.choice import Policies, policies_for
from braided.policies.index import Choice, IndexPolicy
from braided.policies.index_cost import Costs, Load
from braided.testing import assert_same_bag, expected
from tests.seeds import seeds
from tests.workloads import BATCH_ROWS, LATENESS_US, names_of, random_tables, stream

INDEXES = ("auto", "hash", "scan")


def indexed(index: Any, **options: Any) -> bd.Tuning:
    return bd.Tuning(index=index, **options)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("streams", [2, 3, 4, 5])
def test_oracle_every_index_gives_the_same_bag(index: str, streams: int) -> None:
    names = names_of(streams)
    found = 0
    for seed, rows in enumerate(BATCH_ROWS):
        query = bd.JoinQuery([stream(n, f"{20 * streams} us") for n in names], tuning=indexed(index))
        tables = random_tables(seed, names, rows=100 // streams, keys=streams)
        result = bd.run_local(query, tables, batch_rows=rows)
        assert_same_bag(result, expected(query, tables))
        found += result.num_rows
    assert found > 0


@pytest.mark.parametrize("indexes", list(itertools.product(("hash", "scan"), repeat=3)))
@pytest.mark.parametrize("driver", ["initial-output-size", "timestamp"])
def test_oracle_every_mix_of_indexes(indexes: tuple[str, ...], driver: str) -> None:
    names = names_of(3)
    tuning = indexed(dict(zip(names, indexes, strict=True)), driver_stream=driver, probe_order="a-greedy")
    within: Any = {("s0", "s1"): ("-3 us", "20 us"), ("s1", "s2"): "9 us"}
    for seed in seeds(2):
        query = bd.JoinQuery([stream(n, "40 us") for n in names], within=within, tuning=tuning)
        tables = random_tables(seed, names, rows=60, keys=3)
        assert_same_bag(bd.run_local(query, tables, batch_rows=13), expected(query, tables))


@pytest.mark.parametrize("key_type", ["string", "float64", "decimal128", "int8"])
def test_oracle_scans_compare_any_key(key_type: str) -> None:
    query = bd.JoinQuery([stream(n, "60 us") for n in "ab"], tuning=indexed("scan"))
    tables = random_tables(3, ["a", "b"], rows=80, key_type=key_type)
    assert_same_bag(bd.run_local(query, tables, batch_rows=7), expected(query, tables))


@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 63, 64, 65, 100_000])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_oracle_a_sweep_is_left_and_resumed_wherever_the_output_is_full(chunk_rows: int, order: str) -> None:
    """More rows than a glance, all with one of two keys, so that every glance is full of hits."""
    rng = np.random.default_rng(5)
    names, rows = names_of(3), {"s0": 70, "s1": 200, "s2": 9}
    tables = {}
    for name, n in rows.items():
        times = rng.integers(0, 50, n)
        times = np.sort(times) if order == "sorted" else times
        tables[name] = pa.table(
            {"k": rng.integers(0, 2, n), "t": pa.array(times).cast(pa.timestamp("us")), "i": np.arange(n)}
        )
    streams = [bd.Stream(n, key="k", time="t", window="4 us", lateness="1 ms") for n in names]
    query = bd.JoinQuery(streams, tuning=indexed("scan"))
    live = bd.LocalJoin(query)
    pieces = list(live.stream(tables, chunk_rows=chunk_rows))
    assert max(p.num_rows for p in pieces) <= chunk_rows
    assert_same_bag(pa.concat_tables(pieces), expected(query, tables))


def test_oracle_count_windows() -> None:
    for seed in seeds(2):
        tables = random_tables(seed, names_of(3), rows=40, keys=4, span_us=60)
        windows = [
            stream("s0", bd.CountWindow(2)),
            stream("s1", "25 us"),
            stream("s2", bd.CountWindow(9, per="stream")),
        ]
        query = bd.JoinQuery(windows, tuning=indexed({"s1": "scan", "s2": "scan"}))
        for rows in (1, 7, 1000):
            assert_same_bag(bd.run_local(query, tables, batch_rows=rows), expected(query, tables))


class Alternating(IndexPolicy):
    """Changes its mind before every batch."""

    def choose(self, load: Load, now: Choice, stored_rows: int = 0) -> Choice:
        return Choice(not now.scanned)


def alternating(query: bd.JoinQuery) -> Policies:
    policies = policies_for(query)
    return Policies(
        policies.driver,
        policies.probe_order,
        indexes=(Alternating(Choice(scanned=False), Costs()),) * len(query.names),
    )


def test_oracle_changing_the_index_in_mid_run() -> None:
    names = names_of(3)
    query = bd.JoinQuery([stream(n, "50 us") for n in names])
    for seed in seeds(3):
        tables = random_tables(seed, names, rows=90, keys=4)
        engine = Engine(query, Site(policies=lambda _: alternating(query)))
        found = []
        for start in range(0, 90, 6):
            batch = {n: t.slice(start, 6) for n, t in tables.items()}
            found += list(engine.step(engine.accept(batch)))
        assert_same_bag(pa.concat_tables(found), expected(query, tables))
        assert engine.tree.root.join.learned.index_changes.min() > 5


def test_a_failed_batch_is_undone_whatever_the_index() -> None:
    query = bd.JoinQuery(
        [stream(n, "1 second") for n in "ab"],
        where="a.n / b.n > 0.5 AND a.n + b.n < 9e18",
        tuning=indexed("scan"),
    )
    live = bd.LocalJoin(query)
    tables = random_tables(1, ["a", "b"], rows=60, keys=2)
    first = live.push({n: t.slice(0, 20) for n, t in tables.items()})
    reader = live.stream({n: t.slice(20, 20) for n, t in tables.items()}, chunk_rows=1)
    next(reader)
    before = live.stats().results
    rest = live.push({n: t.slice(40) for n, t in tables.items()})
    assert live.stats().results > before
    assert first.num_rows + 1 + rest.num_rows == expected(query, tables).num_rows


def test_oracle_state_moves_between_indexes_through_a_snapshot() -> None:
    names = ["a", "b"]
    tables = random_tables(4, names, rows=80, keys=3)
    scanning = bd.JoinQuery([stream(n, "90 us") for n in names], tuning=indexed("scan"))
    hashing = bd.JoinQuery([stream(n, "90 us") for n in names], tuning=indexed("hash"))
    live = bd.LocalJoin(scanning)
    found = [live.push({n: t.slice(0, 30) for n, t in tables.items()})]
    live = bd.LocalJoin(hashing).restore(live.snapshot())
    found.append(live.push({n: t.slice(30, 20) for n, t in tables.items()}))
    assert live.stats().streams["a"].index == "hash"
    live = bd.LocalJoin(scanning).restore(live.snapshot())
    found.append(live.push({n: t.slice(50) for n, t in tables.items()}))
    assert live.stats().streams["a"].index == "scan"
    assert_same_bag(pa.concat_tables(found), expected(scanning, tables))


# without a key


def without_key(where: str, windows: dict[str, str], **options: Any) -> bd.JoinQuery:
    streams = [bd.Stream(n, time="t", window=w, lateness=f"{LATENESS_US} us") for n, w in windows.items()]
    return bd.JoinQuery(streams, where=where, **options)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_oracle_a_join_without_any_key(rows: int) -> None:
    """Query Q1 of the jaqpot paper: what traded in Tokyo in higher volumes than Google in New York."""
    query = without_key("nyc.k = -2 AND tokyo.n > nyc.n", {"nyc": "40 us", "tokyo": "40 us"})
    for seed in seeds(2):
        tables = random_tables(seed, ["nyc", "tokyo"], rows=60)
        result = bd.run_local(query, tables, batch_rows=rows)
        assert result.num_rows > 0
        assert_same_bag(result, expected(query, tables))


def test_oracle_three_streams_without_any_key() -> None:
    query = without_key("a.n < b.n AND b.n < c.n", {"a": "9 us", "b": "12 us", "c": "7 us"})
    tables = random_tables(2, ["a", "b", "c"], rows=50)
    assert_same_bag(bd.run_local(query, tables, batch_rows=9), expected(query, tables))


def test_a_join_without_a_key_is_explained_and_always_scanned() -> None:
    query = without_key("a.n > b.n", {"a": "9 us", "b": "9 us"})
    assert "Warning: without a key every pair of rows" in query.explain()
    live = bd.LocalJoin(query)
    live.push(random_tables(1, ["a", "b"]))
    assert {s.index for s in live.stats().streams.values()} == {"scan"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bd.JoinQuery([bd.Stream("a"), bd.Stream("b")]), "needs where"),
        (
            lambda: bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b")], where="a.n = b.n"),
            "leave out all keys",
        ),
        (
            lambda: bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where="a.n = b.n", tuning=indexed("hash")),
            "has no key; use 'auto'",
        ),
        (
            lambda: bd.JoinQuery(
                [stream("a", bd.CountWindow(3)), stream("b")], tuning=indexed({"a": "scan"})
            ),
            "counts rows by key",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(make: Any, words: str) -> None:
    with pytest.raises(bd.BraidedError, match=words):
        make()


# the automatic choice

FAST_SCAN = Costs(hop=5.0, row=0.1, hit=2.0, stretch=10.0)


def run_auto(keys: list[int], *, batches: int = 12, rows: int = 400) -> list[str]:
    """The index of b's side after each batch; keys are so many in each part of the run."""
    query = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="300 us") for n in "ab"])
    engine = Engine(query, Site(policies=lambda _: policies_for(query, lambda: FAST_SCAN)))
    rng, found = np.random.default_rng(1), []
    for batch in range(batches * len(keys)):
        of = keys[batch // batches]
        times = pa.array(np.sort(rng.integers(batch * rows, (batch + 1) * rows, rows))).cast(
            pa.timestamp("us")
        )
        tables = {n: pa.table({"k": rng.integers(0, of, rows), "t": times}) for n in "ab"}
        list(engine.step(engine.accept(tables)))
        found.append(engine.statistics().streams["b"].index)
    return found


def test_auto_scans_where_keys_are_few_and_hashes_where_they_are_many() -> None:
    assert run_auto([2])[-1] == "scan"
    assert set(run_auto([500])) == {"hash"}


def test_auto_follows_a_change_and_does_not_waver() -> None:
    found = run_auto([500, 2, 500])
    changes = sum(a != b for a, b in itertools.pairwise(found))
    assert (found[11], found[23], found[35]) == ("hash", "scan", "hash")
    assert changes == 2


def test_a_scanned_side_gets_its_index_back_before_a_large_batch_probes_it() -> None:
    """A side that nobody probed must not be swept row by row when many rows come at once."""
    query = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="1 hour") for n in "ab"])
    engine = Engine(query, Site(policies=lambda _: policies_for(query, lambda: FAST_SCAN)))
    rng = np.random.default_rng(1)

    def push(**rows: tuple[int, int]) -> None:
        tables = {
            n: pa.table(
                {"k": rng.integers(0, keys, count), "t": pa.array([1] * count).cast(pa.timestamp("us"))}
            )
            for n, (count, keys) in rows.items()
        }
        list(engine.step(engine.accept(tables)))

    push(a=(50, 50), b=(200, 50))
    for _ in range(20):
        push(b=(2_000, 50))
    push(a=(5_000, 50))
    assert engine.statistics().streams["b"].index == "hash"


# stories of a review


def test_a_keyless_stream_that_no_column_is_asked_of_still_has_rows() -> None:
    a, b = pa.table({"n": [1, 5, 7]}), pa.table({"m": [1, 2]})
    query = bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where="a.n > 3", select={"n": "a.n"})
    result = bd.run_local(query, {"a": a, "b": b})
    assert result.num_rows == 4
    assert_same_bag(result, expected(query, {"a": a, "b": b}))


def test_counting_by_key_without_a_key_is_refused() -> None:
    streams = [bd.Stream("a", time="t", window=bd.CountWindow(3)), bd.Stream("b", time="t")]
    with pytest.raises(bd.BraidedError, match="counting rows by key needs a key"):
        bd.JoinQuery(streams, where="a.n = b.n")


@pytest.mark.parametrize(("keys", "sizes"), [(2, [2_000] * 3), (60, [16] * 20 + [5_000])])
def test_auto_scans_when_batches_are_much_longer_than_the_window(keys: int, sizes: list[int]) -> None:
    """A hash walks all rows of a key, inside the window or not: 26 times slower in a first large batch."""
    rng, at = np.random.default_rng(1), 0
    query = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="10 us") for n in "ab"])
    engine = Engine(query, Site(policies=lambda _: policies_for(query)))
    for rows in sizes:
        times = pa.array(np.sort(rng.integers(at, at + rows, rows))).cast(pa.timestamp("us"))
        list(
            engine.step(
                engine.accept({n: pa.table({"k": rng.integers(0, keys, rows), "t": times}) for n in "ab"})
            )
        )
        at += rows
    assert {s.index for s in engine.statistics().streams.values()} == {"scan"}
    assert engine.tree.root.join.learned.tallies[LOOKED].sum() < 40 * sum(sizes)


def test_a_side_is_in_order_again_once_the_rows_that_broke_it_are_gone() -> None:
    query = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="10 us", lateness="5 us") for n in "ab"])
    engine = Engine(query)

    def push(times: list[int]) -> None:
        table = pa.table({"k": [1] * len(times), "t": pa.array(times).cast(pa.timestamp("us"))})
        list(engine.step(engine.accept({"a": table, "b": table})))

    push([3, 2, 4])
    sides = list(engine.tree.sides.values())
    assert not any(s.ordered for s in sides)
    push([30, 31])
    push([40, 41])
    assert all(s.ordered for s in sides)
