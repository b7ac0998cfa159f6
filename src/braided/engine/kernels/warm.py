"""Compiling all kernels before they are needed.

Numba keeps compiled code beside the source, or in `NUMBA_CACHE_DIR`, or, where neither can be
written, in the user's cache directory; if none can be written, kernels are compiled in memory.
"""

from __future__ import annotations

import time

from braided.engine.kernels import alternate, checksum, closing, counting, gather, partners, probe
from braided.engine.kernels.pointers import KERNELS

# they and what they import declare all kernels
_DECLARING = alternate, checksum, closing, counting, gather, partners, probe


def warm_up() -> float:
    """Compile every kernel, or load it from the cache; return the seconds it took.

    Run it once when a machine or image is set up, so that no job waits for compilation.
    """
    began = time.perf_counter()
    for kernel, signatures in KERNELS:
        for signature in signatures:
            kernel.compile(signature)
    return time.perf_counter() - began
