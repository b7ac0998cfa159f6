"""`braided lab`, as a person uses it, and what it knows of the labs."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from braided_lab import driver_selection, early_throughput, metadata_join
from braided_lab.command import PAPERS


def braided(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from braided.cli.main import main; main()", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_mistyped_name_is_one_line() -> None:
    done = braided("lab", "driver-selecton")
    assert done.returncode == 1
    assert done.stderr == "braided: no lab 'driver-selecton'; did you mean 'driver-selection'?\n"


def test_an_output_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in ("file", "file/x"):
        done = braided("lab", "window-join", "--quick", "--out", str(tmp_path / out))
        assert done.returncode == 1
        assert done.stderr.startswith(f"braided: --out '{tmp_path / out}' cannot be used (")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_has_its_module(name: str) -> None:
    assert callable(importlib.import_module(f"braided_lab.{name.replace('-', '_')}").lab)


@pytest.mark.parametrize("lab", [driver_selection, early_throughput, metadata_join])
def test_labs_know_how_many_steps_there_are(lab: Any) -> None:
    assert 0 < lab.steps(quick=True) < lab.steps(quick=False)
