"""Memory that is free goes back to the system: allocators like to keep it, and a budget counts it."""

from __future__ import annotations

import contextlib
import ctypes
import functools

import pyarrow as pa

_MMAP_THRESHOLD = -3  # mallopt's name for: blocks of this size are mapped
_LARGE_BYTES, _LARGEST_BYTES = 1 << 18, 1 << 24
_LARGE_SHARE = 1 / 32  # of the limit: smaller blocks stay, since a page that is mapped again must be cleared


def give_back() -> None:
    """Ask Arrow's allocator and the C library to give back what they do not use."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError):  # not the GNU C library
        _library().malloc_trim(0)


@functools.cache
def free_at_once(limit: int) -> None:
    """From now on arrays that are large for this limit go back to the system when they are freed.

    Arrow's own allocator keeps several times what is used; and the C library, if it is not told a threshold,
    raises it with every large block that is freed, and keeps holes between smaller ones.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(AttributeError):
        large = int(min(_LARGEST_BYTES, max(_LARGE_BYTES, _LARGE_SHARE * limit)))
        _library().mallopt(_MMAP_THRESHOLD, large)


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
