"""How kernels are compiled, and how they read arrays by address.

Compiled code is kept on disk. Numba keeps it as long as the function's own file stays the same; but kernels
are built of parts that lie in other files, so here it is kept as long as *all* kernel files stay the same.

Addresses: a Numba function is compiled per argument type; a tuple of n arrays would mean one compilation per
n. Instead a kernel gets a small table of addresses (`SideTable` rows) and reads through it. Whoever
fills the table keeps the arrays alive for the call.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

inlined = njit(nogil=True, inline="always", error_model="numpy")


def kernel(function: Callable[..., Any]) -> Any:
    """A compiled function, kept on disk for as long as no kernel file changes."""
    compiled = njit(nogil=True, cache=True, error_model="numpy")(function)
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None:  # where nothing can be written there is none
        file._source_stamp = f"{file._source_stamp} {digest()}"
    return compiled


@functools.cache
def digest() -> str:
    """Of all kernel files; it changes when any of them does."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _loader(bits: int, result: Any) -> Any:
    def load(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(builder.gep(pointer, [arguments[1]]))
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return result(types.int64, types.int64), generate

    return load


load_int64 = intrinsic(_loader(64, types.int64))
load_int32 = intrinsic(_loader(32, types.int64))
load_int16 = intrinsic(_loader(16, types.int64))
load_int8 = intrinsic(_loader(8, types.int64))


def _lowest_bit(typing_context: Any, bits: Any) -> Any:
    """The place of the lowest bit that is set; there must be one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


lowest_bit: Any = intrinsic(_lowest_bit)


def _copy_bytes(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy bytes from one address to another; they do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = [builder.inttoptr(at, ir.IntType(8).as_pointer()) for at in arguments[:2]]
        raw_memcpy: Any = cgutils.raw_memcpy
        raw_memcpy(builder, *places, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


copy_bytes: Any = intrinsic(_copy_bytes)
