"""The jaqpot paper's experiments in its fluid model: budgets, changes, freshness, optimality, flat plans.

Everything here is computed, in virtual time, from seeded settings; only the time of an analysis is measured.
An experiment is a function of the lab, the folder for its figure and a voice; one more is one more line in
`EXPERIMENTS`. Those that run the engine on generated rows, or on real ones (`intel_lab`), belong there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from braided.lab import jaqpot_claims, jaqpot_figures, jaqpot_flat, jaqpot_fresh_claims, jaqpot_optimum
from braided.lab.jaqpot_freshness import cases, freshness_rows
from braided.lab.jaqpot_model import course_rows, courses, sweep_rows, sweeps
from braided.lab.jaqpot_settings import Lab, Outcome
from braided.lab.report import Report, committed, quiet

Say: TypeAlias = Callable[[str], object]
Experiment: TypeAlias = Callable[[Lab, Path, Say], Outcome]


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


EXPERIMENTS: tuple[Experiment, ...] = (budgets, changes, freshness, optimum, flat)


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
