"""What early-throughput says of Figures 7 to 13, and this project's bars, held against what was measured.

A *lead* is by how much less time one run needs to its first 100K results than another over the same rows: the
mean over seeds, with its 95 % interval. A lead is reproduced if it is as large as the paper says, and in the
same direction if all of the interval is above zero.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from braided_lab.early_measure import Run
from braided_lab.report import Claim, Mean, Report, Verdict, mean_of

if TYPE_CHECKING:
    from braided_lab.early_throughput import Cells

OURS, STATE_SPILL, RPJ, HASH_MERGE = "adaptive", "state-spill", "rpj", "hash-merge"
FLUSH_ALONE, MANAGER_ALONE, AS_WRITTEN = "flush alone", "manager alone", "manager as in the paper"
IN_MEMORY, HINDSIGHT = "all in memory", "hindsight"
_PAPER = {"state-spill": 0.3, "rpj": 0.4, "hash-merge": 0.45}  # at least so much ahead
_VISIBLE, _NOISE = 0.05, 0.02
_STABLE = 0.1  # of the time: as much as the same may differ
_FIGURE_13_RESULTS, _FIGURE_12_RESULTS, _NONE_BEFORE_S = 15_000, 400_000, 120.0
_SAID = "adaptive-global with the state manager"


def add(report: Report, cells: Cells, given: Mapping[str, Any], size: Mapping[str, Any]) -> None:
    """Enter claims and notes into the report."""
    scale, wanted = size["scale"], given["results"][-1] * size["scale"]
    found: dict[str, Callable[[], Iterable[Claim]]] = {
        "inputs": lambda: (*_inputs(cells, wanted), *_order(cells, wanted), *_without_manager(cells, wanted)),
        "parts": lambda: _parts(cells, wanted),
        "uniform": lambda: _uniform(cells, wanted),
        "alpha": lambda: _keeping(cells, wanted, "alpha", "Figure 7: alpha 0.5 is better than"),
        "keeping": lambda: _keeping(cells, wanted, "keeping", "Figure 8: ewma is better than"),
        "memory": lambda: _memory(cells, wanted),
        "flush": lambda: _flush(cells, wanted),
        "ratio": lambda: _ratio(cells, wanted, _FIGURE_12_RESULTS * scale),
        "joins": lambda: _joins(cells, _FIGURE_13_RESULTS * scale),
        "batches": lambda: _elsewhere(cells, wanted, "batches", "a batch every {}"),
        "disk": lambda: _elsewhere(cells, wanted, "disk", "a disk {}"),
        "drivers": lambda: _drivers(cells, wanted),
        "real time": lambda: _real(cells, wanted),
    }
    for experiment, claims in found.items():
        if experiment in size["experiments"]:
            report.claims += claims()
    report.notes += list(_notes(cells, given, size))


def _variations(cells: Cells, experiment: str) -> list[str]:
    return list(dict.fromkeys(v for e, v, _ in cells if e == experiment))


# times


def mean_seconds(runs: Sequence[Run], results: float) -> float | None:
    """The mean time to the k-th result; None if some run has not as many."""
    found = statistics.fmean(r.seconds_to(results) for r in runs)
    return round(found, 1) if math.isfinite(found) else None


def lead(ours: Sequence[Run], theirs: Sequence[Run], results: float) -> Mean:
    """How much less time ours needs, seed by seed."""
    pairs = zip(ours, theirs, strict=False)
    return mean_of([1 - o.seconds_to(results) / t.seconds_to(results) for o, t in pairs])


def _verdict(found: Mean, wanted: float) -> Verdict:
    if found.value >= wanted:
        return "reproduced"
    return "same direction" if found.low > 0 else "not reproduced"


def _ahead(found: Mean) -> Verdict:
    """Where the paper gives no number; one seed alone shows a direction at most."""
    if found.value < _NOISE:
        return "not reproduced"
    return "reproduced" if 0 < found.low < found.high else "same direction"


def _times(cells: Cells, where: tuple[str, str], names: Sequence[str], results: float) -> str:
    said = []
    for name in names:
        seconds = mean_seconds(cells[*where, name], results)
        said.append(f"{name} {'never' if seconds is None else f'{seconds:.0f} s'}")
    return ", ".join(said)


# Figure 9


def _inputs(cells: Cells, wanted: float) -> Iterator[Claim]:
    for bursty in _variations(cells, "inputs"):
        yield from _leads(cells, ("inputs", bursty), bursty, " at 100K results", wanted)


def _leads(cells: Cells, where: tuple[str, str], said: str, behind: str, wanted: float) -> Iterator[Claim]:
    """Ours against each of the paper's rivals."""
    for rival, paper in _PAPER.items():
        found = lead(cells[*where, OURS], cells[*where, rival], wanted)
        yield Claim(
            f"Figure 9, {said}: {_SAID} is ahead of {rival}{behind}",
            f"at least {paper:.0%}", f"lead {found}", _verdict(found, paper),
            _times(cells, where, (OURS, rival), wanted),
        )  # fmt: skip


def _order(cells: Cells, wanted: float) -> Iterator[Claim]:
    where, names = ("inputs", "4 bursty"), list(_PAPER)
    leads = [lead(cells[*where, OURS], cells[*where, name], wanted).value for name in names]
    yield Claim(
        "Figure 9, 4 bursty: state-spill comes closest, then rpj, then hash-merge", "in this order",
        ", ".join(f"{n} {v:.3f}" for n, v in zip(names, leads, strict=True)),
        "reproduced" if leads == sorted(leads) and leads[0] > 0 else "not reproduced",
        _times(cells, where, (OURS, *names, IN_MEMORY), wanted),
    )  # fmt: skip


def _without_manager(cells: Cells, wanted: float) -> Iterator[Claim]:
    where = ("inputs", "4 bursty")
    said = "Bar: switching off the state manager is worse"
    yield _worse(said, cells[*where, OURS], cells[*where, FLUSH_ALONE], wanted)


def _parts(cells: Cells, wanted: float) -> Iterator[Claim]:
    for name, said in (
        (MANAGER_ALONE, "Bar: switching off the flush policy (state-spill's instead) is worse"),
        (AS_WRITTEN, "Ours: a state manager that leaves rows in memory alone, as in the paper, is worse"),
        (XJOIN, "Ours: XJoin's flush and disk phase are worse"),
    ):
        yield _worse(said, cells["inputs", "4 bursty", OURS], cells["parts", "4 bursty", name], wanted)


def _worse(said: str, ours: Sequence[Run], theirs: Sequence[Run], wanted: float) -> Claim:
    found, mine = lead(ours, theirs, wanted), mean_seconds(ours[: len(theirs)], wanted)
    why = f"{mine} and {mean_seconds(theirs, wanted)} s"
    claim, bar = f"{said} at 100K results", f"(ours: visibly, {_VISIBLE:.0%})"
    return Claim(claim, bar, f"lead {found}", _verdict(found, _VISIBLE), why)


def _uniform(cells: Cells, wanted: float) -> Iterator[Claim]:
    yield from _leads(cells, ("uniform", "4 bursty"), "4 bursty, keys without buckets", "", wanted)


# Figures 7 and 8


def _keeping(cells: Cells, wanted: float, experiment: str, said: str) -> Iterator[Claim]:
    for value in _variations(cells, experiment):
        usual = cells["inputs", "3 bursty" if value.endswith("D steady") else "4 bursty", OURS]
        runs = cells[experiment, value, OURS]
        found = lead(usual, runs, wanted)
        why = f"{mean_seconds(usual[: len(runs)], wanted)} and {mean_seconds(runs, wanted)} s"
        yield Claim(f"{said} {value}", "better", f"lead {found}", _ahead(found), why)


# Figures 10 and 11


def _memory(cells: Cells, wanted: float) -> Iterator[Claim]:
    for share in _variations(cells, "memory"):
        where = ("memory", share)
        for rival in ("state-spill", "hash-merge"):
            found = lead(cells[*where, OURS], cells[*where, rival], wanted)
            yield Claim(
                f"Figure 10, memory {_percent(share)}: {_SAID} is ahead of {rival}", "ahead",
                f"lead {found}", _ahead(found),
                _times(cells, where, (OURS, rival), wanted),
            )  # fmt: skip


def _percent(variation: str) -> str:
    share, *rest = variation.split(",")
    return ",".join([f"{float(share):.0%}", *rest])


def _flush(cells: Cells, wanted: float) -> Iterator[Claim]:
    usual = cells["inputs", "4 bursty", OURS]
    for share in _variations(cells, "flush"):
        where = ("flush", share)
        runs = cells[*where, OURS]
        found = lead(runs, usual, wanted)
        small = abs(found.value) <= _STABLE
        yield Claim(
            f"Figure 11, flush {float(share):.0%}: {_SAID} takes as long as with 5 %", "stable",
            f"{found.value:+.3f} of the time less", "reproduced" if small else "not reproduced",
            _times(cells, where, (OURS, "state-spill", "hash-merge"), wanted),
        )  # fmt: skip


# Figures 12 and 13


def _ratio(cells: Cells, wanted: float, more: float) -> Iterator[Claim]:
    for ratio in _variations(cells, "ratio"):
        where, results = ("ratio", ratio), more if ratio == "1:4" else wanted
        found = lead(cells[*where, OURS], cells[*where, "state-spill"], results)
        yield Claim(
            f"Figure 12, join ratio {ratio}, steady: {_SAID} is ahead of state-spill", "ahead",
            f"lead {found}", _ahead(found),
            _times(cells, where, (OURS, "state-spill"), results),
        )  # fmt: skip


def _joins(cells: Cells, wanted: float) -> Iterator[Claim]:
    for joins in _variations(cells, "joins"):
        where = ("joins", joins)
        found = lead(cells[*where, OURS], cells[*where, "state-spill"], wanted)
        yield Claim(
            f"Figure 13, {joins} joins: {_SAID} is ahead of state-spill at 15K results", "ahead",
            f"lead {found}", _ahead(found),
            _times(cells, where, (OURS, "state-spill", "hash-merge"), wanted),
        )  # fmt: skip
        first = mean_seconds(cells[*where, "hash-merge"], 1) or math.inf
        yield Claim(
            f"Figure 13, {joins} joins: hash-merge has no results in 120 s", "none",
            f"the first after {first:.0f} s",
            "reproduced" if first >= _NONE_BEFORE_S else "not reproduced",
            f"{_SAID}: {mean_seconds(cells[*where, OURS], 1)} s",
        )  # fmt: skip


# ours


def _elsewhere(cells: Cells, wanted: float, experiment: str, said: str) -> Iterator[Claim]:
    """The order of Figure 9 where our own choices are others."""
    for variation in _variations(cells, experiment):
        names = [n for e, v, n in cells if (e, v) == (experiment, variation) and n != OURS]
        for name in names:
            runs = cells[experiment, variation, name]
            found = lead(cells[experiment, variation, OURS], runs, wanted)
            yield Claim(
                f"Ours, 4 bursty, {said.format(variation)}: {_SAID} is ahead of {name}", "(ours: ahead)",
                f"lead {found}", _ahead(found), _times(cells, (experiment, variation), (OURS, name), wanted),
            )  # fmt: skip


def _drivers(cells: Cells, wanted: float) -> Iterator[Claim]:
    found = {n: mean_seconds(r, wanted) for (e, _, n), r in cells.items() if e == "drivers"}
    times = [t for t in found.values() if t is not None]
    spread = max(times) / min(times) - 1 if times else math.inf
    yield Claim(
        "Ours: with every driver-stream policy the result is complete under a memory budget, and as early",
        "(ours: within 5 %)", f"all exact; times to 100K results differ by {spread:.1%}",
        "reproduced" if spread <= 0.05 else "not reproduced",
        ", ".join(f"{n} {t} s" for n, t in found.items()),
    )  # fmt: skip


def _real(cells: Cells, wanted: float) -> Iterator[Claim]:
    where, virtual = ("real time", "4 bursty"), ("inputs", "4 bursty")
    for rival in _PAPER:
        real = lead(cells[*where, OURS], cells[*where, rival], wanted).value
        model = lead(cells[*virtual, OURS][:1], cells[*virtual, rival][:1], wanted).value
        same = (real > 0) == (model > 0)
        yield Claim(
            f"Ours: in real time, who is ahead of {OURS} and {rival} is as in virtual time",
            "(ours: the same sign)", f"lead {real:.3f}, in virtual time {model:.3f}",
            "reproduced" if same else "not reproduced",
            _times(cells, where, (OURS, rival), wanted),
        )  # fmt: skip


def _notes(cells: Cells, given: Mapping[str, Any], size: Mapping[str, Any]) -> Iterator[str]:
    scale, some = size["scale"], list(given["results"])[::3]
    yield (
        f"A row stands for {1 / scale:g}: numbers of results below are those of the paper's size. "
        "Seconds are virtual but for 'real time'; means over seeds."
    )
    yield ""
    head = ["experiment", "variation", "who", "seeds", *(f"{k // 1000}K" for k in some)]
    head += ["at the input's end", "merges", "rows read", "disk s"]
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for (experiment, variation, name), runs in cells.items():
        times = [mean_seconds(runs, k * scale) for k in some]
        early = statistics.fmean(r.counts["results_at_input_end"] / r.results for r in runs)
        done = [
            statistics.fmean(r.counts.get(c, math.nan) for r in runs)
            for c in ("merges", "read_rows", "disk_s")
        ]
        yield (
            f"| {experiment} | {variation} | {name} | {len(runs)} | "
            f"{' | '.join('never' if t is None else f'{t:.0f}' for t in times)} | {early:.1%} | "
            f"{' | '.join('' if math.isnan(d) else f'{d:,.0f}' for d in done)} |"
        )
