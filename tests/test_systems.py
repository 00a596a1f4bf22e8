"""Systems without POSIX, simulated: the everyday commands give the same files, byte for byte.

`helpers/without_posix.py` says what is simulated, and docs/systems.md what is promised.
"""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bayesgram
from bayesgram.privacy.ledger_io import read_ledger
from helpers import fork_server
from helpers.commands import PROGRAM

pytestmark = pytest.mark.posix("it compares POSIX with a simulation on Linux")

WITHOUT_POSIX = Path(__file__).parent / "helpers" / "without_posix.py"
SRC = Path(bayesgram.__file__).parent
VOCAB = ("--vocab", "vocab.parquet")
RELEASE = ("release", "counts", *VOCAB, "--epsilon", 1)
COMMANDS = (
    ("generate", "--users", 150, "--sentences", 30, "--seed", 1, "-o", "made"),
    ("vocab", "made/articles.txt.gz", "--order", 2, "--size", 300, "-o", "vocab.parquet"),
    ("count", "made/messages", *VOCAB, "-o", "counts"),
    ("discover", "made/messages", *VOCAB, "--epsilon", 2, "--seed", 1, "-o", "found"),
    (*RELEASE, "--seed", 1, "-o", "out"),
    (*RELEASE, "--seed", 2, "-o", "later"),
    ("evaluate", "out", "--text", "made/messages", *VOCAB, "--json"),
    ("report", "out", *VOCAB, "-o", "report.html"),
    ("export", "out", "--format", "arpa", "-o", "out.arpa.gz"),
    ("export", "out", "--format", "tsv", "-o", "out.tsv"),
    ("export", "out", "--format", "model", "-o", "model"),
    ("predict", "model", "the", "--json"),
    ("compare", "out", "later", "-o", "changes.json"),
    ("plan", *VOCAB, "--users", 1000, "--json"),
    # What is there is replaced, in one step or two.
    (*RELEASE, "--seed", 3, "--force", "-o", "later"),
    ("count", "made/messages", *VOCAB, "--force", "-o", "counts"),
    ("export", "out", "--format", "tsv", "--force", "-o", "out.tsv"),
)
RANDOM_FILES = {"vocab.parquet.rows"}  # has a salt that no seed fixes


def run(program, *arguments, cwd, encoding="utf-8", **environment):
    """Run a command to its end."""
    return fork_server.shared_server().run(
        program,
        *arguments,
        cwd=cwd,
        environment={**os.environ, "COLUMNS": "200", **environment},
        encoding=encoding,
    )


def run_without_posix(*arguments, cwd, **environment):
    """Run a command where POSIX is missing, with standard output as Windows has it."""
    return run(WITHOUT_POSIX, *arguments, cwd=cwd, encoding="cp1252", **environment)


def contents(folder):
    """Return all files below a folder, by their path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The results with POSIX and without, and the JSON that was printed."""
    results = []
    for name, program, encoding in (
        ("posix", PROGRAM, "utf-8"),
        ("without", WITHOUT_POSIX, "cp1252"),
    ):
        folder = tmp_path_factory.mktemp(name)
        printed = []
        for arguments in COMMANDS:
            done = run(program, *arguments, cwd=folder, encoding=encoding)
            assert done.returncode == 0, (arguments, done.stdout, done.stderr)
            if "--json" in arguments:
                printed.append(done.stdout)
        results.append((folder, printed))
    return results


def test_the_results_without_posix_are_the_same_bytes(folders):
    (posix, printed), (without, printed_without) = folders
    expected = contents(posix)
    assert len(expected) > 25
    found = contents(without)
    assert expected.keys() == found.keys()
    differing = {name for name in expected if expected[name] != found[name]}
    assert differing <= RANDOM_FILES
    assert printed == printed_without


def test_names_of_files_are_allowed_on_every_system(folders):
    names = list(contents(folders[0][0]))
    assert not [name for name in names if set(name) & set('<>:"|?*\\') or name[-1] in ". "]
    assert len({name.casefold() for name in names}) == len(names)


def test_the_demo_runs_without_posix(tmp_path):
    arguments = ("demo", "--users", 100, "--sentences", 200, "-o", "demo")
    done = run_without_posix(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "comparison.svg").stat().st_size > 1000
    assert b"\r" not in (tmp_path / "demo" / "results.json").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_a_ledger_is_kept_without_posix_and_remembers_how_it_is_locked(folders, tmp_path):
    for name in ("counts", "vocab.parquet"):
        (tmp_path / name).symlink_to(folders[0][0] / name)
    ledger = tmp_path / "app.ledger"
    lock, other_lock = ledger.with_name("app.ledger.lock-portalocker"), f"{ledger}.lock"
    charge = (*RELEASE, "--ledger", "app.ledger")
    create = ("ledger", "create", "--population", "app", "--epsilon", 2, "--delta", 1e-6)
    done = run_without_posix(*create, "app.ledger", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "may cost \\u03b5 = 2" in done.stdout
    assert run_without_posix(*charge, "-o", "first", cwd=tmp_path).returncode == 0
    assert lock.read_bytes() == b""
    before = ledger.read_bytes()

    overspent = run_without_posix(*charge, "--epsilon", 3, "-o", "more", cwd=tmp_path)
    assert overspent.returncode == 1
    assert "Nothing was reserved." in overspent.stderr

    # A system with flock is refused, to read and to write.
    for arguments, code in (
        ((*charge, "-o", "second"), 2),
        (("ledger", "show", "app.ledger"), 2),
        (("ledger", "list", "."), 1),
    ):
        done = run(PROGRAM, *arguments, cwd=tmp_path)
        assert done.returncode == code, arguments
        message = " ".join(done.stderr.split())
        assert (
            "is used by a system that locks by portalocker, as app.ledger.lock-portalocker"
            in message
        )
        assert "this one locks by flock" in message
    assert ledger.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {
        *("counts", "vocab.parquet", "first", "app.ledger", lock.name)
    }

    # Moved for good; and then the first system is refused.
    lock.unlink()
    assert run(PROGRAM, *charge, "-o", "second", cwd=tmp_path).returncode == 0
    assert Path(other_lock).exists()
    assert len(read_ledger(ledger).reservations) == 2
    done = run_without_posix(*charge, "-o", "third", cwd=tmp_path)
    assert done.returncode == 2
    assert "is used by a system that locks by flock, as app.ledger.lock beside" in " ".join(
        done.stderr.split()
    )


@pytest.mark.parametrize("links", ["", "yes"])
def test_a_run_that_fails_without_posix_leaves_nothing(tmp_path, links):
    (tmp_path / "public.txt").write_text("the red fish\n" * 50, encoding="utf-8")
    arguments = ("vocab", "public.txt", "--no-model", "-o", "vocab.parquet")
    options = {"WITHOUT_HARD_LINKS": links}
    assert run_without_posix(*arguments, cwd=tmp_path, **options).returncode == 0
    before = contents(tmp_path)
    done = run_without_posix(*arguments, cwd=tmp_path, **options)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    (tmp_path / "bad.csv").write_bytes(b"user,text\nann,\xff\xfe\n")
    more = ("count", "bad.csv", *VOCAB, "-o", "made/counts")
    done = run_without_posix(*more, cwd=tmp_path, **options)
    assert done.returncode in {1, 2}
    assert "Traceback" not in done.stderr
    (tmp_path / "bad.csv").unlink()
    assert contents(tmp_path) == before
    assert not (tmp_path / "made").exists()


def test_what_a_killed_run_left_is_removed_without_posix(tmp_path):
    running = subprocess.Popen(
        [sys.executable, WITHOUT_POSIX, "generate", "--users", "3000000", "-o", "made"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    )
    while running.poll() is None and not any(tmp_path.iterdir()):
        time.sleep(0.05)
    small = ("generate", "--users", 5, "--sentences", 5, "-o")
    assert run_without_posix(*small, "small", cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.glob(".made.unfinished-*"))) == 1  # it is in use
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=60)
    assert run_without_posix("clean", cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.glob(".made.unfinished-*"))) == 1  # only shown
    assert run_without_posix(*small, "made", cwd=tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "small"]


def test_a_stopped_run_leaves_nothing_without_posix(tmp_path):
    running = subprocess.Popen(
        [sys.executable, WITHOUT_POSIX, "generate", "--users", "3000000", "-o", "made"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    )
    while running.poll() is None and not any(tmp_path.iterdir()):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGINT
    assert b"stopped by SIGINT; no output was written." in message
    assert run_without_posix("clean", "--remove", cwd=tmp_path).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_files_are_open_is_kept_and_the_message_says_what_to_do(tmp_path):
    code = f"""if True:
        import sys
        sys.path.insert(0, {str(WITHOUT_POSIX.parent)!r})
        from without_posix import remove_posix
        remove_posix()
        from pathlib import Path
        from bayesgram.errors import BayesgramError
        from bayesgram.io.atomic import write_folder_atomically
        for text in ("old", "new", "newer"):
            with open("out/a" if text == "new" else sys.argv[0]) as reader:
                try:
                    with write_folder_atomically("out", contents=["a"], force=True) as folder:
                        (folder / "a").write_text(text)
                except BayesgramError as error:
                    print(error)
            print(Path("out/a").read_text())
    """
    done = fork_server.run_code(code, cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "old",
        f"{tmp_path / 'out'}: writing failed (Permission denied); nothing was left behind. Close what has it open, then run it again.",
        "old",
        "newer",
    ], done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_text_files_have_the_same_line_ends_on_every_system():
    """A text file is written with newline=, so that Windows adds no carriage returns."""
    found = 0
    for path in SRC.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            mode = (
                call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else ""
            )
            writes_text = call.func.attr == "write_text" or (
                call.func.attr == "open" and mode in {"w", "a", "x"}
            )
            if writes_text and "PEAK_RESET" not in ast.unparse(call.func):
                found += 1
                names = {keyword.arg for keyword in call.keywords}
                assert {"encoding", "newline"} <= names, f"{path}:{call.lineno}"
    assert found > 15
