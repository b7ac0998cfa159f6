"""The command line: `braided demo`, `init`, `explain`, `run`, `report`, ..., and the commands of plug-ins.

Exit status 0, or 1 with one clear message on standard error and no traceback for a user's mistake;
`--debug` shows the traceback. What a command needs is imported when it runs: `--help` must be quick.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Annotated

try:
    import typer

    from braided.cli.plug_ins import Commands
except ImportError:  # the core can be installed without the command line
    sys.exit("the command line needs more packages; install them with: pip install 'braided[cli]'")

from braided import __version__
from braided.query.errors import BraidedError, InvalidValue

# plain help: with rich it takes three times as long
app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


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
    """Join generated streams on Spark; kill the job; check the result."""
    from rich.console import Console

    from braided.cli.demo import local_demo, spark_demo

    console = Console(highlight=False, soft_wrap=True)
    if local:
        local_demo(orders, console)
    else:
        spark_demo(orders, out.resolve(), console)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="The job file, or the folder it goes to.")] = Path("job.yaml"),
) -> None:
    """Write an example job that runs at once, with data beside it."""
    from braided.jobs.example import write_example

    job = write_example(path)
    print(f"wrote {job}, and data for it beside it; next: braided explain {job}, braided run {job}")


@app.command()
def explain(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    svg: Annotated[Path | None, typer.Option(help="Draw the plan into this file.")] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print the plan as a Mermaid diagram.")] = False,
    checkpoint: Annotated[
        bool, typer.Option("--checkpoint", help="Say what a start means to the checkpoint; this needs Spark.")
    ] = False,
    rates: Annotated[
        str | None,
        typer.Option(help="Rows a second, such as orders=2000,payments=1800: say what to expect then."),
    ] = None,
    keys: Annotated[
        float | None, typer.Option(help="How many different keys there are, for --rates.")
    ] = None,
) -> None:
    """Check a job file and say what it does, without starting Spark."""
    from braided.cli.rates import read_rates
    from braided.jobs import load
    from braided.query.explain.svg import diagram_svg
    from braided.view.records import os_errors

    loaded = load(job)
    if svg is not None:
        with os_errors(lambda why: InvalidValue(f"--svg {str(svg)!r} cannot be written: {why}")):
            svg.write_text(diagram_svg(loaded.query), encoding="utf-8")
    if checkpoint:
        from braided.jobs.running import explain_start

        print(explain_start(loaded))
        return
    expected = None if rates is None else read_rates(rates)
    print(loaded.query.diagram() if mermaid else loaded.explain(rates=expected, keys=keys))


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
    """Run a job on Spark; Ctrl-C stops it after its batch."""
    from braided.jobs import load, running

    watching = running.Watching(functools.partial(print, flush=True), quiet, journal, serve)
    running.run(load(job), once=once, watching=watching)


@app.command()
def schema() -> None:
    """Print the JSON Schema of job files, for editors."""
    from braided.jobs.definitions import SCHEMA_FILE

    print(SCHEMA_FILE.read_text(encoding="utf-8"), end="")


@app.command()
def doctor(
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the index costs again instead of reading them.")
    ] = False,
) -> None:
    """Say what is installed, what is missing and what indexes cost."""
    from rich.console import Console

    from braided.cli.doctor import doctor as examine

    examine(Console(highlight=False), calibrate=calibrate)


@app.command()
def report(
    path: Annotated[Path, typer.Argument(help="A journal, or a folder with a journal.jsonl.")],
    out: Annotated[Path | None, typer.Option(help="The file to write; else report.html beside it.")] = None,
) -> None:
    """Write what a query did, by its journal, as one HTML file."""
    from braided.view.report import report_of

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
