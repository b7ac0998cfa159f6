"""The experiments of early-throughput (VII, Figures 7 to 13): how soon are the first results there?

| experiment | figure | inputs | who runs |
| --- | --- | --- | --- |
| inputs | 9 | four, of which 4, 3, 2, 1 are slow and bursty | flush policies, parts of ours, hindsight |
| uniform | 9 | four bursty, keys without buckets | flush policies, ours without merges |
| alpha, keeping | 7, 8 | four bursty | adaptive-global with the state manager |
| memory | 10 | four bursty | the same, state-spill |
| flush | 11 | four bursty | the same |
| ratio | 12 | four steady, results twice the input at every join | the same, state-spill |
| joins | 13 | six bursty | the same, state-spill, hash-merge |
| disk | 9 | four bursty; the disk of 2008 as it was | flush policies |
| spark | - | three, from files, on Spark (`early_spark`) | the state manager, deadlines, state-spill |

All but the last in virtual time (`early_measure`). At the paper's 800 rows a second its disk is idle: all
groups can be merged again and again, so whoever merges is as early as a join that has all rows in memory, and
nothing can be told. So the disk is slower here by a factor (`slower_disk`). Every seed has rows of its own,
the same for all who run; every run must give the exact result.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from braided.policies.flush import registry
from braided_lab import early_claims, early_figures, early_spark
from braided_lab.early_arrivals import Bursts, Source, alphabet, bursty, keys_of, sources_of, steady
from braided_lab.early_claims import (
    AS_WRITTEN,
    FLUSH_ALONE,
    HASH_MERGE,
    HINDSIGHT,
    IN_MEMORY,
    MANAGER_ALONE,
    OURS,
    RPJ,
    STATE_SPILL,
)
from braided_lab.early_hindsight import hindsight
from braided_lab.early_measure import Costs, Run, Setting, VirtualRun, group_bits, limit_bytes, query_of
from braided_lab.report import Report, committed, quiet

Cells = dict[tuple[str, str, str], list[Run]]  # by experiment, variation and who ran; one of each seed
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
    slower_disk: float | None = None  # None: as in all others


def parameters() -> dict[str, Any]:
    """As committed."""
    return committed("early-throughput")


def steps(*, quick: bool) -> int:
    """How often a lab says how far it is."""
    given = parameters()
    size = given["quick" if quick else "full"]
    spark = "spark" in size["experiments"]
    return spark + sum(c.seeds for c in cases(given, size) if c.experiment in size["experiments"])


def lab(out: Path, *, quick: bool, seed: int, say: Callable[[str], object] = quiet) -> Report:
    """All experiments; writes JSON, Markdown and figures; `say` is told how far it is."""
    given = parameters()
    size = given["quick" if quick else "full"]
    report = Report("early-throughput", seed, {**given, "quick": quick})
    cells = measured(given, size, seed, say)
    report.rows += list(_rows(cells, given, size))
    early_claims.add(report, cells, given, size)
    if "spark" in size["experiments"]:
        say("on Spark")
        early_spark.add(report, **size["spark"])
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
    """All variations of all experiments, the main ones first."""
    four, share = Workload(), given["memory_share"]
    rivals = _settings(IN_MEMORY, OURS, STATE_SPILL, RPJ, HASH_MERGE)
    parts = _settings(MANAGER_ALONE, AS_WRITTEN, FLUSH_ALONE, HINDSIGHT)
    two = _settings(IN_MEMORY, OURS, STATE_SPILL)
    many, some = size["seeds"], size["some_seeds"]
    yield Case("inputs", "4 bursty", four, {**rivals, **parts}, many, share)
    without = replace(four, buckets=False)
    yield Case("uniform", "4 bursty", without, {**rivals, **_settings(FLUSH_ALONE)}, many, share)
    yield Case("disk", "as it was", four, rivals, some, share, slower_disk=1.0)
    for calm in size["calm"]:  # D, and A and B, as in Figures 8 and 10
        yield Case("inputs", f"{4 - len(calm)} bursty", replace(four, calm=calm), rivals, some, share)
    for memory in size["memory_shares"]:
        yield Case("memory", f"{memory:g}", four, two, some, memory)
    for alpha in size["alphas"]:
        yield Case("alpha", f"{alpha:g}", four, _settings(OURS), some, share, {"alpha": alpha})
    for keeping in size["keepings"]:
        yield Case("keeping", keeping, four, _settings(OURS), some, share, {"statistics": keeping})
    for flush in size["flush_shares"]:
        yield Case("flush", f"{flush:g}", four, _settings(OURS), some, share, {"flush_share": flush})
    for ratio in size["join_ratios"]:
        rows = Workload(calm="ABCD", key_range=round(given["rows"] / ratio))
        yield Case("ratio", f"1:{ratio}", rows, two, some, share)
    for joins in size["joins"]:
        yield Case("joins", str(joins), Workload(joins + 1), {**two, **_settings(HASH_MERGE)}, some, share)


def _settings(*names: str) -> dict[str, Setting]:
    special = {
        OURS: Setting(),
        FLUSH_ALONE: Setting(state_manager=False),
        HINDSIGHT: Setting(state_manager=False, chooses="hindsight"),
        MANAGER_ALONE: Setting(chooses="state-spill"),
        AS_WRITTEN: Setting(take_along=False),
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
        keys = keys_of(rng, which.inputs, rows, key_range, group_bits(limit))
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
    options = {
        "flush_share": given["flush_share"],
        "alpha": given["alpha"],
        "average_of": given["average_of"],
        "interval": f"{given['interval_s']} seconds",
        **case.options,
    }
    if setting.memory_share is not None:
        limit = round(limit * setting.memory_share / case.memory_share)
    query = query_of(list(sources), replace(setting, options=options), limit, folder)
    slower = given["slower_disk"] if case.slower_disk is None else case.slower_disk
    costs = Costs(**given["costs"]).scaled(size["scale"]).slower_disk(slower)
    choose = {"state-spill": lambda _: registry.state_spill, "hindsight": hindsight(sources), None: None}
    return VirtualRun(query, sources, costs, choose[setting.chooses]).run(size["batch_s"])


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
