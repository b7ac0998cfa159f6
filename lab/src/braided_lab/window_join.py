"""The experiments of the window-join paper: its own join (Figures 2-7), overload (8-11), and our indexes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from braided_lab import window_index, window_overload, window_paper
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
    say("cost of a direction, predicted and measured")
    rows = window_index.directions(given["index"], quick=quick, seed=seed)
    rows += window_index.auto(given["index"], quick=quick, seed=seed, say=say)
    rows += window_index.expiry(given["index"], quick=quick, seed=seed)
    report.rows += rows
    report.claims += window_index.claims(given["index"], rows)
    window_index.draw(out, rows)
    report.write(out)
    return report
