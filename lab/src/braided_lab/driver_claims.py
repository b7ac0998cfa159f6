"""What the driver-selection paper says in Tables 4 and 5, held against what was measured.

Values are means over repetitions, with 95 % intervals. An *effect* is the difference to the timestamp policy
in the same repetition. How much repetitions differ is the noise: an effect whose interval includes zero is
none. What the paper says in words, and its conclusion, is judged in `driver_sentences` by the same rules.

| verdict | if |
| --- | --- |
| not tested | one repetition; or what is claimed follows from a definition |
| reproduced | within `NEAR` of the paper's value, and an effect of its sign, unless it has none there |
| same direction | an effect of the paper's sign, of at least `LEAST_TIME` or `LEAST_SHARE` |
| not reproduced | else |
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from braided_lab.driver_datasets import NAMES
from braided_lab.report import Claim, Mean, Report, Verdict, mean_of

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
# as printed: (period 0.1M, period 1M)
AVERAGES_4 = {
    "round-robin": (1.005, 0.979), "consumption-rate": (0.824, 0.768),
    "initial-output-size": (0.832, 0.714), "output-rate": (0.874, 0.803),
}  # fmt: skip
AVERAGES_5 = {
    "round-robin": (0.58, 0.53), "timestamp": (0.49, 0.45), "consumption-rate": (0.25, 0.2),
    "initial-output-size": (0.82, 0.84), "output-rate": (0.78, 0.79),
}  # fmt: skip
NEAR = 0.05
LEAST_TIME, LEAST_SHARE, LEAST_COUNT = 0.03, 0.05, 0.02
PERIODS = ("0.1M", "1M")
BASE = "timestamp"
Values = Sequence[float]


def tables(cells: Cells) -> list[Claim]:
    """Every value of both tables, and the averages as printed."""
    return [*_table_4(cells), *_table_5(cells)]


# verdicts


def mean(values: Values) -> Mean:
    """The mean of repetitions with its interval; one repetition tells nothing of it."""
    return mean_of(values) if len(values) > 1 else Mean(values[0], -math.inf, math.inf)


def verdict(paper: float, ours: Mean, effects: tuple[float, Mean], least: float) -> Verdict:
    """A table's value; `effects` are the paper's and ours, against timestamp."""
    theirs, effect = effects
    if math.isinf(ours.high):
        return "not tested"
    close = abs(ours.value - paper) <= NEAR and ours.high - ours.low <= 2 * NEAR
    if abs(theirs) < least:
        return "reproduced" if close else "not reproduced"
    toward = effect if theirs > 0 else negative(effect)
    if toward.low <= 0:
        return "not reproduced"
    return "reproduced" if close else "same direction" if toward.value >= least else "not reproduced"


def negative(effect: Mean) -> Mean:
    """The same effect, seen from the other side."""
    return Mean(-effect.value, -effect.high, -effect.low)


# tables


def _table_4(cells: Cells) -> Iterator[Claim]:
    for policy, row in TABLE_4.items():
        for name, values in zip(NAMES, row, strict=True):
            for period, paper in zip(PERIODS, values or (), strict=False):
                found = cells[name, period, policy].cpu
                yield _time(f"Table 4, data set {name}, {period}, {policy}: CPU time", paper, found)
        named = [name for name, values in zip(NAMES, row, strict=True) if values]
        for period, paper in zip(PERIODS, AVERAGES_4[policy], strict=True):
            found = across([cells[name, period, policy].cpu for name in named])
            yield _time(f"Table 4, average, {period}, {policy}: CPU time", paper, found)


def _time(claim: str, paper: float, found: Values) -> Claim:
    ours, effect = mean(found), mean([value - 1 for value in found])
    said = verdict(paper, ours, (paper - 1, effect), LEAST_TIME)
    why = "" if said == "reproduced" else "more is saved here" if ours.value < paper else "less is saved here"
    return Claim(f"{claim} against timestamp", f"{paper:g}", str(ours), said, why)


def _table_5(cells: Cells) -> Iterator[Claim]:
    base = TABLE_5[BASE]
    for policy, row in TABLE_5.items():
        for name, values, bases in zip(NAMES, row, base, strict=True):
            for period, paper, printed in zip(PERIODS, values or (), bases or (), strict=False):
                found = cells[name, period, policy].early, cells[name, period, BASE].early
                yield _share(f"Table 5, data set {name}, {period}, {policy}", paper, printed, found)
        named = [name for name, values in zip(NAMES, row, strict=True) if values]
        for p, (period, paper) in enumerate(zip(PERIODS, AVERAGES_5[policy], strict=True)):
            own, theirs = (across([cells[n, period, who].early for n in named]) for who in (policy, BASE))
            yield _share(f"Table 5, average, {period}, {policy}", paper, AVERAGES_5[BASE][p], (own, theirs))


def _share(claim: str, paper: float, theirs: float, found: tuple[Values, Values]) -> Claim:
    own, base = found
    effect = mean(differences(own, base))
    said = verdict(paper, mean(own), (paper - theirs, effect), LEAST_SHARE)
    return Claim(
        f"{claim}: results at half of timestamp's time", f"{paper:g}", str(mean(own)), said,
        f"timestamp has {statistics.fmean(base):.2f} here",
    )  # fmt: skip


def across(of_cells: Sequence[Values]) -> list[float]:
    """The mean over cells, for each repetition."""
    return [statistics.fmean(of) for of in zip(*of_cells, strict=True)]


def differences(mine: Values, theirs: Values) -> list[float]:
    """What one has more than another, for each repetition."""
    return [m - t for m, t in zip(mine, theirs, strict=True)]


# this project's bars


def notes(report: Report, cells: Cells) -> Iterator[str]:
    """The project's own bars, and the table of conditions."""
    policy = "initial-output-size"
    keys = [(n, p) for n in NAMES for p in PERIODS]
    average = statistics.fmean(statistics.fmean(cells[n, p, policy].cpu) for n, p in keys)
    worse = [f"{n} {p}" for n, p in keys if mean(cells[n, p, policy].cpu).low > 1.03]
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
