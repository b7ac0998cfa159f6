"""Which code a lab's page was measured on, and what of it has changed since.

A page carries the line that `measured_at` gives; `python -m braided_lab.measured` reads these lines and asks
git what has changed since then: the engine, the policies, and the paper's own lab. It ends with 1 if a page
is stale or names no commit, and with 0 where nothing can be told because there is no history.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[3]
PAGES = "docs/papers"
MEASURED = ("src/braided/engine", "src/braided/policies")  # whose speed and decisions the labs measure
_LAB = "lab/src/braided_lab"
_SOURCES = ("src", "lab/src")
_LINE = re.compile(r"Measured at commit `([0-9a-f]{7,40})`( with uncommitted changes)?")


def commit(folder: Path = Path(__file__).parent) -> str:
    """What is checked out in a folder, "-dirty" if its sources differ; empty without a repository."""
    name = _git(folder, "describe", "--always", "--exclude=*")
    changed = _git(folder, "diff", "--name-only", "HEAD", "--", *(f":(top){source}" for source in _SOURCES))
    return f"{name or ''}{'-dirty' if changed else ''}"


def measured_at(at: str | None = None) -> str:
    """Return the line that a page carries; of a commit, or of the one that is checked out."""
    at = commit() if at is None else at
    if not at:
        return "Measured outside a repository"
    name = at.removesuffix("-dirty")
    return f"Measured at commit `{name}`" + (" with uncommitted changes" if at != name else "")


@dataclass(frozen=True)
class Age:
    """What a commit line of a page amounts to: files changed since then, or why that is not known."""

    page: str
    commit: str = ""
    dirty: bool = False
    changed: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def stale(self) -> bool:
        """Whether the page must be measured again, or say at which commit it was."""
        return bool(self.changed) or self.dirty or not self.commit

    def __str__(self) -> str:
        if not self.commit:
            return f"{self.page}: names no commit"
        words = self.unknown or (
            f"stale: {_folders(self.changed)}" if self.changed else "nothing changed since"
        )
        return f"{self.page}: {self.commit}{' with uncommitted changes' if self.dirty else ''}: {words}"


def ages(root: Path = ROOT) -> Iterator[Age]:
    """What every page's commit lines amount to."""
    for page in sorted((root / PAGES).glob("*.md")):
        found = _LINE.findall(page.read_text(encoding="utf-8"))
        if not found:
            yield Age(page.stem)
        for name, dirty in found:
            yield _age(root, page.stem, name, dirty=bool(dirty))


def _age(root: Path, page: str, name: str, *, dirty: bool) -> Age:
    if _git(root, "rev-parse", "--git-dir") is None:
        return Age(page, name, dirty, unknown="not known, there is no git history here")
    changed = _git(root, "diff", "--name-only", name, "--", *sources(page))
    if changed is None:
        return Age(page, name, dirty, unknown="not known, this history does not have that commit")
    return Age(page, name, dirty, tuple(changed.splitlines()))


def sources(page: str) -> tuple[str, ...]:
    """What a page's numbers come from."""
    family = page.split("-", maxsplit=1)[0]
    return (*MEASURED, f"{_LAB}/{family}*.py", f"{_LAB}/parameters/{page}.json")


def _folders(changed: Sequence[str]) -> str:
    """How many files changed, by folder."""
    counts = Counter(str(PurePosixPath(path).parent) for path in changed)
    return ", ".join(f"{folder} ({number})" for folder, number in sorted(counts.items()))


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says; None if it, a repository or what is asked for is not there."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def main(root: Path = ROOT) -> int:
    """Print how old the pages are."""
    found = list(ages(root))
    print(*found, sep="\n")
    return int(any(age.stale for age in found))


if __name__ == "__main__":
    sys.exit(main())
