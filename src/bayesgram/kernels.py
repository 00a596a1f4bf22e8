"""Compile a function to machine code: typed decorators around Numba, with one set of options.

Kernels are cached on disk, release the GIL (so threads run them side by side) and use no fast-math: the same input
gives the same bits on every run.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """A loop that is called from Python or from other kernels."""
    return cast("Function", numba.njit(cache=True, nogil=True)(function))


def inlined(function: Function) -> Function:
    """A step that is pasted into the kernels that call it."""
    return cast("Function", numba.njit(cache=True, nogil=True, inline="always")(function))


@inlined
def mix(value: np.uint64) -> np.uint64:
    """Spread 64 bits (the finaliser of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
