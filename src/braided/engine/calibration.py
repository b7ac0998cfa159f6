"""What the index operations cost on this machine: measured once, and saved in a file.

The real kernels run over a grid of window sizes and numbers of keys; the costs are the non-negative figures
that explain the times best, in relative terms. The file's name holds the processor and a digest of the
kernels, so another machine or version measures again. Without a place to write, each process measures.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import platform
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numba
import numpy as np
import pyarrow as pa

from braided.engine.kernels import index, tables
from braided.engine.kernels.hashing import hash_words
from braided.engine.kernels.pointers import digest
from braided.engine.operators.search import Search
from braided.engine.sides.side import Rows, SideState
from braided.policies.index_cost import Costs, Load, hash_terms, scan_terms

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ROWS = (64, 256, 1_024, 4_096)
_KEYS = (4, 10, 40, 160)
_INSIDE = (0.5, 0.1)  # parts of the stored rows that are inside the time bounds
_PROBES = 512
_BLOCKS = (1, 16)
_REPEATS = 9
Point = tuple[tuple[float, ...], float]  # how often each operation was done, nanoseconds
_SCHEMA = pa.schema([("k", pa.int64())])
_INDEX = "index-costs"
C = TypeVar("C", bound="DataclassInstance")


@cache
def machine_costs() -> Costs:
    """The costs on this machine, from the file if there is one."""
    return remembered(Costs, _INDEX, measure)


def calibrate() -> Costs:
    """Measure now, and save what was measured."""
    return _saved(measure(), costs_file())


def remembered(kind: type[C], name: str, measure_now: Callable[[], C]) -> C:
    """Return costs from this machine's file of a name, or measure them and save what was measured."""
    path = costs_file(name)
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        saved = json.loads(path.read_text())
        if len(saved) == len(dataclasses.fields(kind)) and all(0 <= float(v) < 1e9 for v in saved.values()):
            return kind(**saved)
    return _saved(measure_now(), path)


def costs_file(name: str = _INDEX) -> Path:
    """Return where this machine's costs are saved: in `BRAIDED_CACHE_DIR`, else in the user's cache."""
    given = os.environ.get("BRAIDED_CACHE_DIR")
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a container's user may have no home
        home = Path(tempfile.gettempdir())
    return Path(given or home / "braided") / f"{name}-{_machine()}.json"


def _saved(costs: C, path: Path) -> C:
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".draft", delete=False) as draft:
            draft.write(json.dumps(dataclasses.asdict(costs)) + "\n")
        Path(draft.name).rename(path)
    return costs


def measure() -> Costs:
    """Run the kernels over the grid."""
    rng = np.random.default_rng(1)
    hashed: list[Point] = []
    scanned: list[Point] = []
    empty = Trial(scanned=True)
    empty.probing.append(random_rows(rng, 1, 1))
    call_ns = _usual_ns(empty.probe_seconds)  # of the kernel, whatever it does
    for rows, keys, inside, blocks in itertools.product(_ROWS, _KEYS, _INSIDE, _BLOCKS):
        for points in (hashed, scanned):
            trial = Trial(scanned=points is scanned, bounds_us=round(rows * inside))
            trial.probed.append(random_rows(rng, rows, keys))
            ns = _usual_ns(partial(_probe_seconds, trial, rng, rows, keys, blocks))
            load = dataclasses.replace(trial.load(), probes=_PROBES, blocks=blocks)
            terms = scan_terms(load) if points is scanned else hash_terms(load)[1:]
            points.append((terms, max(100.0, ns - call_ns)))
    return Costs(_insert_ns(rng), *fit(hashed), *fit(scanned), *fit(_stores(rng)))


def _probe_seconds(trial: Trial, rng: np.random.Generator, rows: int, keys: int, blocks: int) -> float:
    """New keys and times at each call: a processor remembers how branches went, and would look too fast."""
    start = trial.probing.count
    times = np.sort(rng.integers(rows // 2, rows, _PROBES))  # among the newer half of what is stored
    trial.probing.append(dataclasses.replace(random_rows(rng, _PROBES, keys), times=times))
    return trial.probe_seconds(start, blocks)


class Trial:
    """Rows of one side looked up in another: the half-join's kernel, and nothing else."""

    def __init__(self, *, scanned: bool, bounds_us: int = 1 << 40) -> None:
        """Rows match if their times differ by at most `bounds_us`, the probing row's being later or equal."""
        self.probing = SideState("probing", _SCHEMA)
        self.probed = SideState("probed", _SCHEMA, scanned=scanned)
        self.tally = np.zeros((2, 2, tables.TALLY_COLUMNS), np.int64)
        self._kernel = Search([[0, 0], [bounds_us, 0]])
        self._out = np.zeros((2, 1 << 16), np.int32)

    def probe_seconds(self, start: int = 0, blocks: int = 1) -> float:
        """Let the probing rows from a position on probe once, in some blocks; how long it takes."""
        self.probing.describe(self._kernel.sides[0], 0)
        self.probed.describe(self._kernel.sides[1], self.probed.count)
        orders, rations = self._kernel.plans()
        orders[0] = 0, 1
        cuts = np.linspace(start, self.probing.count, blocks + 1).astype(np.int64)
        segments = np.array([[0, a, b, 0, self.probed.count] for a, b in itertools.pairwise(cuts)])
        began = time.process_time()
        for _, tally, _ in self._kernel.run(segments, orders, rations, self._out):
            self.tally += tally
        return time.process_time() - began

    def load(self) -> Load:
        """Return what the probes met so far."""
        probes, matches, looked = (
            int(self.tally[0, 1, n]) for n in (tables.PROBES, tables.MATCHES, tables.LOOKED)
        )
        return Load(probes, 0, looked / probes, looked / probes, matches / probes)


def random_rows(rng: np.random.Generator, rows: int, keys: int, *, start: int = 0) -> Rows:
    """Rows with random keys, one per unit of time from `start` on."""
    numbers = rng.integers(0, keys, rows)
    times = np.arange(start, start + rows, dtype=np.int64)
    return Rows(pa.record_batch({"k": numbers}), hash_words(numbers), times)


def _insert_ns(rng: np.random.Generator) -> float:
    """Linking a row."""
    rows = 4_096
    hashes = random_rows(rng, rows, 1_024).hashes
    link, head = np.full((2, rows), -1, np.int32)
    insert = partial(index.insert, hashes, link, head, 64 - 12, 0, 0, rows)
    ns = _usual_ns(partial(timeit.timeit, insert, timer=time.process_time, number=1))
    return max(0.1, ns / rows)


def _stores(rng: np.random.Generator) -> list[Point]:
    """Batches of rows that enter a side without an index and leave it again; one row probes each time.

    Windows longer and shorter than a batch: a part of a batch that stays costs more than none.
    """
    points: list[Point] = []
    for rows, window in itertools.product((64, 512, 4_096), (4.0, 0.1)):
        trial = Trial(scanned=True, bounds_us=0)

        def store(trial: Trial = trial, rows: int = rows, window: int = round(rows * window)) -> float:
            entering = random_rows(rng, rows, 64, start=trial.probed.count)
            trial.probing.append(random_rows(rng, 1, 64))
            began = time.process_time()
            trial.probed.expire(int(entering.times[0]) - window)
            trial.probed.append(entering)
            stored = time.process_time() - began
            return stored + trial.probe_seconds(trial.probing.count - 1)

        # growing and moving to the front come now and then, and count: a mean, but for what disturbs
        seconds = np.sort([store() for _ in range(3 * _REPEATS)])[: -_REPEATS // 4]
        points.append(((1.0, float(rows)), 1e9 * float(seconds.mean())))
    return points


def _usual_ns(seconds: Callable[[], float]) -> float:
    """Return the median of several measurements."""
    return 1e9 * float(np.median([seconds() for _ in range(_REPEATS)]))


def fit(points: list[Point]) -> Iterator[float]:
    """Costs per operation with the smallest relative errors; one that would be negative is nothing."""
    terms = np.array([t for t, _ in points]) / np.array([[ns] for _, ns in points])
    used = np.ones(terms.shape[1], np.bool_)
    while True:
        costs = np.zeros(len(used))
        costs[used] = np.linalg.lstsq(terms[:, used], np.ones(len(points)), rcond=None)[0]
        if (costs >= 0).all():
            return iter(costs.tolist())
        used &= costs > 0


@cache
def _machine() -> str:
    """The processor, and the kernels it runs."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line for line in lines if line.startswith("model name")), processor)
    named = f"{platform.node()} {processor} {numba.__version__} {digest()}"
    return hashlib.sha256(named.encode()).hexdigest()[:16]
