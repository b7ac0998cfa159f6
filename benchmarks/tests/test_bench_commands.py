"""`braided bench` and `braided compare`, as a person uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def braided(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from braided.cli.main import main; main()", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


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
    done = braided("compare", "--only", "brided")
    assert done.returncode == 1
    assert done.stderr.startswith("braided: no 'brided' in the comparison; did you mean")


def test_the_benchmark_of_spark_needs_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = braided("bench", "spark")
    assert done.returncode == 1
    assert done.stderr.startswith("braided: Spark needs Java 17 or newer")
