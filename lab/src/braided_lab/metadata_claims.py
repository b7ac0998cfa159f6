"""What metadata-join says of Figures 8 to 11, and this project's bars, held against what was measured.

Every number is a ratio of two runs over the same rows, one for each seed, and is judged by its mean with the
95 % interval over seeds: a difference that the spread of repetitions could make is no verdict. An effect that
is smaller than `least` (2 % of counts, 5 % of times) is none. Where a set-up cannot show what is claimed, or
the interval holds both answers, the verdict is "not tested".
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from braided_lab.metadata_measure import Curve
from braided_lab.report import Claim, Mean, Report, Verdict, mean_of

if TYPE_CHECKING:
    from braided_lab.metadata_join import Cells

Values = npt.NDArray[np.float64]
_FEEDS = {"bulk": ("mjoin", "own schedules"), "fine": ("keyed purge, every 100", "a batch per punctuation")}
_STRAIGHT, _TENTH = 0.98, 0.1
_MEMORY_BAR, _DISK_BAR, _GAP = 1.05, 0.5, 1.05
COUNTED, TIMED = 0.02, 0.05  # the least effects


def add(report: Report, cells: Cells, size: Mapping[str, Any]) -> None:
    """Enter claims and notes into the report."""
    for (experiment, stream), runs in _grouped(cells).items():
        report.claims += _CLAIMS[experiment](stream, runs)
    report.notes += list(_notes(cells, size))


def _grouped(cells: Cells) -> dict[tuple[str, str], dict[str, list[Curve]]]:
    """Runs by experiment and streams, and by join."""
    grouped: dict[tuple[str, str], dict[str, list[Curve]]] = {}
    for (experiment, stream, name), curves in cells.items():
        grouped.setdefault((experiment, stream), {})[name] = curves
    return grouped


# ratios of runs that stood side by side


def ratios(mine: list[Curve], theirs: list[Curve], of: Callable[[Curve], Values]) -> Values:
    """One join's values against another's, a line for each seed."""
    pairs = zip(mine, theirs, strict=True)
    return np.array([of(m) / np.maximum(of(t), 1e-12) for m, t in pairs])


def _ratio(mine: list[Curve], theirs: list[Curve], of: Callable[[Curve], float]) -> Mean:
    return mean_of(ratios(mine, theirs, lambda curve: np.array(of(curve))).tolist())


def _seconds(curve: Curve) -> Values:
    return curve.deciles("seconds")


def _whole_time(curve: Curve) -> float:
    return curve.total("seconds")


def at_most(found: Mean, bar: float, least: float) -> Verdict:
    """A value that should not exceed a bar; below one, but above the bar, is the same direction."""
    if found.high <= bar:
        return "reproduced"
    if found.low <= bar:
        return "not tested"
    return "same direction" if found.high <= 1 - least else "not reproduced"


def less_everywhere(found: Values, least: float) -> Verdict:
    """Ratios by seed and tenth that should be less than one: by `least` over all, and nowhere more."""
    whole = mean_of(found.mean(axis=1).tolist())
    if whole.low > 1 - least:
        return "not reproduced"
    if whole.high > 1 - least:
        return "not tested"
    return "reproduced" if all(mean_of(tenth).high < 1 for tenth in found.T.tolist()) else "same direction"


def crossing(found: Values) -> Verdict:
    """Ratios by seed and tenth that should be more than one at first and less in the end."""
    first, last = mean_of(found[:, 0].tolist()), mean_of(found[:, -1].tolist())
    if last.low >= 1:
        return "not reproduced"
    if last.high >= 1 or first.low <= 1 <= first.high:
        return "not tested"
    return "reproduced" if first.low > 1 else "same direction"


# Figure 8


def _figure_8(stream: str, runs: Mapping[str, list[Curve]]) -> Iterator[Claim]:
    ours = runs["priority, value"]
    for name, said in (
        ("random, sequential", "random stream, row by row"),
        ("random, sequential, in quotas", "random stream, the same quota"),
    ):
        found = ratios(ours, runs[name], Curve.operations)
        yield _less(
            f"Figure 8, {stream}: priority and value need fewer operations than {said}", found, COUNTED
        )
    found = ratios(ours, runs["random, sequential, in quotas"], _seconds)
    yield _less(
        f"Figure 8, {stream}: priority and value take less time than random, the same quota", found, TIMED
    )
    row = statistics.fmean(c.total("seconds") for c in runs["random, sequential"])
    yield Claim(
        f"Figure 8, {stream}: priority and value take less time than random, row by row", "less",
        f"{_ratio(ours, runs['random, sequential'], _whole_time)}", "not tested",
        f"a row is a batch of the engine then: {row:.1f} s are what batches cost, whatever is read next",
    )  # fmt: skip


def _less(claim: str, found: Values, least: float) -> Claim:
    verdict = less_everywhere(found, least)
    why = f"least effect {least:.0%}"
    if verdict == "same direction":
        more = [f"{10 * i + 10} %" for i, tenth in enumerate(found.T.tolist()) if mean_of(tenth).high >= 1]
        why += f"; not less at {', '.join(more)} of the results"
    means = found.mean(axis=0)
    ours = f"{mean_of(found.mean(axis=1).tolist())}; by tenths {means.min():.3f} to {means.max():.3f}"
    return Claim(claim, "less at every number of results", ours, verdict, why)


# Figures 9 and 10


def _figures_9_10(stream: str, runs: Mapping[str, list[Curve]], feed: str) -> Iterator[Claim]:
    name, said = _FEEDS[feed]
    mine, theirs = runs[name], runs["xjoin"]
    found = ratios(mine, theirs, _seconds)
    shares = ", ".join(f"{mean_of(found[:, i].tolist())} at {10 * i + 10} %" for i in (0, 4, 9))
    yield Claim(
        f"Figure 9, {stream}, {said}: MJoin is slower than XJoin at first and faster later",
        "slower below 7500 results", f"time against XJoin's {shares} of the results", crossing(found),
        f"rows compared for a probe: {_chain(mine)}, XJoin {_chain(theirs)}",
    )  # fmt: skip
    straight = min(_straightness(curve) for curve in theirs)
    grows = all(curve.column("state_rows")[-1] >= curve.peak for curve in theirs)
    lines: Verdict = "reproduced" if straight >= _STRAIGHT else "same direction"
    yield Claim(
        f"Figure 10, {stream}, {said}: the state of XJoin grows in a line", "linear",
        f"correlation with the results at least {straight:.4f}", lines if grows else "not reproduced",
        "it never lets a row go",
    )  # fmt: skip
    peak = _ratio(mine, theirs, lambda curve: curve.peak)
    closed = statistics.fmean(float(curve.column("closed").max()) for curve in mine)
    yield Claim(
        f"Figure 10, {stream}, {said}: the peak of MJoin's state is at most a tenth of XJoin's",
        "much less (bar: 0.1)", f"{peak}", at_most(peak, _TENTH, COUNTED),
        f"besides {closed:,.0f} entries of keys, closed or lately forgotten, at most",
    )  # fmt: skip


def _chain(curves: list[Curve]) -> str:
    """What a probe meets on average: it is what a larger state could make dearer."""
    return f"{statistics.fmean(c.total('compared') / c.total('probes') for c in curves):.2f}"


def _straightness(curve: Curve) -> float:
    """How well the state follows the results: 1 is a line."""
    return float(np.corrcoef(curve.column("results"), curve.column("state_rows"))[0, 1])


# Figure 11


def _figure_11(stream: str, runs: Mapping[str, list[Curve]]) -> Iterator[Claim]:
    at_once, later = (runs[f"keyed purge, every {every}"] for every in (1, 100))
    peak = _ratio(at_once, later, lambda curve: curve.peak)
    lowest: Verdict = "reproduced" if peak.high <= 1 - COUNTED else "not tested"
    yield Claim(
        f"Figure 11, {stream}: immediate purging has the lowest peak state", "lowest",
        f"{peak} of that of batch purging", "not reproduced" if peak.low > 1 else lowest,
        "nearly all rows wait for their news item, which no purging lets go" if peak.low > 1 - TIMED else "",
    )  # fmt: skip
    scans, batches = (runs[f"scanning purge, every {every}"] for every in (1, 100))
    scan = _ratio(scans, batches, _whole_time)
    gap: Verdict = "reproduced" if scan.low > _GAP else "not tested" if scan.high > _GAP else "not reproduced"
    yield Claim(
        f"Figure 11, {stream}: immediate purging takes more time than batch purging, if purging scans",
        "more", f"{scan} of batch purging's time", gap,
        f"rows scanned: {_scanned(scans)} and {_scanned(batches)}",
    )  # fmt: skip
    keyed = _ratio(at_once, later, _whole_time)
    yield Claim(
        f"Ours, {stream}: keyed purging removes the gap", f"(ours: at most {_GAP})",
        f"{keyed} of batch purging's time",
        at_most(keyed, _GAP, TIMED) if gap == "reproduced" else "not tested",
        f"keys looked up: {_scanned(at_once)} and {_scanned(later)}"
        + ("" if gap == "reproduced" else "; scans make no gap here"),
    )  # fmt: skip


def _scanned(curves: list[Curve]) -> str:
    return f"{statistics.median(curve.total('scanned') for curve in curves):,.0f}"


# experiments


def _bulk(stream: str, runs: Mapping[str, list[Curve]]) -> Iterator[Claim]:
    yield from _figures_9_10(stream, runs, "bulk")
    records = runs["mjoin"][0].results
    for name, bar, said in (
        ("xjoin", _MEMORY_BAR, "with everything in memory"),
        ("xjoin, a tenth of memory", _DISK_BAR, "that may hold a tenth of the rows"),
    ):
        found = _ratio(runs["mjoin"], runs[name], _whole_time)
        yield Claim(
            f"Bar, {stream}: time against XJoin {said}, {records:,} access records",
            f"(ours: at most {bar})", f"{found}", at_most(found, bar, TIMED),
        )  # fmt: skip


def _fine(stream: str, runs: Mapping[str, list[Curve]]) -> Iterator[Claim]:
    yield from _figures_9_10(stream, runs, "fine")
    if stream.startswith("random"):  # the paper has no other
        yield from _figure_11(stream, runs)


_CLAIMS: Mapping[str, Callable[[str, Mapping[str, list[Curve]]], Iterator[Claim]]] = {
    "queues": _figure_8,
    "bulk": _bulk,
    "fine": _fine,
}


def _notes(cells: Cells, size: Mapping[str, Any]) -> Iterator[str]:
    parts = {name: part for name, part in size.items() if "access_records" in part}
    sizes = [f"{name} {part['access_records']:,} x {part['seeds']}" for name, part in parts.items()]
    yield f"Access records and seeds: {', '.join(sizes)}. CPU seconds and rows are medians over seeds."
    yield ""
    columns = ("probes", "compared", "inserted", "purged", "scanned")
    yield f"| experiment | streams | join | seconds | peak rows | peak closed | {' | '.join(columns)} |"
    yield f"| {' | '.join(['---'] * (6 + len(columns)))} |"
    for (experiment, stream, name), curves in cells.items():
        counts = [f"{statistics.median(c.total(column) for c in curves):,.0f}" for column in columns]
        seconds = statistics.median(c.total("seconds") for c in curves)
        peak = statistics.median(c.peak for c in curves)
        closed = statistics.median(float(c.column("closed").max()) for c in curves)
        said = (experiment, stream, name, f"{seconds:.2f}", f"{peak:,.0f}", f"{closed:,.0f}", *counts)
        yield f"| {' | '.join(said)} |"
