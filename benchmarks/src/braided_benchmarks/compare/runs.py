"""One contender's run of one scenario: files fed in, results noted, the process killed and begun again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import numpy as np
from pyarrow import csv

from braided_benchmarks.compare.scenarios import SECOND_US, Scenario, land

HERE = Path(__file__).parent
ENGINES = {"braided": "spark", "spark": "spark", "flink": "flink", "pathway": "pathway"}
CONTENDERS = (
    "braided", "spark-heap", "spark-rocksdb", "flink-interval", "flink-chain", "flink-multi", "pathway-plain",
    "pathway-interval",
)  # fmt: skip
PATIENCE_S = 60  # how long results may take after the last file
TOO_LONG_S = 240  # how long a run may take from its begin to its last file's results
PAUSE_S = 6  # three checkpoints or snapshots of the contenders that make them by the clock


def engine(contender: str) -> str:
    """What it runs on: Spark, Flink or Pathway."""
    return ENGINES[contender.partition("-")[0]]


class Failed(Exception):
    """A contender ended by itself, or found something else than it should."""


@dataclass
class Outcome:
    """What a run showed."""

    contender: str
    scenario: str
    share: float = 0.0  # of the results, in time
    first_s: float = 0.0  # from the query's start to the first result
    seconds: float = 0.0  # to the last one
    latencies: dict[int, float] = field(default_factory=dict)  # percentile: seconds; live runs only
    state_bytes: int = 0
    restarted: bool = False
    restart_s: float | None = None
    failure: str = ""  # why there is no outcome

    @property
    def complete(self) -> bool:
        """Whether all results came in time."""
        return self.share >= 1.0


class Run:
    """A contender at work in a folder of its own."""

    def __init__(
        self, contender: str, scenario: Scenario, folder: Path, staged: Path,
        expected: dict[int, tuple[int, int]], python: str,
    ) -> None:  # fmt: skip
        """`python` runs the contender; `staged` holds the files, `expected` the results of each step."""
        self.contender, self.scenario, self.folder, self.staged = contender, scenario, folder, staged
        self.expected, self.python = expected, python
        self.landed: dict[int, float] = {}
        self.child: Popen[bytes] | None = None
        for part in ("data", "out", "state"):
            (folder / part).mkdir(parents=True)

    def outcome(self) -> Outcome:
        """Run it all; a contender that fails, or finds something else, has that as its outcome."""
        outcome = Outcome(self.contender, self.scenario.name)
        try:
            if self.scenario.live:
                self._live(outcome)
            else:
                self._at_once(outcome)
        except Failed as why:
            outcome.failure = str(why)
        finally:
            self._kill()
            shutil.rmtree(self.folder, ignore_errors=True)
        return outcome

    def _at_once(self, outcome: Outcome) -> None:
        for step in sorted(self.staged.iterdir()):
            land(step, self.folder / "data")
        self._start()
        outcome.share = self.wait(range(self.scenario.steps), TOO_LONG_S)
        began = float((self.folder / "out" / "started").read_text())
        times = [at for _, at, _, _ in self._emitted()] or [time.time()]
        outcome.first_s, outcome.seconds = min(times) - began, max(times) - began

    def _live(self, outcome: Outcome) -> None:
        scenario = self.scenario
        for step in range(scenario.warm):
            self._land(step)
        self._start()
        self.wait(range(scenario.warm), TOO_LONG_S)
        began = time.time()
        for step in range(scenario.warm, scenario.steps):
            time.sleep(max(0.0, began + (step - scenario.warm) * scenario.step_s - time.time()))
            self._land(step)
        outcome.share = self.wait(range(scenario.steps), PATIENCE_S)
        outcome.seconds = time.time() - began
        outcome.latencies = self.latencies()
        if scenario.restart and outcome.complete:
            time.sleep(PAUSE_S)
            outcome.state_bytes = self._state()
            outcome.restarted = True
            outcome.restart_s = self._restart()

    def _restart(self) -> float | None:
        """Kill it, land one step more, begin again; seconds until all that step's results are there."""
        self._kill()
        self._land(self.scenario.steps)
        began = time.time()
        self._start(self._latest_checkpoint())
        step = self.scenario.steps
        if self.wait(range(step, step + 1), TOO_LONG_S) < 1.0:
            return None
        return max(at for batch, at, _, _ in self._emitted() if batch == step) - began

    def latencies(self) -> dict[int, float]:
        """Of the counted steps' results; results that never came are later than all that did."""
        waits, rows = [], []
        for batch, at, count, _ in self._emitted():
            if batch in self.scenario.counted:
                waits.append(at - self.landed[batch])
                rows.append(count)
        missing = sum(self.expected.get(b, (0, 0))[0] for b in self.scenario.counted) - sum(rows)
        if not rows:
            return {50: float("inf"), 99: float("inf")}
        order = np.argsort(waits)
        reached = np.cumsum(np.array(rows)[order])
        total = reached[-1] + max(missing, 0)
        found = {}
        for percent in (50, 99):
            at = int(np.searchsorted(reached, percent / 100 * total))
            found[percent] = float(np.array(waits)[order][at]) if at < len(reached) else float("inf")
        return found

    def _land(self, step: int) -> None:
        land(self.staged / f"{step:04d}", self.folder / "data")
        self.landed[step] = time.time()

    def _start(self, restore: Path | None = None) -> None:
        spec = {
            "contender": self.contender,
            "streams": self.scenario.streams,
            "window_us": self.scenario.window_s * SECOND_US,
            "a_file_a_batch": not self.scenario.live,
            "restore": str(restore or ""),
            **{part: str(self.folder / part) for part in ("data", "out", "state")},
        }
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PATHWAY_THREADS": "2"}
        with (self.folder / "log.txt").open("ab") as log:
            self.child = Popen(
                [self.python, str(HERE / f"on_{engine(self.contender)}.py"), json.dumps(spec)],
                stdout=log, stderr=log, start_new_session=True, env=environment, cwd=self.folder,
            )  # fmt: skip

    def wait(self, steps: range, patience: float) -> float:
        """Until all results of these steps are there or patience ends; the share that is. Fails on others."""
        until = time.time() + patience
        wanted = {s: self.expected[s] for s in steps if s in self.expected}
        while True:
            found = self._found()
            share = sum(min(found.get(s, (0, 0))[0], w[0]) for s, w in wanted.items()) / max(
                1, sum(w[0] for w in wanted.values())
            )
            if share >= 1.0 or time.time() > until:
                break
            if self.child is not None and self.child.poll() is not None:
                log = (self.folder / "log.txt").read_text(errors="replace")
                raise Failed(f"ended by itself: {_last_words(log)}")
            time.sleep(0.5)
        wrong = {s: (found[s], w) for s, w in wanted.items() if share >= 1.0 and found[s] != w}
        if wrong:
            raise Failed(f"other results than expected, (found, expected) by step: {wrong}")
        return share

    def _found(self) -> dict[int, tuple[int, int]]:
        rows: Counter[int] = Counter()
        sums: Counter[int] = Counter()
        for batch, _, count, checksum in self._emitted():
            rows[batch] += count
            sums[batch] += checksum
        return {batch: (rows[batch], sums[batch]) for batch in rows}

    def _emitted(self) -> list[tuple[int, float, int, int]]:
        """Of each emission: batch, wall clock, rows, checksum."""
        out = self.folder / "out"
        if engine(self.contender) == "flink":
            return self._flinks(out / "rows")
        lines = out / "emissions.jsonl"
        whole = lines.read_text().rpartition("\n")[0].splitlines() if lines.exists() else []
        parsed = [json.loads(line) for line in whole]
        return [(e["batch"], e["at"], e["rows"], e["checksum"]) for e in parsed]

    def _flinks(self, folder: Path) -> list[tuple[int, float, int, int]]:
        """What its sink has committed, by batch and millisecond."""
        found = []
        options = csv.ReadOptions(column_names=["batch", "at_ms", "checksum"])
        for path in folder.rglob("part-*") if folder.exists() else ():
            if path.name.startswith(".") or not path.stat().st_size:
                continue
            table = csv.read_csv(path, options).group_by(["batch", "at_ms"])
            table = table.aggregate([("checksum", "count"), ("checksum", "sum")])
            found += [
                (row["batch"], row["at_ms"] / 1e3, row["checksum_count"], row["checksum_sum"])
                for row in table.to_pylist()
            ]
        return found

    def _state(self) -> int:
        """Bytes of the state as it is on disk: of Flink the latest checkpoint, of the others the folder."""
        folder = self.folder / "state"
        if engine(self.contender) == "flink":
            folder = self._latest_checkpoint() or folder
        elif engine(self.contender) == "spark":
            folder /= "state"
        return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())

    def _latest_checkpoint(self) -> Path | None:
        """Flink's latest that is whole."""
        whole = (self.folder / "state").glob("*/chk-*/_metadata")
        return max((p.parent for p in whole), key=lambda p: p.stat().st_mtime, default=None)

    def _kill(self) -> None:
        if self.child is not None:
            if self.child.poll() is None:
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
            self.child = None


def _last_words(log: str) -> str:
    """The line that says most: the last error's."""
    telling = [line.strip() for line in log.splitlines() if "Error" in line or "Exception" in line]
    return (telling or log.strip().splitlines() or ["without a word"])[-1][:300]
