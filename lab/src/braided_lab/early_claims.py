"""What early-throughput says of Figures 7 to 13, and this project's bars, held against what was measured.

A *lead* is by how much less time one run needs to its first 100K results than another over the same rows: the
mean over seeds, with its 95 % interval. How much seeds differ is the noise: a lead whose interval includes
zero is none. With all rows in memory a join is as early as can be, so the lead of that run is the most that a
set-up can show.

| verdict | if |
| --- | --- |
| not tested | one seed; or all in memory is not as far ahead as claimed, and ours is not behind |
| reproduced | the lead is as large as claimed, and no noise |
| same direction | the lead is at least `LEAST`, and no noise |
| not reproduced | else |
"""

from __future__ import annotations

import itertools
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
PAPER = {STATE_SPILL: 0.3, RPJ: 0.4, HASH_MERGE: 0.45}  # at least this much ahead
LEAST = 0.02  # of the time, or of the results: less is no effect
_VISIBLE = 0.05
_STABLE = 0.1  # of the time: as much as the same may differ
_FIGURE_13_RESULTS, _NONE_BEFORE_S = 15_000, 120.0
_SAID = "adaptive-global with the state manager"
Where = tuple[str, str]


def add(report: Report, cells: Cells, given: Mapping[str, Any], size: Mapping[str, Any]) -> None:
    """Enter claims and notes into the report."""
    scale, wanted = size["scale"], given["results"][-1] * size["scale"]
    found: dict[str, Callable[[], Iterable[Claim]]] = {
        "inputs": lambda: (*_leads(cells, "inputs", wanted), order(cells, wanted), *_parts(cells, wanted)),
        "uniform": lambda: (*_leads(cells, "uniform", wanted), alone(cells, ("uniform", "4 bursty"))),
        "disk": lambda: _leads(cells, "disk", wanted),
        "alpha": lambda: _keeping(cells, wanted, "alpha", "Figure 7: alpha 0.5 is better than"),
        "keeping": lambda: _keeping(cells, wanted, "keeping", "Figure 8: ewma is better than"),
        "memory": lambda: _ahead(cells, wanted, "memory", "Figure 10, memory", "at 100K results"),
        "flush": lambda: _flush(cells, wanted),
        "ratio": lambda: _ahead(cells, wanted, "ratio", "Figure 12, join ratio", "at 100K results, steady"),
        "joins": lambda: _joins(cells, _FIGURE_13_RESULTS * scale),
    }
    for experiment, claims in found.items():
        if experiment in size["experiments"]:
            report.claims += claims()
    report.notes += list(_notes(cells, given, size))


def _variations(cells: Cells, experiment: str) -> list[str]:
    return list(dict.fromkeys(v for e, v, _ in cells if e == experiment))


# verdicts


def verdict(found: Mean, wanted: float, most: Mean | None = None) -> Verdict:
    """Of a lead that should be as large as `wanted`, where the set-up shows at most `most`."""
    blind = most is not None and most.value < wanted and found.high > 0
    if not math.isfinite(found.low) or blind:
        return "not tested"
    if found.low <= 0:
        return "not reproduced"
    if found.value >= wanted:
        return "reproduced"
    return "same direction" if found.value >= LEAST else "not reproduced"


def stable(found: Mean) -> Verdict:
    """Of a lead that should be none, whichever way."""
    if not math.isfinite(found.low):
        return "not tested"
    return "reproduced" if found.low >= -_STABLE and found.high <= _STABLE else "not reproduced"


def _mean(values: Sequence[float]) -> Mean:
    """As it is; one seed does not say how far it is from the mean."""
    return mean_of(values) if len(values) > 1 else Mean(values[0], -math.inf, math.inf)


def lead(ours: Sequence[Run], theirs: Sequence[Run], results: float) -> Mean:
    """How much less time ours needs, seed by seed."""
    pairs = zip(ours, theirs, strict=False)
    return _mean([1 - o.seconds_to(results) / t.seconds_to(results) for o, t in pairs])


def more(ours: Sequence[Run], theirs: Sequence[Run]) -> Mean:
    """How many more results ours has at the input's end, seed by seed, as a share of theirs."""
    pairs = zip(map(_at_end, ours), map(_at_end, theirs), strict=False)
    return _mean([o / max(t, 1.0) - 1 for o, t in pairs])


def _at_end(run: Run) -> float:
    return float(run.counts["results_at_input_end"])


def mean_seconds(runs: Sequence[Run], results: float) -> float | None:
    """The mean time to the k-th result; None if some run has not as many."""
    found = statistics.fmean(r.seconds_to(results) for r in runs)
    return round(found, 1) if math.isfinite(found) else None


def _times(cells: Cells, where: Where, names: Sequence[str], results: float) -> str:
    said = []
    for name in names:
        seconds = mean_seconds(cells[*where, name], results)
        said.append(f"{name} {'never' if seconds is None else f'{seconds:.0f} s'}")
    return ", ".join(said)


def _versus(
    cells: Cells, where: Where, rival: str, results: float, wanted: float
) -> tuple[str, Verdict, str]:
    """Ours against another: the lead, the verdict, and the times."""
    ours, theirs, memory = (cells[*where, n] for n in (OURS, rival, IN_MEMORY))
    found, most = lead(ours, theirs, results), lead(memory, theirs, results)
    times = _times(cells, where, (OURS, rival, IN_MEMORY), results)
    return f"lead {found}; at most {most.value:.3f}", verdict(found, wanted, most), times


# Figure 9


def _leads(cells: Cells, experiment: str, wanted: float) -> Iterator[Claim]:
    """Ours against each of the paper's rivals."""
    behind = {"uniform": ", keys without buckets", "disk": ", the disk of 2008"}.get(experiment, "")
    for variation in _variations(cells, experiment):
        said = "4 bursty" if experiment == "disk" else variation
        for rival, paper in PAPER.items():
            claim = f"Figure 9, {said}{behind}: {_SAID} is ahead of {rival} at 100K results"
            outcome = _versus(cells, (experiment, variation), rival, wanted, paper)
            yield Claim(claim, f"at least {paper:.0%}", *outcome)


def order(cells: Cells, wanted: float) -> Claim:
    """Who comes closest; each must be ahead of the next by more than noise."""
    where, names = ("inputs", "4 bursty"), [OURS, *PAPER]
    steps = [lead(cells[*where, a], cells[*where, b], wanted) for a, b in itertools.pairwise(names)]
    found = [verdict(step, LEAST) for step in steps]
    whole: Verdict = "reproduced" if set(found) == {"reproduced"} else "not reproduced"
    return Claim(
        "Figure 9, 4 bursty: state-spill comes closest, then rpj, then hash-merge", "in this order",
        "; ".join(f"{b} behind {a}: {s}" for (a, b), s in zip(itertools.pairwise(names), steps, strict=True)),
        "not tested" if "not tested" in found else whole,
        _times(cells, where, names, wanted),
    )  # fmt: skip


def _parts(cells: Cells, wanted: float) -> Iterator[Claim]:
    where = ("inputs", "4 bursty")
    for name, said in (
        (FLUSH_ALONE, "Bar: switching off the state manager is worse"),
        (MANAGER_ALONE, "Bar: switching off the flush policy (state-spill's instead) is worse"),
        (AS_WRITTEN, "Ours: a state manager that leaves rows in memory alone, as in the paper, is worse"),
    ):
        outcome = _versus(cells, where, name, wanted, _VISIBLE)
        yield Claim(f"{said} at 100K results", f"(ours: visibly, {_VISIBLE:.0%})", *outcome)
    yield alone(cells, where)
    yield _foresight(cells, where)


def alone(cells: Cells, where: Where) -> Claim:
    """The flush policy by itself: neither merges before the end."""
    ours, theirs = cells[*where, FLUSH_ALONE], cells[*where, STATE_SPILL]
    found = more(ours, theirs)
    keys = ", keys without buckets" if where[0] == "uniform" else ""
    return Claim(
        f"IV, 4 bursty{keys}: adaptive-global alone has more results at the input's end than state-spill",
        "more",
        f"{found} more",
        verdict(found, LEAST),
        f"of all results: {_share(ours)} and {_share(theirs)}",
    )


def _foresight(cells: Cells, where: Where) -> Claim:
    """How much knowing what will come would be worth."""
    ours, theirs = cells[*where, FLUSH_ALONE], cells[*where, HINDSIGHT]
    found = more(ours, theirs)
    return Claim(
        "Ours, 4 bursty: adaptive-global alone has as many results at the input's end as hindsight",
        f"(ours: within {_STABLE:.0%})", f"{found} more", stable(found),
        f"of all results: {_share(ours)} and {_share(theirs)}",
    )  # fmt: skip


def _share(runs: Sequence[Run]) -> str:
    return f"{statistics.fmean(_at_end(r) / r.results for r in runs):.1%}"


# Figures 7, 8 and 11: ours against ours


def _keeping(cells: Cells, wanted: float, experiment: str, said: str) -> Iterator[Claim]:
    usual, memory = (cells["inputs", "4 bursty", name] for name in (OURS, IN_MEMORY))
    for value in _variations(cells, experiment):
        runs = cells[experiment, value, OURS]
        found, most = lead(usual, runs, wanted), lead(memory, runs, wanted)
        why = f"{mean_seconds(usual[: len(runs)], wanted)} and {mean_seconds(runs, wanted)} s"
        yield Claim(f"{said} {value}", "better", f"lead {found}", verdict(found, LEAST, most), why)


def _flush(cells: Cells, wanted: float) -> Iterator[Claim]:
    usual = cells["inputs", "4 bursty", OURS]
    for share in _variations(cells, "flush"):
        runs = cells["flush", share, OURS]
        found = lead(runs, usual, wanted)
        claim = f"Figure 11, flush {float(share):.0%}: {_SAID} takes as long as with 5 %"
        why = f"{mean_seconds(runs, wanted)} and {mean_seconds(usual[: len(runs)], wanted)} s"
        yield Claim(claim, f"stable (ours: within {_STABLE:.0%})", f"lead {found}", stable(found), why)


# Figures 10, 12 and 13


def _ahead(cells: Cells, wanted: float, experiment: str, figure: str, behind: str) -> Iterator[Claim]:
    for variation in _variations(cells, experiment):
        claim = f"{figure} {variation}: {_SAID} is ahead of state-spill {behind}"
        yield Claim(claim, "ahead", *_versus(cells, (experiment, variation), STATE_SPILL, wanted, LEAST))


def _joins(cells: Cells, wanted: float) -> Iterator[Claim]:
    yield from _ahead(cells, wanted, "joins", "Figure 13, joins", "at 15K results")
    for joins in _variations(cells, "joins"):
        yield silent(cells, ("joins", joins))


def silent(cells: Cells, where: Where) -> Claim:
    """Hash-merge has nothing for long; if all in memory has nothing either, that says nothing."""
    theirs, best = (mean_seconds(cells[*where, n], 1) or math.inf for n in (HASH_MERGE, IN_MEMORY))
    told: Verdict = "reproduced" if theirs >= _NONE_BEFORE_S else "not reproduced"
    return Claim(
        f"Figure 13, {where[1]} joins: hash-merge has no results in 120 s", "none",
        f"the first after {theirs:.0f} s", told if best < _NONE_BEFORE_S else "not tested",
        f"all in memory: {best:.0f} s",
    )  # fmt: skip


def _notes(cells: Cells, given: Mapping[str, Any], size: Mapping[str, Any]) -> Iterator[str]:
    scale, some = size["scale"], list(given["results"])[::3]
    yield (
        f"A row stands for {1 / scale:g}: numbers of results below are those of the paper's size. "
        "Seconds are virtual; means over seeds."
    )
    yield ""
    head = ["experiment", "variation", "who", "seeds", *(f"{k // 1000}K" for k in some)]
    head += ["at the input's end", "merges", "rows read", "disk s"]
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for (experiment, variation, name), runs in cells.items():
        times = [mean_seconds(runs, k * scale) for k in some]
        done = [statistics.fmean(r.counts[c] for r in runs) for c in ("merges", "read_rows", "disk_s")]
        yield (
            f"| {experiment} | {variation} | {name} | {len(runs)} | "
            f"{' | '.join('never' if t is None else f'{t:.0f}' for t in times)} | {_share(runs)} | "
            f"{' | '.join(f'{d:,.0f}' for d in done)} |"
        )
