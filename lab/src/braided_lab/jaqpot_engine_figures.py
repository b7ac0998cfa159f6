"""Figures of the jaqpot lab's experiments with rows in the join, as PNG files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from braided_lab.jaqpot_engine import FITTED, NEVER, Point
from braided_lab.jaqpot_engine_changes import Changing
from braided_lab.jaqpot_engine_fresh import Found
from braided_lab.jaqpot_figures import COLOURS, legend_below
from braided_lab.jaqpot_intel import Reading
from braided_lab.jaqpot_settings import PLANS


def _plain(policy: str) -> str:
    return policy if policy == NEVER else policy.removesuffix(", fitted")


def budgets(path: Path, found: Sequence[Point]) -> None:
    """Results over the budget, and the model's as circles: the paper's states, and the product's."""
    kinds = {"count": "all states hold so many rows", "newest": "product: intermediates hold their newest"}
    places = [(states, plan) for states in kinds for plan in PLANS]
    places = [place for place in places if any((p.states, p.plan) == place for p in found)]
    figure = Figure(figsize=(4.2 * len(places), 5.4), layout="constrained")
    axes = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for axis, (states, plan) in zip(axes, places, strict=True):
        here = [p for p in found if (p.states, p.plan) == (states, plan)]
        for policy in dict.fromkeys(p.policy for p in here):
            _over_budgets(axis, [p for p in here if p.policy == policy], policy)
        axis.set_title(f"{plan} plan\n{kinds[states]}", fontsize=10)
        axis.set_xlabel("probes, % of saturation")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("results, % of saturation")
    figure.suptitle("Figure 7 in the join: lines are rows, circles the model; mean of settings")
    legend_below(figure, axes, 5)
    figure.savefig(path, dpi=90)


def _over_budgets(axis: Axes, found: Sequence[Point], policy: str) -> None:
    across = sorted({p.budget for p in found})
    for name, style in (("share", "--" if policy in FITTED.values() else "-"), ("predicted", "o")):
        means = [100 * np.mean([getattr(p, name) for p in found if p.budget == b]) for b in across]
        axis.plot(
            [100 * b for b in across], means, style, color=COLOURS[_plain(policy)], linewidth=1.3,
            markerfacecolor="none", markersize=5, label=policy if name == "share" else None,
        )  # fmt: skip


def changes(path: Path, found: Sequence[Changing]) -> None:
    """Results so far over ten minutes."""
    plans = list(dict.fromkeys(c.plan for c in found))
    factors = list(dict.fromkeys(c.factor for c in found))
    figure = Figure(figsize=(11, 8.6), layout="constrained")
    axes = figure.subplots(len(factors), len(plans), squeeze=False, sharex=True)
    for course in found:
        axis = axes[factors.index(course.factor), plans.index(course.plan)]
        _so_far(axis, course)
        bounds = (
            "no bounds on age" if course.factor is None else f"rows at most {course.factor:g} windows old"
        )
        axis.set_title(f"{course.plan} plan, {bounds}", fontsize=11)
    for axis in axes[-1]:
        axis.set_xlabel("minutes")
    figure.supylabel("results so far, % of jaqpot's in ten minutes")
    figure.suptitle("Figure 6 in the join: selectivities change at 3 and 7 minutes")
    legend_below(figure, axes[0, 0], 5)
    figure.savefig(path, dpi=90)


def _so_far(axis: Axes, course: Changing) -> None:
    total = course.results["jaqpot"].sum(axis=1, keepdims=True)
    for policy, results in course.results.items():
        so_far = 100 * (np.cumsum(results, axis=1) / total).mean(axis=0)
        minutes = (np.arange(results.shape[1]) + 1) / course.minute
        style = ":" if policy == NEVER else "--" if policy in FITTED.values() else "-"
        axis.plot(minutes, so_far, style, color=COLOURS[_plain(policy)], label=policy)
    for at in (3, 7):
        axis.axvline(at, color="#4d4d4d", linestyle=":", linewidth=1)
    axis.grid(alpha=0.3)


def freshness(path: Path, found: Found) -> None:
    """Stale shares without bounds, and fresh results with them."""
    figure = Figure(figsize=(14, 5.2), layout="constrained")
    axes = figure.subplots(1, len(PLANS) + 1)
    factors = sorted({u.factor for u in found.unbound})
    for axis, plan in zip(axes, dict.fromkeys(u.plan for u in found.unbound), strict=False):
        stale = [[u.stale for u in found.unbound if u.plan == plan and u.factor == f] for f in factors]
        policies = list(stale[0][0])
        for number, policy in enumerate(policies):
            heights = [100 * float(np.nanmean([s[policy] for s in group])) for group in stale]
            at = np.arange(len(factors)) + (number - len(policies) / 2 + 0.5) * 0.15
            axis.bar(at, heights, 0.15, color=COLOURS[_plain(policy)], label=policy)
        axis.set_xticks(range(len(factors)), [f"{f:g} x" for f in factors])
        axis.set_title(f"stale without bounds: {plan}", fontsize=11)
        axis.set_ylabel("% of a policy's results")
        axis.set_ylim(0, 105)
    _fresh(axes[-1], found)
    figure.suptitle("Figure 9 in the join, 30 % of saturation")
    legend_below(figure, axes[0], 5)
    figure.savefig(path, dpi=110)


def _fresh(axis: Axes, found: Found) -> None:
    axis.plot([0.01, 1e4], [0.01, 1e4], ":", color="#4d4d4d", linewidth=1)
    for number, plan in enumerate(PLANS):
        for feasible, mark in ((True, "o"), (False, "x")):
            some = [f for f in found.bound if f.plan == plan and f.feasible == feasible]
            across = [max(f.results["greedy-path"], 0.02) for f in some]
            up = [max(f.results["jaqpot"], 0.02) for f in some]
            label = plan if feasible else f"{plan}, bounds not kept"
            axis.loglog(across, up, mark, color=f"C{number}", label=label)
    axis.set_xlabel("best paths first with purging")
    axis.set_ylabel("jaqpot")
    axis.set_title("fresh results a batch, with bounds", fontsize=11)
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)


def intel(path: Path, found: Sequence[Reading]) -> None:
    """Results by budget and policy, for each attribute; and what is stale."""
    most = max(r.lasted for r in found)
    plain = [r for r in found if r.factor is None and 2 * r.lasted <= most]
    attributes = list(dict.fromkeys(r.attribute for r in plain))
    figure = Figure(figsize=(16, 5), layout="constrained")
    axes = figure.subplots(1, len(attributes) + 1, squeeze=False)[0]
    probes = sorted({r.probes for r in plain})
    policies = list(dict.fromkeys(r.policy for r in plain))
    for axis, attribute in zip(axes, attributes, strict=False):
        here = [r for r in plain if r.attribute == attribute]
        heights = {p: [_mean(r.results for r in here if (r.probes, r.policy) == (n, p)) for n in probes]
                   for p in policies}  # fmt: skip
        _bars(axis, heights, [str(n) for n in probes])
        axis.set_title(f"results: {attribute}")
        axis.set_xlabel("probes a batch")
    here = [r for r in found if 2 * r.lasted > most and r.results]
    factors = sorted(here[0].stale) if here else []
    stale = {p: [100 * _mean(r.stale[f] / r.results for r in here if r.policy == p) for f in factors]
             for p in dict.fromkeys(r.policy for r in here)}  # fmt: skip
    _bars(axes[-1], stale, [f"{f:g} x" for f in factors])
    axes[-1].set_title(f"% stale: {attributes[0]}, {probes[0]} probes")
    axes[-1].set_xlabel("bound on age, times the window")
    figure.suptitle("Figures 8 and 9.c: Intel lab, five streams, states of 1,000 rows, no bounds on age")
    legend_below(figure, axes[0], 5)
    figure.savefig(path, dpi=90)


def _mean(values: Iterable[float]) -> float:
    some = list(values)
    return float(np.mean(some)) if some else 0.0


def _bars(axis: Axes, heights: Mapping[str, Sequence[float]], words: Sequence[str]) -> None:
    width = 0.85 / len(heights)
    for number, (policy, each) in enumerate(heights.items()):
        at = np.arange(len(words)) + (number - len(heights) / 2 + 0.5) * width
        fitted = policy in FITTED.values()
        axis.bar(at, each, width, color=COLOURS[_plain(policy)], alpha=0.5 if fitted else 1, label=policy)
    axis.set_xticks(range(len(words)), words)


def flat(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Flat against tree."""
    points = [r for r in rows if r["experiment"] == "rows-flat"]
    figure = Figure(figsize=(7, 4.8), layout="constrained")
    axis = figure.subplots()
    for plan in dict.fromkeys(r["plan"] for r in points):
        here = [r for r in points if r["plan"] == plan]
        axis.plot([100 * r["budget"] for r in here], [100 * r["share"] for r in here], "o-", label=plan)
    axis.set_xlabel("probes, % of the linear tree's saturation")
    axis.set_ylabel("results, % of all")
    axis.set_title("Flat against tree in the join: one key, the same budget", fontsize=11)
    axis.legend(fontsize=9)
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
