"""Compile what a command will need before it reads anything, on several cores: so its first run takes less long.

In:  names of kernels, and what they are called with.   Out: compiled kernels, in the cache on disk (`kernels`).

Numba compiles one kernel at a time in a process. So there are processes that help: all take names of kernels from one
pipe until it is empty, and what the others compiled is loaded from the cache. Where a helper can't be had, or fails,
kernels are compiled when they are called, as any other is. A helper sees no data, says nothing, and ends after the
kernel it is at when its parent is gone.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from bayesgram.cores import CORES
from bayesgram.kernels import AS_PYTHON

MOST_PROCESSES = 3  # each takes 0.7 s before it compiles anything, and some 200 MB
PATIENCE = 60  # seconds that a helper has for its last kernel

# What kernels are called with (`machine_code.ARGUMENTS`); those that take longest first, so that nobody waits long.
TOKENS = {
    "text.scan.rows_to_normalise": "bytes! integers! bytes",
    "text.strings._find_strings": "bytes ids bytes integers table",
    "text.strings._add_strings": "bytes! integers! ids bytes integers table int",
    "text.slots._spread": "table int",
    "text.row_hashes.hash_long_rows": "bytes ids integers hashes int",
}
SCANNERS = {
    kind: {f"text.{module}.scan_{kind}": "bytes! integers! bytes ids bytes ids"}
    for kind, module in {"words": "scan", "messages": "messages", "whitespace": "scan", "characters": "scan"}.items()
}
WINDOWS = {
    "text.windows._bound_windows": "ids int int int bytes int int",
    "text.windows.keys_reaching": "ids int int int bytes int int",
    "text.window_index._index_rows": "rows int table",
    "text.window_index._find_keys": "table ids integers ids ids table",
}
VOCABULARY = TOKENS | WINDOWS | {"text.windows._count_keys": "table table int int"}
COUNTS = {
    "private.csr._merge": "integers integers integers int",
    **TOKENS,
    **WINDOWS,
    "text.strings.hash_rows": "bytes integers",
    "private.csr._by_user": "ids ids ids int int",
    "private.csr.are_csr": "integers ids ids int int",
    "private.streaming._partition": "ids ids hashes integers ids ids",
    "private.streaming._add_sizes": "ids hashes integers",
    "private.csr.in_order": "ids ids",
}
KERNELS = VOCABULARY | COUNTS | {name: types for each in SCANNERS.values() for name, types in each.items()}


def for_text(kernels: dict[str, str], tokenizer: str) -> list[str]:
    """The names of these kernels, and of the one that cuts text."""
    return [*SCANNERS.get(tokenizer, {}), *kernels]


def compile_ahead(names: Sequence[str], *, processes: int = min(CORES, MOST_PROCESSES)) -> None:
    """Have these kernels compiled, if there are several that are not."""
    if AS_PYTHON or processes < 2 or os.name != "posix":
        return
    from bayesgram.machine_code import is_compiled, say_why_it_takes_longer  # noqa: PLC0415 - 0.2 s

    missing = [name for name in names if not is_compiled(*_kernel(name))]
    if len(missing) < 2:
        return
    say_why_it_takes_longer()
    queue, filled = os.pipe()
    os.write(filled, bytes(range(len(missing))))
    os.close(filled)
    helpers = [helper for _ in range(processes - 1) if (helper := _helper(queue, missing))]
    try:
        _compile(queue, missing)
    finally:
        os.close(queue)
        for helper in helpers:
            _await(helper)


def _kernel(name: str) -> tuple[Any, str]:
    """A kernel, and what it is called with."""
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"bayesgram.{module}"), function), KERNELS[name]


def _compile(queue: int, names: Sequence[str], is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Compile what is left in the queue: a byte is the place of a name, and a byte is read by one process only."""
    from bayesgram.machine_code import compile_for  # noqa: PLC0415 - 0.2 s

    while is_wanted() and (place := os.read(queue, 1)):
        compile_for(*_kernel(names[place[0]]))


def _helper(queue: int, names: Sequence[str]) -> "subprocess.Popen[bytes] | None":
    """A process that compiles as well; it finds the package as we did, but for what lies in the current folder."""
    command = [sys.executable, "-P", "-m", "bayesgram.compiling", str(queue), *names]
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, pass_fds=[queue])  # noqa: S603
    except OSError:
        return None


def _await(helper: "subprocess.Popen[bytes]") -> None:
    try:
        helper.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        helper.kill()
        helper.wait()


def main() -> None:
    """What a helper does."""
    gc.disable()  # a tenth of the time that it would take
    parent = os.getppid()
    _compile(int(sys.argv[1]), sys.argv[2:], lambda: os.getppid() == parent)


if __name__ == "__main__":
    main()
