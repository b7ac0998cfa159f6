"""Memory that is free goes back to the system: allocators like to keep it, and a budget counts it."""

from __future__ import annotations

import contextlib
import ctypes
import functools

import pyarrow as pa

_MMAP_THRESHOLD, _LARGE_BYTES = -3, 1 << 18  # mallopt's name for: blocks of this size are mapped


def give_back() -> None:
    """Ask Arrow's allocator and the C library to give back what they do not use."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError):  # not the GNU C library
        _library().malloc_trim(0)


@functools.cache
def free_at_once() -> None:
    """From now on large arrays of this process go back to the system when they are freed.

    Arrow's own allocator keeps several times what is used; and the C library, if it is not told a threshold,
    raises it with every large block that is freed, and keeps holes between smaller ones.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(AttributeError):
        _library().mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
