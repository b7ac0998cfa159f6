"""Figures of the jaqpot lab's experiments on the engine, as PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    return policy.removesuffix(", fitted")


def budgets(path: Path, found: Sequence[Point]) -> None:
    """Results over the budget, and the model's prediction as circles."""
    counted = [p for p in found if p.states == "count"]
    figure = Figure(figsize=(13, 5.4), layout="constrained")
    axes = figure.subplots(1, len(PLANS), sharey=True)
    for axis, plan in zip(axes, PLANS, strict=True):
        here = [p for p in counted if p.plan == plan]
        for policy in dict.fromkeys(p.policy for p in here):
            _over_budgets(axis, [p for p in here if p.policy == policy], policy)
        axis.set_title(f"{plan} plan")
        axis.set_xlabel("probes, % of saturation")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("results, % of saturation")
    figure.suptitle("Figure 7 in the engine: lines are rows, circles the model; mean of settings")
    legend_below(figure, axes[0], 5)
    figure.savefig(path, dpi=110)


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
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    for axis, course in zip(axes, found, strict=True):
        total = course.results["jaqpot"].sum(axis=1, keepdims=True)
        for policy, results in course.results.items():
            so_far = 100 * (np.cumsum(results, axis=1) / total).mean(axis=0)
            minutes = (np.arange(results.shape[1]) + 1) / course.minute
            style = ":" if policy == NEVER else "--" if policy in FITTED.values() else "-"
            axis.plot(minutes, so_far, style, color=COLOURS[_plain(policy)], label=policy)
        for at in (3, 7):
            axis.axvline(at, color="#4d4d4d", linestyle=":", linewidth=1)
        axis.set_title(f"{course.plan} plan")
        axis.set_xlabel("minutes")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("results so far, % of jaqpot's in ten minutes")
    figure.suptitle("Figure 6 in the engine: selectivities change at 3 and 7 minutes")
    legend_below(figure, axes[0], 5)
    figure.savefig(path, dpi=110)


def freshness(path: Path, found: Found) -> None:
    """Stale shares without bounds, and fresh results with them."""
    figure = Figure(figsize=(14, 5.2), layout="constrained")
    axes = figure.subplots(1, len(PLANS) + 1)
    factors = sorted({u.factor for u in found.unbound})
    for axis, plan in zip(axes, dict.fromkeys(u.plan for u in found.unbound), strict=False):
        stale = [[u.stale for u in found.unbound if u.plan == plan and u.factor == f] for f in factors]
        policies = list(stale[0][0])
        for number, policy in enumerate(policies):
            heights = [100 * float(np.mean([s[policy] for s in group])) for group in stale]
            at = np.arange(len(factors)) + (number - len(policies) / 2 + 0.5) * 0.15
            axis.bar(at, heights, 0.15, color=COLOURS[_plain(policy)], label=policy)
        axis.set_xticks(range(len(factors)), [f"{f:g} x" for f in factors])
        axis.set_title(f"stale without bounds: {plan}", fontsize=11)
        axis.set_ylabel("% of a policy's results")
        axis.set_ylim(0, 105)
    _fresh(axes[-1], found)
    figure.suptitle("Figure 9 in the engine, 30 % of saturation")
    legend_below(figure, axes[0], 5)
    figure.savefig(path, dpi=110)


def _fresh(axis: Axes, found: Found) -> None:
    covered = [f for f in found.bound if f.feasible]
    axis.plot([0.01, 1e4], [0.01, 1e4], ":", color="#4d4d4d", linewidth=1)
    for number, plan in enumerate(PLANS):
        some = [f for f in covered if f.plan == plan]
        across = [max(f.results["greedy-path"], 0.02) for f in some]
        axis.loglog(
            across, [max(f.results["jaqpot"], 0.02) for f in some], "o", color=f"C{number}", label=plan
        )
    axis.set_xlabel("best paths first with purging")
    axis.set_ylabel("jaqpot")
    axis.set_title("fresh results a batch, bounds kept", fontsize=11)
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)


def intel(path: Path, found: Sequence[Reading]) -> None:
    """Results by budget and policy, for each attribute."""
    plain = [r for r in found if r.factor is None]
    attributes = list(dict.fromkeys(r.attribute for r in plain))
    figure = Figure(figsize=(13, 5), layout="constrained")
    axes = figure.subplots(1, len(attributes), squeeze=False)[0]
    for axis, attribute in zip(axes, attributes, strict=True):
        here = [r for r in plain if r.attribute == attribute]
        policies = list(dict.fromkeys(r.policy for r in here))
        probes = sorted({r.probes for r in here})
        for number, policy in enumerate(policies):
            at = np.arange(len(probes)) + (number - len(policies) / 2 + 0.5) * 0.09
            heights = [next(r.results for r in here if (r.probes, r.policy) == (n, policy)) for n in probes]
            fitted = policy in FITTED.values()
            axis.bar(
                at, heights, 0.09, color=COLOURS[_plain(policy)], alpha=0.5 if fitted else 1, label=policy
            )
        axis.set_xticks(range(len(probes)), [str(n) for n in probes])
        axis.set_title(attribute)
        axis.set_xlabel("probes a batch")
    axes[0].set_ylabel("results")
    figure.suptitle("Figure 8: Intel lab, five streams, states of 1,000 rows")
    legend_below(figure, axes[0], 5)
    figure.savefig(path, dpi=110)


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
    axis.set_title("Flat against tree in the engine: one key, the same budget", fontsize=11)
    axis.legend(fontsize=9)
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
