"""What is imported at the start: `import braided` and `braided --help` must be quick on any machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"numpy", "numba", "pyarrow", "pandas", "pyspark", "scipy", "sqlglot", "yaml"}
OTHERS = {"matplotlib", "polars", "duckdb", "braided_lab", "braided_benchmarks"}
HELP = """
from braided.cli.main import main
sys.argv = ["braided", "--help"]
try:
    main()
except SystemExit:
    pass
"""


def imported(code: str) -> set[str]:
    """All modules there are after this code has run in a process of its own."""
    program = f"import json, sys\n{code}\nprint(json.dumps(list(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("code", ["import braided", HELP])
def test_the_start_imports_nothing_heavy(code: str) -> None:
    modules = imported(code)
    assert "braided" in modules
    assert not modules & (HEAVY | OTHERS)


def test_the_package_alone_imports_no_part_of_itself() -> None:
    modules = imported("import braided")
    assert {name for name in modules if name.partition(".")[0] == "braided"} == {"braided"}
    assert not modules & {"typer", "click", "rich"}


def test_a_query_needs_no_arrays() -> None:
    assert not imported("import braided as bd; bd.JoinQuery; bd.Stream") & HEAVY
