"""Which impression and which click led to a conversion, and which were never clicked, with a small state.

    python examples/ads/join.py [--spark]    # in this process; with --spark on Spark, too

A conversion may come a week after its click, so an impression would wait for more than a week. But most are
never clicked, and the link of an impression works for 30 minutes only: the stream of clicks says every ten
minutes up to which impression no more clicks come. One impression is clicked by a robot, thousands of times.
The rows are written into the folder `data` beside this file, where job.yaml finds them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import braided as bd
from braided.testing.samples.files import by_period, write_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IMPRESSIONS, BATCHES = 60_000, 14
TIMES = {"impressions": "shown_at", "clicks": "clicked_at", "conversions": "bought_at"}
CAMPAIGNS = ("shoes", "phones", "travel")
_START_US = 1_767_225_600_000_000  # 2026-01-01
_MINUTE_US, _DAYS = 60_000_000, 14
_SPAN_US = _DAYS * 24 * 60 * _MINUTE_US
_LINK_US, _TOLD_US = 30 * _MINUTE_US, 10 * _MINUTE_US


def attributed(*, told: bool = True) -> bd.JoinQuery:
    """Clicked within 30 minutes, bought within 7 days; `told`: use what the stream of clicks promises."""
    over = bd.RangePunctuation("expired", "upto") if told else "expired"
    return bd.JoinQuery(
        [
            bd.Stream(
                "impressions",
                "id",
                time="shown_at",
                window="10110 minutes",
                lateness="0 seconds",
                unique=told,
            ),
            bd.Stream(
                "clicks", "id", time="clicked_at", window="7 days", lateness="0 seconds", punctuation=over
            ),
            bd.Stream("conversions", "id", time="bought_at", window="1 minute", lateness="0 seconds"),
        ],
        within={
            ("impressions", "clicks"): ("0 seconds", "30 minutes"),
            ("clicks", "conversions"): ("0 seconds", "7 days"),
        },
        tuning=bd.Tuning(purge="immediate"),
    )


def unclicked() -> bd.JoinQuery:
    """Impressions that nobody has clicked while their links worked; no window, but what clicks announce."""
    over = bd.RangePunctuation("expired", "upto")
    return bd.JoinQuery(
        [
            bd.Stream("impressions", "id", time="shown_at", window="unbounded", unique=True),
            bd.Stream("clicks", "id", time="clicked_at", how="anti", punctuation=over),
        ],
        tuning=bd.Tuning(purge="immediate"),
    )


QUERIES = {"attributed": attributed, "unclicked": unclicked}


def tables(impressions: int = IMPRESSIONS, *, seed: int = 0) -> dict[str, pa.Table]:
    """Two weeks: 3 in 100 impressions are clicked, 1 in 10 clicks leads to a conversion."""
    rng = np.random.default_rng(seed)
    shown = np.sort(rng.integers(0, _SPAN_US, impressions))
    seen = np.flatnonzero(rng.random(impressions) < 0.03)
    robot = np.full(impressions // 10, impressions // 3)  # one impression, clicked again and again
    ids = np.concatenate([seen, robot])
    clicked = shown[ids] + rng.integers(0, _LINK_US, len(ids))
    buying = seen[rng.random(len(seen)) < 0.1]
    bought = shown[buying] + _LINK_US + rng.exponential(_SPAN_US / 10, len(buying)).astype(np.int64)
    campaign = pa.array(CAMPAIGNS).take(pa.array(rng.integers(0, len(CAMPAIGNS), impressions)))
    return {
        "impressions": _table({"id": np.arange(impressions), "campaign": campaign}, "shown_at", shown),
        "clicks": _told(_table({"id": ids}, "clicked_at", clicked), shown),
        "conversions": _table(
            {"id": buying, "amount": rng.integers(5, 500, len(buying))}, "bought_at", bought
        ),
    }


def _told(clicks: pa.Table, shown: np.ndarray) -> pa.Table:
    """The clicks, and every ten minutes a row that says whose links have expired."""
    at = np.arange(_LINK_US + _TOLD_US, _SPAN_US, _TOLD_US)
    upto = np.searchsorted(shown, at - _LINK_US) - 1
    told = _table({"upto": upto, "expired": np.full(len(at), True)}, "clicked_at", at)
    flagged = clicks.append_column("expired", pa.repeat(False, clicks.num_rows))
    return pa.concat_tables([flagged, told], promote_options="default").sort_by("clicked_at")


def _table(columns: dict[str, object], time: str, us: np.ndarray) -> pa.Table:
    """The rows in order of time, those of the two weeks."""
    stamps = pa.array(us + _START_US).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table({**columns, time: stamps}).take(pa.array(np.argsort(us, kind="stable")))
    return table.slice(0, int(np.count_nonzero(us < _SPAN_US)))


def main(folder: Path, impressions: int = IMPRESSIONS) -> dict[str, pa.Table]:
    """Write the streams into a folder, a file a day, join them, and return the results."""
    batches = by_period(tables(impressions), TIMES, BATCHES)
    write_batches(folder, batches)
    told, untold, found = bd.LocalJoin(attributed()), bd.LocalJoin(attributed(told=False)), []
    missed, of_nobody = bd.LocalJoin(unclicked()), []
    for day, batch in enumerate(batches, 1):
        found.append(told.push(batch))
        untold.push(batch)
        of_nobody.append(missed.push({name: batch[name] for name in missed.query.names}))
        kept = f"stored {_stored(told)}; without promises {_stored(untold)}"
        print(f"day {day}: {found[-1].num_rows} new results; {kept}")
    results = pa.concat_tables([*found, told.end()])
    print(
        f"{results.num_rows} results, the same without promises: {untold.stats().results == results.num_rows}"
    )
    alone = pa.concat_tables(of_nobody)
    print(f"{alone.num_rows:,} impressions without a click; stored {_stored(missed)}")
    return {"attributed": results, "unclicked": alone}


def _stored(live: bd.LocalJoin) -> str:
    return ", ".join(f"{stream.live_rows:,} {name}" for name, stream in live.stats().streams.items())


def on_spark(spark: SparkSession, data: Path, out: Path, asked: str) -> None:
    """One of the joins of the same files on Spark, one of each stream a batch; results are Parquet files."""
    query, frames = QUERIES[asked](), {}
    for name in query.names:
        path = str(data / name)
        rows = spark.readStream.schema(spark.read.parquet(path).schema)
        frames[name] = rows.option("maxFilesPerTrigger", 1).parquet(path)
    joined = bd.spark.join(query, frames, buckets=2)
    writer = joined.writeStream.option("checkpointLocation", str(out / "checkpoint"))
    streaming = writer.trigger(availableNow=True).start(str(out / "results"))
    streaming.awaitTermination()
    print(bd.spark.why(streaming))


if __name__ == "__main__":
    here = Path(__file__).parent
    main(here / "data")
    if "--spark" in sys.argv:
        for asked in QUERIES:
            on_spark(bd.spark.session("ads"), here / "data", here / "out" / "python" / asked, asked)
