"""Pathway's run of a comparison: interval joins, or plain joins with a filter on the times.

Run by its path with the Python of an environment that has `pathway` and not Braided. A line of JSON for each
change of a batch's number of results.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pathway as pw


class Row(pw.Schema):  # type: ignore[misc]  # it is not installed where this is checked
    """A row of any stream."""

    k: int
    t: int
    v: int
    n: int


def run(spec: dict[str, Any]) -> None:
    """Join what is there and what comes, until killed."""
    tables = [
        pw.io.csv.read(
            f"{spec['data']}/s{i}", schema=Row, mode="streaming", name=f"s{i}", autocommit_duration_ms=100
        )
        for i in range(spec["streams"])
    ]
    plain = spec["contender"] == "pathway-plain"
    joined = tables[0].select(k=pw.this.k, t0=pw.this.t, v=pw.this.v, n=pw.this.n)
    for i, right in enumerate(tables[1:], start=1):
        joined = _join(joined, right, i, spec["window_us"], plain)
    found = joined.groupby(joined.n).reduce(
        joined.n, rows=pw.reducers.count(), checksum=pw.reducers.sum(joined.v)
    )
    known: dict[int, tuple[int, int]] = {}
    with (Path(spec["out"]) / "emissions.jsonl").open("a") as out:

        def note(key: object, row: dict[str, int], time: int, is_addition: bool) -> None:
            if is_addition:
                _write(out, row, known)

        pw.io.subscribe(found, note)
        (Path(spec["out"]) / "started").write_text(str(time.time()))
        pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=_persistence(spec))


def _join(left: Any, right: Any, i: int, window: int, plain: bool) -> Any:
    earlier = {f"t{j}": left[f"t{j}"] for j in range(i)}
    if plain:
        both = left.join(right, left.k == right.k)
    else:
        both = left.interval_join(
            right, left.t0, right.t, pw.temporal.interval(-window, window), left.k == right.k
        )
    both = both.select(
        k=left.k, v=left.v + right.v, n=pw.if_else(left.n > right.n, left.n, right.n), **earlier,
        **{f"t{i}": right.t},
    )  # fmt: skip
    for j in range(i):
        apart = both[f"t{j}"] - both[f"t{i}"]
        both = both.filter((apart <= window) & (apart >= -window))
    return both


def _write(out: Any, row: dict[str, int], known: dict[int, tuple[int, int]]) -> None:
    rows, checksum = known.get(row["n"], (0, 0))
    known[row["n"]] = (row["rows"], row["checksum"])
    line = {"batch": row["n"], "at": time.time(), "rows": row["rows"] - rows}
    out.write(json.dumps({**line, "checksum": row["checksum"] - checksum}) + "\n")
    out.flush()


def _persistence(spec: dict[str, Any]) -> Any:
    backend = pw.persistence.Backend.filesystem(spec["state"])
    return pw.persistence.Config(backend, snapshot_interval_ms=2_000)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
