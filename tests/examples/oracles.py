"""Nexmark's queries for DuckDB."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

import braided as bd
from braided.query.durations import to_us
from examples.nexmark import join as auctions

DUCKDB = {
    # as Nexmark has it, without a window
    "q3": """
        SELECT p.name, p.city, p.state, a.id AS auction, a.opened_at AS result_time
        FROM auctions a JOIN persons p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    "q8": """
        SELECT p.id, p.name, a.id AS auction, p.pane AS starttime,
               greatest(registered_at, opened_at) AS result_time
        FROM persons p JOIN auctions a ON p.id = a.seller
        WHERE time_bucket(INTERVAL 10 seconds, registered_at) = time_bucket(INTERVAL 10 seconds, opened_at)
    """,
    "q23": """
        SELECT b.bidder, b.price, b.channel, p.name, p.state, a.item, a.category,
               greatest(b.bid_at, p.registered_at, a.opened_at) AS result_time
        FROM bids b JOIN persons p ON p.id = b.bidder JOIN auctions a ON a.seller = b.bidder
        WHERE {windows}
    """,
    "chain": """
        SELECT a.id AS auction, a.item, b.price, s.name AS seller, p.name AS bidder, s.state,
               greatest(s.registered_at, a.opened_at, b.bid_at, p.registered_at) AS result_time
        FROM sellers s JOIN auctions a ON s.id = a.seller JOIN bids b ON a.id = b.auction
             JOIN bidders p ON b.bidder = p.id
        WHERE s.state = p.state AND b.price >= a.reserve AND s.id <> p.id AND {windows}
    """,
}
SHORT = {"q23": {"bids": "b", "persons": "p", "auctions": "a"},
         "chain": {"sellers": "s", "auctions": "a", "bids": "b", "bidders": "p"}}  # fmt: skip


def by_duckdb(name: str, streams: Mapping[str, pa.Table]) -> pa.Table:
    """What DuckDB says is the result of a query."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for stream, table in streams.items():
            db.register(stream, table)
        windows = _windows(auctions.QUERIES[name](), SHORT.get(name, {}))
        return db.sql(DUCKDB[name].format(windows=windows)).to_arrow_table()


def _windows(query: bd.JoinQuery, short: dict[str, str]) -> str:
    """Every row is inside its stream's window when the newest one happens."""
    times = {s.name: f"{short[s.name]}.{s.time}" for s in query.streams if short}
    now = f"greatest({', '.join(times.values())})"
    return " AND ".join(
        f"{now} - {times[s.name]} <= INTERVAL {to_us(str(s.window))} microseconds"
        for s in query.streams
        if short
    )
