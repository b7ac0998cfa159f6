"""Averages that are shown while the join runs, with how far they may be off (early-throughput, Figure 1).

Restaurant ratings come from three services. Memory holds a tenth of them; results keep coming from memory,
then from disk while the services are silent, and at the end all are there. The average of a type of
restaurant is shown with the interval that it lies in with 95 % confidence, by the usual formula for
independent results: results that share a rating are not quite independent, so it is too narrow.

    python examples/running_average.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd

TYPES = ("Italian", "Mexican", "Thai")
SERVICES = {"yelp": "overall", "citypages": "service", "zagat": "value"}
ROWS, RESTAURANTS, BATCHES = 30_000, 6_000, 12


@dataclass
class Averages:
    """Running averages of several groups."""

    sums: Any = field(default_factory=lambda: np.zeros((3, len(TYPES))))  # of 1, of values, of their squares

    def add(self, groups: Any, values: Any) -> None:
        """Some more values."""
        self.sums += [np.bincount(groups, values**power, minlength=len(TYPES)) for power in range(3)]

    def now(self) -> tuple[Any, Any]:
        """The averages, and how far they may be off."""
        count, total, squares = self.sums
        mean = total / np.maximum(count, 1)
        spread = squares / np.maximum(count, 1) - mean**2
        return mean, 1.96 * np.sqrt(np.maximum(spread, 0) / np.maximum(count, 1))


def ratings(seed: int) -> dict[str, pa.Table]:
    """What the services send; Thai food is rated a little better."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, len(TYPES), RESTAURANTS)
    tables = {}
    for name, column in SERVICES.items():
        restaurant = rng.integers(0, RESTAURANTS, ROWS)
        stars = rng.normal(3, 1, ROWS) + 0.1 * kind[restaurant]
        tables[name] = pa.table({"id": restaurant, "kind": kind[restaurant], column: stars})
    return tables


def query(memory: bd.Memory | None) -> bd.JoinQuery:
    """Ratings of the same restaurant by all services."""
    return bd.JoinQuery([bd.Stream(name, "id") for name in SERVICES], plan="linear", memory=memory)


def results(tables: dict[str, pa.Table], memory: bd.Memory | None) -> Iterator[tuple[str, pa.Table]]:
    """New results, and when they came."""
    live = bd.LocalJoin(query(memory))
    for i in range(BATCHES):
        batch = {n: t.slice(i * ROWS // BATCHES, ROWS // BATCHES) for n, t in tables.items()}
        yield f"batch {i + 1}", live.push(batch)
    for _ in range(8):
        yield "silence", live.push({})
    yield "the end", live.end()


def main() -> None:
    """Show the averages as they come."""
    averages, seen = Averages(), 0
    for when, table in results(ratings(1), bd.Memory("500 kB", interval="100 milliseconds")):
        seen += table.num_rows
        if table.num_rows:
            score = sum(table.column(f"{n}_{c}").to_numpy() for n, c in SERVICES.items())
            averages.add(table.column("yelp_kind").to_numpy(), score)
        mean, bound = averages.now()
        said = "   ".join(f"{t} {m:.3f} ± {b:.3f}" for t, m, b in zip(TYPES, mean, bound, strict=True))
        print(f"{when:>9}  {seen:>9,} results   {said}")


if __name__ == "__main__":
    main()
