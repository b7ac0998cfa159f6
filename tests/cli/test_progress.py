"""Progress bars: steps are counted when the next one begins; names are no markup; quiet says nothing."""

from __future__ import annotations

import io

from rich.console import Console

from braided.cli.progress import steps


def shown(*names: str, total: int | None, quiet: bool = False) -> str:
    to = io.StringIO()
    console = Console(file=to, force_terminal=True, width=100, color_system=None)
    with steps("lab x", total, quiet=quiet, console=console) as say:
        for name in names:
            say(name)
    return to.getvalue()


def test_a_bar_tells_the_step_and_how_many_are_done() -> None:
    text = shown("first", "second [b]", total=4)
    assert "lab x: second [b]" in text
    assert "1/4" in text


def test_an_unknown_total_and_quiet() -> None:
    assert "1/?" in shown("first", "second", total=None)
    assert not shown("first", total=4, quiet=True)
