"""What is said when budget is spent and the release is lost: whatever ends the run, the ledger's entry is named."""

import signal

import pytest

from helpers import fork_server
from helpers.commands import check_output

SPENT = "he release is lost, and entry 1 of q.ledger (ε = 0.5, δ = 1e-07) stays spent: see `bayesgram ledger show q.ledger`."
CODE = """
import bayesgram.mechanisms.gaussian as g, bayesgram.cli as c, bayesgram.errors, os, sys
def end(*a, **k):
    {end}
g.clipped_sum = end
sys.argv = ['bayesgram', 'release', 'counts', '--vocab', 'vocab.parquet', '--mechanism', 'gaussian',
            '--epsilon', '0.5', '--ledger', 'q.ledger', '-o', 'never']
c.main()
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("charge")
    (folder / "public.txt").write_text("the red fish swam home again and the red fish slept\n" * 20)
    rows = "".join(f"u{number},the red fish swam\n" for number in range(30))
    (folder / "private.csv").write_text("user,text\n" + rows)
    check_output(
        "vocab", "public.txt", "--order", 2, "--size", 8, "-o", "vocab.parquet", cwd=folder
    )
    check_output("count", "private.csv", "--vocab", "vocab.parquet", "-o", "counts", cwd=folder)
    return folder


def test_what_was_written_before_the_end_is_named(work):
    code = (
        "import bayesgram.cli.console as console, bayesgram.cli as c, os, sys\n"
        "console.print_summary = lambda *a, **k: os.kill(os.getpid(), 15)\n"
        "sys.argv = ['bayesgram', 'vocab', 'public.txt', '--no-model', '-o', 'early.parquet']\n"
        "c.main()"
    )
    done = fork_server.run_code(code, cwd=work)
    assert done.returncode == 128 + signal.SIGTERM
    written = f"{work}/early.parquet.rows, {work}/early.parquet"
    assert f"error: stopped by SIGTERM; {written} was written before." in done.stderr
    assert (work / "early.parquet").exists()


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        (
            "raise MemoryError",
            1,
            "or a machine with more memory. T",
        ),
        ("raise bayesgram.errors.UsageError('x: wrong.')", 1, "error: x: wrong. T"),
        ("raise OSError(5, 'Input/output error', 'x')", 1, "error: x: Input/output error. T"),
        ("raise KeyError", 1, "(that output may quote private data). T"),
        ("os.kill(os.getpid(), 15)", 128 + signal.SIGTERM, "error: stopped by SIGTERM; t"),
    ],
)
def test_the_entry_that_stays_spent_is_named(work, end, code, message):
    (work / "q.ledger").unlink(missing_ok=True)
    check_output(
        "ledger",
        "create",
        "--population",
        "q",
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "q.ledger",
        cwd=work,
    )
    done = fork_server.run_code(CODE.format(end=end), cwd=work, COLUMNS="1000")
    assert done.returncode == code, done.stderr
    assert f"{message}{SPENT}" in " ".join(done.stderr.split())
    assert not [path.name for path in work.iterdir() if "never" in path.name]
