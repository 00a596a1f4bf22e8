"""Compile inner loops with Numba, all with the same options; small kernels that others share.

Kernels are compiled when they are called for the first time, and cached on disk. They release the
GIL, so that threads run them side by side, and use no fast-math: the same input gives the same
bits on every run.

With NUMBA_DISABLE_JIT=1 they run as Python, hundreds of times slower, so that coverage sees their
lines and a debugger their variables. Integers are the same bits then; logarithms and exponentials
may differ in the last bit.
"""

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, vectorize
from numba.core import event  # its "Event API" is documented

Function = TypeVar("Function", bound=Callable[..., Any])

# Whether kernels run as Python: what Numba makes of the variable.
AS_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "").strip() not in {"", "0"}


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
    """Return the function with 64-bit arithmetic that wraps silently, as compiled code does."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the kernel takes and returns
        with np.errstate(over="ignore"):
            return function(*args, **kwargs)

    return cast("Function", call)


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
    """Compile a function of numbers that also takes arrays, and may be called from kernels.

    Args:
        signature: The types of the result and of the arguments: "float64(float64, float64)".
    """
    if AS_PYTHON:
        output_type = np.dtype(signature.split("(", maxsplit=1)[0])
        return lambda function: np.vectorize(_as_python(function), [output_type])
    return cast("Callable[[Callable[..., Any]], Any]", vectorize([signature], cache=True))  # type: ignore[no-untyped-call]


@inlined
def signed(number: Any) -> int:  # noqa: ANN401 - any integer
    """Return an integer as a signed 64-bit one. Numba would turn signed + unsigned into a float."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def copy_part(source: Any, start: int, end: int, out: Any, out_start: int) -> None:  # noqa: ANN401 - any arrays
    """Copy source[start:end] to out[out_start:].

    An assignment of slices takes Numba two seconds to compile.
    """
    for index in range(end - start):
        out[out_start + index] = source[start + index]


@inlined
def longest_row(starts: Any) -> int:  # noqa: ANN401 - an array of integers
    """Return the length of the longest row, where row i is from starts[i] to starts[i + 1].

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


@inlined
def read_uint64(data: Any, at: Any) -> np.uint64:  # noqa: ANN401 - an array of bytes, and any integer
    """Return the eight bytes from data[at] on as one number, the first of them lowest.

    The caller makes sure that all eight exist. LLVM makes one load of it: a Numba intrinsic that
    loads all at once, and one that prefetches slots of hash tables, were not worth their code
    (without them vocab takes 0.99, count 1.00 and CSV reading 1.04 of the processor time).
    """
    first = np.uint64(at)  # unsigned, so that no index is counted from the end of the array
    value = np.uint64(data[first])
    value |= np.uint64(data[first + np.uint64(1)]) << np.uint64(8)
    value |= np.uint64(data[first + np.uint64(2)]) << np.uint64(16)
    value |= np.uint64(data[first + np.uint64(3)]) << np.uint64(24)
    value |= np.uint64(data[first + np.uint64(4)]) << np.uint64(32)
    value |= np.uint64(data[first + np.uint64(5)]) << np.uint64(40)
    value |= np.uint64(data[first + np.uint64(6)]) << np.uint64(48)
    value |= np.uint64(data[first + np.uint64(7)]) << np.uint64(56)
    return value
