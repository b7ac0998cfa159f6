"""The Nexmark workload: how many of each, ids that were given out before, times, and what is repeatable."""

from __future__ import annotations

import duckdb
import pytest

from braided.query.errors import InvalidValue
from braided_benchmarks import nexmark
from braided_benchmarks.nexmark import Nexmark

SIZES = [Nexmark(0), Nexmark(1), Nexmark(4), Nexmark(53), Nexmark(20_000), Nexmark(9_999, 7.0, 3, 0.9, 20)]
EARLIER = """
    SELECT count(*) FROM {rows} r ANTI JOIN {named} n
    ON n.id = r.{column} AND n.{named_at} < r.{at}
"""
REFERENCES = [
    ("auctions", "seller", "persons"),
    ("bids", "bidder", "persons"),
    ("bids", "auction", "auctions"),
]


@pytest.mark.parametrize("workload", SIZES)
def test_every_id_that_a_row_names_was_given_out_before_it(workload: Nexmark) -> None:
    with duckdb.connect() as db:
        for name, table in nexmark.tables(workload, seed=3).items():
            db.register(name, table)
        for rows, column, named in REFERENCES:
            times = {"at": nexmark.TIMES[rows], "named_at": nexmark.TIMES[named]}
            found = db.execute(EARLIER.format(rows=rows, column=column, named=named, **times)).fetchone()
            assert found == (0,), (rows, column)


@pytest.mark.parametrize("workload", SIZES)
def test_ids_are_unique_and_all_events_are_there(workload: Nexmark) -> None:
    tables = nexmark.tables(workload)
    assert sum(t.num_rows for t in tables.values()) == workload.events
    for name in ("persons", "auctions"):
        ids = tables[name]["id"].to_pylist()
        assert sorted(ids) == list(range(1000, 1000 + len(ids)))


def test_rows_come_in_order_of_time_unless_there_is_disorder() -> None:
    for disorder_s in (0.0, 5.0):
        workload = Nexmark(5000, disorder_s=disorder_s)
        for name, table in nexmark.tables(workload).items():
            times = table[nexmark.TIMES[name]].to_pylist()
            assert (times == sorted(times)) == (disorder_s == 0.0)
            newest = times[0]
            for time in times:
                assert (newest - time).total_seconds() <= disorder_s
                newest = max(newest, time)


def test_a_seed_gives_the_same_rows_another_one_others() -> None:
    first, again, other = (nexmark.tables(Nexmark(500), seed=s) for s in (1, 1, 2))
    assert first == again
    assert first["bids"] != other["bids"]


def test_hot_ids_get_their_share() -> None:
    bids = nexmark.tables(Nexmark(20_000, hot_share=0.5))["bids"]
    hot = sum((bidder - 1000) % 100 == 0 for bidder in bids["bidder"].to_pylist())
    assert 0.48 <= hot / bids.num_rows < 0.6
    cold = nexmark.tables(Nexmark(20_000, hot_share=0.0))["bids"]
    assert len(cold["bidder"].unique()) > 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"events": -1}, "events must be at least 0; got -1"),
        ({"events": 1, "active": 0}, "active must be at least 1; got 0"),
        ({"events": 1, "hot_share": 1.5}, "hot_share must be at most 1; got 1.5"),
        ({"events": 1, "events_per_second": 0}, "events_per_second must be more than 0; got 0"),
    ],
)
def test_bad_sizes_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Nexmark(**options)  # type: ignore[arg-type]
