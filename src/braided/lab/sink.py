"""Reading what a killed query's Parquet sink really holds."""

from __future__ import annotations

import json
from pathlib import Path


def committed_files(out: Path) -> list[Path]:
    """The files a Parquet sink's log names; a killed attempt leaves others behind."""
    names = set()
    for path in (out / "_spark_metadata").glob("*"):
        if path.name.split(".")[0].isdigit():
            for line in path.read_text().splitlines()[1:]:
                names.add(Path(json.loads(line)["path"].removeprefix("file://")))
    return sorted(names)
