"""Queries of the Nexmark suite, an auction site: persons, auctions and bids.

    python examples/nexmark/join.py [--spark]    # in this process; with --spark on Spark, too

q3 and q23 are in words (`bd.sql`), q8 and the chain are `JoinQuery`s. The rows are written into the folder
`data` beside this file, where q3.yaml, q8.yaml, job.yaml (q23) and chain.yaml find them.

Nexmark's q3 and q23 have no windows, so their state grows for ever. Here rows go after a while: q3 keeps a
person for a year, which changes nothing here, and q23 asks for what happened within ten seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import braided as bd
from braided.testing.samples.files import by_period, write_batches
from braided_benchmarks import nexmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, BATCHES = 20_000, 5
FOLDERS = {"sellers": "persons", "bidders": "persons"}  # where it is not the stream's name


def q3() -> bd.JoinQuery:
    """Who sells things of category 10 in three states? A person stays for a year."""
    return bd.sql("""
        SELECT p.name, p.city, p.state, a.id AS auction
        FROM auctions AS a TIME opened_at WINDOW '10 seconds' LATENESS '5 seconds'
        JOIN persons AS p TIME registered_at WINDOW '365 days' LATENESS '5 seconds' UNIQUE
          ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """)


def q8() -> bd.JoinQuery:
    """Who registered and opened an auction in the same ten seconds? These are a part of the key."""
    return bd.JoinQuery(
        [
            bd.Stream(
                "persons", ["id", "pane"], time="registered_at", window="10 seconds", lateness="5 seconds"
            ),
            bd.Stream(
                "auctions", ["seller", "pane"], time="opened_at", window="10 seconds", lateness="5 seconds"
            ),
        ],
        select={
            "id": "persons.id",
            "name": "persons.name",
            "auction": "auctions.id",
            "starttime": "persons.pane",
        },
    )


def q23() -> bd.JoinQuery:
    """Bids of persons who also sell, with their person and each auction they opened within ten seconds."""
    return bd.sql("""
        SELECT b.bidder, b.price, b.channel, p.name, p.state, a.item, a.category
        FROM bids AS b TIME bid_at WINDOW '10 seconds' LATENESS '5 seconds'
        JOIN persons AS p TIME registered_at WINDOW '10 minutes' LATENESS '5 seconds' ON p.id = b.bidder
        JOIN auctions AS a TIME opened_at WINDOW '10 seconds' LATENESS '5 seconds' ON a.seller = b.bidder
    """)


def chain() -> bd.JoinQuery:
    """Seller, auction, bid, bidder: three different keys, persons twice; both from the same state."""
    lateness = "5 seconds"
    return bd.JoinQuery(
        [
            bd.Stream("sellers", time="registered_at", window="5 minutes", lateness=lateness),
            bd.Stream("auctions", time="opened_at", window="1 minute", lateness=lateness),
            bd.Stream("bids", time="bid_at", window="10 seconds", lateness=lateness),
            bd.Stream("bidders", time="registered_at", window="5 minutes", lateness=lateness),
        ],
        on=[
            ("sellers.id", "auctions.seller"),
            ("auctions.id", "bids.auction"),
            ("bids.bidder", "bidders.id"),
        ],
        where="sellers.state = bidders.state AND bids.price >= auctions.reserve AND sellers.id <> bidders.id",
        select={
            "auction": "auctions.id",
            "item": "auctions.item",
            "price": "bids.price",
            "seller": "sellers.name",
            "bidder": "bidders.name",
            "state": "sellers.state",
        },
    )


QUERIES: dict[str, Callable[[], bd.JoinQuery]] = {"q3": q3, "q8": q8, "q23": q23, "chain": chain}


def tables(events: int = EVENTS) -> dict[str, pa.Table]:
    """All streams of all queries; `pane` is the ten seconds that something happened in."""
    made = nexmark.tables(nexmark.Nexmark(events, hot_share=0.1, disorder_s=5), seed=1)
    for name in ("persons", "auctions"):
        pane = pc.floor_temporal(made[name][nexmark.TIMES[name]], 10, "second")
        made[name] = made[name].append_column("pane", pane)
    return {**made, "sellers": made["persons"], "bidders": made["persons"]}


def main(folder: Path, events: int = EVENTS) -> dict[str, pa.Table]:
    """Write the streams into a folder, run all queries, and return their results."""
    streams = tables(events)
    write_batches(folder, by_period({n: streams[n] for n in nexmark.TIMES}, nexmark.TIMES, BATCHES))
    found = {}
    for name, query in QUERIES.items():
        asked = query()
        found[name] = bd.run_local(asked, {n: streams[n] for n in asked.names}, batch_rows=5000)
        print(
            f"{name}: {found[name].num_rows} results of {sum(streams[n].num_rows for n in asked.names)} rows"
        )
    return found


def on_spark(spark: SparkSession, data: Path, out: Path, name: str) -> None:
    """One of the queries on Spark, a file of each stream a batch; results are Parquet files."""
    query, frames = QUERIES[name](), {}
    for stream in query.names:
        path = str(data / FOLDERS.get(stream, stream))
        rows = spark.readStream.schema(spark.read.parquet(path).schema)
        frames[stream] = rows.option("maxFilesPerTrigger", 1).parquet(path)
    joined = bd.spark.join(query, frames, buckets=2)
    writer = joined.writeStream.option("checkpointLocation", str(out / "checkpoint"))
    streaming = writer.trigger(availableNow=True).start(str(out / "results"))
    streaming.awaitTermination()
    print(f"{name}: {bd.spark.why(streaming)}")


if __name__ == "__main__":
    here = Path(__file__).parent
    main(here / "data")
    for asked in QUERIES if "--spark" in sys.argv else ():
        on_spark(bd.spark.session("nexmark"), here / "data", here / "out" / "python" / asked, asked)
