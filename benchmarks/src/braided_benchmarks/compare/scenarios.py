"""What is joined in a comparison: rows of so many streams, and the step at which each file arrives.

A row is `k, t, v, n`: its key, its time in microseconds, a number for checksums, and the step its file comes
with. A result belongs to the latest step of its rows, so its latency is counted from that step's files on.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow import csv

SECOND_US = 1_000_000
MILLI_US = 1_000  # Flink's times have no finer part
EPOCH_US = 1_700_000_000 * SECOND_US


@dataclass(frozen=True)
class Scenario:
    """Rows of each stream come in steps; about one row of each other stream matches each row."""

    name: str
    streams: int = 3
    rows: int = 5_000  # of a stream and step
    steps: int = 20
    step_s: int = 1  # event time of a step
    window_s: int = 10
    warm: int = 0  # so many steps lie there from the beginning; none: all of them
    settle: int = 0  # so many of the others are not counted
    hot: float = 0.0  # this share of the first stream's rows has one key
    silent: tuple[int, int] = (0, 0)  # the last stream's rows of these steps come together afterwards
    burst: tuple[int, int] = (0, 0)  # four times as many rows in these steps
    restart: bool = False

    @property
    def live(self) -> bool:
        """Whether files come at their time; otherwise all lie there from the beginning."""
        return self.warm > 0

    @property
    def counted(self) -> range:
        """The steps whose results' latencies count."""
        return range(self.warm + self.settle, self.steps)

    @property
    def keys(self) -> int:
        """So many that a row meets one row of each other stream on average."""
        return 2 * self.window_s * self.rows // self.step_s

    def generate(self, seed: int = 7) -> list[dict[str, pa.Table]]:
        """Of each step, the rows of each stream that come with it; one step more where there is a restart."""
        rng = np.random.default_rng(seed)
        steps = self.steps + self.restart
        arrivals: list[dict[str, pa.Table]] = [{} for _ in range(steps)]
        for i in range(self.streams):
            held: list[pa.Table] = []
            for step in range(steps):
                begin, end = self.silent
                waits = i == self.streams - 1 and begin <= step < end
                held.append(self._rows(rng, step, first=i == 0, arrives=end if waits else step))
                if not waits:
                    arrivals[step][f"s{i}"] = pa.concat_tables(held)
                    held = []
        return arrivals

    def _rows(self, rng: np.random.Generator, step: int, *, first: bool, arrives: int) -> pa.Table:
        rows = self.rows * (4 if self.burst[0] <= step < self.burst[1] else 1)
        span = self.step_s * SECOND_US
        keys = rng.integers(1, self.keys + 1, rows)
        if self.hot:
            # the other streams have the hot key in three rows of a window
            share = self.hot if first else 3 / (2 * self.window_s * self.rows / self.step_s)
            keys[rng.random(rows) < share] = 0
        return pa.table(
            {
                "k": keys,
                "t": EPOCH_US + step * span + np.sort(rng.integers(0, span // MILLI_US, rows)) * MILLI_US,
                "v": rng.integers(0, 1_000, rows),
                "n": pa.array(np.full(rows, arrives), pa.int32()),
            }
        )

    def expected(self, arrivals: list[dict[str, pa.Table]]) -> dict[int, tuple[int, int]]:
        """Of each step, how many results it has and their checksum, by DuckDB."""
        con = duckdb.connect(config={"threads": 2})
        names = [f"s{i}" for i in range(self.streams)]
        for name in names:
            con.register(name, pa.concat_tables([a[name] for a in arrivals if name in a]))
        joined = names[0]
        for i, name in enumerate(names[1:], start=1):
            near = [f"abs({earlier}.t - {name}.t) <= {self.window_s * SECOND_US}" for earlier in names[:i]]
            joined += f" join {name} on {' and '.join([f's0.k = {name}.k', *near])}"
        batch = f"greatest({', '.join(f'{name}.n' for name in names)})"
        checksum = " + ".join(f"{name}.v" for name in names)
        sql = f"select {batch}, count(*), sum({checksum})::bigint from {joined} group by 1"
        return {step: (rows, total) for step, rows, total in con.execute(sql).fetchall()}


def stage(folder: Path, arrivals: list[dict[str, pa.Table]], *, header: bool, one_file: bool) -> None:
    """All files, ready to be moved in: `step/stream.csv`, as old as they come; or one of each stream."""
    began = time.time() - len(arrivals)
    if one_file:
        arrivals = [{n: pa.concat_tables([a[n] for a in arrivals if n in a]) for n in arrivals[0]}]
    for step, tables in enumerate(arrivals):
        for name, table in tables.items():
            path = folder / f"{step:04d}" / f"{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            csv.write_csv(table, path, csv.WriteOptions(include_header=header))
            os.utime(path, (began + step, began + step))


def land(staged: Path, data: Path) -> None:
    """Move a step's files in, all at once."""
    for path in staged.iterdir():
        (data / path.stem).mkdir(parents=True, exist_ok=True)
        os.link(path, data / path.stem / f"{staged.name}.csv")
