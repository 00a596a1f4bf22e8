"""Programs in forks of a helper are told as programs in a Python of their own are."""

import os
import subprocess
import sys

import pytest

from helpers import fork_server

PROGRAMS = {
    "says": "import os, sys; print(os.getcwd(), sys.argv[1:], os.environ['COLUMNS']); print('é', file=sys.stderr)",
    "ends with a code": "import sys; sys.exit(7)",
    "ends with words": "import sys; sys.exit('wrong')",
    "fails": "1 / 0",
    "is killed": "import os; os.kill(os.getpid(), 9)",
    "is asked to end": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "says goodbye": "import atexit; atexit.register(print, 'goodbye'); print(__name__)",
    "reads": "import sys; print(sys.stdin.read() == '')",
    "writes to a folder of its own": "import tempfile; print(tempfile.gettempdir())",
}


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_a_fork_is_told_as_a_process_is(tmp_path, code):
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    env = {"COLUMNS": "77", "TMPDIR": str(tmp_path)}
    forked = fork_server.run(tmp_path / "program.py", "a b", 1, cwd=tmp_path, **env)
    alone = subprocess.run(
        [sys.executable, tmp_path / "program.py", "a b", "1"],
        cwd=tmp_path,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (forked.returncode, forked.stdout) == (alone.returncode, alone.stdout)
    assert forked.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]


def test_nothing_of_ours_is_loaded_before(tmp_path):
    code = "import sys; print([name for name in sys.modules if 'bayesgram' in name], 'numba' in sys.modules)"
    assert fork_server.run_code(code, cwd=tmp_path).stdout == "[] True\n"


def test_what_libraries_look_at_is_looked_at_anew(tmp_path):
    code = "import numba; print(numba.config.DISABLE_JIT)"
    assert fork_server.run_code(code, cwd=tmp_path, NUMBA_DISABLE_JIT="1").stdout == "1\n"
    assert fork_server.run_code(code, cwd=tmp_path, NUMBA_DISABLE_JIT="0").stdout == "0\n"
