"""`braided init`, `explain`, `schema` and `run` as a person uses them, without Spark."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from braided.jobs import definitions, load
from braided.jobs.example import write_example
from braided.jobs.running import Watching, _waiting
from braided.query.errors import BraidedError
from tests.jobs import job_schema
from tests.jobs.files import GOOD, write

NO_SPARK = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        loads_spark = name.startswith("braided.spark.") and not name.endswith((".sessions", ".java"))
        if name.split(".")[0] in ("pyspark", "py4j") or loads_spark:
            raise AssertionError(f"{name} is imported")
sys.meta_path.insert(0, Refused())
from braided.cli.main import main
main()
"""


def braided(
    *arguments: str, cwd: Path, code: str = NO_SPARK, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=False, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment},
    )  # fmt: skip


def test_init_then_explain_without_spark(tmp_path: Path) -> None:
    done = braided("init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "job.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=./job.schema.json\n")
    assert (tmp_path / "job.schema.json").read_text() == definitions.SCHEMA_FILE.read_text()
    done = braided("explain", "job.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Join of 3 streams" in done.stdout
    assert "Late rows go to json" in done.stdout


def test_explain_says_what_to_expect_at_rates(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    rates = ("--rates", "orders=200, payments=100")
    done = braided("explain", "job.yaml", *rates, "--keys", "5000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "expected state:" in done.stdout
    assert "expected cost on this machine, every row probing" in done.stdout
    assert "assumed" not in done.stdout
    for given, message in (
        (
            "orders",
            "--rates must be streams and rows a second, such as orders=2000,payments=1800; got 'orders'",
        ),
        ("orders=-1", "explain: rates of 'orders' must be 0 or more rows a second; got -1.0"),
        ("order=1", "explain: rates: no stream 'order'; did you mean 'orders'?"),
    ):
        done = braided("explain", "job.yaml", "--rates", given, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (1, f"braided: {message}\n")
    done = braided("explain", "job.yaml", "--keys", "5", cwd=tmp_path)
    assert "explain: keys says nothing without rates" in done.stderr


def test_init_writes_over_nothing(tmp_path: Path) -> None:
    job = write_example(tmp_path / "new")
    assert job == tmp_path / "new" / "job.yaml"
    assert len(list((tmp_path / "new" / "data").rglob("*.csv"))) == 9
    before = job.read_text()
    with pytest.raises(BraidedError, match="is there already"):
        write_example(job)
    with pytest.raises(BraidedError, match="data' is there already"):
        write_example(job.with_name("other.yaml"))
    assert job.read_text() == before
    assert load(job).query.names == ("orders", "payments", "shipments")


def test_a_mistake_is_one_message_and_status_1(tmp_path: Path) -> None:
    write(tmp_path, GOOD, ("window: 1 hour", "window: 10 mintues"))
    for command in ("explain", "run"):
        done = braided(command, "job.yaml", cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith("braided: job.yaml:7: stream 'payments': window")
        assert done.stderr.endswith("did you mean '10 minutes'?\n")
    assert "Traceback" in braided("explain", "job.yaml", "--debug", cwd=tmp_path).stderr


def test_no_java_is_said_before_anything_starts(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    done = braided("run", "job.yaml", cwd=tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 1
    assert done.stderr == (
        "braided: Spark needs Java 17 or newer, and none was found; install it or set JAVA_HOME\n"
    )


def test_a_wrong_java_home_is_named_with_the_remedy(tmp_path: Path) -> None:
    """There was a Java on the path, so all seemed well; Spark asked `JAVA_HOME`, and said so in its words."""
    write(tmp_path, GOOD)
    (tmp_path / "java").write_text("#!/bin/sh\n")
    (tmp_path / "java").chmod(0o755)
    done = braided("run", "job.yaml", cwd=tmp_path, PATH=str(tmp_path), JAVA_HOME="/nowhere/jdk")
    assert done.returncode == 1
    assert done.stderr == (
        "braided: JAVA_HOME is '/nowhere/jdk', and there is no Java in it (bin/java); set it to the "
        "folder of a Java 17 or newer, or unset it to use the one on the path\n"
    )


def test_folders_are_checked_before_spark_starts(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "in" / "order").mkdir(parents=True)
    done = braided("run", "job.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "job.yaml:12: sources.orders: there is no folder" in done.stderr
    assert "did you mean 'order'?" in done.stderr
    (tmp_path / "in" / "orders").mkdir()
    (tmp_path / "in" / "payments").mkdir()
    (tmp_path / "checkpoint").write_text("a file")
    done = braided("run", "job.yaml", cwd=tmp_path)
    assert "job.yaml:19: checkpoint:" in done.stderr
    assert "cannot be written" in done.stderr
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "out" / "_spark_metadata" / "0").touch()
    done = braided("run", "job.yaml", cwd=tmp_path)
    assert "job.yaml:18: sink:" in done.stderr
    assert "another run" in done.stderr


def _ready(folder: Path, *changes: tuple[str, str]) -> None:
    """A job whose folders of sources are there."""
    write(folder, GOOD, *changes)
    for name in ("orders", "payments"):
        (folder / "in" / name).mkdir(parents=True, exist_ok=True)


def test_files_where_folders_should_be_are_said_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    _ready(tmp_path, ("path: in/orders", "path: file"))
    done = braided("run", "job.yaml", cwd=tmp_path)
    assert done.stderr == (
        f"braided: job.yaml:12: sources.orders: '{tmp_path}/file' is a file; name the folder that holds it\n"
    )
    late = "late: {format: json, path: file/late}"
    for old, new, at in (
        ("path: out", "path: file/out", "sink"),
        ("path: out", f"path: out, {late}", "sink.late"),
        ("checkpoint: checkpoint", "checkpoint: file/checkpoint", "checkpoint"),
    ):
        _ready(tmp_path, (old, new))
        done = braided("run", "job.yaml", cwd=tmp_path)
        assert done.returncode == 1
        assert f": {at}: '{tmp_path}/file/" in done.stderr
        assert "cannot be written" in done.stderr
        assert "is a file" in done.stderr


def test_a_port_in_use_is_said_before_spark_starts(tmp_path: Path) -> None:
    _ready(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = braided("run", "job.yaml", "--serve", str(port), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"braided: serve: port {port} cannot be used")
    assert done.stderr.endswith("give another, or 0 for any free one\n")
    assert "builder is imported" in braided("run", "job.yaml", "--serve", "0", cwd=tmp_path).stderr


def test_a_journal_that_is_none_is_said_before_spark_starts(tmp_path: Path) -> None:
    """A device was read for ever, until the machine had no memory left."""
    _ready(tmp_path)
    (tmp_path / "torn.jsonl").write_text('{"record": {"batch": \n{"about": "x"}\n')
    done = braided("run", "job.yaml", "--journal", "torn.jsonl", cwd=tmp_path)
    assert done.stderr == (
        "braided: torn.jsonl: line 1 is no record of a batch; is this a journal? if so, take that line out\n"
    )
    done = braided("run", "job.yaml", "--journal", os.devnull, cwd=tmp_path)
    assert done.stderr == f"braided: --journal '{os.devnull}' is no file; name one, or leave it out\n"
    done = braided("run", "job.yaml", "--journal", "job.yaml/x", cwd=tmp_path)
    assert "--journal 'job.yaml/x' cannot be written: job.yaml is a file" in done.stderr


def test_a_terminal_shows_a_sign_of_life_until_the_query_has_begun() -> None:
    for quiet in (False, True):
        file = io.StringIO()
        with _waiting(Watching(quiet=quiet, console=Console(file=file, force_terminal=True))) as begun:
            begun()
        assert ("Spark is starting" in file.getvalue()) is not quiet


def test_init_at_a_file_says_what_to_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    for path in (tmp_path / "file", tmp_path / "file" / "job.yaml"):
        with pytest.raises(BraidedError, match=r"file' is a file; name a folder, or a job file such as"):
            write_example(path)


def test_the_schema_is_up_to_date_and_printed(tmp_path: Path) -> None:
    written = definitions.SCHEMA_FILE.read_text()
    assert written == job_schema.text(), "write it again: python -m tests.jobs.job_schema"
    assert braided("schema", cwd=tmp_path).stdout == written


def test_the_schema_knows_all_options_and_allows_variables() -> None:
    said = json.loads(job_schema.text())
    assert set(said["required"]) == {"query", "sources", "sink", "checkpoint"}
    assert set(said["definitions"]) >= {
        "JoinQuery",
        "Stream",
        "Tuning",
        "Memory",
        "Overload",
        "Source",
        "Sink",
    }
    assert {"pattern": r"\$\{", "type": "string"} in said["properties"]["buckets"]["anyOf"]
    assert "name" in said["definitions"]["Stream"]["required"]
    assert "name" not in said["definitions"]["NamedStream"].get("required", [])
    for name in _references(said):
        assert name in said["definitions"]


def _references(schema_part: Any) -> list[str]:
    if isinstance(schema_part, dict):
        own = [str(v).rsplit("/", 1)[1] for k, v in schema_part.items() if k == "$ref"]
        return own + [name for v in schema_part.values() for name in _references(v)]
    return [name for v in schema_part for name in _references(v)] if isinstance(schema_part, list) else []


def test_the_manual_names_every_key_and_its_example_is_right(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "howto" / "jobs.md").read_text()
    example = manual.split("```yaml\n")[1].split("```")[0]
    assert load(write(tmp_path, example), {}).query.names == ("orders", "payments")
    for cls in (definitions.JobFile, definitions.Source, definitions.Sink, definitions.Replay):
        for name in definitions.helped(cls):
            assert re.search(rf"[`.{{ ]{name}[`:]", manual), name
