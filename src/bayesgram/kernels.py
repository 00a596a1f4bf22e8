"""Compile a function to machine code: typed decorators around Numba, with one set of options.

Kernels are cached on disk, release the GIL (so threads run them side by side) and use no fast-math: the same input
gives the same bits on every run.

With NUMBA_DISABLE_JIT=1 they run as Python, hundreds of times slower: so that coverage sees their lines and a debugger
their variables. Whole numbers are the same bits then; logarithms and exponentials may differ in their last.
"""

import logging
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

# No second entry for callers in C: nobody calls kernels from there, and it takes time to compile.
OPTIONS: Any = {"nogil": True, "no_cfunc_wrapper": True}
AS_PYTHON = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]


class _Contents(CompileResultCacheImpl):
    """What is kept of a kernel."""

    def reduce(self, cres: Any) -> Any:  # noqa: ANN401 - types of Numba
        """All of it, but for environments without constants: kernels don't use them, and np.cumsum's imports scipy."""
        *kept, environments = super().reduce(cres)  # type: ignore[no-untyped-call]
        return *kept, tuple(environment for environment in environments if environment.consts)


class _Cache(FunctionCache):
    """Compiled kernels on disk. Numba's own would first load all that it needs to compile: half a second, each time."""

    _impl_class = _Contents

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401 - types of Numba
        """A kernel that was compiled before, or None."""
        try:
            _link_runtime()
            loaded = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except (AttributeError, ImportError, OSError):  # another Numba, or a file that another process is writing
            loaded = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if loaded is None:
            say_why_it_takes_longer()
        return loaded

    def has(self, sig: Any, target_context: Any) -> bool:  # noqa: ANN401 - types of Numba
        """Whether a kernel was compiled before; also where another Numba does not tell."""
        try:
            key = self._index_key(sig, target_context.codegen())  # type: ignore[no-untyped-call]
            return key in self._cache_file._load_index()  # type: ignore[no-untyped-call]  # noqa: SLF001
        except (AttributeError, ImportError, OSError):
            return True


@cache
def say_why_it_takes_longer() -> None:
    """Once, however many kernels are compiled."""
    logging.getLogger(__name__).info("Compiling inner loops that are used for the first time: some seconds, once.")


@cache
def _link_runtime() -> None:
    """Tell LLVM where the functions are that give memory for arrays: all that a compiled kernel needs."""
    from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]  # noqa: PLC0415 - another Numba may lack it

    for name, address in _nrt_python.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


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
    compiled: Any = numba.njit(**OPTIONS)(function)
    compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]  # noqa: SLF001 - what cache=True does
    return cast("Function", compiled)


# Names for what kernels are called with: numbers, and arrays as NumPy makes them; with a ! nobody may write to them.
ARGUMENTS: dict[str, Any] = {
    "int": types.int64,
    "bytes": types.uint8[::1],
    "bytes!": types.Array(types.uint8, 1, "C", readonly=True),
    "ids": types.int32[::1],
    "integers": types.int64[::1],
    "integers!": types.Array(types.int64, 1, "C", readonly=True),
    "hashes": types.uint64[::1],
    "rows": types.int32[:, ::1],
    "table": types.uint64[:, ::1],
}


def _types(arguments: str) -> tuple[Any, ...]:
    return tuple(ARGUMENTS[name] for name in arguments.split())


def compile_for(kernel: Any, arguments: str) -> None:  # noqa: ANN401 - a kernel
    """Compile a kernel for what it will be called with, such as "ids ids int", or load it."""
    kernel.compile(_types(arguments))


def is_compiled(kernel: Any, arguments: str) -> bool:  # noqa: ANN401 - a kernel
    """Whether that was done before, in this process or another; not whether it was for an older source."""
    compiled: bool = kernel._cache.has(_types(arguments), kernel.targetctx)  # noqa: SLF001
    return compiled


def step(function: Function) -> Function:
    """A step of a few numbers, no arrays: compiled once, and pasted into the machine code of kernels that call it."""
    if AS_PYTHON:
        return _as_python(function)
    return cast("Function", numba.njit(**OPTIONS, forceinline=True)(function))


def inlined(function: Function) -> Function:
    """A step that is pasted into the Python of kernels that call it: 20 ms each time, when they are compiled."""
    if AS_PYTHON:
        return _as_python(function)
    return cast("Function", numba.njit(cache=True, nogil=True, inline="always")(function))


def on_arrays(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """A function of numbers that takes arrays of them as well, one by one, and may be called from kernels."""
    if AS_PYTHON:
        answers = np.dtype(signature.split("(", maxsplit=1)[0])
        return lambda function: np.vectorize(_as_python(function), [answers])
    return cast("Callable[[Callable[..., Any]], Any]", numba.vectorize([signature], cache=True))  # type: ignore[no-untyped-call]


@inlined
def signed(number: Any) -> int:  # noqa: ANN401 - any whole number
    """A whole number as one of 64 bits with a sign: together with one without, Numba would make it a float."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def copy_part(source: Any, start: int, end: int, out: Any, at: int) -> None:  # noqa: ANN401 - any arrays
    """Copy source[start:end] to out[at:]: where slices are assigned, Numba compiles a text about shapes, for 2 s."""
    for place in range(end - start):
        out[at + place] = source[start + place]


@step
def mix(value: np.uint64) -> np.uint64:
    """Spread 64 bits (the finaliser of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:  # noqa: ANN401 - types of LLVM
    """Where the byte of an array is that comes so many after its first."""
    first = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(first, ir.IntType(8).as_pointer()), [offset])


def _prefetch(_context: Any, table: Any, row: Any) -> Any:  # noqa: ANN401, ARG001 - types of Numba
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        offset = builder.mul(builder.extract_value(array.strides, 0), arguments[1])
        address, flag = _address(context, builder, signature.args[0], arguments[0], offset), ir.IntType(32)
        function = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        called = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        builder.call(called, [address, flag(1), flag(3), flag(1)])  # to write, keep in all caches, data
        return context.get_dummy_value()

    return types.void(table, types.int64), generate


def _eight_bytes(_context: Any, data: Any, at: Any) -> Any:  # noqa: ANN401, ARG001 - types of Numba
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


def _prefetch_nothing(table: Any, row: Any) -> None:  # noqa: ANN401 - as the compiled one
    """Python fetches for itself."""


def _eight_bytes_as_python(data: Any, at: Any) -> np.uint64:  # noqa: ANN401 - as the compiled one
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))


# prefetch(table, row): ask the processor for a row of a two-dimensional array that will be needed soon; no wait.
prefetch = cast("Callable[[Any, Any], None]", _prefetch_nothing if AS_PYTHON else intrinsic(_prefetch))

# eight_bytes(data, at): eight bytes of an array as one number, the first of them lowest where the processor has it so,
# as all that Numba compiles for do; the caller sees to it that they are there.
eight_bytes = cast("Callable[[Any, Any], np.uint64]", _eight_bytes_as_python if AS_PYTHON else intrinsic(_eight_bytes))
