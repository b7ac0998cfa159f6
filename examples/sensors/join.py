"""What three neighbouring sensors said last, each time one of them says something.

    python examples/sensors/join.py [FOLDER] [--spark]    # in this process; with --spark on Spark, too

Real readings of the Intel lab (March 2004) if FOLDER, or ../shared/data, has them (`intel_lab.parquet` and
`intel_lab_groups.csv`); generated ones if not, and it says which. They are written into the folder `data`
beside this file, where job.yaml finds them.
"""

from __future__ import annotations

import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

import braided as bd
from braided.testing.samples.files import by_period, write_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONES = ("A", "B", "C", "D", "E")
LAB = Path("../shared/data")  # where the real readings may be
STREAMS = ("first", "second", "third")  # the sensors of a zone
HOURS, BATCHES = 24, 6
_START_US = 1_078_358_400_000_000  # 2004-03-04, as the real ones
_SECOND_US = 1_000_000


def query() -> bd.JoinQuery:
    """The latest readings of a zone, none older than two minutes, where the first differs by 2 degrees."""
    latest = bd.CountWindow(1, per="key")
    return bd.JoinQuery(
        [bd.Stream(name, "zone", time="at", window=latest, lateness="1 minute") for name in STREAMS],
        within={
            ("first", "second"): "2 minutes",
            ("first", "third"): "2 minutes",
            ("second", "third"): "2 minutes",
        },
        where="ABS(first.temperature - second.temperature) > 2 "
        "AND ABS(first.temperature - third.temperature) > 2",
        select={
            "zone": "first.zone",
            "first": "first.temperature",
            "second": "second.temperature",
            "third": "third.temperature",
        },
    )


def tables(folder: Path | None = None, hours: float = HOURS) -> dict[str, pa.Table]:
    """Readings of the first, second and third sensor of each zone: real ones of a folder, or generated."""
    return generated(hours) if folder is None else _real(folder, hours)


def generated(hours: float, *, seed: int = 0) -> dict[str, pa.Table]:
    """A reading every 31 s, one in four is lost; the sun shines on the first sensor 20 minutes an hour."""
    rng = np.random.default_rng(seed)
    made = {}
    for number, name in enumerate(STREAMS):
        rounds = np.arange(0, hours * 3600, 31)
        at, zone = (a.ravel() for a in np.meshgrid(rounds, np.arange(len(ZONES)), indexing="ij"))
        kept = rng.random(len(at)) < 0.75
        us = ((at + rng.uniform(0, 5, len(at)))[kept] * _SECOND_US).astype(np.int64)
        sun = 6.0 * ((at[kept] // 1200 % 3 == 1) & (number == 0))
        degrees = 19 + zone[kept] + sun + rng.normal(0, 0.5, len(us))
        made[name] = _table(pa.array(ZONES).take(pa.array(zone[kept])), us + _START_US, degrees)
    return made


def _real(folder: Path, hours: float) -> dict[str, pa.Table]:
    """The first hours, of the three sensors of each group that are heard most often."""
    readings = pq.read_table(_readings(folder), columns=["ts", "moteid", "temperature"]).sort_by("ts")
    end = readings["ts"][0].as_py() + timedelta(hours=hours)
    readings = readings.filter(pc.field("ts") < end)
    us, motes = readings["ts"].cast(pa.int64()).to_numpy(), readings["moteid"].to_numpy()
    heard = Counter(motes.tolist())
    zones: dict[str, list[int]] = {}
    for row in pyarrow.csv.read_csv(_groups(folder)).to_pylist():
        zones.setdefault(row["group"], []).append(row["moteid"])
    for members in zones.values():
        members.sort(key=heard.__getitem__)
        members.reverse()
    made = {}
    for number, name in enumerate(STREAMS):
        places = {members[number]: zone for zone, members in zones.items()}
        taken = np.isin(motes, list(places))
        zone = pa.array([places[mote] for mote in motes[taken].tolist()])
        made[name] = _table(zone, us[taken], readings["temperature"].to_numpy()[taken].astype(np.float64))
    return made


def _readings(folder: Path) -> Path:
    return folder / "intel_lab.parquet"


def _groups(folder: Path) -> Path:
    return folder / "intel_lab_groups.csv"


def _table(zone: pa.Array, us: np.ndarray, degrees: np.ndarray) -> pa.Table:
    stamps = pa.array(us).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"zone": zone, "temperature": np.round(degrees, 2), "at": stamps}).sort_by("at")


def main(folder: Path, lab: Path = LAB, hours: float = HOURS) -> pa.Table:
    """Write the streams into a folder, join them, and return the results."""
    there = _readings(lab).exists() and _groups(lab).exists()
    print("readings of the Intel lab" if there else "the Intel lab's readings are not there: generated ones")
    batches = by_period(tables(lab if there else None, hours), dict.fromkeys(STREAMS, "at"), BATCHES)
    write_batches(folder, batches)
    live, found = bd.LocalJoin(query()), []
    for hour, batch in enumerate(batches):
        found.append(live.push(batch))
        stored = {name: stream.live_rows for name, stream in live.stats().streams.items()}
        print(f"part {hour}: {found[-1].num_rows} new results, stored: {stored}")
    found.append(live.end())
    results = pa.concat_tables(found)
    by_zone = results.group_by("zone").aggregate([("zone", "count")]).sort_by("zone").to_pylist()
    print(f"{results.num_rows} results, {found[-1].num_rows} of them waited for the end")
    print("by zone:", {row["zone"]: row["zone_count"] for row in by_zone})
    return results


def on_spark(spark: SparkSession, data: Path, out: Path) -> None:
    """The same join of the same files on Spark, one of each stream a batch; results are Parquet files."""
    frames = {}
    for name in STREAMS:
        path = str(data / name)
        rows = spark.readStream.schema(spark.read.parquet(path).schema)
        frames[name] = rows.option("maxFilesPerTrigger", 1).parquet(path)
    joined = bd.spark.join(query(), frames, buckets=2)
    writer = joined.writeStream.option("checkpointLocation", str(out / "checkpoint"))
    streaming = writer.trigger(availableNow=True).start(str(out / "results"))
    streaming.awaitTermination()
    print(bd.spark.why(streaming))


if __name__ == "__main__":
    here, given = Path(__file__).parent, [a for a in sys.argv[1:] if a != "--spark"]
    main(here / "data", Path(given[0]) if given else LAB)
    if "--spark" in sys.argv:
        on_spark(bd.spark.session("sensors"), here / "data", here / "out" / "python")
