"""The command line as a person uses it: in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from braided.cli.demo import _job, _make_room
from braided.policies.index_cost import Costs
from braided.view import Journal
from tests.view.batches import record


def braided(*arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from braided.cli.main import main; main()", *arguments]
    environment = {**os.environ, "BRAIDED_CACHE_DIR": str(cache)} if cache else None
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def test_demo_shows_counts_speed_and_five_rows() -> None:
    done = braided("demo", "--local", "--orders", "5000")
    assert done.returncode == 0, done.stderr
    for words in ("orders", "payments", "shipments", "results from", "a second", "5. orders_order_id="):
        assert words in done.stdout, done.stdout


def test_bench_engine_prints_every_line_with_its_bar() -> None:
    done = braided("bench", "engine", "--scale", "0.01", "--repeats", "1", "--json")
    assert done.returncode == 0, done.stderr
    lines = json.loads(done.stdout)
    assert len(lines) == 10
    assert {line["bar"] for line in lines} == {1.2, 1.5, 3.0, 2.2, 1.02, 1.0, 1.3, None}
    assert all(line["ratio"] > 0 for line in lines)


def test_a_mistake_is_one_line_and_status_1() -> None:
    done = braided("bench", "engin")
    assert done.returncode == 1
    assert done.stderr.strip() == "braided: no benchmark 'engin'; did you mean 'engine'?"
    assert "Traceback" in braided("--debug", "bench", "engin").stderr
    done = braided("lab", "driver")
    assert done.returncode == 1
    assert "no lab 'driver'" in done.stderr


def test_doctor_says_what_is_there_and_keeps_the_costs(tmp_path: Path) -> None:
    done = braided("doctor", cache=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("Python", "pyspark", "Java", "index costs", "measured now", "scan or hash", "keys"):
        assert words in done.stdout, done.stdout
    kept = list(tmp_path.glob("index-costs-*.json"))
    assert len(kept) == 1
    costs = json.loads(kept[0].read_text())
    assert set(costs) == {f.name for f in dataclasses.fields(Costs)}
    assert "measured now" not in braided("doctor", cache=tmp_path).stdout
    kept[0].write_text('{"insert": "damaged"}')
    assert braided("doctor", cache=tmp_path).returncode == 0


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


def test_what_a_demo_left_is_removed(tmp_path: Path) -> None:
    _make_room(tmp_path / "new")
    (tmp_path / "new" / "result").mkdir()
    _make_room(tmp_path / "new")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["braided.log"]


def test_the_demos_job_does_not_outlive_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on after Ctrl-C: it is in a session of its own."""
    job = tmp_path / "python"
    job.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho '{{\"batch\": 0}}'\nexec sleep 60\n")
    job.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(job))
    with pytest.raises(KeyError, match="seconds"):  # as good as Ctrl-C
        _job("braided", tmp_path, Console(quiet=True))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_output_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for command in (["demo"], ["lab", "window-join", "--quick"]):
        for out in ("file", "file/x"):
            done = braided(*command, "--out", str(tmp_path / out))
            assert done.returncode == 1
            assert done.stderr.startswith(f"braided: --out '{tmp_path / out}' cannot be used (")
            assert len(done.stderr.splitlines()) == 1


def test_the_benchmark_of_spark_needs_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = braided("bench", "spark")
    assert done.returncode == 1
    assert done.stderr.startswith("braided: Spark needs Java 17 or newer")
