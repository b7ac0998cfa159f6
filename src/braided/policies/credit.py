"""Fractions of allowances carried over: 2.5 rows a batch are 2 and 3 by turns (jaqpot, mega cycles).

>>> first, credit = whole_rows({"a": 2.5}, {})
>>> second, credit = whole_rows({"a": 2.5}, credit)
>>> first, second, credit
({'a': 2}, {'a': 3}, {'a': 0.0})
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
_ROUNDING = 1e-9


def whole_rows(
    allowances: Mapping[K, float], credit: Mapping[K, float]
) -> tuple[dict[K, int], dict[K, float]]:
    """Whole rows that may probe now, and the fractions to add next time (always below one row)."""
    due = {key: allowed + credit.get(key, 0.0) for key, allowed in allowances.items()}
    rows = {key: math.floor(value + _ROUNDING) for key, value in due.items()}
    return rows, {key: max(0.0, value - rows[key]) for key, value in due.items()}
