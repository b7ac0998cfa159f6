"""How many random cases the tests that compare with an oracle take: few here, many in `make seeds`."""

from __future__ import annotations

import math
import os

_TIMES = float(os.environ.get("BRAIDED_SEEDS", "1"))


def seeds(count: int) -> range:
    """So many seeds, times the environment's `BRAIDED_SEEDS`."""
    return range(math.ceil(count * _TIMES))
