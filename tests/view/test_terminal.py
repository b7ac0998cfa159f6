"""The view in a terminal, and the lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from braided.view.terminal import line, terminal, view
from tests.view.batches import record

MARKUP = "[red]a[/red]\x1b[31m"


def test_everything_is_there_and_names_are_no_markup() -> None:
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(view([record(n, MARKUP) for n in range(3)], "900 results.\n[bold]b[/bold] is behind."))
    text = console.export_text()
    for words in (
        r"[red]a[/red]\x1b[31m",
        "[bold]b[/bold] is behind.",
        "50 kB of 64 MB",
        "1 MB",
        "900 in 3 batches",
        "3 s",
        "driver streams",
        "700 (budget 1,000)",
        "batch 2: driver streams payments",
        "█",
    ):
        assert words in text, words


def test_one_batch_is_no_plural() -> None:
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(view([record(0)], ""))
    assert "in 1 batch " in console.export_text()


def test_before_the_first_batch_it_says_why() -> None:
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(view([], "No batch has been finished yet."))
    assert "No batch has been finished yet." in console.export_text()


@pytest.mark.parametrize("width", [20, 60])
def test_a_narrow_terminal_is_no_error(width: int) -> None:
    Console(width=width, file=io.StringIO()).print(view([record(0)], "why"))


def test_elsewhere_it_is_a_line_per_batch() -> None:
    out = io.StringIO()
    with terminal(Console(file=out, width=40)) as show:
        show([record(0)], "why")  # what a journal knew
        show([record(0), record(1, MARKUP), record(2, results=None)], "why")
        show([record(0), record(1), record(2)], "why")
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(
        "2023-11-14 22:13:22 batch 1: 1,500 rows in, 300 results out, 1.5 s, state 50 kB"
    )
    assert r"[red]a[/red]\x1b[31m > payments" in lines[0]
    assert "? results out" in lines[1]


def test_a_line_tells_what_there_is() -> None:
    assert line(record(0)).endswith(
        "payments 3 s behind, 1 MB spilled, 3 late so far, driver streams orders > payments, "
        "may probe: orders->payments 700 (budget 1,000); "
        "driver streams payments > orders became orders > payments"
    )


def test_the_live_view_is_drawn_in_a_terminal() -> None:
    out = io.StringIO()
    with terminal(Console(file=out, width=100, force_terminal=True)) as show:
        show([], "No batch yet.")
        show([record(0)], "One batch.")
    assert "One batch." in out.getvalue()
