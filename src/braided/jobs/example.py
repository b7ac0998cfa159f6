"""`braided init`: an example job that runs at once, with a little data beside it."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from braided.jobs.definitions import SCHEMA_FILE
from braided.query.errors import InvalidValue
from braided.testing.samples import shop

_ORDERS, _FILES = 300, 3
_WRITTEN = 1_767_225_600
_EXAMPLE = Path(__file__).with_name("example.job.yaml")


def write_example(path: Path) -> Path:
    """Write a job file, its schema and its data; nothing that is there is written over."""
    job = path / "job.yaml" if path.is_dir() or not path.suffix else path
    data = job.parent / "data"
    file = next((place for place in (path, *job.parents) if place.is_file()), None)
    if file is not None and job != file:
        raise InvalidValue(f"{str(file)!r} is a file; name a folder, or a job file such as 'job.yaml'")
    for taken in (job, data):
        if taken.exists():
            raise InvalidValue(f"{str(taken)!r} is there already, and is left as it is; name another place")
    try:
        job.parent.mkdir(parents=True, exist_ok=True)
        for name, table in shop.tables(_ORDERS).items():
            _write(data / name, list(_rows(table, with_late=name == "payments")), table.column_names)
        (job.parent / SCHEMA_FILE.name).write_bytes(SCHEMA_FILE.read_bytes())
        job.write_text(_EXAMPLE.read_text(encoding="utf-8").replace("job.yaml", job.name), encoding="utf-8")
    except OSError as wrong:
        raise InvalidValue(f"{str(wrong.filename)!r} cannot be written: {wrong.strerror}") from None
    return job


def _rows(table: pa.Table, *, with_late: bool) -> Iterator[list[Any]]:
    """The rows as texts; with a late one at the end if asked for: the first one comes again."""
    rows = [[_text(value) for value in row.values()] for row in table.to_pylist()]
    yield from rows
    if with_late:
        yield rows[0]


def _text(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if hasattr(value, "strftime") else value


def _write(folder: Path, rows: list[list[Any]], columns: list[str]) -> None:
    folder.mkdir(parents=True)
    step = -(-len(rows) // _FILES)
    for number in range(_FILES):
        path = folder / f"{number}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows[number * step : (number + 1) * step])
        os.utime(path, (_WRITTEN + number, _WRITTEN + number))  # Spark reads files in order of their time
