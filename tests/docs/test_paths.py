"""Source files and folders that pages name exist, so that a moved file is noticed."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS

ROOT = DOCS.parent
PRODUCT = ROOT / "src" / "braided"
_FOLDERS = "query|policies|engine|local|spark|testing|view|jobs|cli|lab|benchmarks|tests|examples|docs|src"
_PATH = re.compile(rf"`((?:{_FOLDERS})/[\w./-]*)`")


def test_paths_on_pages_exist() -> None:
    named = {
        path
        for page in [ROOT / "README.md", *DOCS.rglob("*.md")]
        for path in _PATH.findall(page.read_text(encoding="utf-8"))
        if "NAME" not in path  # a place for a file of the reader's own
    }
    assert "engine/operators/mjoin.py" in named
    missing = {path for path in named if not any((base / path).exists() for base in (ROOT, PRODUCT))}
    assert missing == set()
