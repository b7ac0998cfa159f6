"""Saving and loading the fields of an object that it declares by name."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def save_fields(of: object, names: Iterable[str]) -> dict[str, Any]:
    """Some fields of an object as plain values, by name."""
    values = {name: getattr(of, name) for name in names}
    return {name: v.tolist() if isinstance(v, np.ndarray) else copy.copy(v) for name, v in values.items()}


def load_fields(of: object, names: Iterable[str], saved: Mapping[str, Any]) -> None:
    """Set fields to what `save_fields` saved."""
    for name in names:
        setattr(of, name, copy.copy(saved[name]))
