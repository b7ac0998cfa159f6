"""Numba functions on flat arrays; nothing else. `warm_up` compiles them to the on-disk cache."""

from __future__ import annotations

from braided.engine.kernels.warm import warm_up

__all__ = ["warm_up"]
