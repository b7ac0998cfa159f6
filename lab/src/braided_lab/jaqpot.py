"""The jaqpot paper's experiments: in its fluid model, with rows in the join, and through Spark.

Everything is in virtual time, from seeded settings; only the time of an analysis is measured. An experiment
is a function of the lab, the folder for its figure and a voice; one more is one more line in `FLUID`, those
of the model, or in `ROWS`, those with generated rows, or real ones (`intel_lab`), in the join and on Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from braided_lab import (
    intel_lab,
    jaqpot_claims,
    jaqpot_engine_claims,
    jaqpot_engine_figures,
    jaqpot_examples,
    jaqpot_figures,
    jaqpot_flat,
    jaqpot_fresh_claims,
    jaqpot_intel_claims,
    jaqpot_optimum,
    jaqpot_spark,
)
from braided_lab.jaqpot_engine import EXACT_PLANS, point_rows, points
from braided_lab.jaqpot_engine_changes import change_rows
from braided_lab.jaqpot_engine_changes import changes as changing
from braided_lab.jaqpot_engine_flat import flat_rows
from braided_lab.jaqpot_engine_fresh import fresh_rows
from braided_lab.jaqpot_engine_fresh import freshness as freshening
from braided_lab.jaqpot_freshness import cases, freshness_rows
from braided_lab.jaqpot_intel import reading_rows, readings
from braided_lab.jaqpot_model import course_rows, courses, sweep_rows, sweeps
from braided_lab.jaqpot_settings import PLANS, Lab, Outcome
from braided_lab.jaqpot_workload import States
from braided_lab.report import Claim, Report, committed, quiet

Say: TypeAlias = Callable[[str], object]
Experiment: TypeAlias = Callable[[Lab, Path, Say], Outcome]


def examples(lab: Lab, out: Path, say: Say) -> Outcome:
    """The worked examples."""
    found = jaqpot_examples.answers()
    rows = [{"experiment": "example", "example": name, "ours": ours} for name, ours in found.items()]
    return Outcome(rows, list(jaqpot_examples.claims(lab.given, found)))


def budgets(lab: Lab, out: Path, say: Say) -> Outcome:
    """Figure 7."""
    found = sweeps(lab, say)
    jaqpot_figures.budgets(out / "figure-7.png", found)
    rows = [row for sweep in found for row in sweep_rows(sweep)]
    claims = list(jaqpot_claims.of_budgets(lab.given, found))
    return Outcome(rows, claims, [jaqpot_claims.in_short(lab.given, found)])


def changes(lab: Lab, out: Path, say: Say) -> Outcome:
    """Figure 6."""
    say("changing selectivities")
    found = courses(lab)
    jaqpot_figures.changes(out / "figure-6.png", found)
    return Outcome(
        [row for course in found for row in course_rows(course)], list(jaqpot_claims.of_changes(found))
    )


def freshness(lab: Lab, out: Path, say: Say) -> Outcome:
    """Figure 9."""
    found = cases(lab, say)
    jaqpot_figures.freshness(out / "figure-9.png", found, f"{lab.given['freshness']['staleness_budget']:.0%}")
    return Outcome(freshness_rows(found), list(jaqpot_fresh_claims.of_freshness(lab.given, found)))


def optimum(lab: Lab, out: Path, say: Say) -> Outcome:
    """GrePP and the greedy cover against linear programs, and the time of an analysis."""
    say("linear programs")
    rows = list(jaqpot_optimum.optimum_rows(lab))
    jaqpot_figures.optimum(out / "greedy-cover.png", rows)
    return Outcome(
        rows, list(jaqpot_fresh_claims.of_optimum(lab.given, rows, jaqpot_optimum.analysis_ms(lab)))
    )


def flat(lab: Lab, out: Path, say: Say) -> Outcome:
    """Flat against tree."""
    say("flat against tree")
    rows, costs = jaqpot_flat.flat_rows(lab), jaqpot_flat.cost_rows(lab)
    jaqpot_figures.flat(out / "flat-against-tree.png", rows)
    return Outcome(rows + costs, list(jaqpot_fresh_claims.of_flat(rows, costs)))


def rows_budgets(lab: Lab, out: Path, say: Say) -> Outcome:
    """Figure 7 in the join, and the join against the model."""
    found = []
    kinds: dict[States, tuple[str, ...]] = {"count": tuple(PLANS), "newest": EXACT_PLANS, "time": EXACT_PLANS}
    for states, plans in kinds.items():
        for plan in plans:
            say(f"join, budgets: {plan} plan, states bounded by {states}")
            found += list(points(lab, states, plan))
    jaqpot_engine_figures.budgets(out / "engine-7.png", found)
    return Outcome(point_rows(found), list(jaqpot_engine_claims.of_points(lab.given, found)))


def rows_changes(lab: Lab, out: Path, say: Say) -> Outcome:
    """Figure 6 in the join, with bounds on age and without."""
    found = changing(lab, say)
    jaqpot_engine_figures.changes(out / "engine-6.png", found)
    return Outcome(change_rows(found), list(jaqpot_engine_claims.of_changes(found)))


def rows_freshness(lab: Lab, out: Path, say: Say) -> Outcome:
    """Figure 9 in the join."""
    found = freshening(lab, say)
    jaqpot_engine_figures.freshness(out / "engine-9.png", found)
    return Outcome(fresh_rows(found), list(jaqpot_engine_claims.of_freshness(lab.given, found)))


def rows_intel(lab: Lab, out: Path, say: Say) -> Outcome:
    """Figures 8, 9.c and 9.d on the sensor data, if it is there."""
    if lacking := intel_lab.missing():
        return Outcome([], [_left_out("Figures 8, 9.c and 9.d, Intel lab", lacking)], [lacking])
    found = list(readings(lab, say))
    jaqpot_engine_figures.intel(out / "engine-8.png", found)
    return Outcome(reading_rows(found), list(jaqpot_intel_claims.of_intel(lab.given, found)))


def _left_out(claim: str, why: str) -> Claim:
    return Claim(claim, "", "", "not tested", why)


def rows_flat(lab: Lab, out: Path, say: Say) -> Outcome:
    """Flat against tree in the join."""
    rows = flat_rows(lab, say)
    jaqpot_engine_figures.flat(out / "engine-flat-against-tree.png", rows)
    return Outcome(rows, list(jaqpot_engine_claims.of_flat(rows)))


def on_spark(lab: Lab, out: Path, say: Say) -> Outcome:
    """Allocations through `bd.spark.join`, if it is installed."""
    if lacking := jaqpot_spark.missing():
        return Outcome([], [_left_out(jaqpot_spark.WHERE, lacking)])
    found = jaqpot_spark.measured(lab, say)
    return Outcome(jaqpot_spark.rows(found), list(jaqpot_spark.claims(lab.given, found)))


FLUID: tuple[Experiment, ...] = (examples, budgets, changes, freshness, optimum, flat)
ROWS: tuple[Experiment, ...] = (rows_budgets, rows_changes, rows_freshness, rows_intel, rows_flat, on_spark)
EXPERIMENTS: tuple[Experiment, ...] = (*FLUID, *ROWS)


def parameters() -> dict[str, Any]:
    """As committed."""
    return committed("jaqpot")


def lab(out: Path, *, quick: bool, seed: int, say: Say = quiet) -> Report:
    """All experiments; writes JSON, Markdown and figures; `say` is told how far it is."""
    given = parameters()
    report = Report("jaqpot", seed, {**given, "quick": quick})
    out.mkdir(parents=True, exist_ok=True)
    for experiment in EXPERIMENTS:
        found = experiment(Lab(given, quick, seed), out, say)
        report.rows += found.rows
        report.claims += found.claims
        report.notes += found.notes
    report.write(out)
    return report
