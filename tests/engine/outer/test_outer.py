"""Optional streams against nested loops: kinds, plans, keys, nulls, lateness, saved states, sizes."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.operators import partners
from braided.query.bounds import INFINITE_US
from braided.testing import assert_same_bag, bag, expected
from tests.seeds import seeds

KINDS = ["inner", "left", "semi", "anti"]


class Case:
    """A random query with optional streams, and rows for it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.names = [f"s{i}" for i in range(int(rng.integers(2, 5)))]
        self.kinds = ["inner", *rng.choice(KINDS, len(self.names) - 1).tolist()]
        if all(kind == "inner" for kind in self.kinds):
            self.kinds[-1] = "left"
        if len(self.names) == 2 and rng.random() < 0.4:
            self.kinds[1] = "full"
        self.as_of = [kind in ("inner", "left") and rng.random() < 0.25 for kind in self.kinds]
        self.as_of[0] = False
        self.text = bool(rng.random() < 0.3)  # keys whose hashes may collide
        self.ids = 0

    def query(self, overload: bd.Overload | None = None) -> bd.JoinQuery:
        rng, on = self.rng, self._on()
        lateness = f"{rng.choice([0, 5])} us"
        drivers: Any = ["initial-output-size"] if overload else ["output-rate", "timestamp", "round-robin"]
        tuning = bd.Tuning(
            rng.choice(drivers),
            expiry=rng.choice(["active", "lazy"]),
            index=rng.choice(["auto", "scan", "hash"]),
        )
        streams = [
            bd.Stream(
                n,
                None if on else "k",
                time="t",
                window=bd.AsOf(w) if as_of else w,
                lateness=lateness,
                how=how,
            )
            for n, how, as_of in zip(self.names, self.kinds, self.as_of, strict=True)
            if (w := f"{rng.choice([0, 3, 9, 20])} us")
        ]
        plan = rng.choice(["mjoin", "linear"])
        return bd.JoinQuery(streams, on, where=self._where(), plan=plan, tuning=tuning, overload=overload)

    def _on(self) -> list[tuple[str, str]] | None:
        rng, required = self.rng, ["s0"]
        if rng.random() < 0.5:
            return None
        pairs = []
        for name, kind in zip(self.names[1:], self.kinds[1:], strict=True):
            pairs.append(
                (f"{rng.choice(required)}.{rng.choice(['k', 'm'])}", f"{name}.{rng.choice(['k', 'm'])}")
            )
            required += [name] if kind == "inner" and not self.as_of[self.names.index(name)] else []
        return pairs

    def _where(self) -> str | None:
        name = self.rng.choice(self.names)
        return (
            str(self.rng.choice([f"s0.n <= {name}.n + 1", f"{name}.n > 0"]))
            if self.rng.random() < 0.4
            else None
        )

    def batch(self, now: int) -> dict[str, pa.Table]:
        return {name: self._table(now) for name in self.names}

    def _table(self, now: int) -> pa.Table:
        rng, rows = self.rng, int(self.rng.integers(0, 9))
        times = np.maximum(now + rng.integers(-8, 8, rows), 0)
        self.ids += rows
        return pa.table(
            {
                **{c: self._keys(rows) for c in ("k", "m")},
                "n": rng.integers(0, 4, rows),
                "t": pa.array(times, pa.timestamp("us")),
                "id": np.arange(self.ids - rows, self.ids),
            }
        )

    def _keys(self, rows: int) -> pa.Array:
        keys = [None if self.rng.random() < 0.1 else int(k) for k in self.rng.integers(0, 3, rows)]
        return pa.array(keys, pa.int64()).cast(pa.string()) if self.text else pa.array(keys, pa.int64())

    def run(self, query: bd.JoinQuery) -> tuple[pa.Table, pa.Table]:
        """What a join finds that is saved and loaded now and then, and what it must find."""
        live, rng, now = bd.LocalJoin(query), self.rng, 20
        found: list[pa.Table] = []
        accepted: dict[str, list[pa.Table]] = {name: [] for name in self.names}
        for _ in range(int(rng.integers(2, 6))):
            batch = self.batch(now)
            found.append(live.push(batch))
            late = live.late()
            for name, table in batch.items():
                out = late[name]["id"].to_pylist() if name in late else []
                accepted[name].append(
                    table.filter(pa.array([i not in out for i in table["id"].to_pylist()], pa.bool_()))
                )
            if rng.random() < 0.3:
                live = bd.LocalJoin(query).restore(live.snapshot())
            now += int(rng.choice([0, 5, 15, 60]))
        found.append(live.end())
        wanted = expected(query, {name: pa.concat_tables(tables) for name, tables in accepted.items()})
        return pa.concat_tables([f for f in found if f.num_columns]), wanted


@pytest.mark.parametrize("seed", seeds(150))
def test_oracle_optional_streams(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # as-of rows are looked up among sorted ones, else along the index
        monkeypatch.setattr(partners, "_SORTING", -1)
    case = Case(seed)
    found, wanted = case.run(case.query())
    assert_same_bag(found, wanted)


@pytest.mark.parametrize("seed", seeds(40))
def test_oracle_rationed_probes_make_no_false_null(seed: int) -> None:
    case = Case([7, seed])  # type: ignore[arg-type]
    found, wanted = case.run(case.query(bd.Overload(int(case.rng.integers(1, 12)))))
    assert not bag(found) - bag(wanted)


def rows(times: list[int], keys: list[int | None] | None = None) -> pa.Table:
    return pa.table(
        {"k": pa.array(keys or [1] * len(times), pa.int64()), "t": pa.array(times, pa.timestamp("us"))}
    )


def two(how: str, **options: Any) -> bd.LocalJoin:
    streams = [
        bd.Stream("a", "k", time="t", window="10 us"),
        bd.Stream("b", "k", time="t", window="4 us", how=how),
    ]
    return bd.LocalJoin(bd.JoinQuery(streams, **options))


def test_a_null_comes_with_the_batch_whose_watermark_passes_the_deadline() -> None:
    live = two("left")
    live.push({"a": rows([20]), "b": rows([0])})
    assert (
        live.push({"a": rows([40]), "b": rows([30], [2])}).num_rows == 0
    )  # the watermark is 30: not past it
    found = live.push({"b": rows([31], [2])})
    assert found.to_pylist() == [{**found.to_pylist()[0], "b_k": None, "b_t": None}]
    assert found["result_time"].cast(pa.int64()).to_pylist() == [20]


def test_a_row_without_a_key_waits_for_nobody() -> None:
    """No row can meet a null, so nothing is to be waited for."""
    live = two("left")
    assert live.push({"a": rows([20], [None]), "b": rows([20])}).num_rows == 1
    assert two("anti").push({"a": rows([20], [None]), "b": rows([20])}).num_rows == 1
    semi = two("semi")
    assert semi.push({"a": rows([20], [None]), "b": rows([20])}).num_rows == 0
    assert semi.end().num_rows == 0


def test_a_partner_that_comes_in_the_batch_that_closes_the_window_is_a_partner() -> None:
    live = two("left")
    live.push({"a": rows([20]), "b": rows([0])})
    found = live.push({"a": rows([90]), "b": rows([30, 90])})  # 30 is the last time that a partner may have
    assert found["b_t"].cast(pa.int64()).to_pylist().count(30) == 1
    assert found.filter(found["b_t"].is_null()).num_rows == 0


def test_a_semi_join_gives_a_row_once_however_many_partners_come() -> None:
    live = two("semi")
    found = [live.push({"a": rows([20]), "b": rows([19, 20, 21])})]
    found += [live.push({"b": rows([22, 23])}), live.push({"a": rows([21])}), live.end()]
    times = [t for table in found for t in table["a_t"].cast(pa.int64()).to_pylist()]
    assert times == [20, 21]
    assert found[0].column_names == ["a_k", "a_t", "result_time"]


@pytest.mark.parametrize("how", ["left", "semi", "anti", "full"])
def test_rows_stay_until_they_are_settled_and_no_longer(how: str) -> None:
    live = two(how)
    for now in range(0, 1000, 10):
        live.push({"a": rows([now, now + 1]), "b": rows([now + 1])})
    held = {name: s.live_rows for name, s in live.stats().streams.items()}
    assert (live.stats().unsettled_rows > 0) == (how != "semi")
    assert live.stats().unsettled_rows <= 2 * 3
    assert held["a"] <= 2 * 3
    assert held["b"] <= 3 + 1


def test_a_start_with_less_lateness_settles_what_it_has_passed_once() -> None:
    def query(lateness: str) -> bd.JoinQuery:
        windows = {"a": "10 us", "b": "4 us"}
        streams = [
            bd.Stream(n, "k", time="t", window=w, lateness=lateness, how="left" if n == "b" else "inner")
            for n, w in windows.items()
        ]
        return bd.JoinQuery(streams)

    live = bd.LocalJoin(query("50 us"))
    assert live.push({"a": rows([20, 80]), "b": rows([80])}).num_rows == 1
    again = bd.LocalJoin(query("50 us")).restore(live.snapshot())
    assert again.push({"a": rows([200]), "b": rows([200])}).num_rows == 2  # and the null of 20
    assert again.end().num_rows == 0


def test_bounds_between_optional_streams_do_not_exist() -> None:
    streams = [
        bd.Stream("o", "k", time="t", window="1 hour"),
        bd.Stream("p", "k", time="t", window="10 minutes", how="left"),
        bd.Stream("s", "k", time="t", window="5 minutes", how="anti"),
    ]
    query = bd.JoinQuery(streams, within={("o", "p"): ("0 seconds", "20 minutes")})
    minutes = [[b // 60_000_000 if b < INFINITE_US else None for b in row] for row in query.bounds.matrix]
    assert minutes == [[0, 20, 60], [0, 0, None], [5, None, 0]]
    assert [query.bounds.retention_us(i) // 60_000_000 for i in range(3)] == [60, 60, 65]


@pytest.mark.parametrize("how", ["left", "semi", "anti", "full"])
def test_duckdb_says_the_same(how: str) -> None:
    rng = np.random.default_rng(1)

    def table(n: int) -> pa.Table:
        times = np.sort(rng.integers(0, 1000, n))
        keys = pa.array(rng.integers(0, 40, n), mask=rng.random(n) < 0.05)
        return pa.table({"k": keys, "t": pa.array(times, pa.timestamp("us")), "v": np.arange(n)})

    tables = {"a": table(400), "b": table(300)}
    streams = [bd.Stream(n, "k", time="t", window="20 us", how=how if n == "b" else "inner") for n in "ab"]
    query = bd.JoinQuery(streams, where="b.v > 20")
    found = bd.run_local(query, tables, batch_rows=37)
    shown = "a.v" if how in ("semi", "anti") else "a.v, b.v"
    near = "abs(epoch_us(a.t) - epoch_us(b.t)) <= 20"
    with duckdb.connect() as db:
        for name, rows_ in tables.items():
            db.register(name, rows_)
        wanted = db.sql(f"select {shown} from a {how} join b on a.k = b.k and {near} and b.v > 20").fetchall()
    columns = [found[c].to_pylist() for c in ("a_v", "b_v") if c in found.column_names]
    assert sorted(zip(*columns, strict=True), key=repr) == sorted(wanted, key=repr)
    assert len(wanted) > 30


def test_results_that_settle_come_in_pieces() -> None:
    live = two("left")
    live.push({"a": rows([20] * 1000), "b": rows([0])})
    pieces = list(live.stream({"a": rows([90]), "b": rows([90])}, chunk_rows=300))
    assert [piece.num_rows for piece in pieces if piece["b_k"].null_count] == [300, 300, 300, 100]


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("how", ["inner", "left"])
def test_as_of_joins_are_those_of_duckdb(how: str, seed: int) -> None:
    """It knows neither ties nor how old a row may be: there are none, and that is asked behind the join."""
    rng = np.random.default_rng(seed)
    tables = {
        name: pa.table(
            {
                "k": rng.integers(0, 20, rows),
                "t": pa.array(rng.permutation(4_000)[:rows], pa.timestamp("us")),
                "id": np.arange(rows),
            }
        )
        for name, rows in (("orders", 300), ("prices", 500), ("rates", 200))
    }
    streams = [
        bd.Stream("orders", "k", time="t", window="0 us", lateness="1 ms"),
        bd.Stream("prices", "k", time="t", window=bd.AsOf("300 us"), lateness="1 ms", how=how),
        bd.Stream("rates", "k", time="t", window=bd.AsOf("900 us"), lateness="1 ms", how="left"),
    ]
    live, found = bd.LocalJoin(bd.JoinQuery(streams)), []
    ordered = {name: table.sort_by("t") for name, table in tables.items()}
    for at in range(0, 4_000, 250):
        batch = {}
        for name, table in ordered.items():
            times = table["t"].cast(pa.int64()).to_numpy()
            batch[name] = table.filter(pa.array((times >= at) & (times < at + 250)))
        found.append(live.push(batch))
    found.append(live.end())
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        near = "epoch_us(o.t) - epoch_us(p.t) <= 300"
        wanted = db.sql(
            f"select o.id as o, if({near}, p.id, null) as p, "
            "if(epoch_us(o.t) - epoch_us(r.t) <= 900, r.id, null) as r "
            "from orders o asof left join prices p on o.k = p.k and o.t >= p.t "
            "asof left join rates r on o.k = r.k and o.t >= r.t "
            f"where {'true' if how == 'left' else near}"
        ).fetchall()
    together = pa.concat_tables([f for f in found if f.num_columns])
    columns = (together[c].to_pylist() for c in ("orders_id", "prices_id", "rates_id"))
    assert sorted(zip(*columns, strict=True), key=str) == sorted(wanted, key=str)
