"""The engine's benchmark: ratios measured in one run, because machines are shared and noisy.

Work: n streams of rows with random keys and times spread evenly, 100 s windows, fed in 20 batches;
Arrow tables in, an Arrow table out, with key, time and one float of every stream. The rival is Polars'
one-shot join and filter of the same tables on all cores, which sees everything at once and keeps nothing.
Every figure is the median of several runs, taken in turns with the run it is compared to.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import braided as bd
from braided.engine.kernels import warm_up
from braided_benchmarks.lines import Line, quiet

WINDOW_US = 100_000_000
BATCHES = 20
STEPS = 7  # kinds of work


@dataclass(frozen=True)
class Work:
    """The size of a join."""

    streams: int
    rows: int
    keys: int
    span_s: int
    text: bool

    @property
    def query(self) -> bd.JoinQuery:
        """The join of all streams."""
        return bd.JoinQuery(
            [bd.Stream(f"s{i}", key="k", time="t", window="100 seconds") for i in range(self.streams)]
        )

    def tables(self) -> dict[str, pa.Table]:
        """The streams' rows, in order of time."""
        rng = np.random.default_rng(7)
        return {f"s{i}": self._table(rng) for i in range(self.streams)}

    def _table(self, rng: np.random.Generator) -> pa.Table:
        times = np.sort(rng.integers(0, self.span_s * 1_000_000, self.rows))
        keys = pa.array(rng.integers(0, self.keys, self.rows))
        if self.text:
            names = pa.array([f"key{n:09d}" for n in range(self.keys)])
            keys = names.take(keys)
        return pa.table(
            {"k": keys, "t": pa.array(times).cast(pa.timestamp("us")), "v": rng.random(self.rows)}
        )


def run(scale: float, repeats: int, say: Callable[[str], object] = quiet) -> list[Line]:
    """All lines; `scale` shrinks the rows, keys and time span alike; `say` is told how far it is."""
    warm_up()

    def sized(*, streams: int = 3, rows: int = 1_000_000, span_s: int = 1_000, text: bool = False) -> Work:
        return Work(streams, int(rows * scale), int(1_000_000 * scale), max(1, int(span_s * scale)), text)

    three, text, double = sized(), sized(text=True), 2_000_000
    longer, denser = sized(rows=double, span_s=2_000), sized(rows=double)
    texts, long, dense = "text keys of 12 characters", "run twice as long", "twice as dense"
    works: dict[str, Callable[[], Sequence[Line]]] = {
        "3 streams": lambda: _against_polars(three, 1.2, repeats),
        "5 streams": lambda: _against_polars(sized(streams=5), 1.5, repeats),
        texts: lambda: [_against_ourselves(f"3 streams, {texts}", text, three, 3.0, repeats)],
        long: lambda: [_against_ourselves(f"3 streams, rows doubled, {long}", longer, three, 2.2, repeats)],
        dense: lambda: [
            _against_ourselves(f"3 streams, rows doubled, {dense}", denser, three, None, repeats)
        ],
        "policies": lambda: [_default_against_fixed(three, max(9, repeats))],
        "live state": lambda: _live_state(three),
    }
    lines: list[Line] = []
    for name, measure in works.items():
        say(name)
        lines += measure()
    return lines


def polars_join(frames: Sequence[pl.DataFrame | pl.LazyFrame]) -> Any:
    """Polars' join of all frames on k, filtered to pairs at most a window apart after each step."""
    joined: Any = frames[0]
    for i, frame in enumerate(frames[1:], start=1):
        near = [
            (pl.col(f"t{j}") - pl.col(f"t{i}")).abs() <= pl.duration(microseconds=WINDOW_US) for j in range(i)
        ]
        joined = joined.join(frame, on="k").filter(*near)
    return joined


def _against_polars(work: Work, bar: float, repeats: int) -> list[Line]:
    tables = work.tables()
    frames = [_frame(t, i) for i, t in enumerate(tables.values())]
    ours, eager, lazy = _interleaved(
        [
            lambda: _join(work, tables),
            lambda: polars_join(frames).height,
            lambda: polars_join([f.lazy() for f in frames]).collect().height,
        ],
        repeats,
    )
    label = f"{work.streams} streams x {work.rows:,} rows, against Polars"
    return [
        Line(label, ours / eager, bar, f"{ours:.3f} s", f"{eager:.3f} s"),
        Line(f"{label}' lazy plan", ours / lazy, None, f"{ours:.3f} s", f"{lazy:.3f} s"),
    ]


def _against_ourselves(label: str, work: Work, base: Work, bar: float | None, repeats: int) -> Line:
    tables, base_tables = work.tables(), base.tables()
    ours, rival = _interleaved([lambda: _join(work, tables), lambda: _join(base, base_tables)], repeats)
    return Line(label, ours / rival, bar, f"{ours:.3f} s", f"{rival:.3f} s (3 streams)")


def _default_against_fixed(work: Work, repeats: int) -> Line:
    """What deciding costs where nothing can be gained: all orders are equally good here."""
    tables = work.tables()
    fixed = [
        bd.JoinQuery(streams, tuning=bd.Tuning(probe_order="fixed"))
        for streams in itertools.permutations(work.query.streams)
    ]
    jobs = [lambda q=q: _run(q, work, tables) for q in (work.query, *fixed)]
    ours, *others = _interleaved(jobs, repeats)
    label = f"{work.streams} streams: default policies against the best fixed probe order"
    return Line(label, ours / min(others), 1.02, f"{ours:.3f} s", f"{min(others):.3f} s")


def _live_state(work: Work) -> list[Line]:
    """Largest live state after any batch, against the bytes allowed for the rows inside the windows."""
    tables, live = work.tables(), bd.LocalJoin(work.query)
    step = work.rows // BATCHES
    worst, sizes = 0.0, []
    for start in range(0, work.rows, step):
        live.push({n: _copy(t.slice(start, step)) for n, t in tables.items()})
        seen = live.stats()
        held = sum(s.live_bytes for s in seen.streams.values())
        sizes.append(held)
        inside = 0
        for table in tables.values():
            us = table["t"].slice(0, start + step).cast(pa.int64()).to_numpy()
            inside += int((us >= (seen.watermark_us or 0) - WINDOW_US).sum())
        if start:  # the first batch is smaller than a window
            worst = max(worst, held / (inside * (24 + 64)))
    full = sizes[BATCHES // 4 :]
    return [
        Line("live state / (Arrow bytes inside the windows + 64 a row)", worst, 1.0, f"{max(sizes):,} B", ""),
        Line("live state, largest / smallest over the last windows", max(full) / min(full), 1.3, "", ""),
    ]


def _copy(table: pa.Table) -> pa.Table:
    """Rows in memory of their own, as a source hands them over."""
    return table.take(pa.array(np.arange(table.num_rows)))


def _frame(table: pa.Table, i: int) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.rename({"t": f"t{i}", "v": f"v{i}"})


def _join(work: Work, tables: dict[str, pa.Table]) -> int:
    return _run(work.query, work, tables)


def _run(query: bd.JoinQuery, work: Work, tables: dict[str, pa.Table]) -> int:
    return int(bd.run_local(query, tables, batch_rows=max(1, work.rows // BATCHES)).num_rows)


def _interleaved(jobs: Sequence[Callable[[], int]], repeats: int) -> list[float]:
    """Median seconds of each job, taken in turns; a first round warms up and compares the results."""
    seconds: list[list[float]] = [[] for _ in jobs]
    for round_ in range(repeats + 1):
        for took, job in zip(seconds, jobs, strict=True):
            began = time.perf_counter()
            job()
            if round_:
                took.append(time.perf_counter() - began)
    return [statistics.median(s) for s in seconds]
