"""Streams as folders of Parquet files, and what a killed query's Parquet sink really holds."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def add_file(folder: Path, number: int, table: pa.Table) -> None:
    """One more file, written whole and then moved in; Spark reads files in order of their time."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number:05d}.tmp"
    pq.write_table(table, hidden, row_group_size=100_000)
    os.utime(hidden, (1_600_000_000 + number, 1_600_000_000 + number))
    hidden.rename(folder / f"{number:05d}.parquet")


def by_period(
    tables: Mapping[str, pa.Table], times: Mapping[str, str], periods: int
) -> list[dict[str, pa.Table]]:
    """The rows of all streams as they arrive in periods of the same length, by their times."""
    clocks = {
        name: np.maximum.accumulate(table[times[name]].cast(pa.int64()).to_numpy())
        for name, table in tables.items()
    }
    begin = min((int(c[0]) for c in clocks.values() if len(c)), default=0)
    end = max((int(c[-1]) for c in clocks.values() if len(c)), default=0) + 1
    ends = [begin + (end - begin) * n // periods for n in range(1, periods + 1)]
    places = {name: [0, *np.searchsorted(clock, ends)] for name, clock in clocks.items()}
    parts = {n: [t.slice(a, b - a) for a, b in itertools.pairwise(places[n])] for n, t in tables.items()}
    return [{name: of_stream[n] for name, of_stream in parts.items()} for n in range(periods)]


def write_batches(root: Path, batches: Sequence[Mapping[str, pa.Table]]) -> None:
    """Each stream as a folder with a file for each batch."""
    for number, batch in enumerate(batches):
        for name, table in batch.items():
            add_file(root / name, number, table)


def committed_files(out: Path) -> list[Path]:
    """The files a Parquet sink's log names; a killed attempt leaves others behind."""
    names = set()
    for path in (out / "_spark_metadata").glob("*"):
        if path.name.split(".")[0].isdigit():
            for line in path.read_text().splitlines()[1:]:
                names.add(Path(json.loads(line)["path"].removeprefix("file://")))
    return sorted(names)
