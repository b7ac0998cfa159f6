"""What the files outside the site link to is there; the site checks its own links when it is built."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import DOCS

_LINK = re.compile(r"\]\(([^)#:]+)")


@pytest.mark.parametrize("file", ["README.md", "CHANGELOG.md"])
def test_links_lead_somewhere(file: str) -> None:
    text = (DOCS.parent / file).read_text(encoding="utf-8")
    assert [link for link in _LINK.findall(text) if not (DOCS.parent / link).exists()] == []
