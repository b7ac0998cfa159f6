"""Save, load and remember the fields of an object that it declares by name."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np


def save_fields(of: object, names: Iterable[str]) -> dict[str, Any]:
    """Return some fields of an object as plain values, by name."""
    values = {name: getattr(of, name) for name in names}
    return {name: v.tolist() if isinstance(v, np.ndarray) else copy.copy(v) for name, v in values.items()}


def remember_fields(of: object, names: Iterable[str]) -> Callable[[], None]:
    """Remember some fields of an object as they are now; calling the answer goes back to them."""
    values = {name: getattr(of, name) for name in names}
    before = {name: copy.copy(v) if isinstance(v, dict | list) else v for name, v in values.items()}
    return lambda: vars(of).update(before)


def load_fields(of: object, names: Iterable[str], saved: Mapping[str, Any]) -> None:
    """Set fields to what `save_fields` saved."""
    for name in names:
        setattr(of, name, copy.copy(saved[name]))
