"""Watch a query: in the terminal, on a page if a port is given, and in a journal if a path is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from braided.query.errors import BraidedError
from braided.query.masking import masked
from braided.view.follow import Show, follow
from braided.view.page import serve
from braided.view.records import Journal, Record

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

    from braided.query.join_query import JoinQuery


def watch(
    streaming: StreamingQuery,
    *,
    query: JoinQuery | None = None,
    journal: Path | str | None = None,
    port: int | None = None,
    console: Console | None = None,
    quiet: bool = False,
    every: float = 0.5,
) -> None:
    """Watch until the query ends; Ctrl-C ends watching only. `query` is explained in the journal.

    With `quiet` nothing is shown in the terminal.
    """
    try:
        from rich.console import Console  # noqa: PLC0415  (comes with the command line)

        from braided.view.terminal import terminal  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise BraidedError(
            f"watch needs the package {missing.name}; install it with: pip install 'braided[cli]'"
        ) from None
    console = console or Console()
    path = Path(journal) if journal is not None else None
    if path and query:
        Journal(path).describe(masked(query.explain()))
    with ExitStack() as stack:
        shows: list[Show] = []
        if port is not None:
            page = stack.enter_context(serve(port=port))
            shows.append(page.show)
            console.print(f"braided: watch this query at {page.url}", highlight=False, soft_wrap=True)
        if not quiet:
            shows.append(stack.enter_context(terminal(console)))

        def show(records: Sequence[Record], why: str) -> None:
            for each in shows:
                each(records, why)

        follow(streaming, journal=path, show=show, every=every)
