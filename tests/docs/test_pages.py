"""Pages whose code needs no Spark run, and print what the page says."""

from __future__ import annotations

import pytest

from tests.docs.pages import blocks, run


@pytest.mark.parametrize(
    "page", ["howto/sizing.md", "howto/restart.md", "howto/policy.md", "reference/testing.md"]
)
def test_a_page_runs(page: str) -> None:
    found = blocks(page)
    assert found
    run(page, found, {})


def test_optional_streams_come_out_as_the_page_shows() -> None:
    run("howto/outer.md", blocks("howto/outer.md", until="## On Spark"), {})


def test_what_allocations_yield_is_what_the_page_shows() -> None:
    found = blocks("howto/overload.md", "## What each allocation would yield", "## CPU: rows admitted")
    assert len(found) == 1
    run("howto/overload.md", found, {})
