"""Pages whose Python blocks run, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """Code, and what it must print; None if the page shows nothing."""

    line: int
    code: str
    printed: str | None


def blocks(page: str, heading: str | None = None, until: str | None = None) -> list[Block]:
    """The Python blocks of a page, from one heading on, up to another."""
    text = (DOCS / page).read_text(encoding="utf-8")
    begin = text.index(heading) if heading else 0
    end = text.index(until) if until else len(text)
    return list(_blocks(text, begin, end))


def _blocks(text: str, begin: int, end: int) -> Iterator[Block]:
    for found in _BLOCK.finditer(text, begin, end):
        yield Block(text.count("\n", 0, found.start()) + 2, found[1], found[2])


def run(page: str, some: Iterable[Block], namespace: dict[str, Any]) -> None:
    """Run blocks one after the other; what they print must be what the page shows."""
    for block in some:
        code = compile("\n" * (block.line - 1) + block.code, str(DOCS / page), "exec")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, namespace)
        assert out.getvalue() == (block.printed or ""), f"{page}, line {block.line}"
