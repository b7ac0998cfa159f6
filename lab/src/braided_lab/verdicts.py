"""How labs judge: by intervals over repetitions, tolerances stated first, and least effects.

A quantity is measured once for each seed or setting, and judged by its mean with the 95 % interval. What a
single repetition shows has no end (`spread`), so nothing is said of it.

| verdict | if |
| --- | --- |
| reproduced | the whole interval lies where the paper says, by at least the least effect |
| same direction | not as far as the paper says, but on its side, by at least the least effect |
| not reproduced | the whole interval lies elsewhere, or in some repetition there was nothing to measure |
| not tested | the interval holds both answers, or the set-up cannot tell |

Bars and checks of our own are met or missed (`own`): they reproduce nothing.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from braided_lab.report import Mean, Verdict, mean_of

COUNTED, TIMED = 0.02, 0.05  # the least effects: of counts, of times
MEDIAN_WITHIN, MOST_WITHIN, MOST = 0.15, 0.30, 0.9  # curves: half of the points, and this part of them
_OWN: Mapping[Verdict, Verdict] = {
    "reproduced": "met",
    "same direction": "missed",
    "not reproduced": "missed",
}


def spread(values: Sequence[float]) -> Mean:
    """The mean with its interval; of one value without end, and of none if a repetition failed."""
    if not len(values) or not all(map(math.isfinite, values)):
        return Mean(math.nan, math.nan, math.nan)
    return mean_of(values) if len(values) > 1 else Mean(values[0], -math.inf, math.inf)


def shown(values: Sequence[float], digits: int = 1) -> str:
    """As `spread`, in words; repetitions that failed are counted."""
    failed = [v for v in values if not math.isfinite(v)]
    if failed:
        return f"none in {len(failed)} of {len(values)} repetitions"
    return written(spread(values), digits)


def written(found: Mean, digits: int = 1) -> str:
    """In words."""
    if math.isnan(found.value):
        return "failed"
    ends = "" if found.low == found.high else f" ({found.low:.{digits}f} to {found.high:.{digits}f})"
    return f"{found.value:.{digits}f}{ends if math.isfinite(found.low) else ' (once)'}"


def own(verdict: Verdict) -> Verdict:
    """What a verdict is called where nothing of the paper is repeated."""
    return _OWN.get(verdict, verdict)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Of a claim that has parts: one that fails, fails it; one that cannot be told leaves it open."""
    found = set(verdicts)
    for worst in ("not reproduced", "not tested", "same direction"):
        if not found or worst in found:
            return worst if found else "not tested"
    return "reproduced"


def after_a_miss(verdict: Verdict) -> Verdict:
    """Of a setting that was chosen because another had missed: it can fail, but it cannot confirm."""
    return verdict if verdict == "not reproduced" else "not tested"


def of_part(verdict: Verdict, cases: int, of_all: int) -> Verdict:
    """Of what only some cases can be asked for: it can fail, but confirms nothing if these are the fewer."""
    return verdict if 2 * cases >= of_all > 0 else after_a_miss(verdict)


def off(ours: float, theirs: float) -> float:
    """How far off, as a part; what was not found is infinitely far."""
    return abs(ours / theirs - 1) if theirs > 0 and math.isfinite(ours) else math.inf


def between(found: Mean, low: float, high: float) -> Verdict:
    """Of a quantity that should lie within limits."""
    if math.isnan(found.value) or math.isnan(low + high) or found.high < low or found.low > high:
        return "not reproduced"
    return "reproduced" if low <= found.low and found.high <= high else "not tested"


def near(
    found: Mean, paper: float | tuple[float, float], within: float, *, beyond: float | None = None
) -> Verdict:
    """Of a quantity that should be the paper's, or in its range, within a part of it.

    With `beyond` it is the same direction if it is on the paper's side of that, by the least effect.
    """
    low, high = paper if isinstance(paper, tuple) else (paper, paper)
    verdict = between(found, low * (1 - within), high * (1 + within))
    if beyond is None or verdict != "not reproduced":
        return verdict
    above = low > beyond
    if (found.low > beyond * (1 + TIMED)) if above else (found.high < beyond * (1 - TIMED)):
        return "same direction"
    return verdict


def always(ratios: Sequence[float], least: float) -> Verdict:
    """Of something that should be ahead in every single case, by the least effect; nearly always is less."""
    share = sum(ratio >= 1 + least for ratio in ratios) / max(1, len(ratios))
    return "reproduced" if share == 1 else "same direction" if share >= MOST else "not reproduced"


def lead(ours: Sequence[float], theirs: Sequence[float]) -> Mean:
    """By which part theirs is less than ours, seed by seed."""
    pairs = zip(ours, theirs, strict=True)
    return spread([1 - t / o if o > 0 else math.nan for o, t in pairs])


def ahead(found: Mean, least: float) -> Verdict:
    """Of a lead that should be one: at least so large, and no noise."""
    if math.isnan(found.value) or found.high < least or (found.low > 0 and found.value < least):
        return "not reproduced"
    return "reproduced" if found.low > 0 else "not tested"


def ranking(
    groups: Sequence[Sequence[str]], values: Mapping[str, Sequence[float]], least: float
) -> tuple[Verdict, str]:
    """Of an order, best group first: each member ahead of each of the next group; within a group none is.

    Returns the verdict and the smallest lead, in words.
    """
    leads = {
        f"{better} over {worse}": lead(values[better], values[worse])
        for first, second in itertools.pairwise(groups)
        for better, worse in itertools.product(first, second)
    }
    verdict = all_of(ahead(found, least) for found in leads.values())
    closest = min(leads, key=lambda pair: -math.inf if math.isnan(leads[pair].value) else leads[pair].value)
    return verdict, f"smallest lead: {closest}, {written(leads[closest], 2)}"


def follows(offs: Sequence[Sequence[float]]) -> tuple[Verdict, str]:
    """Of points that should lie on a curve: how far each is off, by seed. A failed point is infinitely far.

    Half of them must be within `MEDIAN_WITHIN`, and the part `MOST` of them within `MOST_WITHIN`.
    """
    medians = spread([min(statistics.median(seed), 1e9) for seed in offs])
    shares = spread([sum(off <= MOST_WITHIN for off in seed) / len(seed) for seed in offs])
    verdict = all_of(
        [between(medians, -math.inf, MEDIAN_WITHIN), between(shares, MOST, math.inf)],
    )
    largest = max(map(max, offs))
    words = f"median {medians.value:.1%} off, {shares.value:.0%} of the points within {MOST_WITHIN:.0%}"
    return verdict, f"{words}, largest {largest:.0%}"


def all_within(points: Sequence[Mean], low: float, high: float) -> tuple[Verdict, str]:
    """Of many points that should all lie within limits: one clearly outside is enough to fail.

    If none is, but some lie outside by less than their noise, it cannot be told.
    """
    inside = sum(low <= p.value <= high for p in points)
    clearly = sum(not (p.low <= high and p.high >= low) for p in points)
    verdict: Verdict = "reproduced" if inside == len(points) else "not tested"
    words = f"{inside} of {len(points)}"
    if inside < len(points):
        words += f" ({clearly} clearly outside)"
    return "not reproduced" if clearly else verdict, words
