"""A page says at which commit it was measured; the check says what has changed since then."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from braided_lab.measured import Age, ages, commit, main, measured_at, sources
from braided_lab.report import Report

KERNEL = "src/braided/engine/kernels/probe.py"


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def save(root: Path) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--message", "what there is")
    return git(root, "rev-parse", "--short", "HEAD")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A repository whose page was measured at its first commit."""
    git(tmp_path, "init")
    write(tmp_path, KERNEL, "fast = 1\n")
    write(tmp_path, "docs/index.md", "hello\n")
    write(tmp_path, "docs/papers/window-join.md", f"{measured_at(save(tmp_path))}.\n")
    save(tmp_path)
    return tmp_path


def test_a_page_is_fresh_until_what_it_measures_changes(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(house, "docs/index.md", "other words\n")
    write(house, "src/braided/cli/main.py", "words = 1\n")
    save(house)
    assert main(house) == 0
    assert capsys.readouterr().out.endswith(": nothing changed since\n")
    write(house, KERNEL, "fast = 2\n")
    write(house, "lab/src/braided_lab/window_index.py", "other = 1\n")
    write(house, "lab/src/braided_lab/jaqpot.py", "of_another_paper = 1\n")
    save(house)
    assert main(house) == 1
    said = capsys.readouterr().out
    assert said.startswith("window-join: ")
    assert said.endswith(": stale: lab/src/braided_lab (1), src/braided/engine/kernels (1)\n")


def test_what_is_not_committed_counts_too(house: Path) -> None:
    write(house, KERNEL, "fast = 2\n")
    assert [age.changed for age in ages(house)] == [(KERNEL,)]


def test_only_sources_make_a_state_uncommitted(house: Path) -> None:
    clean = git(house, "rev-parse", "--short", "HEAD")
    write(house, "docs/index.md", "other words\n")
    assert commit(house / "src") == clean
    write(house, KERNEL, "fast = 2\n")
    assert commit(house / "docs") == f"{clean}-dirty"


def test_a_page_that_names_no_commit_or_an_uncommitted_state_is_stale(house: Path) -> None:
    write(
        house, "docs/papers/window-join.md", f"{measured_at(git(house, 'describe', '--always') + '-dirty')}\n"
    )
    write(house, "docs/papers/jaqpot.md", "measured at night\n")
    none, dirty = ages(house)
    assert (str(none), none.stale) == ("jaqpot: names no commit", True)
    assert (dirty.dirty, dirty.stale) == (True, True)
    assert "with uncommitted changes: nothing changed" in str(dirty)


def test_a_page_may_be_of_several_commits(house: Path) -> None:
    first = git(house, "rev-list", "--max-parents=0", "HEAD")
    page = house / "docs/papers/window-join.md"
    page.write_text(f"{page.read_text()}\nThe disk: {measured_at(first)}.\n")
    assert [age.commit for age in ages(house)] == [first[: len(next(ages(house)).commit)], first]


def test_without_that_commit_or_any_history_it_says_so(
    house: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(house, "docs/papers/window-join.md", "Measured at commit `0123456789`\n")
    assert "does not have that commit" in str(next(ages(house)))
    bare = tmp_path_factory.mktemp("bare")
    write(bare, "docs/papers/window-join.md", "Measured at commit `0123456789`\n")
    (age,) = ages(bare)
    assert "no git history here" in str(age)
    assert main(bare) == 0
    assert commit(bare) == ""
    assert measured_at("") == "Measured outside a repository"


def test_a_machine_without_git_says_so(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert [age.unknown for age in ages(house)] == ["not known, there is no git history here"]


def test_reports_carry_the_line(tmp_path: Path) -> None:
    Report("made-up", 1, {}, commit="0123456-dirty").write(tmp_path)
    assert "Measured at commit `0123456` with uncommitted changes.\n" in (tmp_path / "made-up.md").read_text()


def test_a_page_is_of_its_own_lab() -> None:
    assert "lab/src/braided_lab/window*.py" in sources("window-join")
    assert "lab/src/braided_lab/parameters/jaqpot.json" in sources("jaqpot")
    assert Age("x", "0123456", changed=("a/b.py",)).stale
