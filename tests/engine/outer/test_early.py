"""Nulls that come early: what streams promise settles rows before their deadline, and lets them go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import assert_same_bag, expected
from tests.promised import KINDS, batches_of, data_of, plainly, promised_stream, promised_table
from tests.seeds import seeds
from tests.workloads import names_of

HOWS = ["left", "semi", "anti"]


class Case:
    """A random query with optional streams that promise, and rows that keep it; some keys are null."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        names = names_of(int(rng.integers(2, 5)))
        kinds = rng.choice(KINDS, len(names)).tolist()
        kinds = kinds if set(kinds) != {"any"} else ["any"] * (len(names) - 1) + ["punctuated"]
        hows = ["inner", *rng.choice(["inner", *HOWS, *HOWS], len(names) - 1).tolist()]
        if len(names) == 2 and rng.random() < 0.4:
            hows[1] = "full"
        window: Any = rng.choice(["unbounded", "9 us", "60 us"])
        streams = [
            promised_stream(
                n,
                kind,
                how=how,
                window=self._window(how, window) if n != names[0] else window,
                lateness="0 us",
            )
            for n, kind, how in zip(names, kinds, hows, strict=True)
        ]
        key_type = str(rng.choice(["int64", "string"])) if "range" not in kinds else "int64"
        tables = {
            n: promised_table(rng, kind, rows=18, keys=9, key_type=key_type)
            for n, kind in zip(names, kinds, strict=True)
        }
        used = {s.name: (s.flag, s.upto) for s in streams}
        self.tables = {
            n: t.drop_columns([c for c in ("p", "upto") if c not in used[n]]) for n, t in tables.items()
        }
        tuning = bd.Tuning(
            purge=rng.choice(["immediate", "batch"]),
            index=rng.choice(["auto", "scan", "hash"]),
            expiry=rng.choice(["active", "lazy"]),
        )
        plan = rng.choice(["mjoin", "linear"])
        self.query = bd.JoinQuery(streams, plan=plan, tuning=tuning)
        self.wanted = expected(plainly(self.query), {n: data_of(t) for n, t in self.tables.items()})

    def _window(self, how: str, window: Any) -> Any:
        """Some streams are as of the others; the first one is "inner" and keeps its window."""
        if how not in ("inner", "left") or (how == "inner" and not self.rng.random() < 0.2):
            return window
        return bd.AsOf("20 us") if self.rng.random() < 0.3 else window


@pytest.mark.parametrize("seed", seeds(150))
def test_oracle_optional_streams_that_promise(seed: int) -> None:
    case = Case(seed)
    for rows in (1, 5, 1000):
        live, found = bd.LocalJoin(case.query), []
        for batch in batches_of(case.tables, rows):
            found.append(live.push(batch))
            if case.rng.random() < 0.3:
                live = bd.LocalJoin(case.query).restore(live.snapshot())
        found.append(live.end())
        assert_same_bag(pa.concat_tables([f for f in found if f.num_columns]), case.wanted)


def rows(*keys: int | None, at: int = 0, ends: tuple[int, ...] = ()) -> pa.Table:
    """Rows of some keys at a time, and punctuations of others."""
    every = [*keys, *ends]
    return pa.table(
        {
            "k": pa.array(every, pa.int64()),
            "t": pa.array([at] * len(every), pa.timestamp("us")),
            "v": pa.array([*(f"{k}@{at}" for k in keys), *(None for _ in ends)], pa.string()),
            "p": [False] * len(keys) + [True] * len(ends),
        }
    )


def stream(name: str, **options: Any) -> bd.Stream:
    """A stream with windows without end, unless asked otherwise."""
    options = {"window": "unbounded", "lateness": "0 us", "time": "t", **options}
    return bd.Stream(name, "k", **options)


def pairs(found: pa.Table) -> list[tuple[str, str | None]]:
    """The values of orders and payments in results."""
    return (
        []
        if not found.num_columns
        else sorted(zip(found["orders_v"].to_pylist(), found["payments_v"].to_pylist(), strict=True), key=str)
    )


def live_rows(live: bd.LocalJoin) -> list[int | None]:
    """Rows held of each stream."""
    return [s.live_rows for s in live.stats().streams.values()]


def payments(how: Any = "left", **options: Any) -> bd.LocalJoin:
    """Unique orders with punctuated payments."""
    streams = [
        stream("orders", unique=True),
        stream("payments", punctuation="p", how=how),
    ]
    return bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate"), **options))


def orders(*keys: int | None, at: int = 0) -> pa.Table:
    """Orders bring no punctuations."""
    return rows(*keys, at=at).drop_columns(["p"])


def test_a_null_comes_with_the_punctuation_and_both_are_forgotten() -> None:
    live = payments()
    assert pairs(live.push({"orders": orders(1, 2), "payments": rows(2)})) == [("2@0", "2@0")]
    assert live_rows(live) == [2, 1]
    assert pairs(live.push({"payments": rows(2, at=5, ends=(1,))})) == [("1@0", None), ("2@0", "2@5")]
    assert live_rows(live) == [1, 2]
    assert pairs(live.push({"payments": rows(ends=(2, 3))})) == []
    assert live_rows(live) == [0, 0]
    assert pairs(live.push({"orders": orders(3, at=9)})) == [("3@9", None)]
    assert live_rows(live) == [0, 0]
    assert pairs(live.end()) == []


def test_rows_without_a_key_settle_at_once_and_stay_for_no_time() -> None:
    live = payments()
    assert pairs(live.push({"orders": orders(None, None), "payments": rows(4)})) == [("None@0", None)] * 2
    assert live_rows(live) == [0, 1]


def test_rows_without_a_key_end_no_cluster() -> None:
    streams = [stream("orders", arrival="clustered"), stream("payments", punctuation="p", how="left")]
    live = bd.LocalJoin(bd.JoinQuery(streams))
    for key in (8, None, 8):
        live.push({"orders": orders(key), "payments": rows(99)})
    assert live.stats().streams["orders"].closed_keys == 0


@pytest.mark.parametrize(("how", "came"), [("anti", ["1@0"]), ("semi", [])])
def test_anti_and_semi_rows_end_with_a_key(how: str, came: list[str]) -> None:
    live = payments(how)
    first = live.push({"orders": orders(1, 2), "payments": rows(2, 2)})
    assert (first["orders_v"].to_pylist() if first.num_columns else []) == (["2@0"] if how == "semi" else [])
    then = live.push({"payments": rows(ends=(1, 2))})
    assert (then["orders_v"].to_pylist() if then.num_columns else []) == came
    assert live_rows(live) == [0, 0]


def test_a_row_settles_once_though_closed_keys_are_dropped_and_the_state_is_loaded() -> None:
    query = bd.JoinQuery(
        [
            stream("orders", window="10 us"),
            stream("payments", punctuation="p", how="left", window="10 us"),
        ]
    )
    live, came = bd.LocalJoin(query), []
    came += pairs(live.push({"orders": rows(1, at=1000).drop_columns(["p"]), "payments": rows(ends=(1,))}))
    assert came == [("1@1000", None)]
    for at in (100, 200, 300, 400, 1100):  # closed keys are dropped after a while, and the order stays
        came += pairs(live.push({"payments": rows(7, at=at)}))
        live = bd.LocalJoin(query).restore(live.snapshot())
    came += pairs(live.push({"orders": rows(8, at=1100).drop_columns(["p"])}))
    came += pairs(live.end())
    assert sorted(came, key=str) == [("1@1000", None), ("8@1100", None)]


def test_partners_stay_until_the_last_optional_stream_is_closed() -> None:
    streams = [
        stream("orders", unique=True),
        stream("payments", punctuation="p", how="left"),
        stream("shipments", punctuation="p", how="left"),
    ]
    live = bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate")))
    none = live.push({"orders": orders(1), "payments": rows(1), "shipments": rows(9)})
    assert not none.num_rows
    assert not live.push({"payments": rows(ends=(1,))}).num_rows
    assert live_rows(live) == [1, 1, 1]
    late = live.push({"shipments": rows(1, 1, at=7, ends=(1,))})
    assert pairs(late) == [("1@0", "1@0")] * 2
    assert live_rows(live) == [0, 0, 1]


def test_a_full_join_settles_both_sides() -> None:
    streams = [stream("orders", punctuation="p"), stream("payments", punctuation="p", how="full")]
    live = bd.LocalJoin(bd.JoinQuery(streams, tuning=bd.Tuning(purge="immediate")))
    assert pairs(live.push({"orders": rows(1, 2), "payments": rows(2, 3)})) == [("2@0", "2@0")]
    assert pairs(live.push({"orders": rows(ends=(2, 3)), "payments": rows(ends=(1,))})) == [
        ("1@0", None),
        (None, "3@0"),
    ]
    assert live_rows(live) == [1, 1]
    live.push({"orders": rows(ends=(1,)), "payments": rows(ends=(2, 3))})
    assert live_rows(live) == [0, 0]


def test_a_key_is_announced_once_its_nulls_are_out() -> None:
    live = payments(emit_punctuations=True)
    live.push({"orders": orders(1, 2), "payments": rows(2)})
    found = live.push({"payments": rows(ends=(1, 2))})
    told = found["punctuation"].to_pylist()
    assert told == [False, True, True]
    assert found["payments_v"].to_pylist()[0] is None


def test_promises_about_one_of_several_keys_do_not_go_with_optional_streams() -> None:
    streams = [
        bd.Stream("a", time="t", window="1 s"),
        bd.Stream("b", "k", time="t", window="1 s", unique=True),
        bd.Stream("c", time="t", window="1 s", how="left"),
    ]
    with pytest.raises(bd.BraidedError, match="about one of several keys"):
        bd.JoinQuery(streams, on=[("a.k", "b.k"), ("b.m", "c.m")])
