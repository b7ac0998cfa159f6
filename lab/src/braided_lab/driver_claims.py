"""What the driver-selection paper claims (Tables 4 and 5, and sentences), held against what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from braided_lab.driver_datasets import NAMES
from braided_lab.report import Claim, Report, Verdict, mean_of

if TYPE_CHECKING:
    from braided_lab.driver_selection import Cells

# by policy: one pair (period 0.1M, period 1M) per data set; None where the paper has none
TABLE_4: dict[str, list[tuple[float, float] | None]] = {
    "round-robin": [
        (0.985, 1.012), (1.002, 1.002), (1.003, 1.014), (0.966, 0.997), (0.948, 0.927), (1.128, 0.926),
    ],
    "consumption-rate": [None, None, None, None, (0.863, 0.808), (0.785, 0.728)],
    "initial-output-size": [
        (0.854, 0.791), (0.859, 0.773), (0.871, 0.811), (0.744, 0.801), (0.882, 0.5), (0.785, 0.611),
    ],
    "output-rate": [
        (0.903, 0.769), (0.84, 0.777), (0.884, 0.815), (0.755, 0.789), (0.906, 0.851), (0.956, 0.819),
    ],
}  # fmt: skip
TABLE_5: dict[str, list[tuple[float, float] | None]] = {
    "round-robin": [(0.5, 0.4), (0.45, 0.4), (0.5, 0.45), (0.55, 0.5), (0.85, 0.9), (0.65, 0.55)],
    "timestamp": [(0.45, 0.45), (0.5, 0.45), (0.5, 0.45), (0.5, 0.45), (0.5, 0.45), (0.5, 0.45)],
    "consumption-rate": [None, None, None, None, (0.1, 0.05), (0.4, 0.35)],
    "initial-output-size": [
        (0.85, 0.85), (0.85, 0.85), (0.8, 0.8), (0.65, 0.6), (0.95, 1.0), (0.8, 0.95),
    ],
    "output-rate": [(0.85, 0.85), (0.85, 0.85), (0.8, 0.8), (0.6, 0.6), (0.9, 0.95), (0.7, 0.7)],
}  # fmt: skip
_NEAR = 0.05
_EVEN = 0.02
_PERIODS = ("0.1M", "1M")


def add(report: Report, cells: Cells) -> None:
    """Enter claims, and the bars of this project, into the report."""
    report.claims += [*_table_4(cells), *_table_5(cells), *_sentences(cells)]
    report.notes += list(_notes(report, cells))


def _table_4(cells: Cells) -> Iterator[Claim]:
    for policy, row in TABLE_4.items():
        for name, values in zip(NAMES, row, strict=True):
            for period, paper in zip(_PERIODS, values or (), strict=False):
                ours = mean_of(cells[name, period, policy].cpu)
                yield Claim(
                    f"Table 4, data set {name}, {period}, {policy}: CPU time against timestamp",
                    f"{paper:g}", str(ours), _ratio_verdict(paper, ours.value), _why(paper, ours.value),
                )  # fmt: skip
        for i, period in enumerate(_PERIODS):
            paper = statistics.fmean(v[i] for v in row if v)
            ours = mean_of([statistics.fmean(r) for r in _by_repetition(cells, row, period, policy)])
            yield Claim(
                f"Table 4, average, {period}, {policy}", f"{paper:.3f}", str(ours),
                _ratio_verdict(paper, ours.value), _why(paper, ours.value),
            )  # fmt: skip


def _by_repetition(
    cells: Cells, row: list[tuple[float, float] | None], period: str, policy: str
) -> Iterator[tuple[float, ...]]:
    named = [name for name, values in zip(NAMES, row, strict=True) if values]
    return zip(*(cells[name, period, policy].cpu for name in named), strict=True)


def _ratio_verdict(paper: float, ours: float) -> Verdict:
    if abs(paper - ours) <= _NEAR:
        return "reproduced"
    if abs(paper - 1) <= _EVEN:
        return "not reproduced"
    return "same direction" if (paper < 1) == (ours < 1) else "not reproduced"


def _why(paper: float, ours: float) -> str:
    if abs(paper - ours) <= _NEAR:
        return ""
    return "more is saved here" if ours < paper else "less is saved here"


def _table_5(cells: Cells) -> Iterator[Claim]:
    for policy, row in TABLE_5.items():
        for i, (name, values) in enumerate(zip(NAMES, row, strict=True)):
            for p, (period, paper) in enumerate(zip(_PERIODS, values or (), strict=False)):
                ours = mean_of(cells[name, period, policy].early)
                base = statistics.fmean(cells[name, period, "timestamp"].early)
                theirs = TABLE_5["timestamp"][i]
                assert theirs is not None
                if abs(paper - ours.value) <= _NEAR:
                    verdict: Verdict = "reproduced"
                elif policy != "timestamp" and (paper > theirs[p]) == (ours.value > base):
                    verdict = "same direction"
                else:
                    verdict = "not reproduced"
                yield Claim(
                    f"Table 5, data set {name}, {period}, {policy}: results at half of timestamp's time",
                    f"{paper:g}", str(ours), verdict, f"timestamp has {base:.2f} here",
                )  # fmt: skip


def _sentences(cells: Cells) -> Iterator[Claim]:
    for policy in ("initial-output-size", "output-rate"):
        shares = [_at(cells, name, period, policy, 0.3) for name in NAMES[:3] for period in _PERIODS]
        yield _claim(
            f"{policy}: 60 % of the results in less than 30 % of timestamp's time, data sets I-III",
            "0.6", statistics.fmean(shares), 0.6, 0.3,
        )  # fmt: skip
        shares = [_at(cells, "V", period, policy, 0.3) for period in _PERIODS]
        yield _claim(
            f"{policy}: 80 % of the results in the first 20-30 % of the time, data set V",
            "0.8", statistics.fmean(shares), 0.8, 0.3,
        )  # fmt: skip
    probes = [np.mean(cells[n, p, "initial-output-size"].probes) for n in NAMES for p in _PERIODS]
    later = [np.mean(cells[n, p, "initial-output-size"].later_probes) for n in NAMES for p in _PERIODS]
    yield Claim(
        "timestamp needs more probes than initial-output-size", "more",
        f"all probes {np.mean(probes):.3f}, probes after the first {np.mean(later):.3f} of timestamp's",
        "reproduced" if np.mean(probes) < 1 else "not reproduced",
        "first probes are one per row under any policy",
    )  # fmt: skip
    switches = [
        np.mean(cells[n, p, "initial-output-size"].switches) / np.mean(cells[n, p, "timestamp"].switches)
        for n in NAMES
        for p in _PERIODS
    ]
    yield Claim(
        "timestamp changes the driver stream more often", "more",
        f"initial-output-size changes {np.mean(switches):.5f} times as often",
        "reproduced" if np.mean(switches) < 1 else "not reproduced",
    )  # fmt: skip
    mine, theirs = (
        statistics.fmean(
            statistics.fmean(cells[n, p, policy].halves["all"]["consumed"])
            for n in ("V", "VI")
            for p in _PERIODS
        )
        for policy in ("initial-output-size", "consumption-rate")
    )
    yield Claim(
        "initial-output-size consumes the input earlier than consumption-rate (V, VI)", "earlier",
        f"consumed at half of timestamp's time: {mine:.2f} against {theirs:.2f}",
        "reproduced" if mine > theirs else "not reproduced",
    )  # fmt: skip


def _claim(claim: str, paper: str, ours: float, enough: float, some: float) -> Claim:
    verdict: Verdict = (
        "reproduced" if ours >= enough else "same direction" if ours > some else "not reproduced"
    )
    return Claim(claim, paper, f"{ours:.2f}", verdict)


def _at(cells: Cells, name: str, period: str, policy: str, x: float) -> float:
    curve = np.mean(cells[name, period, policy].curves["all"], axis=0)
    grid = np.linspace(0.0, 1.5, len(curve))
    return float(np.interp(x, grid, curve[:, 0]))


def _notes(report: Report, cells: Cells) -> Iterator[str]:
    """The project's own bars, and the table of conditions."""
    policy = "initial-output-size"
    keys = [(n, p) for n in NAMES for p in _PERIODS]
    average = statistics.fmean(statistics.fmean(cells[n, p, policy].cpu) for n, p in keys)
    worse = [f"{n} {p}" for n, p in keys if mean_of(cells[n, p, policy].cpu).low > 1.03]
    behind = [
        f"{n} {p}"
        for n, p in keys
        if n in ("II", "III", "IV", "V")
        and statistics.fmean(cells[n, p, policy].early) < statistics.fmean(cells[n, p, "timestamp"].early)
    ]
    given = report.parameters
    yield f"Size: {given['rows']:,} rows, {given['repetitions']} repetitions, seed {report.seed}."
    yield ""
    yield "| bar | must | measured |"
    yield "| --- | --- | --- |"
    yield f"| CPU time of {policy} against timestamp, mean of 12 cells | at most 0.95 | {average:.3f} |"
    yield f"| cells whose 95 % interval lies wholly above 1.03 | none | {', '.join(worse) or 'none'} |"
    yield f"| cells of II-V with fewer early results than timestamp | none | {', '.join(behind) or 'none'} |"
    yield ""
    yield "More streams (CPU time against timestamp; share of results at half of its time in brackets):"
    yield ""
    wide = [r for r in report.rows if "condition" in r]
    policies = list(dict.fromkeys(r["policy"] for r in wide))
    yield f"| streams, condition | {' | '.join(policies)} | least CPU | earliest |"
    yield "| --- " * (len(policies) + 3) + "|"
    for case in dict.fromkeys((r["streams"], r["condition"]) for r in wide):
        found = {r["policy"]: r for r in wide if (r["streams"], r["condition"]) == case}
        said = " | ".join(f"{found[p]['cpu']:.2f} ({found[p]['early']:.2f})" for p in policies)
        least = min(policies, key=lambda p: found[p]["cpu"])
        earliest = max(policies, key=lambda p: found[p]["early"])
        yield f"| {case[0]}, {case[1]} | {said} | {least} | {earliest} |"
