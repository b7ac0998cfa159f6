"""A join whose state is ten times its memory budget, against the same join without one: time and memory.

Every run is a process of its own, so that its memory is its own. Time and memory are measured in different
runs: PSS is read by a thread every few milliseconds, which takes time. The limit holds for stored rows; while
rows move a copy of some of them is made, and a batch is there on top of it.

    python -m braided_benchmarks.memory --rows 1000000 --plan linear
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from braided.engine.kernels import warm_up

NAMES = ("a", "b", "c")
BATCHES = 20
MOST_TIME, MOST_MEMORY = 2.2, 1.5
_REST_S = 0.002
_MODULUS = 1 << 61


@dataclass(frozen=True)
class Report:
    """One plan with and without a budget; sizes in bytes."""

    plan: str
    limit: int
    seconds: float
    unlimited_seconds: float
    grown: int
    batch: int
    same: bool

    @property
    def reached(self) -> bool:
        """Whether the results are the same, and time and memory are as they must be."""
        enough = self.grown <= MOST_MEMORY * self.limit + self.batch
        return self.same and enough and self.seconds <= MOST_TIME * self.unlimited_seconds

    def __str__(self) -> str:
        most = MOST_MEMORY * self.limit + self.batch
        ratio = self.seconds / self.unlimited_seconds
        return (
            f"{self.plan}: limit {self.limit / 1e6:.1f} MB, a tenth of the state; {self.seconds:.2f} s "
            f"against {self.unlimited_seconds:.2f} s ({ratio:.2f}, bar {MOST_TIME:g}); memory grew by "
            f"{self.grown / 1e6:.1f} MB (bar {MOST_MEMORY:g} x limit + one batch: {most / 1e6:.1f} MB); "
            f"results {'the same' if self.same else 'NOT the same'}"
        )


def compare(rows: int, plan: str, *, defer: bool | None = None) -> Report:
    """Run with and without a budget, each in its own process."""
    whole = _child(rows, plan, None, defer, False)
    limit = whole["state"] // 10
    short, watched = (_child(rows, plan, limit, defer, watch) for watch in (False, True))
    same = (whole["results"], whole["sum"]) == (short["results"], short["sum"])
    seconds, unlimited = short["seconds"], whole["seconds"]
    return Report(plan, limit, seconds, unlimited, watched["grown"], short["batch"], same)


def run(rows: int, plan: Any, limit: int | None, defer: bool | None, watch: bool) -> dict[str, Any]:
    """Join random rows in this process; what it took, and a sum over all results."""
    warm_up()
    tables = random_tables(rows)
    batches = [
        {n: t.slice(i * rows // BATCHES, rows // BATCHES) for n, t in tables.items()} for i in range(BATCHES)
    ]
    memory = None if limit is None else bd.Memory(limit, defer=defer)
    streams = [bd.Stream(n, "k") for n in NAMES]
    query = bd.JoinQuery(streams, plan=plan, memory=memory)
    _join(query, batches[:2])  # first calls are slower
    idle, peak, over = pss(), [0], threading.Event()
    watcher = threading.Thread(target=_watch, args=(over, peak), daemon=True)
    if watch:
        watcher.start()
    began = time.perf_counter()
    results, total, state = _join(query, batches)
    seconds = time.perf_counter() - began
    over.set()
    batch = sum(t.nbytes for t in batches[0].values())
    grown = max(0, peak[0] - idle)
    return {
        "seconds": seconds, "results": results, "sum": total, "state": state, "grown": grown, "batch": batch
    }  # fmt: skip


def _join(query: bd.JoinQuery, batches: list[dict[str, pa.Table]]) -> tuple[int, int, int]:
    live = bd.LocalJoin(query)
    results = total = state = 0
    for batch in [*batches, None]:
        for table in live.stream_end() if batch is None else live.stream(batch):
            results, total = results + table.num_rows, total + _sum(table)
        stats = live.stats()
        streams = sum(s.live_bytes for s in stats.streams.values())
        state = max(state, streams + sum(s.live_bytes for s in stats.intermediates.values()))
    return results, total % _MODULUS, state


def _sum(table: pa.Table) -> int:
    """A number that depends on every row, and not on their order."""
    if not table.num_rows:
        return 0
    columns = [table.column(f"{n}_v").to_numpy().astype(np.uint64) for n in NAMES]
    mixed = columns[0] * np.uint64(3) + columns[1] * np.uint64(5) + columns[2] * np.uint64(7)
    return int((mixed * (mixed >> np.uint64(7))).sum()) % _MODULUS


def random_tables(rows: int) -> dict[str, pa.Table]:
    """Three streams of random keys."""
    rng = np.random.default_rng(1)
    return {
        n: pa.table(
            {"k": rng.integers(0, rows, rows), "v": rng.integers(0, 1 << 40, rows), "w": rng.random(rows)}
        )
        for n in NAMES
    }


def _watch(over: threading.Event, peak: list[int]) -> None:
    while not over.wait(_REST_S):
        peak[0] = max(peak[0], pss())


def pss(process: int | str = "self") -> int:
    """A process's own memory, in bytes; nothing if it is gone."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _child(rows: int, plan: str, limit: int | None, defer: bool | None, watch: bool) -> dict[str, Any]:
    asked = json.dumps([rows, plan, limit, defer, watch])
    done = subprocess.run(
        [sys.executable, "-m", "braided_benchmarks.memory", "--child", asked],
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    """Compare, and say whether the bars are reached."""
    parser = argparse.ArgumentParser(description="A join whose state is ten times its memory budget.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each of three streams")
    parser.add_argument("--plan", choices=["mjoin", "linear"], help="only this plan")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run(*json.loads(options.child))))
        return 0
    reports = [compare(options.rows, p) for p in ([options.plan] if options.plan else ["mjoin", "linear"])]
    print(*reports, sep="\n")
    return 0 if all(r.reached for r in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
