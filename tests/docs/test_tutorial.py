"""The tutorial's first half runs, and prints what the page says."""

from __future__ import annotations

from typing import Any

from tests.docs.pages import blocks, run


def test_the_tutorial_in_this_process() -> None:
    namespace: dict[str, Any] = {}
    run("start/tutorial.md", blocks("start/tutorial.md", until="## On Spark"), namespace)
    assert namespace["live"].stats().results > 0
