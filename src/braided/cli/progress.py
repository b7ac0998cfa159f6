"""A bar for what takes longer than a moment; nothing where there is no terminal, or if nothing is wanted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn


@contextmanager
def steps(
    what: str, total: int | None, *, quiet: bool, console: Console | None = None
) -> Iterator[Callable[[str], None]]:
    """Give a function to call with a step's name when it begins; `total` is how many there are, if known."""
    columns = (SpinnerColumn(), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
    console = console or Console(stderr=True)
    with Progress(*columns, "{task.description}", console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task(escape(what), total=total)
        begun = itertools.count()

        def begin(step: str) -> None:
            progress.update(task, description=escape(f"{what}: {step}"), completed=next(begun))

        yield begin
