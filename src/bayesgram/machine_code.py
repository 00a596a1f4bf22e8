"""Kernels as machine code: the part of `kernels` that needs Numba, and so waits for a call: it loads for 0.2 s."""

import logging
from collections.abc import Callable
from functools import cache
from pickle import UnpicklingError
from typing import Any, cast

import llvmlite.binding  # type: ignore[import-untyped]
import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.registry import cpu_target
from numba.extending import intrinsic

# No second entry for callers in C: nobody calls kernels from there, and it takes time to compile.
OPTIONS: Any = {"nogil": True, "no_cfunc_wrapper": True}


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
        except (AttributeError, ImportError, OSError, EOFError, ValueError, UnpicklingError):
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


def kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - types of Numba
    """See `kernels.kernel`."""
    compiled: Any = numba.njit(**OPTIONS)(function)
    compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]  # noqa: SLF001 - what cache=True does
    return compiled


def step(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - types of Numba
    """See `kernels.step`."""
    return numba.njit(**OPTIONS, forceinline=True)(function)


def inlined(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - types of Numba
    """See `kernels.inlined`."""
    return numba.njit(cache=True, nogil=True, inline="always")(function)


def on_arrays(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """See `kernels.on_arrays`."""
    return cast("Callable[[Callable[..., Any]], Any]", numba.vectorize([signature], cache=True))  # type: ignore[no-untyped-call]


def instruction(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - types of Numba
    """What `prefetch` and `eight_bytes` are in a kernel."""
    return INSTRUCTIONS[function.__name__]


def type_of(value: Any) -> Any:  # noqa: ANN401 - types of Numba
    """What Numba knows an instruction as."""
    return cpu_target.typing_context.resolve_value_type(value)


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


INSTRUCTIONS = {"prefetch": intrinsic(_prefetch), "eight_bytes": intrinsic(_eight_bytes)}  # before anything is compiled
