"""A bar for what takes longer than a moment; nothing where there is no terminal, or if nothing is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)


@contextmanager
def steps(
    what: str, total: int | None, *, quiet: bool, console: Console | None = None
) -> Iterator[Callable[[str], None]]:
    """What is called with its name whenever a step begins; `total` is how many there are, if known."""
    columns = (
        SpinnerColumn(), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )  # fmt: skip
    with Progress(
        *columns, console=console or Console(stderr=True), transient=True, disable=quiet
    ) as progress:
        task = progress.add_task(escape(what), total=total)
        begun = 0

        def begin(step: str) -> None:
            nonlocal begun
            progress.update(task, description=escape(f"{what}: {step}"), completed=begun)
            begun += 1

        yield begin
