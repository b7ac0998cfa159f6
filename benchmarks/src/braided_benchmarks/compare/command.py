"""All contenders through all scenarios in one run: `braided compare`.

Flink and Pathway have environments of their own, `RIVALS/flink` and `RIVALS/pathway`; `make compare` sets
them up. One that is not there is left out, and the page says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa

from braided.query.errors import InvalidValue, did_you_mean
from braided_benchmarks.compare.figures import draw
from braided_benchmarks.compare.pages import page
from braided_benchmarks.compare.runs import CONTENDERS, Outcome, Run, engine
from braided_benchmarks.compare.scenarios import Scenario, stage
from braided_benchmarks.lines import quiet

_LIVE = Scenario("5,000 rows a second", warm=3, settle=3)
SCENARIOS = (
    *(Scenario(f"{n} streams", streams=n, rows=40_000, steps=8, step_s=20, window_s=40) for n in range(2, 7)),
    Scenario("3 streams, small batches", rows=5_000, steps=20, step_s=5, window_s=40),
    Scenario("3 streams, large batches", rows=200_000, steps=6, step_s=100, window_s=40),
    _LIVE,
    replace(_LIVE, name="20,000 rows a second", rows=20_000, restart=True),
    replace(_LIVE, name="hot key", hot=0.2),
    replace(_LIVE, name="stall", silent=(9, 15)),
    replace(_LIVE, name="burst", burst=(9, 13)),
)
PACKAGES = {"spark": "pyspark", "flink": "apache-flink", "pathway": "pathway"}


def runs(contenders: Sequence[str], scenarios: Sequence[str]) -> int:
    """How many runs that is at most."""
    return len(_chosen(contenders, CONTENDERS)) * len(_chosen(scenarios, [s.name for s in SCENARIOS]))


def compare(
    rivals: Path, out: Path, contenders: Sequence[str] = (), scenarios: Sequence[str] = (),
    say: Callable[[str], object] = quiet,
) -> list[Outcome]:  # fmt: skip
    """Run what is chosen and can be run; tables go to `out`, a picture and all figures beside it."""
    pythons = _pythons(rivals)
    names = [c for c in _chosen(contenders, CONTENDERS) if engine(c) in pythons]
    wanted = _chosen(scenarios, [s.name for s in SCENARIOS])
    outcomes: list[Outcome] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    for scenario in (s for s in SCENARIOS if s.name in wanted):
        outcomes += _all_through(scenario, names, pythons, say)
        out.with_suffix(".json").write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
        out.write_text(page(outcomes, _versions(pythons)), encoding="utf-8")
        draw(out.with_suffix(".svg"), outcomes)
    return outcomes


def _all_through(
    scenario: Scenario, contenders: Sequence[str], pythons: dict[str, str], say: Callable[[str], object]
) -> list[Outcome]:
    arrivals = scenario.generate()
    expected = scenario.expected(arrivals)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="braided-compare-") as folder:
        for contender in contenders:
            say(f"{scenario.name}, {contender}")
            staged = _staged(Path(folder), scenario, arrivals, engine(contender))
            run = Run(
                contender, scenario, Path(folder) / contender, staged, expected, pythons[engine(contender)]
            )
            outcomes.append(run.outcome())
    return outcomes


def _staged(folder: Path, scenario: Scenario, arrivals: list[dict[str, pa.Table]], engine_: str) -> Path:
    """The files as an engine wants them; what lies there is one file where many are read in no order."""
    staged = folder / f"files-{engine_}"
    if not staged.exists():
        stage(
            staged, arrivals, header=engine_ == "pathway", one_file=engine_ != "spark" and not scenario.live
        )
    return staged


def _chosen(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    for name in asked:
        if name not in known:
            raise InvalidValue(f"no {name!r} in the comparison; {did_you_mean(name, known)}")
    return [name for name in known if name in asked or not asked]


def _pythons(rivals: Path) -> dict[str, str]:
    """Of each engine that is there, the Python that has it."""
    found = {"spark": sys.executable}
    for name in ("flink", "pathway"):
        python = rivals.absolute() / name / "bin" / "python"
        if python.exists():
            found[name] = str(python)
    return found


def _versions(pythons: dict[str, str]) -> dict[str, str]:
    """Which release of each engine runs; "" where it is not there."""
    versions = dict.fromkeys(PACKAGES, "")
    for name, python in pythons.items():
        ask = f"import importlib.metadata as m; print(m.version({PACKAGES[name]!r}))"
        versions[name] = subprocess.run(
            [python, "-c", ask], check=True, capture_output=True, text=True
        ).stdout.strip()
    return versions
