"""The experiments of the driver-selection paper, on the shipped join with real rows.

CPU time is measured; nothing is modelled. Every repetition has data of its own and runs all policies one
after the other in a rotated order, so that ratios compare what ran side by side. The first fifth of the
batches is left out, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from braided_lab import driver_claims, driver_figures, driver_sentences, driver_spark
from braided_lab.driver_datasets import NAMES, dataset, query, wide
from braided_lab.measure import Batch, Run, by_period, run
from braided_lab.report import Report, committed, mean_of, quiet

BASE = "timestamp"


@dataclass
class Cell:
    """One data set, period and policy: a number per repetition, and the mean curves of each half."""

    cpu: list[float] = field(default_factory=list)
    early: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    later_probes: list[float] = field(default_factory=list)
    switches: list[int] = field(default_factory=list)
    curves: dict[str, list[np.ndarray]] = field(default_factory=dict)
    halves: dict[str, dict[str, list[float]]] = field(default_factory=dict)


Cells = dict[tuple[str, str, str], Cell]


def parameters() -> dict[str, Any]:
    """As committed."""
    return committed("driver-selection")


def steps(*, quick: bool) -> int:
    """How often a lab says how far it is."""
    size = parameters()["quick" if quick else "full"]
    return int(size["repetitions"]) * len(NAMES) + 1 + len(size["spark"]["data_sets"])


def lab(out: Path, *, quick: bool, seed: int, say: Callable[[str], object] = quiet) -> Report:
    """All experiments; writes JSON, Markdown and figures; `say` is told how far it is."""
    given = parameters()
    size = given["quick" if quick else "full"]
    report = Report("driver-selection", seed, {**given, **size, "quick": quick})
    cells = measured(given, size["rows"], size["repetitions"], seed, say)
    report.rows += list(_rows(cells))
    say("joins of more streams")
    report.rows += list(_beyond(given, seed, quick=quick))
    report.claims += [*driver_claims.tables(cells), *driver_sentences.sentences(cells)]
    report.notes += list(driver_claims.notes(report, cells))
    driver_spark.add(report, given, size["spark"], seed, say)
    report.write(out)
    driver_figures.draw(out, cells, given, size["rows"], seed)
    return report


def measured(
    given: Mapping[str, Any], rows: int, repetitions: int, seed: int, say: Callable[[str], object] = quiet
) -> Cells:
    """Every data set, period and policy, so many times."""
    policies = given["policies"]
    cells: Cells = {}
    _one_run(given, dataset("I", 5_000, given, seed=seed), 5_000, 10, BASE)  # warm
    for repetition in range(repetitions):
        for name in NAMES:
            say(f"repetition {repetition + 1} of {repetitions}, data set {name}")
            tables = dataset(name, rows, given, seed=seed + repetition)
            for batches, period in zip(given["batches"], given["period_names"], strict=True):
                order = policies[repetition % len(policies) :] + policies[: repetition % len(policies)]
                runs = {p: _one_run(given, tables, rows, batches, p) for p in order}
                if len({sum(b.results for b in r.batches) for r in runs.values()}) > 1:
                    raise AssertionError(f"policies disagree on the result of data set {name}")
                for policy in policies:
                    _enter(cells.setdefault((name, period, policy), Cell()), runs[policy], runs[BASE], given)
    return cells


def _one_run(given: Mapping[str, Any], tables: Any, rows: int, batches: int, policy: str) -> Run:
    return _run(given, by_period(tables, batches, rows * given["units_per_row"]), policy)


def _run(given: Mapping[str, Any], parts: list[dict[str, pa.Table]], policy: str) -> Run:
    """One run over the given batches; the sizes of streams are known, as in the paper."""
    sizes = {name: max(1, sum(part[name].num_rows for part in parts)) for name in parts[0]}
    known = {name: 1 / size for name, size in sizes.items()} if policy == "consumption-rate" else {}
    tuning = bd.Tuning(policy, given["probe_order"], selectivities=known)  # type: ignore[arg-type]
    return run(query(tuple(parts[0]), tuning), parts, chunk_rows=given["chunk_rows"])


def _halves(given: Mapping[str, Any], batches: int) -> dict[str, slice]:
    """The batches that count, together and in two halves; the first ones are left out."""
    start = given["left_out_share"]
    cuts = [round(share * batches) for share in (start, (1 + start) / 2, 1)]
    return {"all": slice(cuts[0], cuts[2]), "first half": slice(*cuts[:2]), "second half": slice(*cuts[1:])}


def _enter(cell: Cell, mine: Run, base: Run, given: Mapping[str, Any]) -> None:
    """Add a repetition, normalised to the timestamp policy's run beside it."""
    grid = np.linspace(*given["grid"])
    halves = _halves(given, len(mine.batches))
    counted = halves["all"]
    cell.probes.append(mine.probes(counted) / base.probes(counted))
    cell.later_probes.append(mine.probes(counted, later=True) / max(1, base.probes(counted, later=True)))
    cell.switches.append(mine.switches)
    for half, part in halves.items():
        pairs = list(zip(mine.batches[part], base.batches[part], strict=True))
        cpu = mine.seconds(part) / base.seconds(part)
        early = _share(pairs, 0.5)
        if half == "all":
            cell.cpu.append(cpu)
            cell.early.append(early)
        kept = cell.halves.setdefault(half, {"cpu": [], "early": [], "consumed": []})
        kept["cpu"].append(cpu)
        kept["early"].append(early)
        kept["consumed"].append(_share(pairs, 0.5, column=2))
        curve = np.array([[_share(pairs, x), _share(pairs, x, column=2)] for x in grid])
        cell.curves.setdefault(half, []).append(curve)


def _share(pairs: list[tuple[Batch, Batch]], x: float, column: int = 1) -> float:
    """The mean part of a batch's results (or rows) that was there at x times the base's time for it."""
    return float(np.mean([mine.share_at(x * base.seconds, column) for mine, base in pairs]))


def _rows(cells: Cells) -> Iterator[dict[str, Any]]:
    for (name, period, policy), cell in cells.items():
        for half, kept in cell.halves.items():
            means = {what: mean_of(values) for what, values in kept.items()}
            yield {
                "data set": name,
                "period": period,
                "policy": policy,
                "batches": half,
                **{what: round(m.value, 4) for what, m in means.items()},
                "cpu_low": round(means["cpu"].low, 4),
                "cpu_high": round(means["cpu"].high, 4),
                "probes": round(float(np.mean(cell.probes)), 4),
                "later_probes": round(float(np.mean(cell.later_probes)), 4),
                "switches": round(float(np.mean(cell.switches)), 1),
                "repetitions": len(cell.cpu),
            }


def _beyond(given: Mapping[str, Any], seed: int, *, quick: bool) -> Iterator[dict[str, Any]]:
    """The paper's future work: more streams, and which policy wins when."""
    beyond = given["beyond"]
    rows = beyond["quick_rows" if quick else "rows"]
    for streams in beyond["streams"]:
        for condition in beyond["conditions"]:
            ratios: dict[str, list[tuple[float, float]]] = {p: [] for p in given["policies"]}
            for repetition in range(beyond["quick_repetitions" if quick else "repetitions"]):
                tables = wide(streams, condition, rows, given, seed=seed + repetition)
                parts = by_period(tables, beyond["batches"], rows * given["units_per_row"])
                runs = {p: _run(given, parts, p) for p in given["policies"]}
                part = _halves(given, len(parts))["all"]
                for policy, mine in runs.items():
                    pairs = list(zip(mine.batches[part], runs[BASE].batches[part], strict=True))
                    cpu = mine.seconds(part) / runs[BASE].seconds(part)
                    ratios[policy].append((cpu, _share(pairs, 0.5)))
            for policy, found in ratios.items():
                times, early = (mean_of([f[i] for f in found]) for i in (0, 1))
                yield {
                    "streams": streams, "condition": condition, "policy": policy,
                    "cpu": round(times.value, 4), "cpu_low": round(times.low, 4),
                    "cpu_high": round(times.high, 4), "early": round(early.value, 4),
                }  # fmt: skip
