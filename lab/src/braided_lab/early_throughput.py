"""The experiments of early-throughput (VII, Figures 7 to 13): how soon are the first results there?

| experiment | figure | inputs | who runs |
| --- | --- | --- | --- |
| inputs | 9 | four, of which 4, 3, 2, 1 are slow and bursty | flush policies; the flush policy alone |
| parts | - | four bursty | the state manager with another flush policy, and as in the paper; XJoin |
| uniform | - | four bursty, keys without buckets: the other reading of VII | flush policies |
| alpha, keeping | 7, 8 | four bursty; D steady | adaptive-global with the state manager |
| memory | 10 | four bursty; A and B steady | the same, state-spill, hash-merge |
| flush | 11 | four bursty | the same, state-spill, hash-merge |
| ratio | 12 | four steady, results twice or four times the input at every join | the same, state-spill |
| joins | 13 | six or seven bursty | the same, state-spill, hash-merge |
| batches | - | four bursty; rows are taken less often, so inputs count as silent later | flush policies |
| disk | - | four bursty; a slower disk | the same, and the state manager as in the paper |
| drivers | - | four bursty, all joined by one operator | adaptive-global with every driver-stream policy |
| real time | 9 | four bursty | flush policies, on a real clock and real files |

All but the last in virtual time (`early_measure`). Every seed has rows of its own, the same for all who run;
every run must give the exact result.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

import braided as bd
from braided.query.tuning import DriverStream
from braided_lab import early_claims, early_figures
from braided_lab.early_arrivals import Bursts, Source, alphabet, bursty, keys_of, sources_of, steady
from braided_lab.early_measure import Costs, RealRun, Run, Setting, VirtualRun, limit_bytes, query_of
from braided_lab.report import Report, committed, quiet

Cells = dict[tuple[str, str, str], list[Run]]  # by experiment, variation and who ran; one of each seed
OURS, STATE_SPILL, RPJ, HASH_MERGE, XJOIN = "adaptive", "state-spill", "rpj", "hash-merge", "largest"
FLUSH_ALONE, MANAGER_ALONE, IN_MEMORY = "flush alone", "manager alone", "all in memory"
AS_WRITTEN = "manager as in the paper"
_ENOUGH = 8.0  # of the input: memory for everything, intermediate rows, too


@dataclass(frozen=True)
class Workload:
    """Which rows, and when: `calm` are the names of inputs that are steady."""

    inputs: int = 4
    calm: str = ""
    key_range: int | None = None
    buckets: bool = True


@dataclass(frozen=True)
class Case:
    """A variation of an experiment: rows, who runs, and with how many seeds."""

    experiment: str
    variation: str
    workload: Workload
    runs: Mapping[str, Setting]
    seeds: int
    memory_share: float
    options: Mapping[str, Any] = field(default_factory=dict)  # of Memory
    batch_s: float | None = None
    slower_disk: float = 1.0


def parameters() -> dict[str, Any]:
    """As committed."""
    return committed("early-throughput")


def steps(*, quick: bool) -> int:
    """How often a lab says how far it is."""
    given = parameters()
    size = given["quick" if quick else "full"]
    return sum(c.seeds for c in cases(given, size) if c.experiment in size["experiments"])


def lab(out: Path, *, quick: bool, seed: int, say: Callable[[str], object] = quiet) -> Report:
    """All experiments; writes JSON, Markdown and figures; `say` is told how far it is."""
    given = parameters()
    size = given["quick" if quick else "full"]
    report = Report("early-throughput", seed, {**given, "quick": quick})
    cells = measured(given, size, seed, say)
    report.rows += list(_rows(cells, given, size))
    early_claims.add(report, cells, given, size)
    report.write(out)
    early_figures.draw(out, cells, given, size)
    return report


def measured(
    given: Mapping[str, Any], size: Mapping[str, Any], seed: int, say: Callable[[str], object] = quiet
) -> Cells:
    """Every case, by all who run in it and all seeds."""
    cells: Cells = {}
    with tempfile.TemporaryDirectory(prefix="braided-lab-") as folder:
        for case in (c for c in cases(given, size) if c.experiment in size["experiments"]):
            for repetition in range(case.seeds):
                say(f"{case.experiment}, {case.variation}, seed {repetition + 1} of {case.seeds}")
                sources, limit = _sources(case, given, size, seed + repetition)
                for name, setting in case.runs.items():
                    run = _run(case, setting, sources, limit, given, size, folder)
                    cells.setdefault((case.experiment, case.variation, name), []).append(run)
    return cells


# what is run


def cases(given: Mapping[str, Any], size: Mapping[str, Any]) -> Iterator[Case]:
    """All variations of all experiments."""
    four, share = Workload(), given["memory_share"]
    three = _settings(OURS, STATE_SPILL, HASH_MERGE)
    rivals = _settings(OURS, STATE_SPILL, RPJ, HASH_MERGE)
    parts = _settings(FLUSH_ALONE, IN_MEMORY)
    some, few = size["some_seeds"], size["few_seeds"]
    yield Case("inputs", "4 bursty", four, {**rivals, **parts}, size["seeds"], share)
    yield Case("parts", "4 bursty", four, _settings(MANAGER_ALONE, AS_WRITTEN, XJOIN), some, share)
    for calm in size["calm"]:  # D, and A and B, as in Figures 8 and 10
        name = f"{4 - len(calm)} bursty"
        yield Case("inputs", name, replace(four, calm=calm), rivals, some, share)
    yield Case("uniform", "4 bursty", replace(four, buckets=False), rivals, few, share)
    for calm in ("", "D"):
        rows, said = replace(four, calm=calm), _steady(calm)
        for alpha in size["alphas"]:
            yield Case("alpha", f"{alpha:g}{said}", rows, _settings(OURS), few, share, {"alpha": alpha})
        for keeping in size["keepings"]:
            yield Case(
                "keeping", f"{keeping}{said}", rows, _settings(OURS), few, share, {"statistics": keeping}
            )
    for calm in ("", "AB"):
        for memory in size["memory_shares"]:
            yield Case("memory", f"{memory:g}{_steady(calm)}", replace(four, calm=calm), three, few, memory)
    for flush in size["flush_shares"]:
        yield Case("flush", f"{flush:g}", four, three, few, share, {"flush_share": flush})
    for ratio in size["join_ratios"]:
        rows = Workload(calm="ABCD", key_range=round(given["rows"] / ratio))
        yield Case("ratio", f"1:{ratio}", rows, _settings(OURS, STATE_SPILL), few, share)
    for joins in size["joins"]:
        yield Case("joins", str(joins), Workload(joins + 1), three, few, share)
    for batch_s in size["batches"]:
        yield Case("batches", f"{batch_s:g} s", four, rivals, few, share, batch_s=batch_s)
    for times in size["disks"]:
        runs = {**rivals, **_settings(AS_WRITTEN)}
        yield Case("disk", f"{times} times slower", four, runs, few, share, slower_disk=times)
    drivers = {name: Setting(driver=name, plan="mjoin") for name in get_args(DriverStream)}
    yield Case("drivers", "4 bursty", four, drivers, few, share)
    yield Case("real time", "4 bursty", four, rivals, 1, share)


def _steady(calm: str) -> str:
    """What a variation's name says of inputs that are steady."""
    return f", {' and '.join(calm)} steady" if calm else ""


def _settings(*names: str) -> dict[str, Setting]:
    special = {
        OURS: Setting(),
        FLUSH_ALONE: Setting(state_manager=False),
        MANAGER_ALONE: Setting("state-spill", managed=True),
        AS_WRITTEN: Setting(along=False),
        IN_MEMORY: Setting(memory_share=_ENOUGH),
    }
    return {name: special.get(name) or Setting(name) for name in names}


def _sources(
    case: Case, given: Mapping[str, Any], size: Mapping[str, Any], seed: int
) -> tuple[dict[str, Source], int]:
    """Rows of one seed, and the limit of memory in bytes."""
    rng, scale, which = np.random.default_rng(seed), size["scale"], case.workload
    rows, key_range = round(given["rows"] * scale), round((which.key_range or given["key_range"]) * scale)
    bursts = Bursts(**{**given["arrivals"], "rate": given["arrivals"]["rate"] * scale})
    limit = limit_bytes(which.inputs * rows, given["tuple_bytes"], case.memory_share)
    if which.buckets:
        keys = keys_of(rng, which.inputs, rows, key_range, bd.Memory(limit).group_bits)
    else:
        keys = [rng.integers(0, key_range, rows) for _ in range(which.inputs)]
    names = alphabet(which.inputs)
    times = [
        steady(rng, rows, bursts.rate) if name in which.calm else bursty(rng, rows, bursts)
        for name in names
    ]  # fmt: skip
    return sources_of(keys, times, given["tuple_bytes"], names), limit


def _run(
    case: Case,
    setting: Setting,
    sources: Mapping[str, Source],
    limit: int,
    given: Mapping[str, Any],
    size: Mapping[str, Any],
    folder: str,
) -> Run:
    real = case.experiment == "real time"
    seconds = given["interval_s"] / (size["speed"] if real else 1)
    options = {
        "flush_share": given["flush_share"],
        "alpha": given["alpha"],
        "average_of": given["average_of"],
        "interval": f"{round(seconds * 1e6)} microseconds",
        **case.options,
    }
    if setting.memory_share is not None:
        limit = round(limit * setting.memory_share / case.memory_share)
    query = query_of(list(sources), replace(setting, options=options), limit, folder)
    batch_s = case.batch_s or size["batch_s"]
    if real:
        return RealRun(query, sources, speed=size["speed"]).run(batch_s)
    costs = Costs(**given["costs"]).scaled(size["scale"]).slower_disk(case.slower_disk)
    run = VirtualRun(query, sources, costs, managed=setting.managed, along=setting.along)
    return run.run(batch_s)


def _rows(cells: Cells, given: Mapping[str, Any], size: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Mean seconds to the k-th result, and what was done."""
    for (experiment, variation, name), runs in cells.items():
        yield {
            "experiment": experiment,
            "variation": variation,
            "who": name,
            "seeds": len(runs),
            "results": round(statistics.fmean(r.results for r in runs)),
            "seconds_to": {k: early_claims.mean_seconds(runs, k * size["scale"]) for k in given["results"]},
            "seconds_to_last": [round(r.seconds_to(given["results"][-1] * size["scale"]), 1) for r in runs],
            **{k: round(statistics.fmean(r.counts[k] for r in runs), 2) for k in runs[0].counts},
        }
