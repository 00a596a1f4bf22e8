"""Compile a function to machine code: typed decorators around Numba, with one set of options.

Kernels are cached on disk, release the GIL (so threads run them side by side) and use no fast-math: the same input
gives the same bits on every run.

With NUMBA_DISABLE_JIT=1 they run as Python, hundreds of times slower: so that coverage sees their lines and a debugger
their variables. Whole numbers are the same bits then; logarithms and exponentials may differ in their last. So they run
inside `interpreting`, too, for who has no more than a handful of numbers.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper, wraps
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

AS_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "").strip() not in {"", "0"}  # as Numba reads it
_ONE_AT_A_TIME = RLock()  # threads that ask for machine code


class _State:
    interpreting = False


def interpreted() -> bool:
    """Whether kernels run as Python for a while."""
    return _State.interpreting


@contextmanager
def interpreting(*, wanted: bool = True) -> Iterator[None]:
    """Run kernels as Python for a while: less long than it takes to load Numba, if that is not loaded, 0.2 s.

    For a process with one thread: all of them would run so.
    """
    before, _State.interpreting = _State.interpreting, wanted and "numba" not in sys.modules
    try:
        with np.errstate(over="ignore"):  # sums and products of 64 bits wrap in silence, as they do when compiled
            yield
    finally:
        _State.interpreting = before


class Kernel:
    """A function that Numba has from its first call on, or from that of a kernel that calls it. Else it is not loaded.

    To Numba it is what `machine_code` makes of it: it has its attributes, its type among them.
    """

    def __init__(self, function: Callable[..., Any], kind: str) -> None:
        update_wrapper(self, function)
        self._function, self._kind, self._made = function, kind, None

    @property
    def made(self) -> Any:  # noqa: ANN401 - types of Numba
        """What Numba knows; other kernels, as these are called by it, may be asked for on the way."""
        if self._made is None:
            from bayesgram import machine_code  # noqa: PLC0415 - 0.2 s

            with _ONE_AT_A_TIME:
                if self._made is None:
                    self._made = getattr(machine_code, self._kind)(self._function)
        return self._made

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the kernel takes and gives
        """What the machine code answers, or Python."""
        return (self._function if _State.interpreting else self.made)(*arguments, **named)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - attributes of Numba's
        if name.startswith("__"):  # Python asks for these of any object
            raise AttributeError(name)
        return getattr(self.made, name)

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[no-any-return]  # travels by its name, as functions do


class Instruction(Kernel):
    """One that there is in kernels alone."""

    @property
    def _numba_type_(self) -> Any:  # noqa: ANN401 - types of Numba
        from bayesgram import machine_code  # noqa: PLC0415 - 0.2 s

        return machine_code.type_of(self.made)


def _as_python(function: Function) -> Function:
    """The function as it is, where sums and products of 64 bits wrap in silence, as they do when it is compiled."""

    @wraps(function)
    def wrapping(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the kernel takes and gives
        with np.errstate(over="ignore"):
            return function(*arguments, **named)

    return cast("Function", wrapping)


def kernel(function: Function) -> Function:
    """A loop that is called from Python or from other kernels."""
    if AS_PYTHON:
        return _as_python(function)
    return cast("Function", Kernel(function, "kernel"))


def step(function: Function) -> Function:
    """A step of a few numbers, no arrays: compiled once, and pasted into the machine code of kernels that call it."""
    if AS_PYTHON:
        return _as_python(function)
    return cast("Function", Kernel(function, "step"))


def inlined(function: Function) -> Function:
    """A step that is pasted into the Python of kernels that call it: 20 ms each time, when they are compiled."""
    if AS_PYTHON:
        return _as_python(function)
    return cast("Function", Kernel(function, "inlined"))


def on_arrays(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """A function of numbers that takes arrays of them as well, one by one, and may be called from kernels."""
    if AS_PYTHON:
        answers = np.dtype(signature.split("(", maxsplit=1)[0])
        return lambda function: np.vectorize(_as_python(function), [answers])
    from bayesgram import machine_code  # noqa: PLC0415 - 0.2 s

    return machine_code.on_arrays(signature)


@inlined
def signed(number: Any) -> int:  # noqa: ANN401 - any whole number
    """A whole number as one of 64 bits with a sign: together with one without, Numba would make it a float."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def copy_part(source: Any, start: int, end: int, out: Any, at: int) -> None:  # noqa: ANN401 - any arrays
    """Copy source[start:end] to out[at:]: where slices are assigned, Numba compiles a text about shapes, for 2 s."""
    for place in range(end - start):
        out[at + place] = source[start + place]


@inlined
def longest_row(starts: Any) -> int:  # noqa: ANN401 - an array of whole numbers
    """The most that a row has, of rows from starts[i] to starts[i + 1]; np.diff(starts).max() compiles for 2 s."""
    longest = 0
    for row in range(starts.size - 1):
        longest = max(longest, starts[row + 1] - starts[row])
    return longest


@step
def mix(value: np.uint64) -> np.uint64:
    """Spread 64 bits (the finaliser of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _instruction(function: Function) -> Function:
    """What kernels do in one instruction; here it is as Python."""
    return function if AS_PYTHON else cast("Function", Instruction(function, "instruction"))


@_instruction
def prefetch(table: Any, row: Any) -> None:  # noqa: ANN401 - arrays of all types
    """Ask the processor for a row of a two-dimensional array that will be needed soon; no wait. Not in Python."""


@_instruction
def eight_bytes(data: Any, at: Any) -> np.uint64:  # noqa: ANN401 - arrays of all types
    """Eight bytes of an array as one number, the first of them lowest where the processor has it so.

    All that Numba compiles for do; the caller sees to it that they are there.
    """
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))
