"""News items and who read them, out of XML with punctuations: no window, and hardly any state.

    python examples/news/join.py [--spark]    # in this process; with --spark on Spark, too

The ten latest items are watched. When a new one is posted the oldest rolls out, and a punctuation says that
nobody reads it any more: it, and what was read of it, can go. The documents are written into the folder
`data` beside this file, where job.yaml finds them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import braided as bd
from braided_lab import news

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS, BATCHES = 20_000, 8
RECORD = {"news": "info", "access": "record"}  # the element that is a row
ROOT = {"news": "NewsGeneral", "access": "AccessRecord"}
SCHEMA = {"news": news.NEWS, "access": news.ACCESS}
ON_SPARK = {
    "news": "sno long, title string, keyword string",
    "access": "sno long, ipaddr string, punctuation boolean",
}


def query() -> bd.JoinQuery:
    """Each access record with its news item."""
    return bd.JoinQuery(
        [
            bd.Stream("news", "sno", window="unbounded", unique=True),
            bd.Stream("access", "sno", punctuation="punctuation"),
        ],
        tuning=bd.Tuning(purge="immediate"),
    )


def tables(records: int = RECORDS) -> dict[str, pa.Table]:
    """The paper's workload: ten access records for each item, items not quite in order."""
    return news.tables(news.News(records, arrival="random", shuffle=20))


def write(folder: Path, records: int = RECORDS, documents: int = BATCHES) -> None:
    """Both streams as XML documents; their names are in order, as the format wants it."""
    for name, table in tables(records).items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        step = -(-table.num_rows // documents)
        for number in range(documents):
            with (folder / name / f"{number:02d}.xml").open("w", encoding="utf-8") as file:
                news.write_xml(table.slice(number * step, step), file, root=ROOT[name], record=RECORD[name])


def read(folder: Path, number: int) -> dict[str, pa.Table]:
    """One document of each stream; only `access` has punctuations."""
    flags = {"news": None, "access": "punctuation"}
    return {
        name: pa.Table.from_batches(
            bd.read_xml(
                folder / name / f"{number:02d}.xml",
                SCHEMA[name],
                record=RECORD[name],
                punctuation=flags[name],
            )
        )
        for name in flags
    }


def main(folder: Path, records: int = RECORDS) -> pa.Table:
    """Write the documents, read and join them, and return the results."""
    write(folder, records)
    live, found = bd.LocalJoin(query()), []
    for number in range(BATCHES):
        found.append(live.push(read(folder, number)))
        streams = live.stats().streams
        stored = {name: stream.live_rows for name, stream in streams.items()}
        gone = sum(stream.purged_rows for stream in streams.values())
        print(f"document {number}: {found[-1].num_rows} new results, stored: {stored}, gone early: {gone}")
    results = pa.concat_tables([*found, live.end()])
    print(f"{results.num_rows} results of {sum(s.rows_in for s in live.stats().streams.values())} rows")
    return results


def on_spark(spark: SparkSession, data: Path, out: Path) -> None:
    """The same join of the same documents on Spark, one of each stream a batch; results are Parquet files."""
    spark.dataSource.register(bd.spark.XmlSource)
    frames = {}
    for name, schema in ON_SPARK.items():
        documents = spark.readStream.format("braided-xml").schema(schema).option("record", RECORD[name])
        frames[name] = documents.option("maxFilesPerTrigger", 1).load(str(data / name))
    joined = bd.spark.join(query(), frames, buckets=2)
    writer = joined.writeStream.option("checkpointLocation", str(out / "checkpoint"))
    streaming = writer.trigger(availableNow=True).start(str(out / "results"))
    streaming.awaitTermination()
    print(bd.spark.why(streaming))


if __name__ == "__main__":
    here = Path(__file__).parent
    main(here / "data")
    if "--spark" in sys.argv:
        on_spark(bd.spark.session("news"), here / "data", here / "out" / "python")
