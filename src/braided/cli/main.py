"""The command line: `braided demo`, `init`, `explain`, `run`, `report`, `lab`, `bench`, `compare`, ...

Exit status 0, or 1 with one clear message on standard error and no traceback for a user's mistake;
`--debug` shows the traceback.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

try:
    import typer
    from rich.console import Console
    from rich.table import Table
except ImportError:  # the core can be installed without the command line
    sys.exit("the command line needs more packages; install them with: pip install 'braided[cli]'")

from braided import __version__
from braided.cli.demo import demo as run_demo
from braided.cli.local_demo import local_demo
from braided.cli.progress import steps
from braided.query.errors import BraidedError, InvalidValue, did_you_mean, os_reason
from braided.view.report import report_of

if TYPE_CHECKING:
    from braided_benchmarks.engine import Line

app = typer.Typer(
    help="Braided: the adaptive multi-way stream join.", no_args_is_help=True, add_completion=False
)
BENCHMARKS = ("engine", "spark")
LABS = {
    "driver-selection": "driver_selection",
    "early-throughput": "early_throughput",
    "jaqpot": "jaqpot",
    "metadata-join": "metadata_join",
    "window-join": "window_join",
}


def _version(asked: bool) -> None:
    if asked:
        print(f"braided {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """Braided: the adaptive multi-way stream join."""


@app.command()
def demo(
    orders: Annotated[int, typer.Option(min=20, help="How many orders to generate.")] = 200_000,
    out: Annotated[Path, typer.Option(help="Where input, checkpoint and result go.")] = Path("out/demo"),
    local: Annotated[bool, typer.Option("--local", help="In this process, without Spark.")] = False,
) -> None:
    """Join generated orders, payments and shipments on Spark; kill it; check it."""
    console = Console(highlight=False, soft_wrap=True)
    if local:
        local_demo(orders, console)
    else:
        run_demo(orders, out.resolve(), console)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="The job file, or the folder it goes to.")] = Path("job.yaml"),
) -> None:
    """Write an example job that runs at once, with a little data in a folder beside it."""
    from braided.jobs.example import write_example  # noqa: PLC0415

    job = write_example(path)
    print(f"wrote {job}, and data for it beside it; next: braided explain {job}, braided run {job}")


@app.command()
def explain(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    svg: Annotated[Path | None, typer.Option(help="Draw the plan into this file.")] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print the plan as a Mermaid diagram.")] = False,
) -> None:
    """Check a job file and say what it does, without starting Spark."""
    from braided.jobs import load  # noqa: PLC0415
    from braided.query.explain.svg import diagram_svg  # noqa: PLC0415

    loaded = load(job)
    if svg is not None:
        try:
            svg.write_text(diagram_svg(loaded.query), encoding="utf-8")
        except OSError as wrong:
            raise InvalidValue(f"--svg {str(svg)!r} cannot be written: {wrong.strerror}") from None
    print(loaded.query.diagram() if mermaid else loaded.explain())


@app.command()
def run(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    once: Annotated[bool, typer.Option("--once", help="Join what is there now, then end.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing of batches.")] = False,
    serve: Annotated[
        int | None, typer.Option(min=0, max=65535, help="A page at this port of this machine; 0: any free.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="A file for a line of JSON per batch; else one in the checkpoint.")
    ] = None,
) -> None:
    """Run a job on Spark until it ends; Ctrl-C stops it after its batch."""
    from braided.jobs import load, running  # noqa: PLC0415

    watching = running.Watching(_say, quiet, journal, serve)
    running.run(load(job), once=once, watching=watching)


def _say(line: str) -> None:
    print(line, flush=True)


@app.command()
def schema() -> None:
    """Print the JSON Schema of job files, for editors."""
    from braided.jobs.schema import FILE  # noqa: PLC0415

    print(FILE.read_text(encoding="utf-8"), end="")


@app.command()
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
    try:
        lines = _benchmark(name, scale, repeats, batches, quiet=quiet)
    except ImportError as missing:
        raise _needs(missing) from None
    if as_json:
        print(json.dumps([{**asdict(line), "verdict": line.verdict} for line in lines], indent=1))
        return
    table = Table("work", "ratio", "bar", "verdict", "ours", "against", title=f"braided bench {name}")
    for line in lines:
        bar = "" if line.bar is None else f"{line.bar:g}"
        table.add_row(line.work, f"{line.ratio:.2f}", bar, line.verdict, line.ours, line.rival)
    Console().print(table)


def _benchmark(name: str, scale: float, repeats: int, batches: int, *, quiet: bool) -> list[Line]:
    if name == "engine":
        from braided_benchmarks import engine  # noqa: PLC0415  (needs the lab's packages)

        with steps("bench engine", engine.STEPS, quiet=quiet) as say:
            return engine.run(scale, repeats, say)
    from braided.spark.sessions.java import check_java  # noqa: PLC0415
    from braided_benchmarks import spark  # noqa: PLC0415

    check_java()
    with steps("bench spark", spark.STEPS, quiet=quiet) as say:
        return spark.run(scale, batches, say)


@app.command()
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
    try:
        from braided_benchmarks.compare import command  # noqa: PLC0415  (needs the lab's packages)
    except ImportError as missing:
        raise _needs(missing) from None
    chosen, scenarios = only or [], scenario or []
    with steps("compare", command.runs(chosen, scenarios), quiet=quiet) as say:
        outcomes = command.compare(rivals, out, chosen, scenarios, say)
    print(out.read_text(encoding="utf-8"))
    failed = [o for o in outcomes if o.failure]
    if failed:
        first = failed[0]
        raise BraidedError(f"{len(failed)} of {len(outcomes)} runs failed, the first: {first.contender}, "
                           f"{first.scenario}: {first.failure}")  # fmt: skip


def _needs(missing: ImportError) -> InvalidValue:
    return InvalidValue(f"this benchmark needs {missing.name}; install it with: pip install 'braided[all]'")


@app.command()
def doctor(
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the index costs anew instead of reading them.")
    ] = False,
) -> None:
    """Say what this machine has, what is missing, and what the index operations cost here."""
    from braided.cli import doctor as command  # noqa: PLC0415  (compiles kernels)

    command.doctor(Console(highlight=False), calibrate=calibrate)


@app.command()
def lab(
    name: Annotated[str, typer.Argument(help=f"Which paper: {', '.join(LABS)}.")],
    out: Annotated[Path, typer.Option(help="Where JSON, Markdown and figures go.")] = Path("out/lab"),
    quick: Annotated[bool, typer.Option("--quick", help="Reduced size and fewer repetitions.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the generated data.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Repeat a paper's experiments, and say which of its claims hold."""
    if name not in LABS:
        raise InvalidValue(f"no lab {name!r}; {did_you_mean(name, LABS)}")
    try:
        module = importlib.import_module(f"braided_lab.{LABS[name]}")  # needs the lab's packages
    except ImportError as missing:
        raise InvalidValue(
            f"this lab needs {missing.name}; install it with: pip install 'braided[lab]'"
        ) from None
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


@app.command()
def report(
    path: Annotated[Path, typer.Argument(help="A journal, or a folder with a journal.jsonl.")],
    out: Annotated[Path | None, typer.Option(help="The file to write; else report.html beside it.")] = None,
) -> None:
    """Write what a query did, by its journal, as one HTML file."""
    print(report_of(path, out))


def main() -> None:
    """Run the command line; `--debug` may stand anywhere."""
    debug = "--debug" in sys.argv
    sys.argv[1:] = [word for word in sys.argv[1:] if word != "--debug"]
    try:
        app()
    except BraidedError as mistake:
        if debug:
            raise
        print(f"braided: {mistake}", file=sys.stderr)
        sys.exit(1)
