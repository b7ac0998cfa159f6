"""A memory budget changes when results come, never which; what does not fit lies in real files."""

from __future__ import annotations

import contextlib
import resource
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.engine.site import Site
from braided.policies.driver import DRIVER_POLICIES
from braided.query.memory import Flush
from braided.testing import assert_same_bag, expected
from tests.promised import KINDS, batches_of, data_of, plainly, promised_stream, promised_table
from tests.seeds import seeds
from tests.workloads import KEY_TYPES, names_of, random_tables, stream

FLUSHES: tuple[Any, ...] = get_args(Flush)
PLANS: dict[str, Any] = {
    "mjoin": "mjoin",
    "linear": "linear",
    "bushy": (("s0", "s1"), ("s2", "s3")),
    "wide": (("s0", "s1", "s2"), "s3"),
}
SMALL = 6_000  # bytes: a few rows


def small(seed: int, **options: Any) -> bd.Memory:
    """A budget that flushes all the time, with options that change from seed to seed."""
    keeping: Any = ("recent", "average", "ewma")[seed % 3]
    options.setdefault("flush", FLUSHES[seed % len(FLUSHES)])
    options.setdefault("defer", (None, False)[seed // 2 % 2])
    lineage: Any = ("carried", "recomputed")[seed % 2]
    interval = ("1 microsecond", "1 second")[seed % 2]
    limit = (SMALL, 3 * SMALL)[seed // 3 % 2]
    options.setdefault("take_along", seed % 5 < 3)
    return bd.Memory(limit, statistics=keeping, lineage=lineage, interval=interval, **options)


def run(query: bd.JoinQuery, tables: dict[str, pa.Table], rows: int, seed: int = 0) -> pa.Table:
    """All results, with silent batches in between."""
    rng = np.random.default_rng(seed)
    live = bd.LocalJoin(query)
    found = []
    for batch in batches_of(tables, rows):
        found.append(live.push(batch))
        if rng.random() < 0.3:
            found.append(live.push({}))
    found.append(live.end())
    return pa.concat_tables([t for t in found if t.num_columns])


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("flush", FLUSHES)
@pytest.mark.parametrize("turn", seeds(1))
def test_oracle_every_plan_and_flush(plan: str, flush: Any, turn: int) -> None:
    seed = 4 * turn + (list(PLANS).index(plan) + FLUSHES.index(flush)) % 4
    names = names_of(4)
    tables = random_tables(seed, names, rows=40, keys=6, span_us=(200, 60)[seed % 2])
    windows = ["20 us", "35 us", "50 us", "15 us"] if seed % 4 else [None] * 4
    streams = [stream(n, w) if w else bd.Stream(n, "k") for n, w in zip(names, windows, strict=True)]
    if not seed % 4:
        tables = {n: t.slice(0, 16) for n, t in tables.items()}
    query = bd.JoinQuery(
        streams,
        plan=PLANS[plan],
        where="s0.n > s2.n" if seed % 3 == 1 else None,
        memory=small(seed, flush=flush),
        tuning=bd.Tuning(list(DRIVER_POLICIES)[seed % 5], index=("auto", "scan")[seed % 2]),  # type: ignore[arg-type]
    )
    wanted = expected(query, tables)
    for rows in (3, 11):
        assert_same_bag(run(query, tables, rows, seed), wanted)


@pytest.mark.parametrize(("streams", "seed"), [(n, s) for n in (2, 3, 5) for s in range(7 - n)])
def test_oracle_one_operator_of_any_width(streams: int, seed: int) -> None:
    names = names_of(streams)
    tables = random_tables(seed, names, rows=(70, 40, 14)[streams // 2 - 1], keys=5)
    query = bd.JoinQuery([bd.Stream(n, "k") for n in names], memory=small(seed))
    assert_same_bag(run(query, tables, 9, seed), expected(query, tables))


@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_oracle_any_key_type(key_type: str) -> None:
    tables = random_tables(5, names_of(3), rows=40, key_type=key_type)
    for defer in (None, False):
        query = bd.JoinQuery([stream(n) for n in tables], plan="linear", memory=bd.Memory(SMALL, defer=defer))
        assert_same_bag(run(query, tables, 9), expected(query, tables))


@pytest.mark.parametrize("seed", seeds(5))
def test_oracle_promises_under_a_budget(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = rng.choice(KINDS[1:], 3).tolist()
    names = names_of(3)
    tables = {n: promised_table(rng, k, rows=24, keys=9) for n, k in zip(names, kinds, strict=True)}
    streams = [promised_stream(n, k) for n, k in zip(names, kinds, strict=True)]
    used = {s.name: (s.flag, s.upto) for s in streams}
    tables = {n: t.drop_columns([c for c in ("p", "upto") if c not in used[n]]) for n, t in tables.items()}
    for defer, plan in ((None, "mjoin"), (False, "linear"), (None, "linear")):
        memory = bd.Memory((SMALL, 3 * SMALL)[seed % 2], defer=defer, flush=FLUSHES[seed % 5])
        tuning = bd.Tuning(purge="immediate")
        query = bd.JoinQuery(streams, plan=plan, memory=memory, tuning=tuning)
        wanted = expected(plainly(query), {n: data_of(t) for n, t in tables.items()})
        assert_same_bag(run(query, tables, 5, seed), wanted)


@pytest.mark.parametrize("seed", seeds(6))
def test_oracle_a_join_that_is_saved_and_restored(seed: int) -> None:
    names = names_of(3)
    tables = random_tables(seed, names, rows=60, keys=5)
    streams = [stream(n) if seed % 2 else bd.Stream(n, "k") for n in names]
    plan: Any = ("mjoin", "linear")[seed // 2 % 2]
    options: dict[str, Any] = {"defer": (None, False)[seed % 2], "take_along": seed % 4 > 0}
    memories = bd.Memory(SMALL, **options), bd.Memory(40 * SMALL, defer=options["defer"])
    queries = [bd.JoinQuery(streams, plan=plan, memory=memory) for memory in memories]
    live, found = bd.LocalJoin(queries[0]), []
    for number, batch in enumerate(batches_of(tables, 7)):
        found.append(live.push(batch))
        if number % 3 == seed % 3:
            live = bd.LocalJoin(queries[number // 3 % 2]).restore(live.snapshot())
    found.append(live.end())
    found = [t for t in found if t.num_columns]
    assert_same_bag(pa.concat_tables(found), expected(queries[0], tables))


def wide(rows: int, seed: int, keys: int = 40) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {"k": rng.integers(0, keys, rows), "v": [f"{n:0500}" for n in rng.integers(0, 1 << 40, rows)]}
    )


def two(memory: bd.Memory | None = None) -> bd.JoinQuery:
    return bd.JoinQuery([bd.Stream("a", "k"), bd.Stream("b", "k")], memory=memory)


def test_the_state_stays_within_the_budget_and_files_go_at_the_end(tmp_path: Path) -> None:
    live = bd.LocalJoin(two(bd.Memory("300 kB", directory=str(tmp_path))))
    seen = 0
    for number in range(12):
        seen += live.push({"a": wide(200, number), "b": wide(200, 100 + number)}).num_rows
        stats = live.stats()
        assert sum(s.live_bytes for s in stats.streams.values()) <= 300_000 + 2 * 200 * 600
        assert all(s.live_rows + s.spilled_rows == 200 * (number + 1) for s in stats.streams.values())
    on_disk = sum(f.stat().st_size for f in tmp_path.rglob("*.arrow"))
    assert live.stats().spilled_bytes == on_disk > 1_000_000
    seen += live.end().num_rows
    assert seen == live.stats().results
    assert live.stats().spilled_bytes == 0
    assert not list(tmp_path.rglob("*.arrow"))
    assert not list(tmp_path.iterdir())


def test_nothing_waits_without_defer() -> None:
    tables = {"a": wide(900, 1), "b": wide(900, 2)}
    exact, live = bd.LocalJoin(two()), bd.LocalJoin(two(bd.Memory(100_000, defer=False)))
    for batch in batches_of(tables, 90):
        assert live.push(batch).num_rows == exact.push(batch).num_rows
    assert live.stats().spilled_bytes > 0
    assert live.end().num_rows == 0


def test_results_keep_coming_while_all_streams_are_silent() -> None:
    live = bd.LocalJoin(two(bd.Memory(100_000)))
    found = sum(live.push(b).num_rows for b in batches_of({"a": wide(900, 1), "b": wide(900, 2)}, 90))
    silent = [live.push({}).num_rows for _ in range(40)]
    assert sum(n > 0 for n in silent) >= 3
    assert "merges group" in live.explain() or "nothing is expected" in live.explain()
    exact = bd.run_local(two(), {"a": wide(900, 1), "b": wide(900, 2)})
    assert found + sum(silent) + live.end().num_rows == exact.num_rows


def test_merged_results_come_in_random_order() -> None:
    """So that an average over the first of them means something: rows of a key must not lie together."""
    live = bd.LocalJoin(two(bd.Memory(400_000, state_manager=False)))
    for batch in batches_of({"a": wide(5000, 1, keys=1500), "b": wide(5000, 2, keys=1500)}, 500):
        live.push(batch)
    keys = live.end().column("a_k").to_numpy()
    runs = np.count_nonzero(keys[1:] != keys[:-1]) + 1
    assert runs > 0.8 * len(keys)


def test_the_example_of_running_averages(capsys: pytest.CaptureFixture[str]) -> None:
    """It converges, comes from disk while nothing arrives, and ends with what the whole join says."""
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "running_average.py"))
    example["main"]()
    lines = capsys.readouterr().out.splitlines()
    seen = [int(line.split(" results")[0].split()[-1].replace(",", "")) for line in lines]
    silent = [n for n, line in zip(seen, lines, strict=True) if "silence" in line]
    assert silent == sorted(silent)  # how many depends on how fast the machine is
    assert silent[-1] > silent[0] > seen[-len(silent) - 2]
    tables = example["ratings"](1)
    exact = bd.run_local(example["query"](None), tables)
    assert seen[-1] == exact.num_rows
    thai = exact.filter(pa.array(exact.column("yelp_kind").to_numpy() == 2))
    mean = np.mean(sum(thai.column(f"{n}_{c}").to_numpy() for n, c in example["SERVICES"].items()))
    assert f"Thai {mean:.3f}" in lines[-1]


def test_a_group_larger_than_the_budget_is_merged_in_slices() -> None:
    memory = bd.Memory(SMALL)
    tables = {"a": wide(300, 1, keys=200), "b": wide(300, 2, keys=200)}
    assert_same_bag(run(two(memory), tables, 30), bd.run_local(two(), tables))


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("defer", [True, False])
@pytest.mark.parametrize("size", [2_000, 40_000])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path, defer: bool, size: int) -> None:
    live = bd.LocalJoin(two(bd.Memory(100_000, directory=str(tmp_path), defer=defer)))
    tables = {"a": wide(900, 1), "b": wide(900, 2)}
    found, failed = 0, 0
    for number, batch in enumerate(batches_of(tables, 90)):
        if number > 2:
            with files_of_at_most(size), contextlib.suppress(bd.BraidedError):
                found += live.push(batch).num_rows
                continue
            failed += 1
        found += live.push(batch).num_rows
    assert failed >= 3
    assert found + live.end().num_rows == bd.run_local(two(), tables).num_rows


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    live = bd.LocalJoin(two(bd.Memory(20_000, directory=str(tmp_path))))
    with files_of_at_most(2_000), pytest.raises(bd.BraidedError, match=r"cannot write rows.*File too large"):
        for number in range(3):
            live.push({"a": wide(90, number), "b": wide(90, number)})


def test_a_directory_that_cannot_be_written_is_named() -> None:
    live = bd.LocalJoin(two(bd.Memory(20_000, directory="/dev/null/nowhere")))
    with pytest.raises(OSError, match="'/dev/null/nowhere': Not a directory; give another one"):
        for number in range(3):
            live.push({"a": wide(90, number), "b": wide(90, number)})


def test_files_that_are_gone_are_named_and_the_call_can_be_repeated(tmp_path: Path) -> None:
    live = bd.LocalJoin(two(bd.Memory(100_000, directory=str(tmp_path), state_manager=False)))
    tables = {"a": wide(900, 1), "b": wide(900, 2)}
    found = sum(live.push(b).num_rows for b in batches_of(tables, 90))
    files = {f: f.read_bytes() for f in tmp_path.rglob("*.arrow")}
    victim = max(files)
    victim.write_bytes(b"garbage" + files[victim][7:])
    with pytest.raises(bd.BraidedError, match="cannot read rows"):
        live.end()
    victim.write_bytes(files[victim])
    assert found + live.end().num_rows == bd.run_local(two(), tables).num_rows


def test_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "braided-spill-left"
    left.mkdir(mode=0o700)
    (left / "lock").write_text("")
    (left / "1.arrow").write_bytes(b"x")
    live = bd.LocalJoin(two(bd.Memory(20_000, directory=str(tmp_path))))
    for number in range(3):
        live.push({"a": wide(90, number), "b": wide(90, number)})
    assert not left.exists()
    assert live.stats().spilled_bytes > 0


def test_what_memory_does_not_go_with() -> None:
    streams = [bd.Stream("a", "k", time="t"), bd.Stream("b", "k", time="t")]
    memory = bd.Memory("1 MB")
    with pytest.raises(bd.BraidedError, match="give one of them"):
        bd.JoinQuery(streams, memory=memory, overload=bd.Overload(probes=10))
    with pytest.raises(bd.BraidedError, match="needs a key"):
        bd.JoinQuery([bd.Stream("a"), bd.Stream("b")], where="a.x = b.x", memory=memory)
    unique = [bd.Stream("a", "k", unique=True), bd.Stream("b", "k", unique=True)]
    with pytest.raises(bd.BraidedError, match="defer=False"):
        bd.LocalJoin(bd.JoinQuery(unique, memory=memory, emit_punctuations=True))


def test_announcements_come_with_defer_off() -> None:
    streams = [bd.Stream("a", "k", unique=True), bd.Stream("b", "k", unique=True)]
    rng = np.random.default_rng(1)
    tables = {n: pa.table({"k": rng.permutation(300), "v": ["x" * 200] * 300}) for n in "ab"}
    query = bd.JoinQuery(streams, memory=bd.Memory(60_000, defer=False), emit_punctuations=True)
    live = bd.LocalJoin(query)
    got = pa.concat_tables([live.push(b) for b in batches_of(tables, 30)])
    flags = got.column("punctuation").to_numpy()
    assert sorted(got.column("a_k").to_numpy()[~flags]) == list(range(300))
    assert sorted(got.column("a_k").to_numpy()[flags]) == list(range(300))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": "many"}, "size such as '512 MB'"),
        ({"limit": 10}, "at least 4,096 bytes"),
        ({"limit": True}, "bytes or a text"),
        ({"limit": 1 << 20, "flush": "largst"}, "did you mean 'largest'"),
        ({"limit": 1 << 20, "flush_share": 0}, "above 0"),
        ({"limit": 1 << 20, "alpha": 2}, "at most 1"),
        ({"limit": 1 << 20, "interval": "0 seconds"}, "above zero"),
        ({"limit": 1 << 20, "state_manager": 1}, "True or False"),
        ({"limit": 1 << 20, "average_of": 0}, "from 1 on"),
    ],
)
def test_bad_budgets_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(bd.BraidedError, match=message):
        bd.Memory(**options)


def test_a_budget_is_a_plain_value() -> None:
    memory = bd.Memory("1.5 MiB", flush="hash-merge", interval="90 seconds")
    assert bd.Memory.from_dict(memory.to_dict()) == memory
    assert memory.limit == 1_572_864
    assert two(memory) == bd.JoinQuery.from_dict(two(memory).to_dict())
    assert two(memory).fingerprint() == two().fingerprint()


def test_a_budget_is_explained() -> None:
    said = two(bd.Memory("1 MB")).explain()
    assert "at most 1,000,000 bytes of state" in said
    assert "whenever that gives more results than memory" in said
    assert "ends with all of its results" in two(bd.Memory("1 MB", defer=False)).explain()
    assert "is joined at the end" in two(bd.Memory("1 MB", flush="state-spill")).explain()


def test_the_clock_only_moves_statistics() -> None:
    """Decisions are by a clock that is handed in: the same calls give the same results in the same order."""
    tables = {"a": wide(900, 1), "b": wide(900, 2)}

    def once() -> list[int]:
        now = iter(range(10**9))
        engine = Engine(two(bd.Memory(100_000)), Site(clock=lambda: float(next(now))))
        found = []
        for batch in batches_of(tables, 90):
            steps = [sum(t.num_rows for t in step) for step in engine.before()]
            found += [*steps, sum(t.num_rows for t in engine.step(engine.accept(batch)))]
        return found

    assert once() == once()


@pytest.mark.parametrize("flush", FLUSHES)
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_rows_are_flushed_before_all_streams_have_come(flush: Any, plan: Any) -> None:
    """A stream that came late, or never, was asked for its rows before it had any."""
    tables = random_tables(3, names_of(3), rows=40, keys=6)
    wanted = expected(bd.JoinQuery([bd.Stream(n, "k") for n in tables]), tables)
    for late in tables:
        for defer in (None, False):
            memory = bd.Memory(SMALL, flush=flush, defer=defer)
            query = bd.JoinQuery([bd.Stream(n, "k") for n in tables], plan=plan, memory=memory)
            live, never = bd.LocalJoin(query), bd.LocalJoin(query)
            parts = [
                {n: t for n, t in b.items() if (n == late) == comes}
                for comes in (False, True)
                for b in batches_of(tables, 9)
            ]
            found = [live.push(b) for b in parts] + [live.end()]
            assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), wanted)
            found = [never.push(b) for b in parts if late not in b] + [never.end()]
            assert sum(t.num_rows for t in found) == 0


@pytest.mark.parametrize("flush", ["rpj", "largest"])
def test_rows_on_disk_do_not_go_on_with_inputs_flushed_one_by_one(flush: Any) -> None:
    """Restored rows do not tell when they arrived: all that they owed was taken for found, and lost."""
    live = bd.LocalJoin(two(bd.Memory(20_000)))
    for batch in batches_of({"a": wide(200, 1), "b": wide(200, 2)}, 50):
        live.push(batch)
    with pytest.raises(bd.BraidedError, match="cannot tell which have met"):
        bd.LocalJoin(two(bd.Memory(20_000, flush=flush))).restore(live.snapshot())


@pytest.mark.parametrize("defer", [None, False])
def test_promises_of_texts_after_all_rows_went_to_disk(defer: bool | None) -> None:
    """A restored side without rows knows no second hashes, and could not be put together with pieces."""
    rng = np.random.default_rng(1)
    tables = {n: pa.table({"k": [f"key {k}" for k in rng.permutation(60)]}) for n in "ab"}
    query = bd.JoinQuery([bd.Stream(n, "k", unique=True) for n in "ab"], memory=bd.Memory(4096, defer=defer))
    live, found = bd.LocalJoin(query), 0
    for batch in batches_of(tables, 7):
        found += live.push(batch).num_rows
        live = bd.LocalJoin(query).restore(live.snapshot())
    assert found + live.end().num_rows == 60


@pytest.mark.parametrize("seed", seeds(4))
def test_purged_rows_are_not_flushed(seed: int) -> None:
    """They came back on disk, and were counted as gone twice: fewer than no rows were left."""
    rng = np.random.default_rng(seed)
    names = names_of(3)
    tables = {n: promised_table(rng, "unique", rows=40, keys=40) for n in names}
    tables = {n: t.drop_columns(["p", "upto"]) for n, t in tables.items()}
    query = bd.JoinQuery(
        [promised_stream(n, "unique") for n in names],
        memory=small(seed, groups=64),
        tuning=bd.Tuning(purge="immediate"),
    )
    live, rows = bd.LocalJoin(query), 0
    for batch in batches_of(tables, 10):
        live.push(batch)
        rows += 10
        for seen in live.stats().streams.values():
            assert seen.live_rows >= 0
            assert seen.live_rows + seen.spilled_rows + seen.purged_rows == rows


@pytest.mark.parametrize("seed", seeds(10))
def test_oracle_merges_wait_no_more_after_a_restore(seed: int) -> None:
    """Rows that owed something expired before it was found, because without `defer` none does."""
    tables = random_tables(seed, names_of(3), rows=60, span_us=400)
    queries = [
        bd.JoinQuery(
            [stream(n, "40 us") for n in tables],
            plan=("mjoin", "linear")[seed % 2],
            memory=bd.Memory(SMALL, defer=defer, state_manager=False),
        )
        for defer in (None, False)
    ]
    live, found = bd.LocalJoin(queries[0]), []
    for number, batch in enumerate(batches_of(tables, 5)):
        found.append(live.push(batch))
        if number % 3 == 2:
            live = bd.LocalJoin(queries[number % 2]).restore(live.snapshot())
    found.append(live.end())
    assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), expected(queries[0], tables))


@pytest.mark.parametrize("name", ["__hash", "__time", "__end", "__check", "__born", "__number"])
def test_columns_may_have_any_name(name: str) -> None:
    """These were taken for what is written behind the columns."""
    tables = {n: wide(60, s).append_column(name, pa.array(range(60))) for s, n in enumerate("ab")}
    live, found = bd.LocalJoin(two(bd.Memory(SMALL))), []
    for batch in batches_of(tables, 10):
        found.append(live.push(batch))
        live = bd.LocalJoin(live.query).restore(live.snapshot())
    assert_same_bag(pa.concat_tables([*found, live.end()]), bd.run_local(two(), tables))


@pytest.mark.parametrize("flush", FLUSHES)
def test_no_empty_files_stay(tmp_path: Path, flush: Any) -> None:
    """Where all groups were written anew, the file of the others had no piece, and so was never removed."""
    rng = np.random.default_rng(1)
    memory = bd.Memory(9_000, defer=False, directory=str(tmp_path), groups=2, flush=flush)
    live = bd.LocalJoin(two(memory))
    for _ in range(100):
        live.push({n: pa.table({"k": rng.integers(0, 3000, 2)}) for n in "ab"})
    assert all(f.stat().st_size for f in tmp_path.rglob("*.arrow"))


def test_an_end_that_was_not_read_is_gone_on_with_and_takes_no_more_rows() -> None:
    """Its state is given up step by step: rows pushed afterwards missed their partners."""
    tables = {"a": wide(900, 1), "b": wide(900, 2)}
    live = bd.LocalJoin(two(bd.Memory(100_000, state_manager=False)))
    found = sum(live.push(b).num_rows for b in batches_of(tables, 90))
    live.stream_end()  # not begun
    assert live.push({}).num_rows == 0
    for _ in range(5):
        found += next(live.stream_end(chunk_rows=7)).num_rows
    for call in (lambda: live.push({}), live.snapshot):
        with pytest.raises(bd.BraidedError, match="this join is ending"):
            call()
    assert found + live.end().num_rows == bd.run_local(two(), tables).num_rows


@pytest.mark.parametrize("defer", [None, False])
@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_every_row_is_in_memory_on_disk_or_expired(plan: Any, defer: bool | None) -> None:
    """Rows that died on disk were in no count."""
    tables = random_tables(1, names_of(3), rows=90, span_us=900, nulls=False)
    query = bd.JoinQuery([stream(n) for n in tables], plan=plan, memory=bd.Memory(SMALL, defer=defer))
    live = bd.LocalJoin(query)
    for batch in batches_of(tables, 5):
        live.push(batch)
        for seen in live.stats().streams.values():
            assert seen.live_rows + seen.spilled_rows + seen.expired_rows == seen.rows_in


@pytest.mark.parametrize("flush", FLUSHES[:3])
def test_a_tree_goes_on_with_fewer_groups(flush: Any) -> None:
    """A smaller limit has fewer groups than those that restored rows carry."""
    tables = random_tables(1, names_of(3), rows=60, keys=20)
    queries = [
        bd.JoinQuery(
            [bd.Stream(n, "k") for n in tables],
            plan="linear",
            memory=bd.Memory(4 * SMALL, groups=groups, flush=flush),
        )
        for groups in (256, 4)
    ]
    live, found = bd.LocalJoin(queries[0]), []
    for number, batch in enumerate(batches_of(tables, 7)):
        found.append(live.push(batch))
        live = bd.LocalJoin(queries[number % 2]).restore(live.snapshot())
    found.append(live.end())
    assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), expected(queries[0], tables))
