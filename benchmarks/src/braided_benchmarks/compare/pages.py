"""The comparison's tables as Markdown, from what the runs showed."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable, Mapping

from braided_benchmarks.compare.runs import Outcome

NAMES = {
    "braided": "**Braided** on Spark",
    "spark-heap": "Spark's chain, state in the heap",
    "spark-rocksdb": "Spark's chain, RocksDB",
    "flink-interval": "Flink, interval joins",
    "flink-chain": "Flink, chain of regular joins",
    "flink-multi": "Flink, MultiJoin",
    "pathway-plain": "Pathway, joins and a filter",
    "pathway-interval": "Pathway, interval joins",
}
ABSENT = {"flink": "Flink", "pathway": "Pathway"}


def page(outcomes: list[Outcome], versions: Mapping[str, str]) -> str:
    """All tables, with what ran and where."""
    at_once = [o for o in outcomes if not o.latencies]
    live = [o for o in outcomes if o.latencies]
    restarted = [o for o in outcomes if o.restarted]
    parts = [_where(versions)]
    if at_once:
        parts += ["### All files lie there", _table(at_once, _total), _notes(at_once)]
    if live:
        parts += ["### A file of each stream every second", _table(live, _latency), _notes(live)]
    if restarted:
        parts += [f"### After the run with {restarted[0].scenario}", _after(restarted)]
    return "\n\n".join(p for p in parts if p) + "\n"


def _where(versions: Mapping[str, str]) -> str:
    there = {"spark": "Spark", **ABSENT}
    ran = ", ".join(f"{there[name]} {version}" for name, version in versions.items() if version)
    cores = len(os.sched_getaffinity(0))
    absent = [there[name] for name, version in versions.items() if not version]
    left_out = f" Not installed, so left out: {', '.join(absent)}." if absent else ""
    return f"One run on {cores} cores, Python {platform.python_version()}: {ran}.{left_out}"


def _table(outcomes: list[Outcome], cell: Callable[[Outcome], str]) -> str:
    scenarios = _in_order(o.scenario for o in outcomes)
    lines = [f"| | {' | '.join(scenarios)} |", f"| --- |{' ---: |' * len(scenarios)}"]
    by_place = {(o.contender, o.scenario): o for o in outcomes}
    for contender in _in_order(o.contender for o in outcomes):
        cells = [by_place.get((contender, s)) for s in scenarios]
        lines.append(f"| {NAMES[contender]} | {' | '.join(cell(o) if o else '' for o in cells)} |")
    return "\n".join(lines)


def _total(outcome: Outcome) -> str:
    if outcome.failure:
        return "failed"
    if not outcome.complete:
        return f"{outcome.share:.0%} after {outcome.seconds:.0f}"
    return f"{outcome.seconds:.1f} ({outcome.first_s:.1f})"


def _latency(outcome: Outcome) -> str:
    if outcome.failure:
        return "failed"
    shown = " / ".join(_seconds(outcome.latencies[p]) for p in (50, 99))
    return shown if outcome.complete else f"{shown}, {outcome.share:.0%} came"


def _seconds(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.2f}"


def _after(outcomes: list[Outcome]) -> str:
    lines = ["| | state on disk, MB | seconds from a start after a kill to all results of a new file |"]
    lines.append("| --- | ---: | ---: |")
    for o in outcomes:
        again = "did not come" if o.restart_s is None else f"{o.restart_s:.1f}"
        lines.append(f"| {NAMES[o.contender]} | {o.state_bytes / 1e6:.1f} | {again} |")
    return "\n".join(lines)


def _notes(outcomes: list[Outcome]) -> str:
    """Why a run failed."""
    return "\n".join(f"- {NAMES[o.contender]}, {o.scenario}: {o.failure}" for o in outcomes if o.failure)


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
