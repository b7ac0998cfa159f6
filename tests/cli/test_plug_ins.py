"""Commands of other packages: packages are installed for a test by a folder with their metadata."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RUN = "from braided.cli.main import main; main()"
HELLO = """
from typing import Annotated
import typer
def hello(name: str, times: Annotated[int, typer.Option(min=1)] = 1) -> None:
    '''Greet somebody.'''
    print(" ".join([f"hello {name}"] * times))
"""


def install(folder: Path, name: str, code: str) -> None:
    """A package `greeting-NAME` with the command NAME, whose module is `greeting_NAME`."""
    (folder / f"greeting_{name}.py").write_text(code)
    info = folder / f"greeting_{name}-1.0.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: greeting-{name}\nVersion: 1.0\nSummary: Greetings for all\n"
    (info / "METADATA").write_text(head)
    (info / "entry_points.txt").write_text(f"[braided.commands]\n{name} = greeting_{name}:hello\n")


def braided(folder: Path, *arguments: str, code: str = RUN) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "120"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def test_a_plug_in_is_a_command_like_ours(tmp_path: Path) -> None:
    install(tmp_path, "salute", HELLO)
    assert braided(tmp_path, "salute", "world", "--times", "2").stdout == "hello world hello world\n"
    assert "Greet somebody." in braided(tmp_path, "salute", "--help").stdout
    done = braided(tmp_path, "salute", "world", "--times", "0")
    assert done.returncode == 2
    assert "--times" in done.stderr


def test_the_help_lists_a_plug_in_and_does_not_import_it(tmp_path: Path) -> None:
    install(tmp_path, "salute", "raise SystemExit('imported')")
    done = braided(tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    assert "Greetings for all (greeting-salute)" in done.stdout
    assert "doctor" in done.stdout


def test_a_plug_in_that_cannot_be_imported_is_one_line_and_spoils_no_other(tmp_path: Path) -> None:
    install(tmp_path, "broken", "import no_such_module")
    done = braided(tmp_path, "broken")
    assert done.returncode == 1
    assert done.stderr == (
        "braided: the command 'broken' of greeting-broken cannot be imported: "
        "No module named 'no_such_module'\n"
    )
    assert "Traceback" in braided(tmp_path, "--debug", "broken").stderr
    assert braided(tmp_path, "--help").returncode == 0
    assert braided(tmp_path, "schema").returncode == 0


def test_a_plug_in_does_not_replace_a_command_of_ours(tmp_path: Path) -> None:
    install(tmp_path, "schema", HELLO)
    assert braided(tmp_path, "schema").stdout.startswith("{")
    assert "Greetings for all" not in braided(tmp_path, "--help").stdout


def test_without_its_project_a_command_says_where_it_is(tmp_path: Path) -> None:
    alone = f"import braided.cli.plug_ins as p; p.plug_ins = dict; {RUN}"
    for command, folder in (("lab", "lab"), ("bench", "benchmarks"), ("compare", "benchmarks")):
        done = braided(tmp_path, command, "window-join", code=alone)
        assert done.returncode == 1
        assert done.stderr.startswith(f"braided: the command {command!r} is not installed: it belongs to ")
        assert f"'braided-{folder}'" in done.stderr
        assert done.stderr.endswith("`make` installs it there\n")
        assert len(done.stderr.splitlines()) == 1
        assert f" {command} " not in braided(tmp_path, "--help", code=alone).stdout
