"""What the window-join paper says of Figure 7 and of lazy invalidation, against what was measured.

As `window_paper_claims`. Windows of 240 s were tried after those of 60 s had missed: they confirm nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from braided_lab.report import Claim, Mean
from braided_lab.verdicts import (
    COUNTED,
    TIMED,
    after_a_miss,
    ahead,
    all_of,
    between,
    lead,
    near,
    shown,
    spread,
    written,
)

if TYPE_CHECKING:
    from braided_lab.window_paper import Found
    from braided_lab.window_paper_measure import Lab

Founds = Sequence["Found"]


def claims(lab: Lab, founds: Founds) -> list[Claim]:
    """All claims."""
    parts = (_thrash, _peaks, _after_peak, _lazy_time, _lazy_rows, _lazy_formula)
    return [claim for part in parts for claim in part(lab, founds)]


# Figure 7


def _thrash(lab: Lab, founds: Founds) -> Iterator[Claim]:
    within, one_way = lab.given["bars"]["thrash_within"], lab.given["saturates_at"]
    says, golden = lab.given["paper_says"]["thrash"], lab.given["golden"]["thrash"]
    for later, window in ((False, lab.given["window"]), (True, lab.longer.given["window"])):
        for name, paper in says.items():
            ours = [(f.long_thrash if later else f.thrash)[name] for f in founds]
            verdict = near(spread(ours), paper, within, beyond=one_way)
            yield Claim(
                f"Figure 7, windows of {window} s: {name} falls behind at this rate of B",
                f"{paper} (its model: {golden[name]})", shown(ours),
                after_a_miss(verdict) if later else verdict,
                f"within {within:.0%}; the one-way hash is calibrated at {one_way}"
                + ("; chosen after windows of 60 s had missed" if later else ""),
            )  # fmt: skip


def _peaks(lab: Lab, founds: Founds) -> Iterator[Claim]:
    within, says = lab.given["bars"]["peak_within"], lab.given["paper_says"]["peak_output"]
    peaks = {name: [max(v for _, v in f.outputs[name]) for f in founds] for name in ("HHJ", "HNJ")}
    for name, ours in peaks.items():
        yield Claim(
            f"Figure 7: the most that {name} puts out per second", str(says[name]), shown(ours, 0),
            near(spread(ours), says[name], within), f"within {within:.0%}",
        )  # fmt: skip
    ratio = says["HNJ"] / says["HHJ"]
    found = [n / h if h else math.nan for h, n in zip(*peaks.values(), strict=True)]
    yield Claim(
        "Figure 7: HNJ's most is this many times HHJ's", f"{ratio:.2f}", shown(found, 2),
        near(spread(found), ratio, within, beyond=1.0), f"within {within:.0%}",
    )  # fmt: skip


def _after_peak(lab: Lab, founds: Founds) -> Iterator[Claim]:
    bar = lab.given["bars"]["falls_below"]
    left = {name: [_left(lab, f, name) for f in founds] for name in ("HHJ", "HNJ")}
    yield Claim(
        f"Figure 7: at {lab.given['after_peak']:g} times the rate HHJ's output has fallen, HNJ's less so",
        "HHJ drastically, HNJ gracefully",
        ", ".join(f"{name} {shown(parts, 2)} of what it was" for name, parts in left.items()),
        all_of([
            between(spread(left["HHJ"]), -math.inf, bar), ahead(lead(left["HNJ"], left["HHJ"]), TIMED),
        ]),
        f"HHJ below {bar}, HNJ {TIMED:.0%} above HHJ at least",
    )  # fmt: skip


def _left(lab: Lab, found: Found, name: str) -> float:
    """What is left of a join's output some way beyond the rate at which it falls behind."""
    outputs, fails_at = dict(found.outputs[name]), found.thrash[name]
    return outputs[round(fails_at * lab.given["after_peak"])] / outputs[round(fails_at * 0.95)]


# lazy invalidation


def _lazy_time(lab: Lab, founds: Founds) -> Iterator[Claim]:
    least, rates = lab.given["bars"]["lazy_saves"], lab.size["lazy_rates"]
    for index in ("hash", "scan"):
        saved = {rate: _saved(founds, rate, index, "ms") for rate in rates}
        touches = max(_saved(founds, rate, index, "model_touches").value for rate in rates)
        best = max(saved, key=lambda rate: saved[rate].value)
        yield Claim(
            f"Section 3: lazy invalidation may save time, {index}", f"may; {touches:.1%} of the touches",
            f"{written(saved[best], 2)} of the time at most, at {best} rows of B",
            ahead(saved[best], least) if touches >= least else "not tested",
            f"by {least:.0%} at least" + ("" if touches >= least else ": the formula itself says less"),
        )  # fmt: skip


def _saved(founds: Founds, rate: int, index: str, column: str) -> Mean:
    """By which part lazy invalidation has less."""
    return lead(*([_lazy(f, rate, index, i, column) for f in founds] for i in ("active", "lazy")))


def _lazy(found: Found, rate: int, index: str, invalidation: str, column: str) -> float:
    wanted = {"rate_b": rate, "index": index, "invalidation": invalidation}
    (row,) = (r for r in found.lazy if wanted.items() <= r.items())
    return float(row[column])


def _lazy_rows(lab: Lab, founds: Founds) -> Iterator[Claim]:
    """Rows held beyond active invalidation's, as parts of the window."""
    rates = lab.size["lazy_rates"]
    more = {i: [[_held_more(f, rate, i) for f in founds] for rate in rates] for i in ("hash", "scan")}
    gaps = [[h - s for h, s in zip(*pair, strict=True)] for pair in zip(*more.values(), strict=True)]
    parts = {index: [spread(by_seed).value for by_seed in by_rate] for index, by_rate in more.items()}
    yield Claim(
        "Section 3.2: lazy invalidation holds more rows, a hash more than a scan", "even more",
        "; ".join(f"{i} {min(p):.1%} to {max(p):.1%} of the window more" for i, p in parts.items()),
        all_of(between(spread(part), COUNTED, math.inf) for part in (*more["hash"], *gaps)),
        f"by {COUNTED:.0%} of the window at least, at all {len(gaps)} rates",
    )  # fmt: skip


def _held_more(found: Found, rate: int, index: str) -> float:
    lazy, active = (_lazy(found, rate, index, i, "peak_rows") for i in ("lazy", "active"))
    return (lazy - active) / _lazy(found, rate, index, "active", "window_rows")


def _lazy_formula(lab: Lab, founds: Founds) -> Iterator[Claim]:
    within, weight = lab.given["bars"]["touches_within"], lab.given["weights"]["scan"]
    for rate, paper in lab.given["golden"]["lazy_scan"].items():
        ours = [weight * _lazy(f, int(rate), "scan", "lazy", "touches") for f in founds]
        yield Claim(
            f"Section 3.1: the cost of a lazy scan at {rate} rows of B per second", f"{paper:.0f}",
            shown(ours, 0), near(spread(ours), paper, within), f"within {within:.0%}",
        )  # fmt: skip
