"""Count windows in trees: a row of an intermediate may leave its window after the intermediate was made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine import saving
from braided.engine.engine import Engine
from braided.engine.sides.side import SideState
from braided.engine.state import Table
from braided.testing import assert_same_bag, end, expect_results, expected, push, run_script
from tests.operators.test_plans import FOUR, GRAPHS, PLANS, graph_tables
from tests.seeds import seeds
from tests.workloads import KEY_TYPES, random_tables, stream


def windows(rng: np.random.Generator, number: int, *, per: tuple[str, ...] = ("key", "stream")) -> list[Any]:
    """Count and time windows mixed, at least one of them counting."""
    made: list[Any] = [
        bd.CountWindow(int(rng.integers(1, 6)), per=str(rng.choice(per)))  # type: ignore[arg-type]
        if rng.random() < 0.6
        else (f"{int(rng.integers(5, 60))} us", "unbounded")[int(rng.random() < 0.2)]
        for _ in range(number)
    ]
    if not any(isinstance(w, bd.CountWindow) for w in made):
        made[int(rng.integers(number))] = bd.CountWindow(2, per=str(rng.choice(per)))  # type: ignore[arg-type]
    return made


def cut(rng: np.random.Generator, tables: dict[str, pa.Table]) -> list[dict[str, pa.Table]]:
    """Batches of any sizes, some of them without rows of a stream."""
    number = int(rng.integers(1, 12))
    edges = {n: np.sort(rng.integers(0, t.num_rows + 1, number - 1)) for n, t in tables.items()}
    spans = {n: [0, *e.tolist(), tables[n].num_rows] for n, e in edges.items()}
    return [{n: t.slice(spans[n][i], spans[n][i + 1] - spans[n][i]) for n, t in tables.items()}
            for i in range(number)]  # fmt: skip


def run(query: bd.JoinQuery, batches: list[dict[str, pa.Table]], *, saved_at: int = -1) -> pa.Table:
    live, found = bd.LocalJoin(query), []
    for i, batch in enumerate(batches):
        if i == saved_at:
            live = bd.LocalJoin(query).restore(live.snapshot())
        found.append(live.push(batch))
    assert not any(t.num_rows for t in live.late().values())
    return pa.concat_tables([*found, live.end()])


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("seed", seeds(6))
def test_oracle_every_plan_counts_rows_alike(plan: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = random_tables(seed, FOUR, rows=45, keys=int(rng.integers(1, 5)), span_us=80)
    query = bd.JoinQuery(
        [stream(n, w) for n, w in zip(FOUR, windows(rng, 4), strict=True)],
        within={("s0", "s2"): ("-15 us", "20 us")} if seed % 2 else None,
        where="s0.n > s2.n" if seed % 3 == 0 else None,
        plan=PLANS[plan],
    )
    wanted = expected(query, tables)
    batches = cut(rng, tables)
    assert_same_bag(run(query, batches, saved_at=int(rng.integers(len(batches)))), wanted)
    for batch_rows in (1, 7, 1000):
        assert_same_bag(bd.run_local(query, tables, batch_rows=batch_rows), wanted)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("seed", seeds(4))
def test_oracle_rows_are_counted_by_all_columns_that_join_them(graph: str, seed: int) -> None:
    on, plans = GRAPHS[graph]
    rng = np.random.default_rng(seed)
    tables = graph_tables(seed, FOUR)
    chosen = windows(rng, 4)
    streams = [bd.Stream(n, time="t", window=w, lateness="12 us") for n, w in zip(FOUR, chosen, strict=True)]
    wanted = expected(bd.JoinQuery(streams, on=on), tables)
    for plan in plans:
        query = bd.JoinQuery(streams, on=on, plan=plan)
        batches = cut(rng, tables)
        assert_same_bag(run(query, batches, saved_at=int(rng.integers(len(batches)))), wanted)


@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_oracle_rows_are_counted_by_any_key_type(key_type: str) -> None:
    tables = random_tables(5, FOUR[:3], rows=40, key_type=key_type)
    query = bd.JoinQuery([stream(n, bd.CountWindow(2)) for n in FOUR[:3]], plan="linear")
    assert_same_bag(bd.run_local(query, tables, batch_rows=9), expected(query, tables))


def test_oracle_text_keys_that_collide_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braided.engine.sides.keys._COLLISION_MASK", 1)
    tables = graph_tables(1, FOUR, key_type="string")
    streams = [bd.Stream(n, time="t", window=bd.CountWindow(3), lateness="12 us") for n in FOUR]
    for on, plans in GRAPHS.values():
        if ("s0.m", "s1.k") not in on:  # compares text with numbers
            for plan in plans:
                query = bd.JoinQuery(streams, on=on, plan=plan)
                assert_same_bag(bd.run_local(query, tables, batch_rows=11), expected(query, tables))


@pytest.mark.parametrize("per", ["key", "stream"])
def test_a_component_leaves_after_its_intermediate_was_made(per: Any) -> None:
    windows: list[Any] = [bd.CountWindow(1, per=per), "100 us", "100 us"]
    query = bd.JoinQuery([bd.Stream(n, "k", time="t", window=w) for n, w in zip("abc", windows, strict=True)],
                         plan="linear")  # fmt: skip
    run_script(
        query,
        push(a=[{"k": 1, "t": 1}], b=[{"k": 1, "t": 2}], c=[{"k": 1, "t": 3}]),
        push(a=[{"k": 1, "t": 9}], b=[{"k": 2, "t": 9}], c=[{"k": 1, "t": 8}, {"k": 1, "t": 9}]),
        expect_results({"a_t": 1, "c_t": 3}, {"a_t": 1, "c_t": 8}),
        push(c=[{"k": 1, "t": 10}]),  # (a 1, b 2) is stored, and a's row left at 9
        end(),
        expect_results(*({"a_t": 9, "c_t": t} for t in (3, 8, 9, 10))),
    )


def test_late_rows_count_for_no_window() -> None:
    query = bd.JoinQuery(
        [bd.Stream(n, "k", time="t", window=bd.CountWindow(1)) for n in "abc"], plan="linear"
    )
    live = bd.LocalJoin(query)
    rows = pa.table({"k": [1], "t": [5]})
    found = [
        live.push(dict.fromkeys("abc", rows)),
        live.push(dict.fromkeys("abc", pa.table({"k": [2], "t": [9]}))),
    ]
    found += [live.push({"a": pa.table({"k": [1], "t": [7]})}), live.end()]
    assert live.late()["a"].num_rows == 1
    both = pa.table({"k": [1, 2], "t": [5, 9]})
    assert_same_bag(pa.concat_tables(found), expected(query, dict.fromkeys("abc", both)))


@pytest.mark.parametrize("per", ["key", "stream"])
@pytest.mark.parametrize("batch_rows", [10, 400])
def test_intermediates_hold_what_is_inside_count_windows(per: Any, batch_rows: int) -> None:
    keys, rows = 20, 3 if per == "key" else 60
    streams = [bd.Stream(n, key="k", time="t", window=bd.CountWindow(rows, per=per)) for n in "abcd"]
    live = bd.LocalJoin(bd.JoinQuery(streams, plan=(("a", "b"), ("c", "d"))))
    for start in range(0, 8_000, batch_rows):
        t = np.arange(start, start + batch_rows)
        live.push({n: pa.table({"k": t % keys, "t": t}) for n in "abcd"})
        seen = live.stats()
        inside = keys * 3 * 3  # 3 rows of a and 3 of b for each key
        made = batch_rows * 3 * 2
        for name in ("(a b)", "(c d)"):
            assert seen.intermediates[name].live_rows <= 4 * inside + made, start
        assert seen.streams["a"].live_rows <= 4 * 60 + 2 * batch_rows


def test_intermediates_go_though_none_are_made_any_more() -> None:
    """Rows of streams tell when to look through them, too: keys that are never met again hold nothing."""
    streams = [bd.Stream(n, key="k", time="t", window=bd.CountWindow(50, per="stream")) for n in "abc"]
    live = bd.LocalJoin(bd.JoinQuery(streams, plan="linear"))
    met = np.zeros(50, np.int64)
    live.push({n: pa.table({"k": met, "t": np.arange(50)}) for n in "abc"})
    live.push({n: pa.table({"k": [7 + i], "t": [60]}) for i, n in enumerate("abc")})
    assert live.stats().intermediates["(a b)"].live_rows == 2500
    for start in range(100, 3_000, 100):
        t = np.arange(start, start + 100)
        live.push({n: pa.table({"k": t * 3 + i, "t": t}) for i, n in enumerate("abc")})
    assert live.stats().intermediates["(a b)"].live_rows == 0


@pytest.mark.parametrize("after", ["mjoin", *PLANS])
@pytest.mark.parametrize("before", ["mjoin", "linear", "bushy"])
def test_oracle_a_saved_state_goes_on_in_any_plan(before: str, after: str) -> None:
    rng = np.random.default_rng(len(before) * 7 + len(after))
    tables = random_tables(4, FOUR, rows=40, keys=3)
    streams = [stream(n, w) for n, w in zip(FOUR, windows(rng, 4), strict=True)]
    cuts = {n: t.num_rows // 2 for n, t in tables.items()}
    first = bd.LocalJoin(bd.JoinQuery(streams, plan=PLANS.get(before, before)))
    found = [first.push({n: t.slice(0, cuts[n]) for n, t in tables.items()})]
    second = bd.LocalJoin(bd.JoinQuery(streams, plan=PLANS.get(after, after))).restore(first.snapshot())
    found += [second.push({n: t.slice(cuts[n]) for n, t in tables.items()}), second.end()]
    assert_same_bag(pa.concat_tables(found), expected(second.query, tables))


@pytest.mark.parametrize("fail_at", range(1, 8))
def test_a_batch_that_fails_leaves_nothing_behind(fail_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = random_tables(6, FOUR, rows=40, keys=3)
    chosen = [bd.CountWindow(2), bd.CountWindow(4, per="stream"), "40 us", bd.CountWindow(3)]
    streams = [stream(n, w) for n, w in zip(FOUR, chosen, strict=True)]
    query = bd.JoinQuery(streams, plan=PLANS["bushy"])
    live = bd.LocalJoin(query)
    found = [live.push({n: t.slice(0, 15) for n, t in tables.items()})]
    calls, plain = iter(range(1, 100)), SideState.append

    def failing(side: SideState, rows: Any) -> None:
        plain(side, rows)
        if next(calls) == fail_at:
            raise MemoryError("no room")

    rest = {n: t.slice(15) for n, t in tables.items()}
    with monkeypatch.context() as patch:
        patch.setattr(SideState, "append", failing)
        if fail_at <= 6:
            with pytest.raises(MemoryError):
                live.push(rest)
            patch.undo()
        found.append(live.push(rest))
    assert_same_bag(pa.concat_tables([*found, live.end()]), expected(query, tables))


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_one_operator_counts_by_all_columns_that_join_a_stream(seed: int) -> None:
    """Rows were counted by the column that all streams have, though `on` joined some by another one, too."""
    names = FOUR[:3]
    tables = graph_tables(seed, names)
    streams = [bd.Stream(n, time="t", window=bd.CountWindow(2), lateness="12 us") for n in names]
    for on in (
        [("s0.k", "s1.k"), ("s1.k", "s2.k"), ("s0.m", "s1.m")],
        [("s0.k", "s1.k"), ("s0.m", "s1.k"), ("s1.k", "s2.k")],
    ):
        query = bd.JoinQuery(streams, on=on)
        assert query.flat
        assert_same_bag(bd.run_local(query, tables, batch_rows=7), expected(query, tables))


def test_oracle_rows_with_the_same_time_may_be_saved_in_different_pieces() -> None:
    """Rows loaded before others with their time were counted as older than these, and left one row early."""
    tables = random_tables(3, FOUR[:3], rows=50, keys=2, span_us=12)
    query = bd.JoinQuery([stream(n, bd.CountWindow(3), lateness="2 us") for n in FOUR[:3]], plan="linear")
    cuts = {n: t.sort_by("t") for n, t in tables.items()}
    first, second = Engine(query), Engine(query)
    found = list(first.step(first.accept({n: t.slice(0, 25) for n, t in cuts.items()})))
    state = saving.save(first)
    for name, part in state.parts.items():
        rows = [batch.slice(i, 1) for batch in part.batches for i in range(batch.num_rows)]
        state.parts[name] = Table(part.schema, rows)
    saving.load(second, state)
    found += second.step(second.accept({n: t.slice(25) for n, t in cuts.items()}))
    for step in second.finish():
        found += step
    assert_same_bag(pa.concat_tables(found), expected(query, cuts))
