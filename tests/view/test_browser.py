"""The page and the report in a real browser: what is drawn, what is asked for, what the console says.

One start of the browser gives it all: the page as its script has left it, a picture, the console, and a log
of the requests. Names that leave this machine are not resolved while it runs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from braided.view import Journal, serve
from braided.view.report import report_of
from tests.view.batches import record
from tests.view.markup import Tags

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium or Chrome on the PATH")

EVIL = '<img src=x onerror="document.title=1">'
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--enable-logging=stderr",
    "--v=0",
    "--virtual-time-budget=2500",  # so far the page's clock goes on: it has asked three times
)
DARK = "--blink-settings=preferredColorScheme=0"


@dataclass(frozen=True)
class Seen:
    """What a browser makes of an address."""

    url: str
    page: Tags
    console: list[str]
    asked: set[str]
    picture: Any


def look(url: str, folder: Path, *options: str, size: tuple[int, int] = (1200, 900)) -> Seen:
    """Open an address in a new browser, whose files go into the folder."""
    picture, log = folder / "picture.png", folder / "net.json"
    told = subprocess.run(
        [
            str(BROWSER), *OPTIONS, *options, f"--user-data-dir={folder / 'profile'}",
            f"--window-size={size[0]},{size[1]}", f"--log-net-log={log}", f"--screenshot={picture}",
            "--dump-dom", url,
        ],
        capture_output=True, text=True, timeout=180, check=True,
    )  # fmt: skip
    console = [line for line in told.stderr.splitlines() if ":CONSOLE" in line]
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    return Seen(url, Tags(told.stdout), console, _asked(log), imread(picture))


def _asked(log: Path) -> set[str]:
    """What the page had fetched; what the browser does on its own account has no origin."""
    told = json.loads(log.read_text())
    start = told["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    requests = [event["params"] for event in told["events"] if event["type"] == start and "params" in event]
    return {r["url"] for r in requests if r.get("initiator", "not an origin") != "not an origin"}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    """Some batches on disk, of a stream with an awful name."""
    kept = Journal(tmp_path_factory.mktemp("journal") / "journal.jsonl")
    kept.describe("a join of\n<b>two</b> & more")
    for number in range(5):
        kept.append(record(number, EVIL, results=100 * number, seconds=1 + number % 2))
    return kept


@pytest.fixture(scope="module", params=["page", "report"])
def url(request: pytest.FixtureRequest, journal: Journal) -> Iterator[str]:
    """Where the page is, and where the report is."""
    if request.param == "report":
        yield report_of(journal.path).as_uri()
        return
    with serve(port=0) as page:
        page.show(journal.read(), f"{EVIL} is behind.")
        yield page.url


@pytest.fixture(scope="module")
def seen(url: str, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return look(url, tmp_path_factory.mktemp("browser"))


def test_charts_are_drawn_and_figures_shown(seen: Seen) -> None:
    assert seen.page.tags.count("svg") == 9
    assert seen.page.tags.count("polyline") == 13
    assert seen.page.tags.count("figcaption") == 9
    for words in (
        "1,500",
        "state, peak",
        "50 kB",
        "budget 64 MB",
        "batch 4",
        "Results, a second",
        "payments",
    ):
        assert words in seen.page.text, words


def test_a_name_that_is_markup_is_text(seen: Seen) -> None:
    assert EVIL in seen.page.text
    assert "img" not in seen.page.tags
    assert not [name for name in seen.page.attributes if name.startswith("on")]
    assert f"{EVIL} > payments" in seen.page.text


def test_nothing_is_asked_of_others(seen: Seen) -> None:
    assert seen.asked == ({f"{seen.url}records.json"} if seen.url.startswith("http:") else set())
    assert seen.page.links == ["data:,"]


def test_the_console_is_silent(seen: Seen) -> None:
    assert seen.console == []


def test_a_picture_in_light_and_dark_also_on_a_narrow_screen(seen: Seen, url: str, tmp_path: Path) -> None:
    dark = look(url, tmp_path, DARK, size=(500, 900))
    assert (seen.picture.shape[:2], dark.picture.shape[:2]) == ((900, 1200), (900, 500))
    for picture, back in ((seen.picture, 0.97), (dark.picture, 0.08)):
        assert len(np.unique(picture[..., :3] @ (1, 10, 100))) > 50  # colours, each as one number
        assert np.median(picture[:, 5, :3]) == pytest.approx(back, abs=0.02)  # the left edge is empty
    assert dark.console == []


def test_another_path_is_not_found(tmp_path: Path) -> None:
    with serve(port=0) as page:
        lost = look(f"{page.url}assets/page.js", tmp_path)
    assert "There is no such page." in lost.page.text
    assert lost.page.tags.count("script") == 0


def test_what_these_tests_look_for_would_be_seen(tmp_path: Path) -> None:
    """An address elsewhere, an image against the policy, a mistake in a script."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<meta http-equiv='Content-Security-Policy' content=\"img-src 'none'\">"
        "<link rel=stylesheet href='http://elsewhere.example/style.css'><img src='http://else.example/a.png'>"
        "<script>document.body.append(document.createElement('svg')); null.x</script>"
    )
    seen = look(bad.as_uri(), tmp_path)
    assert "svg" in seen.page.tags
    assert seen.asked == {"http://elsewhere.example/style.css"}
    said = "\n".join(seen.console)
    assert "Uncaught TypeError" in said
    assert "Content Security Policy" in said
