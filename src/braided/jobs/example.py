"""`braided init`: an example job that runs at once, with a little data beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from braided.jobs.definitions import SCHEMA_FILE
from braided.query.errors import InvalidValue
from braided.testing.samples import shop
from braided.view.records import os_errors

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
    with os_errors(lambda why: InvalidValue(f"{str(job.parent)!r} cannot be written: {why}")):
        job.parent.mkdir(parents=True, exist_ok=True)
        for name, table in shop.tables(_ORDERS).items():
            late = table.slice(0, 1 if name == "payments" else 0)  # the first one comes again
            _write(data / name, pa.concat_tables([table, late]))
        (job.parent / SCHEMA_FILE.name).write_bytes(SCHEMA_FILE.read_bytes())
        job.write_text(_EXAMPLE.read_text(encoding="utf-8").replace("job.yaml", job.name), encoding="utf-8")
    return job


def _write(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    step = -(-len(table) // _FILES)
    for number in range(_FILES):
        path = folder / f"{number}.csv"
        csv.write_csv(table.slice(number * step, step), path)
        os.utime(path, (_WRITTEN + number, _WRITTEN + number))  # Spark reads files in order of their time
