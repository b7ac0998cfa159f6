"""The commands this package adds to the command line: `braided bench NAME` and `braided compare`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from braided.cli.progress import steps
from braided.query.errors import BraidedError, InvalidValue, did_you_mean
from braided.spark.sessions.java import check_java
from braided_benchmarks.lines import Line

BENCHMARKS = ("engine", "spark")


def bench(
    name: Annotated[str, typer.Argument(help=f"Which benchmark: {', '.join(BENCHMARKS)}.")],
    scale: Annotated[float, typer.Option(min=0.001, max=10, help="Part of the full size.")] = 1.0,
    repeats: Annotated[int, typer.Option(min=1, help="Runs per figure; the median counts.")] = 7,
    batches: Annotated[int, typer.Option(min=3, help="Batches of a Spark run.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Measure, and compare with what the product promises."""
    if name not in BENCHMARKS:
        raise InvalidValue(f"no benchmark {name!r}; {did_you_mean(name, BENCHMARKS)}")
    lines = _engine(scale, repeats, quiet=quiet) if name == "engine" else _spark(scale, batches, quiet=quiet)
    if as_json:
        print(json.dumps([{**asdict(line), "verdict": line.verdict} for line in lines], indent=1))
        return
    table = Table("work", "ratio", "bar", "verdict", "ours", "against", title=f"braided bench {name}")
    for line in lines:
        bar = "" if line.bar is None else f"{line.bar:g}"
        table.add_row(line.work, f"{line.ratio:.2f}", bar, line.verdict, line.ours, line.rival)
    Console().print(table)


def _engine(scale: float, repeats: int, *, quiet: bool) -> list[Line]:
    from braided_benchmarks import engine

    with steps("bench engine", engine.STEPS, quiet=quiet) as say:
        return engine.run(scale, repeats, say)


def _spark(scale: float, batches: int, *, quiet: bool) -> list[Line]:
    from braided_benchmarks import spark

    check_java()
    with steps("bench spark", spark.STEPS, quiet=quiet) as say:
        return spark.run(scale, batches, say)


def compare(
    rivals: Annotated[Path, typer.Option(help="Where the environments of Flink and Pathway are.")] = Path(
        "build/rivals"
    ),
    out: Annotated[Path, typer.Option(help="The tables go here, all figures beside it.")] = Path(
        "out/comparison.md"
    ),
    only: Annotated[list[str] | None, typer.Option(help="Only this contender, or these.")] = None,
    scenario: Annotated[list[str] | None, typer.Option(help="Only this scenario, or these.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Run Braided, Spark's own joins, Flink and Pathway through the same scenarios (about an hour)."""
    from braided_benchmarks.compare import command

    chosen, scenarios = only or [], scenario or []
    with steps("compare", command.runs(chosen, scenarios), quiet=quiet) as say:
        outcomes = command.compare(rivals, out, chosen, scenarios, say)
    print(out.read_text(encoding="utf-8"))
    failed = [o for o in outcomes if o.failure]
    if failed:
        first = failed[0]
        raise BraidedError(f"{len(failed)} of {len(outcomes)} runs failed, the first: {first.contender}, "
                           f"{first.scenario}: {first.failure}")  # fmt: skip
