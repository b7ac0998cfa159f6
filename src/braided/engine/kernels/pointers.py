"""How kernels are declared and compiled, and how they read arrays by address.

A kernel declares the types that it is called with. Numba compiles it for them when it is first called, or
when `warm_up` asks for all of them; other types work, too, and are compiled at their first call.

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
from numba import extending, njit, types
from numba.core import cgutils

from braided.engine.kernels.argument_types import LONG

intrinsic: Any = extending.intrinsic  # as typed it asks callers for the typing context
inlined = njit(nogil=True, inline="always", error_model="numpy")
KERNELS: list[tuple[Any, tuple[Any, ...]]] = []  # all there are, each with its signatures


def kernel(*signatures: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Any]:
    """Declare a compiled function, kept on disk for as long as no kernel file changes."""

    def declare(function: Callable[..., Any]) -> Any:
        compiled = njit(nogil=True, cache=True, error_model="numpy")(function)
        file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
        if file is not None:  # where nothing can be written there is none
            file._source_stamp = f"{file._source_stamp} {digest()}"
        KERNELS.append((compiled, signatures))
        return compiled

    return declare


@functools.cache
def digest() -> str:
    """Return a digest of all kernel files; it changes when any of them does."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@intrinsic
def load_like(typing_context: Any, array: Any, address: Any, index: Any) -> Any:
    """Load a value of the array's type, by its index from an address on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[1], context.get_value_type(array.dtype).as_pointer())
        return builder.load(builder.gep(pointer, [arguments[2]]))

    return array.dtype(array, LONG, LONG), generate


def _loader(bits: int) -> Any:
    """Make a load of integers of this width, as 64-bit ones."""

    def load(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(builder.gep(pointer, [arguments[1]]))
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return LONG(LONG, LONG), generate

    return intrinsic(load)


load_int64, load_int32, load_int8 = _loader(64), _loader(32), _loader(8)


@intrinsic
def lowest_bit(typing_context: Any, bits: Any) -> Any:
    """Return the place of the lowest bit that is set; there must be one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return LONG(LONG), generate


@intrinsic
def copy_bytes(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy bytes from one address to another; they do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = [builder.inttoptr(at, ir.IntType(8).as_pointer()) for at in arguments[:2]]
        raw_memcpy: Any = cgutils.raw_memcpy
        raw_memcpy(builder, *places, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(LONG, LONG, LONG), generate
