"""A process that has everything loaded, and runs each command in a fork of itself, with one fault armed.

In: a request (JSON) a line on standard input.   Out: an answer a line on standard output.
Started with the shim preloaded. A start of Python takes a second, a fork a few milliseconds, so thousands of faults can
be tried; the child runs `bayesgram.cli.app.main`, as the real entry point does.
"""

import ctypes
import faulthandler
import importlib
import json
import mmap
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

KINDS = ("open", "read", "write", "fsync", "rename", "mkdir", "unlink", "alloc", "any")
LONGEST = 60.0  # seconds for one command, which takes one or less


def main():
    counts = mmap.mmap(-1, 8 * len(KINDS))
    numbers = (ctypes.c_long * len(KINDS)).from_buffer(counts)
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever is printed here is not an answer
    for line in sys.stdin:
        request = json.loads(line)
        if "warm" in request:
            answer = _warm(request)
        else:
            numbers[:] = [0] * len(KINDS)
            answer = _run(request, ctypes.addressof(numbers))
            answer["counts"] = dict(zip(KINDS, numbers, strict=True))
        os.write(answers, (json.dumps(answer) + "\n").encode())


def _warm(request):
    """Run a command here, so that its modules and kernels are loaded in every fork."""
    from bayesgram.cli.app import build_app

    os.chdir(request["cwd"])
    with Path(os.devnull).open("w") as nowhere:
        told, sys.stdout = sys.stdout, nowhere
        try:
            build_app()([str(argument) for argument in request["warm"]], standalone_mode=False)
        finally:
            sys.stdout = told
    return {}


def _run(request, counts):
    said = Path(request["said"])
    start = time.monotonic()
    child = os.fork()
    if not child:
        _child(request, counts, said)
    timed_out = not _ended(child, start + request.get("kill_after", LONGEST))
    hung = timed_out and "kill_after" not in request
    if timed_out:
        os.kill(child, signal.SIGABRT if hung else signal.SIGKILL)  # one that hangs says where
    _, status = os.waitpid(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - start,
        "hung": hung,
        "stdout": (said / "stdout").read_text(),
        "stderr": (said / "stderr").read_text(),
    }


def _ended(child, until):
    """Wait for a child to end, but not longer: it stays to be waited for."""
    while time.monotonic() < until:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return True
        time.sleep(0.001)
    return False


def _child(request, counts, said):
    code = 1
    try:
        _prepare(request, said)
        from bayesgram.cli.app import main as command_line

        _arm(request, counts)
        command_line()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as Python itself does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _prepare(request, said):
    from bayesgram import cores

    for descriptor, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, said / "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, said / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        os.dup2(os.open(name, flags, 0o600), descriptor)
    faulthandler.enable()
    os.chdir(request["cwd"])
    tempfile.tempdir = request["tmp"]
    cores._pool.cache_clear()  # its threads are not in this process
    for place, value in request.get("settings", {}).items():
        module, _, name = place.rpartition(".")
        setattr(
            importlib.import_module(module), name, eval(value) if isinstance(value, str) else value
        )
    sys.argv = ["bayesgram", *map(str, request["arguments"])]


def _arm(request, counts):
    fault = request.get("fault") or {"kind": "any", "at": 0}
    ctypes.CDLL(None).fault_arm(
        os.fsencode(request["folder"]),
        ctypes.c_void_p(counts),
        KINDS.index(fault["kind"]),
        ctypes.c_long(fault["at"]),
        fault.get("error", 0),
        int(fault.get("kills", False)),
        int(fault.get("stays", False)),
    )


if __name__ == "__main__":
    main()
