"""Figures of the jaqpot lab as PNG files: the paper's 6, 7 and 9, and what it only argues about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from braided_lab.jaqpot_freshness import COMPARED, Case, mean, share_of, stale_mean
from braided_lab.jaqpot_model import FROZEN, HEURISTICS, SHEDDING, Course, Sweep
from braided_lab.jaqpot_settings import PLANS

COLOURS = {
    "jaqpot": "#b2182b",
    "greedy-path": "#f4a582",
    "equal-halfjoin": "#8073ac",
    "global-productivity": "#1b7837",
    "equal-best": "#2166ac",
    "selectivity-best": "#e08214",
    FROZEN: "#b2182b",
    SHEDDING: "#4d4d4d",
}
_WHERE_KEPT = {"jaqpot": "jaqpot, where its bounds can be kept (none stale)"}
_PLAN_WORDS = {"linear": "linear, 4 streams", "bushy": "bushy, 4 streams", "five": "5 streams"}


def legend_below(figure: Figure, axes: Axes | Sequence[Axes], columns: int) -> None:
    """One legend for all plots, with what any of them shows."""
    shown: dict[str, Any] = {}
    for axis in [axes] if isinstance(axes, Axes) else axes:
        shown |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend([*shown.values()], [*shown], loc="outside lower center", ncols=columns, fontsize=9)


def _below(axes: Any, words: str) -> None:
    """One label under each column: a common one would lie under the legend."""
    for axis in axes[-1]:
        axis.set_xlabel(words)


def budgets(path: Path, found: Sequence[Sweep]) -> None:
    """Figure 7: results over the budget, one row of plots for each range."""
    ranges = list(dict.fromkeys(s.range for s in found))
    figure = Figure(figsize=(13, 4.3 * len(ranges) + 0.8), layout="constrained")
    axes = figure.subplots(len(ranges), len(PLANS), sharex=True, sharey=True, squeeze=False)
    for sweep in found:
        axis = axes[ranges.index(sweep.range), list(PLANS).index(sweep.plan)]
        _shares(axis, sweep)
        axis.set_title(f"{_PLAN_WORDS[sweep.plan]}; range {sweep.range}", fontsize=11)
        axis.grid(alpha=0.3)
    figure.suptitle("Figure 7: results under a budget, mean of settings")
    _below(axes, "probes, % of saturation")
    figure.supylabel("results, % of saturation")
    legend_below(figure, axes[0, 0], 4)
    figure.savefig(path, dpi=110)


def _shares(axis: Axes, sweep: Sweep) -> None:
    across = [100 * b for b in sweep.budgets]
    for policy in ("jaqpot", *HEURISTICS):
        axis.plot(across, 100 * sweep.shares[policy].mean(axis=0), color=COLOURS[policy], label=policy)
    for policy in HEURISTICS:
        shares = 100 * sweep.shares[f"{policy}, redistributed"].mean(axis=0)
        axis.plot(
            across, shares, "--", color=COLOURS[policy], linewidth=1.2, label=f"{policy}, redistributed"
        )
    axis.plot(across, 100 * sweep.shares[SHEDDING].mean(axis=0), ":", color=COLOURS[SHEDDING], label=SHEDDING)


def changes(path: Path, found: Sequence[Course]) -> None:
    """Figure 6: results so far over time, as a share of jaqpot's of the whole run."""
    plans, kinds = (list(dict.fromkeys(getattr(c, name) for c in found)) for name in ("plan", "budget"))
    figure = Figure(figsize=(11, 9), layout="constrained")
    axes = figure.subplots(len(plans), len(kinds), sharex=True, squeeze=False)
    for course in found:
        axis = axes[plans.index(course.plan), kinds.index(course.budget)]
        _so_far(axis, course)
        axis.set_title(f"{course.plan} plan, budget {course.budget}", fontsize=11)
    figure.suptitle("Figure 6: selectivities change at 3 and 7 minutes (dotted), mean of settings")
    _below(axes, "minutes")
    figure.supylabel("results so far, % of jaqpot's in ten minutes")
    legend_below(figure, axes[0, 0], 4)
    figure.savefig(path, dpi=110)


def _so_far(axis: Axes, course: Course) -> None:
    minutes = np.concatenate([[0.0], np.cumsum(course.seconds)]) / 60
    for policy in ("jaqpot", FROZEN, "greedy-path", *HEURISTICS):
        steps = course.rates[policy] * np.array(course.seconds) / course.totals["jaqpot"][:, None]
        so_far = 100 * np.concatenate([[0.0], np.cumsum(steps.mean(axis=0))])
        line = "--" if policy == FROZEN else "-"
        axis.plot(minutes, so_far, line, color=COLOURS[policy], label=policy)
    for change in minutes[1:-1]:
        axis.axvline(change, color="#4d4d4d", linestyle=":", linewidth=1)
    axis.grid(alpha=0.3)


def freshness(path: Path, found: Sequence[Case], budget: str) -> None:
    """Figure 9: stale results by policy, infeasible plans, and what freshness costs, at one budget."""
    ranges = list(dict.fromkeys(c.range for c in found))
    figure = Figure(figsize=(15, 4.2 * len(ranges) + 0.8), layout="constrained")
    axes = figure.subplots(len(ranges), len(PLANS) + 1, squeeze=False)
    for down, range_ in enumerate(ranges):
        here = [c for c in found if c.range == range_ and c.budget == budget]
        for across, plan in enumerate(PLANS):
            _stale(axes[down, across], [c for c in here if c.plan == plan])
            axes[down, across].set_title(f"stale results: {_PLAN_WORDS[plan]}\nrange {range_}", fontsize=11)
        _costs(axes[down, -1], here)
        axes[down, -1].set_title(f"cost and infeasible plans\nrange {range_}", fontsize=11)
    figure.suptitle(f"Figure 9: freshness at a budget of {budget} of saturation")
    _below(axes, "bound on age, times the window")
    legend_below(figure, axes[0, 0], 6)
    figure.savefig(path, dpi=110)


def _stale(axis: Axes, found: Sequence[Case]) -> None:
    factors = sorted({c.factor for c in found})
    width = 0.8 / len(COMPARED)
    for number, policy in enumerate(COMPARED):
        shares = [100 * (stale_mean([c for c in found if c.factor == f], policy) or 0.0) for f in factors]
        places = np.arange(len(factors)) + (number - (len(COMPARED) - 1) / 2) * width
        axis.bar(places, shares, width, color=COLOURS[policy], label=_WHERE_KEPT.get(policy, policy))
    axis.set_xticks(range(len(factors)), [f"{f:g} x" for f in factors])
    axis.set_ylabel("% of a policy's results")
    axis.set_ylim(0, 105)
    axis.grid(alpha=0.3, axis="y")


def _costs(axis: Axes, found: Sequence[Case]) -> None:
    factors = sorted({c.factor for c in found})
    for number, plan in enumerate(PLANS):
        groups = [[c for c in found if c.plan == plan and c.factor == f] for f in factors]
        cost = [mean([c.cost for c in group if c.feasible]) for group in groups]
        none = [100 * share_of(group, lambda c: not c.feasible) for group in groups]
        costs = [float("nan") if c is None else 100 * c for c in cost]
        axis.plot(range(len(factors)), costs, "o-", color=f"C{number}", label=f"{plan}: cost")
        axis.plot(range(len(factors)), none, "s:", color=f"C{number}", label=f"{plan}: infeasible")
    axis.set_xticks(range(len(factors)), [f"{f:g} x" for f in factors])
    axis.set_ylabel("% of the budget; % of plans")
    axis.set_ylim(-3, 105)
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)


def flat(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Flat against tree, and baselines from outside."""
    figure = Figure(figsize=(8, 5.6), layout="constrained")
    axis = figure.subplots()
    lines = {"linear tree": "-", "bushy tree": "-", "flat": "-"}
    for number, plan in enumerate(dict.fromkeys(row["plan"] for row in rows)):
        points = [row for row in rows if row["plan"] == plan]
        across = [100 * row["budget"] for row in points]
        axis.plot(
            across,
            [100 * row["share"] for row in points],
            lines.get(plan, "--"),
            color=f"C{number}",
            label=plan,
        )
    axis.set_xlabel("probes, % of the linear tree's saturation")
    axis.set_ylabel("results, % of all")
    axis.set_title("Flat against tree: the same results, the same budget (time windows)", fontsize=11)
    axis.legend(fontsize=9)
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def optimum(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """How much more the greedy cover costs than the best one, over random plans."""
    above = sorted(100 * r["cover_above_optimum"] for r in rows if r["cover_above_optimum"] is not None)
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axis = figure.subplots()
    axis.plot(100 * (np.arange(len(above)) + 1) / len(above), above, color="#2166ac", label="greedy cover")
    axis.axhline(11, color="#4d4d4d", linestyle=":", label="the paper's mean, 11 %")
    axis.axhline(19, color="#4d4d4d", linestyle="--", label="the paper's largest, 19 %")
    axis.set_xlabel("% of random plans, cheapest first")
    axis.set_ylabel("cost above the linear program's, %")
    axis.set_title("The greedy cover against the best one")
    axis.legend()
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
