"""Watching in all ways at once."""

from __future__ import annotations

import io
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

from rich.console import Console

import braided as bd
from braided.view import Journal, watch
from tests.view.batches import progress
from tests.view.test_follow import Query


class Asking(Query):
    """Looks at the page it is watched on, just before it ends."""

    def __init__(self, out: io.StringIO, *steps: list[dict[str, Any]]) -> None:
        super().__init__(*steps)
        self._out = out
        self.seen = -1

    @property
    def isActive(self) -> bool:  # noqa: N802
        active = super().isActive
        if not active:
            (url,) = re.findall(r"http://127\.0\.0\.1:\d+/", self._out.getvalue())
            with urllib.request.urlopen(f"{url}records.json", timeout=10) as answer:
                self.seen = len(json.loads(answer.read())["records"])
        return active


def test_terminal_page_and_journal_show_the_same(tmp_path: Path) -> None:
    streams = [bd.Stream(n, key="k", time="t", window="1 minute", lateness="0 seconds") for n in "ab"]
    query, out, path = bd.JoinQuery(streams), io.StringIO(), tmp_path / "journal.jsonl"
    asking = Asking(out, [progress(0)], [progress(1)], [])
    watch(asking, query=query, journal=path, port=0, console=Console(file=out), every=0.0)  # type: ignore[arg-type]
    assert out.getvalue().count("rows in") == 2
    assert asking.seen == 2
    assert [r.batch for r in Journal(path).read()] == [0, 1]
    assert Journal(path).about() == query.explain()
