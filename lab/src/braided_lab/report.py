"""What every lab writes: numbers as JSON, claims as a table in Markdown, figures as PNG."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from braided_lab.measured import commit, measured_at

Verdict = Literal["reproduced", "same direction", "not reproduced", "not tested", "met", "missed"]

# Student's t, 97.5 %, by degrees of freedom
_T = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def committed(experiment: str) -> dict[str, Any]:
    """A lab's parameters, as committed."""
    text = resources.files("braided_lab").joinpath(f"parameters/{experiment}.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def quiet(_: str) -> None:
    """Say nothing of how far a lab is."""


@dataclass(frozen=True)
class Claim:
    """Something the paper says, what we see, and whether they agree."""

    claim: str
    paper: str
    ours: str
    verdict: Verdict
    why: str = ""


@dataclass
class Report:
    """A lab's outcome."""

    experiment: str
    seed: int
    parameters: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    commit: str = field(default_factory=commit)

    def write(self, out: Path) -> None:
        """`NAME.json` and `NAME.md` in a folder."""
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{self.experiment}.json").write_text(json.dumps(asdict(self), indent=1) + "\n")
        lines = [
            f"# {self.experiment}",
            "",
            *self.notes,
            "",
            f"{measured_at(self.commit)}.",
            "",
            "| claim | paper | ours | verdict | why |",
            "| --- | --- | --- | --- | --- |",
            *(_table_row(c) for c in self.claims),
            "",
        ]
        (out / f"{self.experiment}.md").write_text("\n".join(lines))


def _table_row(claim: Claim) -> str:
    cells = (claim.claim, claim.paper, claim.ours, claim.verdict, claim.why)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


@dataclass(frozen=True)
class Mean:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of repetitions, and where it lies with 95 % confidence."""
    middle = statistics.fmean(values)
    if len(values) < 2:
        return Mean(middle, middle, middle)
    t = _T[min(len(values) - 1, len(_T) - 1)]
    reach = t * statistics.stdev(values) / math.sqrt(len(values))
    return Mean(middle, middle - reach, middle + reach)
