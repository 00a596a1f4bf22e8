"""Run a command with one fault armed: the program that the fork server of `harness` runs in its
forks.

Its argument is JSON. With `arguments` alone, the command is run as it is, in the server itself, to
load modules and kernels. With `root`, the fork arms the shim, which counts the calls on files below
that folder (in the file `counts`) and lets the named one fail, and runs the command line's entry
point.
"""

import ctypes
import faulthandler
import importlib
import json
import mmap
import os
import sys
import tempfile
import traceback
from pathlib import Path

# In the order of shim.c.
KINDS = ("open", "read", "write", "fsync", "rename", "mkdir", "unlink", "alloc", "any")
COUNTS_BYTES = ctypes.sizeof(ctypes.c_long) * len(KINDS)


def read_counts(path):
    """Return how often each kind of call was made, from the file that the shim counted in."""
    numbers = (ctypes.c_long * len(KINDS)).from_buffer_copy(path.read_bytes())
    return dict(zip(KINDS, numbers, strict=True))


def warm_up(arguments):
    """Run a command as it is."""
    from bayesgram.cli.app import build_app

    build_app()(arguments, standalone_mode=False)


def run_with_fault(request):
    """Run a command with the fault armed, and end the process as Python does."""
    # Python tries a temporary folder by writing a file of its own there; that is not what is tested.
    tempfile.tempdir = os.environ["TMPDIR"]
    code = 1
    try:
        _prepare(request)
        from bayesgram.cli.app import main as command_line

        sys.argv = ["bayesgram", *request["arguments"]]
        _arm(request)
        command_line()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as Python itself does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _prepare(request):
    from bayesgram import cores

    faulthandler.enable()  # a process that hangs is aborted, and says where it was
    cores._pool.cache_clear()  # its threads are not in this process
    for place, value in request["settings"].items():
        module, _, name = place.rpartition(".")
        setattr(
            importlib.import_module(module), name, eval(value) if isinstance(value, str) else value
        )


def _arm(request):
    global counts_map  # the shim writes to it until the process ends  # noqa: PLW0603
    with Path(request["counts"]).open("r+b") as file:
        counts_map = mmap.mmap(file.fileno(), COUNTS_BYTES)
    numbers = (ctypes.c_long * len(KINDS)).from_buffer(counts_map)
    fault = request["fault"] or {"kind": "any", "at": 0}
    ctypes.CDLL(None).fault_arm(
        os.fsencode(request["root"]),
        ctypes.c_void_p(ctypes.addressof(numbers)),
        KINDS.index(fault["kind"]),
        ctypes.c_long(fault["at"]),
        fault.get("error", 0),
        int(fault.get("kills", False)),
        int(fault.get("stays", False)),
    )


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    if "root" in spec:
        run_with_fault(spec)
    else:
        warm_up(spec["arguments"])
