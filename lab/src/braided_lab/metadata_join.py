"""The experiments of metadata-join (Figures 8 to 11) on the shipped join, against XJoin.

| experiment | batches | who runs |
| --- | --- | --- |
| queues (Figure 8) | turns of one stream's queue | priority and value, against random: a row, or a quota |
| bulk (Figures 9, 10) | turns of many rows | the engine, against XJoin with all memory, and with a tenth |
| fine (Figures 9 to 11) | one for each punctuation | keyed and scanning purges, after 1 and 100, and XJoin |
| lengths (Figure 10) | both of these | the engine, with twice the rows: see `metadata_lengths` |
| spark (ours) | micro-batches | `bd.spark.join` with and without promises: see `metadata_spark` |

Every seed has data of its own; all run it one after the other in a rotated order, so that ratios compare what
ran side by side. All must find the same number of results.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from braided.local.queues import scheduled
from braided_lab import metadata_claims, metadata_figures, metadata_lengths, metadata_spark
from braided_lab.metadata_measure import (
    COLUMNS,
    Batch,
    Curve,
    Feed,
    KeyedPurge,
    ScanningPurge,
    at_punctuations,
    news_engine,
    news_query,
    run_mjoin,
    run_xjoin,
)
from braided_lab.news import tables, workload
from braided_lab.report import Report, committed, quiet

Whole = Mapping[str, pa.RecordBatch]
Runs = dict[str, Callable[[], Curve]]
Cells = dict[tuple[str, str, str], list[Curve]]


def parameters() -> dict[str, Any]:
    """As committed."""
    return committed("metadata-join")


def steps(*, quick: bool) -> int:
    """How often a lab says how far it is."""
    given = parameters()
    size = given["quick" if quick else "full"]
    return sum(int(part["seeds"]) * len(part["streams"]) for part in size.values())


def lab(out: Path, *, quick: bool, seed: int, say: Callable[[str], object] = quiet) -> Report:
    """All experiments; writes JSON, Markdown and figures; `say` is told how far it is."""
    given = parameters()
    size = given["quick" if quick else "full"]
    report = Report("metadata-join", seed, {**given, "quick": quick})
    cells = measured(given, size, seed, say)
    report.rows += list(_rows(cells))
    metadata_claims.add(report, cells, size)
    metadata_lengths.add(report, given, size["lengths"], seed, say)
    metadata_spark.add(report, given, size["spark"], seed, say)
    report.write(out)
    metadata_figures.draw(out, cells)
    return report


def measured(
    given: Mapping[str, Any], size: Mapping[str, Any], seed: int, say: Callable[[str], object] = quiet
) -> Cells:
    """Every experiment, kind of streams and contender, a run for each seed."""
    cells: Cells = {}
    with tempfile.TemporaryDirectory(prefix="braided-lab-") as folder:
        makers: dict[str, Callable[[Whole, int], Runs]] = {
            "queues": lambda whole, seed: _queues(given, whole, seed),
            "bulk": lambda whole, seed: _bulk(given, size["bulk"]["quota"], whole, seed, Path(folder)),
            "fine": lambda whole, _: _fine(given, whole),
        }
        for make in makers.values():  # warm
            for run in make(_whole(given, 500, "random", seed), seed).values():
                run()
        for experiment, make in makers.items():
            of = size[experiment]
            for number, stream in itertools.product(range(of["seeds"]), of["streams"]):
                say(f"{experiment}, {stream}, seed {seed + number}")
                runs = make(_whole(given, of["access_records"], stream, seed + number), seed + number)
                for name, curve in _in_turn(runs, number).items():
                    cells.setdefault((experiment, stream, name), []).append(curve)
    return cells


def _in_turn(runs: Runs, number: int) -> dict[str, Curve]:
    """All contenders, beginning with another one each time; they must agree on the results."""
    names = list(runs)
    order = names[number % len(names) :] + names[: number % len(names)]
    found = {name: runs[name]() for name in order}
    if len({curve.results for curve in found.values()}) > 1:
        raise AssertionError(f"joins disagree on the result: { {n: c.results for n, c in found.items()} }")
    return {name: found[name] for name in names}


def _whole(given: Mapping[str, Any], records: int, stream: str, seed: int) -> Whole:
    made = tables(workload(given, records, stream), seed=seed)
    return {name: table.combine_chunks().to_batches()[0] for name, table in made.items()}


def _scheduled(whole: Whole, scheduling: bd.Scheduling) -> Feed:
    return lambda engine: (batch for batch, _ in scheduled(engine, whole, scheduling))


def _drawn(whole: Whole, scheduling: bd.Scheduling) -> Iterator[Batch]:
    """The batches of a schedule that asks nothing."""
    return (batch for batch, _ in scheduled(news_engine(news_query(1)), whole, scheduling))


def _queues(given: Mapping[str, Any], whole: Whole, seed: int) -> Runs:
    quota = given["quota"]
    schedules = {
        "priority, value": bd.Scheduling("priority", "value", quota=quota),
        "random, sequential": bd.Scheduling("random", "sequential", quota=1, seed=seed),
        "random, sequential, in quotas": bd.Scheduling("random", "sequential", quota=quota, seed=seed),
    }
    return {
        name: lambda scheduling=scheduling: run_mjoin(  # type: ignore[misc]
            _scheduled(whole, scheduling), news_query(1, given["index"]["queues"], emit=True)
        )
        for name, scheduling in schedules.items()
    }


def _bulk(given: Mapping[str, Any], quota: int, whole: Whole, seed: int, folder: Path) -> Runs:
    ours = bd.Scheduling("priority", "value", quota=quota)
    theirs = bd.Scheduling("random", "sequential", quota=quota, seed=seed)
    records = whole["access"].num_rows - whole["access"].column("punctuation").true_count
    memory_rows = round(given["memory_share"] * (records + whole["news"].num_rows))
    return {
        "mjoin": lambda: run_mjoin(
            _scheduled(whole, ours), news_query(max(given["purge_every"]), given["index"]["bulk"])
        ),
        "xjoin": lambda: run_xjoin(_drawn(whole, theirs)),
        "xjoin, a tenth of memory": lambda: run_xjoin(_drawn(whole, theirs), memory_rows, folder),
    }


def _fine(given: Mapping[str, Any], whole: Whole) -> Runs:
    batches = at_punctuations(whole, given["top"])
    runs: Runs = {
        f"{name} purge, every {every}": lambda purge=purge, every=every: run_mjoin(  # type: ignore[misc]
            lambda _: batches, news_query(every, given["index"]["fine"]), purge
        )
        for name, purge in (("keyed", KeyedPurge), ("scanning", ScanningPurge))
        for every in given["purge_every"]
    }
    return {**runs, "xjoin": lambda: run_xjoin(batches)}


def _rows(cells: Cells) -> Iterator[dict[str, Any]]:
    """The mean of each column at each tenth of the results."""
    for (experiment, stream, name), curves in cells.items():
        results = statistics.fmean(c.results for c in curves)
        found = {c: np.mean([curve.deciles(c) for curve in curves], axis=0) for c in COLUMNS[1:]}
        for tenth in range(10):
            yield {
                "experiment": experiment,
                "streams": stream,
                "join": name,
                "share": (tenth + 1) / 10,
                "results": round(results * (tenth + 1) / 10),
                "peak_rows": statistics.fmean(c.peak for c in curves),
                **{c: round(float(values[tenth]), 4) for c, values in found.items()},
            }
