"""The command line as people start it: its real entry point, in a process of its own."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

from bayesgram.cli.app import command_line
from bayesgram.cli.console import format_argument
from bayesgram.errors import BayesgramError
from helpers import fork_server

PROGRAM = Path(sys.executable).parent / (
    "bayesgram.exe" if sys.platform == "win32" else "bayesgram"
)
if os.environ.get("BAYESGRAM_WITHOUT_POSIX"):
    PROGRAM = Path(__file__).parent / "without_posix.py"


def bayesgram(*arguments, cwd, **env):
    """Run a command to its end."""
    return fork_server.run(PROGRAM, *arguments, cwd=cwd, **{"COLUMNS": "200", **env})


def check_output(*arguments, cwd):
    """What a command that succeeds prints."""
    done = bayesgram(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def expect_failure(*arguments, cwd, code, secret):
    """The message of a command that fails; never a traceback, never something secret."""
    done = bayesgram(*arguments, cwd=cwd)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert secret not in done.stdout + done.stderr
    return " ".join(done.stderr.split())


def run_in_process(*arguments, cwd):
    """A command in this process, which need not start."""
    with contextlib.chdir(cwd):
        typed = [*map(str, arguments)]
        command_line(typed)(typed, standalone_mode=False)


def expect_refusal(*arguments, cwd, code=2, secret="\0"):
    """The message of a command that fails in this process; never something secret."""
    with pytest.raises(BayesgramError) as caught:
        run_in_process(*arguments, cwd=cwd)
    assert caught.value.exit_code == code, caught.value
    assert secret not in str(caught.value)
    return caught.value.render(format_argument)
