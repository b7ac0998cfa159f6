"""Streams as folders of Parquet files, and what a killed query's Parquet sink really holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def add_file(folder: Path, number: int, table: pa.Table) -> None:
    """One more file, written whole and then moved in; Spark reads files in order of their time."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number:05d}.tmp"
    pq.write_table(table, hidden, row_group_size=100_000)
    os.utime(hidden, (1_600_000_000 + number, 1_600_000_000 + number))
    hidden.rename(folder / f"{number:05d}.parquet")


def committed_files(out: Path) -> list[Path]:
    """The files a Parquet sink's log names; a killed attempt leaves others behind."""
    names = set()
    for path in (out / "_spark_metadata").glob("*"):
        if path.name.split(".")[0].isdigit():
            for line in path.read_text().splitlines()[1:]:
                names.add(Path(json.loads(line)["path"].removeprefix("file://")))
    return sorted(names)
