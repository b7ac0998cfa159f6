"""What the jaqpot paper says, against rows in the join; the bars of our own are in the parameters.

A setting is a repetition. Settings whose bounds cannot be kept are run as the others are; where they are
most, what the others cost confirms nothing. That no result is stale under bounds follows from how the product
keeps them, so it is not tested here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from braided_lab.jaqpot_claims import in_order, more, times
from braided_lab.jaqpot_engine import FITTED, NEVER, Point
from braided_lab.jaqpot_engine_changes import Changing
from braided_lab.jaqpot_engine_fresh import Found, Fresh
from braided_lab.jaqpot_fresh_claims import LEAST_STALE, trees_ahead
from braided_lab.jaqpot_model import HEURISTICS
from braided_lab.report import Claim, Verdict
from braided_lab.verdicts import COUNTED, MOST, between, near, of_part, own, shown, spread

_MANY = 100  # results in a run, from which on chance matters little
_FITTED = tuple(FITTED.values())
_WORDS = {
    "count": "count windows on all states",
    "newest": "the newest rows of intermediates",
    "time": "intermediates that expire with their rows",
}
_ENDLESS = 1e9  # how many times as much as nothing
_MOST_TIMES = 10.0  # that count where means are taken


def of_points(given: Mapping[str, Any], found: Sequence[Point]) -> Iterator[Claim]:
    """Figure 7, and the join against the model."""
    for states in _WORDS:
        yield _agreement(given, states, [p for p in found if p.states == states])
    for plan in dict.fromkeys(p.plan for p in found if p.states == "count"):
        yield from _advantage(given, plan, [p for p in found if p.plan == plan and p.states == "count"])
    for states in ("newest", "time"):
        yield _product(states, [p for p in found if p.states == states])


def _agreement(given: Mapping[str, Any], states: str, found: Sequence[Point]) -> Claim:
    """How near the join is to our own model: nothing of the paper is repeated by that."""
    bar = given["bars"]["engine_within"]
    many = [p for p in found if p.expected >= _MANY]
    inside = [abs(p.off) <= bar for p in many]
    means = np.mean([p.share for p in many]) / np.mean([p.predicted for p in many]) if many else math.nan
    good = abs(means - 1) <= bar and np.mean(inside) >= MOST
    worst = max(many, key=lambda p: abs(p.off), default=None)
    where = f"{worst.off:+.0%}, {worst.policy}, {worst.plan} plan, {worst.budget:.0%}" if worst else ""
    return Claim(
        f"Ours, join, {_WORDS[states]}: results are those the model predicts",
        f"(ours: within {bar:.0%}, and {MOST:.0%} of the runs)",
        f"{means:.3f} of them; {np.mean(inside) if inside else 0:.0%} of {len(many)} runs",
        own("reproduced" if good else "not reproduced"),
        f"runs with {_MANY} results or more, {len(found) - len(many)} have fewer; the worst: {where}",
    )  # fmt: skip


def ratios(found: Sequence[Point], others: Sequence[str]) -> list[float]:
    """Jaqpot against the best of others, the mean of each setting over its budgets."""
    cases: dict[tuple[str, int, float], dict[str, float]] = {}
    for p in found:
        cases.setdefault((p.plan, p.number, p.budget), {})[p.policy] = p.share
    by_setting: dict[tuple[str, int], list[float]] = {}
    for (plan, number, _), shares in cases.items():
        by_setting.setdefault((plan, number), []).append(min(_MOST_TIMES, over(shares, others)))
    return [float(np.mean(each)) for each in by_setting.values()]


def over(results: Mapping[str, float], others: Sequence[str]) -> float:
    """How many times the best of others jaqpot yields; of nothing it is as much, or without end."""
    ours, best = results["jaqpot"], max(results[name] for name in others)
    return ours / best if best else (_ENDLESS if ours else 1.0)


def _advantage(given: Mapping[str, Any], plan: str, found: Sequence[Point]) -> Iterator[Claim]:
    low, high = given["bar_budgets"]
    some = [p for p in found if low - 1e-9 <= p.budget <= high + 1e-9]
    where = f"{plan} plan, join"
    yield from times(
        f"Figure 7, {where}", ratios(some, tuple(HEURISTICS)), plan, given,
        "count windows, budgets 10-60 %, the best in each case, by setting",
    )  # fmt: skip
    yield more(
        f"{where}: jaqpot is ahead by thinking in paths", "argued", ratios(some, _FITTED),
        "against the four fitted to each batch, so that they use all of their budget",
    )  # fmt: skip


def _product(states: str, found: Sequence[Point]) -> Claim:
    """The default allocation through the public API, against what else a user may choose."""
    name = "jaqpot" if states == "newest" else "jaqpot (least-loss)"
    ours, kept = ratios(found, _FITTED), [not p.problem for p in found if p.policy == "jaqpot"]
    starved = np.mean([p.share for p in found if p.policy == "greedy-path"])
    some = [p for p in found if p.policy == "jaqpot"]
    bounds = f"bounds of 1.5 windows can be kept in {sum(kept)} of {len(kept)} runs; "
    return Claim(
        f"Ours, join, {_WORDS[states]}: {name} against the best of the four, fitted",
        f"(ours: at least {1 - COUNTED:g})", f"{shown(ours, 2)} x",
        own(between(spread(ours), 1 - COUNTED, math.inf)),
        f"from {min(ours):.2f} to {max(ours):.2f} by setting; {bounds if states == 'newest' else ''}best "
        f"paths first yields {starved:.0%} of all results, jaqpot {np.mean([p.share for p in some]):.0%}",
    )  # fmt: skip


def of_freshness(given: Mapping[str, Any], found: Found) -> Iterator[Claim]:
    """Figure 9."""
    covered = [f for f in found.bound if f.feasible]
    stale = sum(sum(f.stale.values()) for f in found.bound)
    yield Claim(
        "Join: no result is stale under any policy, with bounds set", "always", f"{stale} stale",
        "not tested" if not stale else "not reproduced",
        f"{len(found.bound)} settings and bounds, six policies; the join does not find what is too old",
    )  # fmt: skip
    yield _reached(covered)
    yield _more_fresh(found.bound)
    for words, some in (("can", covered), ("cannot", [f for f in found.bound if not f.feasible])):
        yield _best_of_all(words, some)
    yield from _feasible(given, found)
    yield _without_bounds(given, found)


def _reached(covered: Sequence[Fresh]) -> Claim:
    reached = [f.reached for f in covered]
    least = min(reached, default=math.nan)
    enough = [r >= 0.95 for r in reached]
    verdict: Verdict = "not tested" if not reached else "reproduced" if all(enough) else "not reproduced"
    return Claim(
        "Section 4, join: refresh rates are reached in every plan that has a cover", "always",
        f"in {sum(enough)} of {len(covered)}, at least {least:.0%} of the rate", verdict,
        "95 % or more of the rows into each intermediate that the bounds ask for; by its own statistics the "
        f"join sees a cover in {sum(f.sees for f in covered)}",
    )  # fmt: skip


def _more_fresh(found: Sequence[Fresh]) -> Claim:
    """Against GrePP with purging, as the paper argues."""
    each = [min(_MOST_TIMES, over(f.results, ("greedy-path",))) for f in found]
    total = [sum(f.results[p] for f in found) for p in ("jaqpot", "greedy-path")]
    return more(
        "Join: jaqpot yields more fresh results than GrePP with purging", "more", each,
        f"{total[0]:.0f} against {total[1]:.0f} a batch in all; {_MOST_TIMES:g} x at most in each of "
        f"{len(found)} settings and bounds, of which {sum(not f.feasible for f in found)} have no cover",
    )  # fmt: skip


def _best_of_all(words: str, some: Sequence[Fresh]) -> Claim:
    """Against the best heuristic, as we want it."""
    four = [min(_MOST_TIMES, over(f.results, _FITTED)) for f in some]
    behind = sum(r < 1 - COUNTED for r in four)
    return Claim(
        f"Ours, join, bounds that {words} be kept: fresh results are at least those of the best heuristic",
        f"(ours: at least {1 - COUNTED:g} in every setting)",
        f"{shown(four, 2)} x; fewer in {behind} of {len(four)}",
        "not tested" if not four else own("not reproduced" if behind else "reproduced"),
        f"from {min(four, default=math.nan):.2f}; all policies fitted and purged",
    )  # fmt: skip


def _feasible(given: Mapping[str, Any], found: Found) -> Iterator[Claim]:
    says, within = given["paper_says"], given["bars"]["near"]
    numbers = [
        [not each[i] for each in found.drawn.values()] for i in range(min(map(len, found.drawn.values())))
    ]
    shares = [float(np.mean(n)) for n in numbers]
    yield Claim(
        "Section 5.3, join: plans whose bounds cannot be kept", f"{says['infeasible']:.0%}", shown(shares, 2),
        near(spread(shares), says["infeasible"], within),
        "at 30 % of saturation; feasible: "
        + ", ".join(f"{p} {f:g} x {sum(n)}/{len(n)}" for (p, f), n in found.drawn.items()),
    )  # fmt: skip
    costs = [f.share for f in found.bound if f.feasible]
    covered = sum(map(sum, found.drawn.values()))
    verdict = between(spread(costs), 0.0, says["freshness_share_mean"])
    yield Claim(
        "Section 5.3, join: on average freshness takes at most this share of the budget",
        f"{says['freshness_share_mean']:.0%}", shown(costs, 2),
        of_part(verdict, covered, sum(map(len, found.drawn.values()))),
        f"{len(costs)} settings and bounds that have a cover",
    )  # fmt: skip


def _without_bounds(given: Mapping[str, Any], found: Found) -> Claim:
    """Figure 9.b."""
    says = given["paper_says"]["stale_selectivity_best_bushy_1.5"]
    tight = [u.stale for u in found.unbound if u.plan == "bushy" and u.factor == 1.5]
    shares = {p: [s[p] for s in tight if not math.isnan(s[p])] for p in tight[0]}
    ours = shares[FITTED["selectivity-best"]]
    return Claim(
        "Figure 9.b, join: SBestHJP's stale results, bushy plan, 1.5 x", f"{says:.0%}", shown(ours, 2),
        near(spread(ours), says, given["bars"]["near"], beyond=LEAST_STALE),
        f"{len(ours)} of {len(tight)} settings have results; without bounds, 30 % of saturation: "
        + ", ".join(f"{p} {np.mean(s):.0%}" for p, s in shares.items() if s),
    )  # fmt: skip


def of_changes(found: Sequence[Changing]) -> Iterator[Claim]:
    """Figure 6."""
    for c in found:
        bounds = "without bounds on age" if c.factor is None else f"bounds of {c.factor:g} windows"
        best = max(_FITTED, key=lambda p, c=c: sum(c.totals[p]))  # type: ignore[misc]
        relative = {p: np.mean(np.divide(c.totals[p], c.totals["jaqpot"])) for p in (best, NEVER)}
        kept = sum(not problem for problem in c.problems)
        why = (
            f"{', '.join(f'{p}: {n:.2f}' for p, n in relative.items())}; "
            f"{sum(t for t, _ in c.taken)} of the last {sum(n for _, n in c.taken)} analyses were taken"
        )
        if c.factor is not None:
            why += f"; at the end bounds can be kept in {kept} of {len(c.problems)} settings"
        yield from in_order(f"Figure 6, join, {c.plan} plan, {bounds}", c.totals, why)
        yield more(
            f"Figure 6, join, {c.plan} plan, {bounds}: jaqpot is ahead of the four fitted", "argued",
            [ours / max(c.totals[p][i] for p in _FITTED) for i, ours in enumerate(c.totals["jaqpot"])], "",
        )  # fmt: skip


def of_flat(rows: Sequence[Mapping[str, Any]]) -> Iterator[Claim]:
    """Flat against tree."""
    costs = next(r["flat_over_linear"] for r in rows if r["experiment"] == "rows-flat-cost")
    found = trees_ahead(
        "Section 6, join: under computing limits a tree yields more than a flat plan",
        [r for r in rows if r["experiment"] == "rows-flat"],
    )
    with_all = f"with all rows the flat plan takes {np.mean(costs):.2f} of the linear tree's probes"
    yield Claim(found.claim, found.paper, found.ours, found.verdict, f"{found.why}; {with_all}")
