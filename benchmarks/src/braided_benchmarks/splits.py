"""`window_split="best"` against every rule: results of `LocalJoin` while memory is short, in random settings.

Two to six streams with rates from 5 to 50 rows a batch, memory for three to eight batches, keys so that a row
meets 1.5 to 3 rows of each partner; then three and four streams of equal rates. Results count once windows
are full, over several seeds. In a tree intermediates take room as well.

    python -m braided_benchmarks.splits             # 30 settings, flat
    python -m braided_benchmarks.splits --plan linear
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pyarrow as pa

import braided as bd
from braided.query.overload import WindowSplit

RULES: tuple[str, ...] = tuple(rule for rule in get_args(WindowSplit) if rule != "best")
BATCHES, FILLING = 60, 20
_MICROSECONDS = 1_000_000  # a batch lasts a second


@dataclass(frozen=True)
class Setting:
    """Rows of each stream in a batch, rows stored, and how many different keys there are."""

    rates: tuple[int, ...]
    rows: int
    keys: int

    def query(self, split: str, plan: str) -> bd.JoinQuery:
        """Join them on one key, with windows that memory has no room for."""
        streams = [bd.Stream(f"s{i}", key="k", time="t", window="1 hour") for i in range(len(self.rates))]
        overload = bd.Overload(state_rows=self.rows, window_split=split)  # type: ignore[arg-type]
        return bd.JoinQuery(streams, plan=plan, overload=overload)

    def batches(self, seed: int) -> Iterator[dict[str, pa.Table]]:
        """Draw rows at these rates, Poisson, with even keys."""
        rng = np.random.default_rng(seed)
        for at in range(BATCHES):
            counts = rng.poisson(self.rates)
            yield {f"s{i}": self._table(rng, int(rows), at) for i, rows in enumerate(counts)}

    def _table(self, rng: np.random.Generator, rows: int, at: int) -> pa.Table:
        times = np.sort(rng.integers(at * _MICROSECONDS, (at + 1) * _MICROSECONDS, rows))
        return pa.table({"k": rng.integers(0, self.keys, rows), "t": times})

    def results(self, split: str, plan: str, seeds: int) -> int:
        """Count results once windows are full."""
        found = 0
        for seed in range(seeds):
            live = bd.LocalJoin(self.query(split, plan))
            for at, batch in enumerate(self.batches(seed)):
                new = live.push(batch).num_rows
                found += new if at >= FILLING else 0
        return found


def drawn(number: int) -> Setting:
    """Return a random setting; numbers go round from two streams to six."""
    rng, streams = np.random.default_rng([7, number]), 2 + number % 5
    rates = tuple(int(10 ** rng.uniform(0.7, 1.7)) for _ in range(streams))
    rows = int(sum(rates) * rng.uniform(3, 8))
    return Setting(rates, rows, max(2, int(rows / streams / rng.uniform(1.5, 3))))


EQUAL = tuple(Setting((20,) * streams, 100 * streams, 40) for streams in (3, 4))


def ratios(setting: Setting, plan: str, seeds: int) -> dict[str, float]:
    """Return what `best` yields, as a multiple of each rule's results."""
    best = setting.results("best", plan, seeds)
    return {rule: best / max(1, setting.results(rule, plan, seeds)) for rule in RULES}


def main(arguments: Sequence[str] | None = None, say: Callable[[str], Any] = print) -> int:
    """Print a table; the exit code says whether `best` is below 0.98 of a rule, or 1.2 of `max-slow`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plan", default="mjoin", choices=["mjoin", "linear"])
    asked = parser.parse_args(arguments)
    say(f"| rates, rows, keys | {' | '.join(RULES)} |")
    say("| --- |" + " --- |" * len(RULES))
    worst = [_line(drawn(n), asked.plan, asked.seeds, say) for n in range(asked.settings)]
    equal = [_line(setting, asked.plan, asked.seeds, say)["max-slow"] for setting in EQUAL]
    least = [min(found.values()) for found in worst]
    if least:
        say(f"against the best rule: at least {min(least):.3f}, median {statistics.median(least):.3f}")
    say(f"equal rates, against max-slow: at least {min(equal):.3f}")
    return int(min([*least, 1.0]) < 0.98 or min(equal) < 1.2)


def _line(setting: Setting, plan: str, seeds: int, say: Callable[[str], Any]) -> dict[str, float]:
    found = ratios(setting, plan, seeds)
    name = f"{' : '.join(map(str, setting.rates))}, {setting.rows:,}, {setting.keys}"
    say(f"| {name} | {' | '.join(f'{found[rule]:.3f}' for rule in RULES)} |")
    return found


if __name__ == "__main__":
    sys.exit(main())
