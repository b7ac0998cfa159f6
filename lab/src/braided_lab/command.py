"""The command this package adds to the command line: `braided lab NAME`."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from braided.cli.progress import steps
from braided.query.errors import InvalidValue, did_you_mean, os_reason

PAPERS = ("driver-selection", "early-throughput", "jaqpot", "metadata-join", "window-join")


def lab(
    name: Annotated[str, typer.Argument(help=f"Which paper: {', '.join(PAPERS)}.")],
    out: Annotated[Path, typer.Option(help="Where JSON, Markdown and figures go.")] = Path("out/lab"),
    quick: Annotated[bool, typer.Option("--quick", help="Reduced size and fewer repetitions.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the generated data.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Repeat a paper's experiments, and say which of its claims hold."""
    if name not in PAPERS:
        raise InvalidValue(f"no lab {name!r}; {did_you_mean(name, PAPERS)}")
    module = importlib.import_module(f"braided_lab.{name.replace('-', '_')}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise InvalidValue(f"--out {str(out)!r} cannot be used ({os_reason(wrong)}); name another") from None
    console = Console(highlight=False, soft_wrap=True)
    total = module.steps(quick=quick) if hasattr(module, "steps") else None
    with steps(f"lab {name}", total, quiet=quiet) as say:
        report = module.lab(out, quick=quick, seed=seed, say=say)
    for line in report.notes:
        console.print(line, markup=False)
    counts = Counter(claim.verdict for claim in report.claims)
    console.print(", ".join(f"{verdict}: {number}" for verdict, number in counts.most_common()))
    console.print(f"all claims and figures: {out}", markup=False)
