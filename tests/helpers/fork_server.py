"""Python programs in processes of their own that do not load NumPy, Arrow, SciPy … anew: a second or two for each.

In: the path of a program and its arguments.   Out: its exit code and what it said, as `subprocess.run` tells them.
A helper process has those libraries loaded, and nothing of Bayesgram. It forks for every program; the fork reads the
program's file and runs it to its end as Python does. Where variables differ that libraries look at when they are
loaded, a program gets a Python of its own.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

LIBRARIES = (
    *(
        "numpy",
        "numba",
        "pyarrow.parquet",
        "pyarrow.compute",
        "pyarrow.dataset",
        "pyarrow.csv",
        "pyarrow.json",
    ),
    *(
        "scipy.special",
        "scipy.stats",
        "scipy.optimize",
        "scipy.sparse.linalg",
        "dp_accounting",
        "opendp.prelude",
    ),
    *("typer.rich_utils", "rich.console", "rich.table", "rich.progress", "fractions", "sqlite3"),
)
LOOKED_AT = (
    "PYTHON",
    "NUMBA",
    "OPENBLAS",
    "OMP",
    "MKL",
    "ARROW",
    "COVERAGE",
    "LD_",
    "MALLOC",
    "LC_",
    "LANG",
)
LONGEST = 600  # seconds: a busy machine compiles kernels for minutes


def run(program, *arguments, cwd, **env):
    """Run a Python program to its end."""
    words, environment = [*map(str, (program, *arguments))], {**os.environ, **env}
    if looked_at(environment) != AS_LOADED:
        words = [sys.executable, *words]
        return subprocess.run(
            words,
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    with tempfile.TemporaryDirectory() as said:
        code = ask(
            helper(), {"words": words, "cwd": str(cwd), "environment": environment, "said": said}
        )
        told = [Path(said, name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess(words, code, *told)


def run_code(code, *, cwd, **env):
    """Run a program that is a text."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(code, encoding="utf-8")
        return run(program, cwd=cwd, **env)


def looked_at(environment):
    """What libraries may have seen of it."""
    return {name: value for name, value in environment.items() if name.startswith(LOOKED_AT)}


AS_LOADED = looked_at(os.environ)


@cache
def helper():
    """The helper of this process, which ends with it."""
    command = [sys.executable, Path(__file__)]
    environment = {**os.environ, **AS_LOADED}
    started = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    )
    atexit.register(started.communicate)
    return started


def ask(process, request):
    """The exit code of one program."""
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    if not select.select([process.stdout], [], [], LONGEST)[0]:
        os.killpg(process.pid, signal.SIGKILL)
        helper.cache_clear()
        raise subprocess.TimeoutExpired(request["words"], LONGEST)
    return int(process.stdout.readline())


# The helper


def serve():
    """Answer requests; comes back in a fork, with what to run."""
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.freeze()
    answers = os.dup(1)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os.close(answers)
            return json.loads(line)
        _, status = os.waitpid(child, 0)
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    return None


def become(request):
    """Be the program from here on."""
    said, new = Path(request["said"]), os.O_WRONLY | os.O_CREAT
    places = [(os.devnull, os.O_RDONLY), (said / "stdout", new), (said / "stderr", new)]
    for descriptor, (path, flags) in enumerate(places):
        os.dup2(os.open(path, flags, 0o600), descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # as the environment has it
    sys.argv = request["words"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    asked = serve()
    if asked:
        become(asked)
