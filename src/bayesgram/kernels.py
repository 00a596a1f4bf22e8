"""Typed decorators around Numba, so that all inner loops are compiled with one set of options.

Kernels are compiled when they are called for the first time and cached on disk. They release the GIL, so that threads
run them side by side, and use no fast-math: the same input gives the same bits on every run.

With NUMBA_DISABLE_JIT=1 they run as Python, hundreds of times slower, so that coverage sees their lines and a debugger
their variables. Integers are the same bits then; logarithms and exponentials may differ in the last one.
"""

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types, vectorize
from numba.core import event  # its "Event API" is documented
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

AS_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "").strip() not in {"", "0"}  # as Numba reads it


class _CompilationNotice(event.Listener):
    """Logs once why the first run takes longer, however many kernels are compiled."""

    logged = False

    def on_start(self, _event: event.Event) -> None:
        if not self.logged:
            self.logged = True
            message = "Compiling inner loops that are used for the first time: some seconds, once."
            logging.getLogger(__name__).info(message)

    def on_end(self, _event: event.Event) -> None:
        pass


event.register("numba:compile", _CompilationNotice())  # type: ignore[no-untyped-call]


def _as_python(function: Function) -> Function:
    """Return the function itself, with 64-bit arithmetic that wraps around silently, as it does when compiled."""

    @wraps(function)
    def wrapping(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the kernel takes and returns
        with np.errstate(over="ignore"):
            return function(*arguments, **named)

    return cast("Function", wrapping)


def kernel(function: Function) -> Function:
    """Compile a loop that is called from Python or from other kernels."""
    if AS_PYTHON:
        return _as_python(function)
    return cast("Function", njit(cache=True, nogil=True)(function))


def inlined(function: Function) -> Function:
    """Compile a step that is pasted into the kernels that call it."""
    if AS_PYTHON:
        return _as_python(function)
    return cast("Function", njit(cache=True, nogil=True, inline="always")(function))


def on_arrays(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function of numbers that also takes arrays of them, and may be called from kernels."""
    if AS_PYTHON:
        output_type = np.dtype(signature.split("(", maxsplit=1)[0])
        return lambda function: np.vectorize(_as_python(function), [output_type])
    return cast("Callable[[Callable[..., Any]], Any]", vectorize([signature], cache=True))  # type: ignore[no-untyped-call]


@inlined
def signed(number: Any) -> int:  # noqa: ANN401 - any integer
    """Return an integer as a signed one of 64 bits. Numba would turn signed + unsigned into a float."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def copy_part(source: Any, start: int, end: int, out: Any, at: int) -> None:  # noqa: ANN401 - any arrays
    """Copy source[start:end] to out[at:]. An assignment of slices takes Numba two seconds to compile."""
    for place in range(end - start):
        out[at + place] = source[start + place]


@inlined
def longest_row(starts: Any) -> int:  # noqa: ANN401 - an array of integers
    """Return the length of the longest row, of rows from starts[i] to starts[i + 1].

    np.diff(starts).max() takes Numba two seconds to compile.
    """
    longest = 0
    for row in range(starts.size - 1):
        longest = max(longest, starts[row + 1] - starts[row])
    return longest


@kernel
def mix(value: np.uint64) -> np.uint64:
    """Spread 64 bits (the finaliser of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:  # noqa: ANN401 - types of LLVM
    """Return the address of the byte of an array that comes `offset` bytes after its first."""
    first = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(first, ir.IntType(8).as_pointer()), [offset])


def _prefetch(_context: Any, table: Any, row: Any) -> Any:  # noqa: ANN401, ARG001 - types of Numba
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        offset = builder.mul(builder.extract_value(array.strides, 0), arguments[1])
        address = _address(context, builder, signature.args[0], arguments[0], offset)
        flag = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch.p0", (), function_type)
        builder.call(
            function, [address, flag(1), flag(3), flag(1)]
        )  # to write, keep in all caches, data
        return context.get_dummy_value()

    return types.void(table, types.int64), generate


def _eight_bytes(_context: Any, data: Any, at: Any) -> Any:  # noqa: ANN401, ARG001 - types of Numba
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


if AS_PYTHON:

    def prefetch(table: Any, row: Any) -> None:  # noqa: ANN401 - arrays of all types
        """Ask the processor for a row of a two-dimensional array that will be needed soon, without waiting for it."""

    def eight_bytes(data: Any, at: Any) -> np.uint64:  # noqa: ANN401 - arrays of all types
        """Return eight bytes of an array as one number, the first of them lowest.

        The caller makes sure that all eight exist.
        """
        return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))

else:
    prefetch: Any = intrinsic(_prefetch)  # type: ignore[no-redef]
    eight_bytes: Any = intrinsic(_eight_bytes)  # type: ignore[no-redef]
