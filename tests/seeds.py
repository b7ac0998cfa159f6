"""How many cases the tests that compare with an oracle take: few in `make test`, many in `make seeds`."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

_TIMES = float(os.environ.get("BRAIDED_SEEDS", "1"))


def seeds(count: int) -> range:
    """So many seeds, times the environment's `BRAIDED_SEEDS`."""
    return range(math.ceil(count * _TIMES))


def some_pairs(rows: Sequence[Any], columns: Iterable[Any], every: int = 2) -> list[tuple[Any, Any]]:
    """Every n-th pair, so that each row and each column is taken; all pairs where seeds are many."""
    pairs = list(itertools.product(enumerate(rows), enumerate(columns)))
    few = [(row, column) for (i, row), (j, column) in pairs if (i + j) % every == 0]
    return few if _TIMES <= 1 else [(row, column) for (_, row), (_, column) in pairs]
