"""The command line as people start it: its real entry point, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ENTRY = Path(sys.executable).parent / "bayesgram"


def bayesgram(*arguments, cwd, **env):
    """Run a command to its end."""
    return subprocess.run(
        [ENTRY, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200", **env},
        timeout=120,
        check=False,
    )


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
