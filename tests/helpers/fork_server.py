"""Run Python programs in forks of a process that has loaded the libraries already.

A new Python needs a second or two to load NumPy, Arrow, SciPy and Numba; a fork of a process that
has them needs a few milliseconds. A `ForkServer` is such a process. For each program it forks, and
the fork becomes that program: its arguments, folder, environment, standard streams and exit are
those of `python PROGRAM ARGUMENTS`.

`run` and `run_code` use one server for the whole test process, which has loaded nothing of
Bayesgram. Where the environment differs in a variable that libraries read when they are loaded, the
program gets a Python of its own; so it does on systems other than Linux. `faults/harness.py` starts a server with its fault shim, and lets
it run commands itself first (`warm_up`).

This file is also the server's program; requests and answers are lines of JSON.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LIBRARIES = (
    "dp_accounting",
    "fractions",
    "numba",
    "numpy",
    "opendp.prelude",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.json",
    "pyarrow.parquet",
    "rich.console",
    "rich.progress",
    "rich.table",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.special",
    "scipy.stats",
    "sqlite3",
    "typer.rich_utils",
)
# Beginnings of the variables that libraries read when they are loaded.
LOADING_VARIABLES = (
    *("PYTHON", "NUMBA", "OPENBLAS", "OMP", "MKL", "ARROW"),
    *("COVERAGE", "LD_", "MALLOC", "LC_", "LANG"),
)
LIMIT_SECONDS = 600.0  # a busy machine compiles kernels for minutes
POLL_SECONDS = 0.001


# --- The client ---


@dataclass(frozen=True)
class ProgramResult:
    """How a program in a fork ended."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool


class ForkServer:
    """A server process, which ends when it is closed."""

    def __init__(self, environment=None, python_options=()):
        """Start it in this environment (default: that of this process)."""
        self._process = subprocess.Popen(
            [sys.executable, *python_options, Path(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | (environment or {}),
            text=True,
            start_new_session=True,
        )

    def run(
        self,
        program,
        *arguments,
        cwd,
        environment,
        limit_seconds=LIMIT_SECONDS,
        end_signal=signal.SIGABRT,
        encoding="utf-8",
    ):
        """Run a program in a fork to its end, or until `end_signal` ends it after `limit_seconds`."""
        with tempfile.TemporaryDirectory() as output:
            streams = (Path(output, "stdout"), Path(output, "stderr"))
            for path in streams:
                path.touch()  # a fork may be killed before it opens them
            answer = self._ask(
                {
                    "argv": [str(program), *map(str, arguments)],
                    "cwd": str(cwd),
                    "environment": environment,
                    "output": output,
                    "limit_seconds": limit_seconds,
                    "end_signal": int(end_signal),
                }
            )
            stdout, stderr = (path.read_text(encoding=encoding) for path in streams)
        return ProgramResult(stdout=stdout, stderr=stderr, **answer)

    def warm_up(self, program, *arguments, cwd):
        """Run a program in the server itself, so that its modules and kernels are loaded in every
        fork.
        """
        self._ask({"argv": [str(program), *map(str, arguments)], "cwd": str(cwd)})

    def _ask(self, request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the fork server died"
        return json.loads(answer)

    def close(self):
        """End the server."""
        self._process.communicate()


def run(program, *arguments, cwd, **environment):
    """Run a Python program to its end; `environment` is added to that of this process."""
    environment = os.environ | environment
    argv = [str(program), *map(str, arguments)]
    if sys.platform != "linux" or loading_variables(environment) != LOADED_WITH:
        return subprocess.run(
            [sys.executable, *argv],  # a program of Windows (.exe) that pip made is a zip of Python
            cwd=cwd,
            env=({} if sys.platform == "linux" else {"PYTHONUTF8": "1"}) | environment,
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT_SECONDS,
            check=False,
        )
    result = shared_server().run(program, *arguments, cwd=cwd, environment=environment)
    if result.timed_out:
        raise subprocess.TimeoutExpired(argv, LIMIT_SECONDS, result.stdout, result.stderr)
    return subprocess.CompletedProcess(argv, result.returncode, result.stdout, result.stderr)


def run_code(code, *, cwd, **environment):
    """Run a Python program that is given as text."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(code, encoding="utf-8")
        return run(program, cwd=cwd, **environment)


def loading_variables(environment):
    """Return the variables that libraries may have read when they were loaded."""
    return {
        name: value for name, value in environment.items() if name.startswith(LOADING_VARIABLES)
    }


LOADED_WITH = loading_variables(os.environ)


@cache
def shared_server():
    """Return the server of this test process, which ends with it."""
    server = ForkServer(LOADED_WITH)
    atexit.register(server.close)
    return server


# --- The server ---


def serve():
    """Answer requests. Returns in a fork, with the request that it is to carry out."""
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.freeze()
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever is printed here is no answer
    for line in sys.stdin:
        request = json.loads(line)
        if "output" not in request:
            answer = run_here(request)
        else:
            started = time.monotonic()
            child = os.fork()
            if not child:
                os.close(answers)
                return request
            answer = wait_for(child, started, request)
        os.write(answers, (json.dumps(answer) + "\n").encode())
    return None


def run_here(request):
    """Run a program in the server itself."""
    os.chdir(request["cwd"])
    server_argv = sys.argv
    sys.argv = request["argv"]
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        runpy.run_path(sys.argv[0], run_name="__main__")
    sys.argv = server_argv
    return {}


def wait_for(child, started, request):
    """Wait for a fork to end, or end it; describe how it went."""
    timed_out = False
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if not timed_out and time.monotonic() > started + request["limit_seconds"]:
            timed_out = True
            os.kill(child, request["end_signal"])
        time.sleep(POLL_SECONDS)
    _, status = os.waitpid(child, 0)
    return {
        "returncode": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - started,
        "timed_out": timed_out,
    }


def become(request):
    """Be the requested program from here on."""
    output = Path(request["output"])
    streams = [
        (os.devnull, os.O_RDONLY),
        (output / "stdout", os.O_WRONLY),
        (output / "stderr", os.O_WRONLY),
    ]
    for descriptor, (path, flags) in enumerate(streams):
        os.dup2(os.open(path, flags, 0o600), descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # as the environment has it
    sys.argv = request["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    program_request = serve()
    if program_request:
        become(program_request)
