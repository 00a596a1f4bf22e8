"""The command line as people start it: its real entry point, in a process of its own."""

import sys
from pathlib import Path

import starting

ENTRY = Path(sys.executable).parent / "bayesgram"


def bayesgram(*arguments, cwd, **env):
    """Run a command to its end."""
    return starting.run(ENTRY, *arguments, cwd=cwd, **{"COLUMNS": "200", **env})


def succeed(*arguments, cwd):
    """What a command that succeeds prints."""
    done = bayesgram(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def failing(*arguments, cwd, code, secret):
    """The message of a command that fails; never a traceback, never something secret."""
    done = bayesgram(*arguments, cwd=cwd)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert secret not in done.stdout + done.stderr
    return " ".join(done.stderr.split())
