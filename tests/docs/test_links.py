"""Links of the files outside the site lead somewhere; the site checks its own links when it is built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS

ROOT = DOCS.parent
FILES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("examples/*/README.md"))]
_LINK = re.compile(r"\]\(([^)#:]+)")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(file: Path) -> None:
    links = _LINK.findall(file.read_text(encoding="utf-8"))
    assert [link for link in links if not (file.parent / link).exists()] == []
