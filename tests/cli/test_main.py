"""The command line as a person uses it."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from rich.console import Console

import braided as bd
from braided.cli import doctor
from braided.cli.demo import _COLUMNS, _job, _joined, _make_room, _rows
from braided.cli.main import main
from braided.engine.calibration import machine_costs
from braided.policies.index_cost import Costs
from braided.testing.samples import shop
from braided.view import Journal
from tests.view.batches import record


@dataclasses.dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def braided(*arguments: str) -> Done:
    """A command in this process: to start another takes longer than most commands."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(sys, "argv", ["braided", *arguments])
        patched.setattr(sys, "excepthook", sys.excepthook)  # the command line sets one of its own
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
    return Done(status, out.getvalue(), err.getvalue())


def test_demo_shows_counts_speed_and_five_rows() -> None:
    done = braided("demo", "--local", "--orders", "5000")
    assert done.returncode == 0, done.stderr
    for words in ("orders", "payments", "shipments", "results from", "a second", "5. orders_order_id="):
        assert words in done.stdout, done.stdout


def test_a_mistake_is_one_line_and_status_1(tmp_path: Path) -> None:
    """As a person meets it: in a process of its own."""
    command = [sys.executable, "-c", "from braided.cli.main import main; main()"]
    wrong = ["report", str(tmp_path / "nothing")]
    plain, debug = (
        subprocess.run([*command, *words], check=False, capture_output=True, text=True)
        for words in (wrong, ["--debug", *wrong])
    )
    assert (plain.returncode, debug.returncode) == (1, 1)
    assert plain.stderr.startswith("braided: ")
    assert len(plain.stderr.splitlines()) == 1
    assert "Traceback" in debug.stderr


def test_doctor_says_what_is_there_and_keeps_the_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAIDED_CACHE_DIR", str(tmp_path))
    machine_costs.cache_clear()
    done = braided("doctor")
    assert done.returncode == 0, done.stderr
    for words in ("Python", "pyspark", "Java", "index costs", "measured now", "scan or hash", "keys"):
        assert words in done.stdout, done.stdout
    kept = list(tmp_path.glob("index-costs-*.json"))
    assert len(kept) == 1
    costs = json.loads(kept[0].read_text())
    assert set(costs) == {f.name for f in dataclasses.fields(Costs)}
    machine_costs.cache_clear()
    assert "measured now" not in braided("doctor").stdout
    kept[0].write_text('{"insert": "damaged"}')
    machine_costs.cache_clear()
    assert braided("doctor").returncode == 0
    machine_costs.cache_clear()


def test_doctor_names_the_extra_that_brings_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It said `pip install 'braided'`: the extra in brackets was taken for markup."""
    monkeypatch.setitem(doctor._PACKAGES, "no-such-package", "Spark")
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(doctor.parts())
    assert "missing: pip install 'braided[all]'" in console.export_text()


def test_report_prints_where_it_is(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.jsonl").append(record(0))
    done = braided("report", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "report.html")
    assert "<svg" in (tmp_path / "report.html").read_text()
    done = braided("report", str(tmp_path / "report.html"))
    assert done.returncode == 1
    assert "line 1 is no record of a batch; is this a journal?" in done.stderr
    assert "is no journal" in braided("report", str(tmp_path / "nothing")).stderr
    (tmp_path / "empty").touch()
    done = braided("report", str(tmp_path / "empty"))
    assert done.returncode == 1
    assert "empty holds no batch: it is empty, or no journal" in done.stderr


def test_report_takes_a_checkpoint_of_a_job(tmp_path: Path) -> None:
    Journal(tmp_path / "braided" / "journal.jsonl").append(record(0))
    done = braided("report", str(tmp_path))
    assert done.stdout.strip() == str(tmp_path / "braided" / "report.html")


def test_the_demo_removes_nothing_of_others(tmp_path: Path) -> None:
    """It used to remove whatever folder `--out` named."""
    for name in ("thesis.txt", "orders"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("mine")
        done = braided("demo", "--out", str(folder))
        assert done.returncode == 1
        assert done.stderr == (
            f"braided: {folder} holds what no demo wrote, such as {name!r}; name another: --out\n"
        )
        assert (folder / name).read_text() == "mine"


def test_the_demo_is_checked_by_a_join_of_the_same_meaning() -> None:
    tables = shop.tables(2000)
    wanted = bd.run_local(shop.query(), tables)
    found = _joined(tables)
    assert found.num_rows > 500
    assert Counter(_rows(found, ("order_id", "paid_at", "sent_at"))) == Counter(_rows(wanted, _COLUMNS))


def test_what_a_demo_left_is_removed(tmp_path: Path) -> None:
    _make_room(tmp_path / "new")
    (tmp_path / "new" / "result").mkdir()
    _make_room(tmp_path / "new")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["braided.log"]


def test_the_demos_job_does_not_outlive_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on after Ctrl-C: it is in a session of its own."""
    job = tmp_path / "python"
    job.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho > {tmp_path}/journal.jsonl\nexec sleep 60\n")
    job.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(job))
    with pytest.raises(bd.BraidedError, match="no record of a batch"):  # as good as Ctrl-C
        _job("braided", tmp_path, Console(quiet=True))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_output_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in ("file", "file/x"):
        done = braided("demo", "--out", str(tmp_path / out))
        assert done.returncode == 1
        assert done.stderr.startswith(f"braided: --out '{tmp_path / out}' cannot be used (")
        assert len(done.stderr.splitlines()) == 1
