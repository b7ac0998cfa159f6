"""The experiments of the window-join paper.

Its own join (Figures 2 to 7), overload on the shipped join (8 to 11; 8 on Spark, too), and our indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from braided_lab import window_index, window_index_claims, window_overload, window_paper, window_spark
from braided_lab.report import Report, committed, quiet


def parameters() -> dict[str, Any]:
    """As committed."""
    return committed("window-join")


def lab(out: Path, *, quick: bool, seed: int, say: Callable[[str], object] = quiet) -> Report:
    """All experiments; writes JSON, Markdown and figures; `say` is told how far it is."""
    given = parameters()
    report = Report("window-join", seed, {**given, "quick": quick})
    out.mkdir(parents=True, exist_ok=True)
    for part, figures in (("paper", window_paper.figures), ("overload", window_overload.figures)):
        rows, claims = figures(out, given[part], quick=quick, seed=seed, say=say)
        report.rows += rows
        report.claims += claims
    rows = window_index.measured(given["index"], quick=quick, seed=seed, say=say)
    report.rows += rows
    report.claims += window_index_claims.claims(given["index"], rows)
    window_index.draw(out, rows)
    window_spark.add(report, given, seed=seed, quick=quick, say=say)
    report.write(out)
    return report
