"""`braided doctor`: what this machine has, what is missing, and what the kernels cost here."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from braided import __version__
from braided.engine import calibration
from braided.engine.kernels import warm_up
from braided.policies.index_cost import Costs, Load, hash_ns, scan_ns
from braided.query.errors import InvalidValue
from braided.spark.sessions.java import find_java

_PACKAGES = {
    "numpy": "the core", "numba": "the core", "pyarrow": "the core", "sqlglot": "where conditions, SQL",
    "pyspark": "Spark", "pandas": "Spark", "typer": "the command line",
}  # fmt: skip
_WORDS = {
    "insert": "link a row in a hash",
    "probe": "look a key up",
    "hop": "look at the next row of a chain",
    "match": "note a match in a hash",
    "round": "one hop of a whole block of rows, apart from its hops",
    "sweep": "begin a scan",
    "row": "look at a row in a scan",
    "stretch": "look closer at 64 rows of which one matches",
    "hit": "note a match in a scan",
    "batch": "a batch of rows and of probes, with either index",
    "store": "store and forget a row, with either index",
}


def doctor(console: Console, *, calibrate: bool) -> None:
    """Print what there is."""
    console.print(parts())
    console.print(f"kernels ready in {warm_up():.1f} s")
    known = calibration.costs_file().exists() and not calibrate
    costs = calibration.machine_costs() if known else calibration.calibrate()
    console.print(
        f"index costs {'stored' if known else 'measured now, stored'} in {calibration.costs_file()}",
        markup=False,
    )
    console.print(_costs(costs))
    console.print(_crossovers(costs))


def parts() -> Table:
    """List what is installed here, and how to get what is not."""
    table = Table("part", "found", "needed for", title=f"braided {__version__}")
    for row in _parts():
        table.add_row(*map(escape, row))
    return table


def _parts() -> Iterator[tuple[str, str, str]]:
    yield "Python", platform.python_version(), "everything"
    yield "processors", str(os.cpu_count()), ""
    for package, use in _PACKAGES.items():
        try:
            yield package, importlib.metadata.version(package), use
        except importlib.metadata.PackageNotFoundError:
            yield package, "missing: pip install 'braided[all]'", use
    yield "Java", _java(), "Spark"


def _java() -> str:
    try:
        version = subprocess.run(
            [find_java(), "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except InvalidValue as wrong:
        return f"missing: {wrong}"
    except (OSError, subprocess.SubprocessError) as wrong:
        return f"does not run: {wrong}"
    return (version.stderr or version.stdout).splitlines()[0]


def _costs(costs: Costs) -> Table:
    table = Table("operation", "ns", "what it is", title="index costs on this machine")
    for name, ns in dataclasses.asdict(costs).items():
        table.add_row(name, f"{ns:.2f}", _WORDS[name])
    return table


def _crossovers(costs: Costs) -> Table:
    """Where a scan is cheaper, for a side whose rows all lie inside the time bounds."""
    table = Table("rows stored", "probes per row that enters", "a scan is cheaper with", title="scan or hash")
    for rows in (100, 1_000, 10_000):
        for probes in (1, 1 / 10, 1 / 30):
            table.add_row(f"{rows:,}", f"1 / {round(1 / probes)}", _few_keys(rows, probes, costs))
    return table


def _few_keys(rows: int, probes: float, costs: Costs) -> str:
    loads = (Load(probes, 1.0, rows, rows / keys, rows / keys, probes / 1024) for keys in range(1, rows + 1))
    dearer = (keys for keys, load in enumerate(loads) if scan_ns(load, costs) >= hash_ns(load, costs))
    most = next(dearer, rows)
    if most == rows:
        return "any number of keys"
    return f"at most {most} keys" if most else "no number of keys"
