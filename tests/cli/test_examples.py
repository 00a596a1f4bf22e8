"""The example in the help of every command, run as a shell reads it, on data that is made here."""

import re
import shlex
import shutil
import signal
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from bayesgram.cli.app import COMMAND_GROUPS, build_app
from bayesgram.mechanisms.series import Series
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from helpers.commands import PROGRAM, bayesgram, check_output, run_in_process

# Examples are as people would type them; here the numbers are smaller.
SMALLER = {"--users": "300", "--size": "300"}
# What is added, so that a command ends soon.
ADDED = {
    "demo": ("--sentences", "500"),
    "generate": ("--sentences", "500"),
    "paper reproduce": ("--users", "2000", "--size", "100", "--seeds", "1"),
    "plan": ("--size", "100", "--draws", "1"),
    "serve": ("--port", "0"),
}


def all_commands(group, prefix=""):
    """Every command with its full name, and the groups themselves."""
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        if hasattr(command, "commands"):
            yield from all_commands(command, f"{prefix}{name} ")


ROOT = typer.main.get_command(build_app())
COMMANDS = dict(all_commands(ROOT))
RUN = [name for name, command in COMMANDS.items() if not hasattr(command, "commands")]


def example_of(command):
    _, _, example = command.help.partition("Example: ")
    return example.partition("\n")[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Whatever the examples read, by the names that they give it."""
    folder = tmp_path_factory.mktemp("examples")
    generated = ("generate", "--users", 300, "--sentences", 1500, "-o", "data")
    run_in_process(*generated, cwd=folder)
    for name in ("messages", "wiki", "ledgers", "results", "demo"):
        (folder / name).mkdir()
    shutil.copy(folder / "data" / "chat.txt.gz", folder / "wiki" / "a.txt.gz")
    shutil.copy(folder / "data" / "articles.txt.gz", folder / "wiki" / "b.txt.gz")
    for file in (folder / "data" / "messages").iterdir():
        shutil.copy(file, folder / "messages")
    shutil.copy(file, folder / "messages.parquet")
    (folder / "b.txt").write_text("see you soon\nthank you so much\n" * 20)
    shutil.copy(folder / "b.txt", folder / "public-held-out.txt")
    pq.write_table(pa.table({"text": ["thank you", "see you soon"]}), folder / "a.parquet")
    messages = pa.table({"user": list(range(40)), "text": ["thank you"] * 40})
    pq.write_table(messages, folder / "messages.parquet")
    for name, source in (("vocab", "wiki/a.txt.gz"), ("other", "wiki/b.txt.gz")):
        sizes = ("--orders", "1,2", "--size", 200)
        run_in_process("vocab", source, *sizes, "-o", f"{name}.parquet", cwd=folder)
    vocab = ("--vocab", "vocab.parquet")
    run_in_process("count", "messages", *vocab, "-o", "counts", cwd=folder)
    for name in ("out", "out-0.2", "out-1", "week-1", "week-2"):
        run_in_process("release", "counts", *vocab, "--epsilon", 1, "-o", name, cwd=folder)
    shutil.copytree(folder / "out-1", folder / "demo" / "releases" / "a")
    for name in ("model.arpa", "model.arpa.gz", "public.arpa"):
        run_in_process("export", "out", "--format", "arpa", "-o", name, cwd=folder)
    discover = ("discover", "messages", *vocab, "--epsilon", 8, "-o", "found")
    run_in_process(*discover, cwd=folder)
    ledger = Ledger.create(folder / "app.ledger", population="app users", budget=Budget(1.0, 1e-6))
    may_fail = Spend.gaussian(10.0, failure=1e-9)  # so that a charge with δ fits
    ledger.complete(ledger.reserve(may_fail, {"mechanism": "discovery"}))
    assert ledger.reserve(Spend.gaussian(10.0), {"mechanism": "gaussian"}) == 3
    shutil.copy(folder / "app.ledger", folder / "ledgers" / "app.ledger")
    Ledger.create(folder / "all.ledger", population="app users", budget=Budget(4.0, 1e-6))
    year = Ledger.create(folder / "year.ledger", population="app users", budget=Budget(2.0, 1e-6))
    Series.create(
        folder / "weekly.series", ledger=year, epsilon=0.1, delta=1e-7, releases=9, full_releases=2
    )
    drawn = ("--series", "weekly.series", "-o", "week-1", "--force")
    run_in_process("release", "counts", *vocab, *drawn, cwd=folder)
    return folder


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_command_has_one_example(name):
    command = COMMANDS[name] if name else ROOT
    assert command.help.count("Example:") == 1
    assert example_of(command).startswith(f"bayesgram {name}".rstrip())


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_paragraphs_of_the_help_are_not_broken_by_hand(name):
    command = COMMANDS[name] if name else ROOT
    assert not re.search(r"[^\n]\n[^\n]", command.help)


def test_the_help_has_the_groups(tmp_path):
    shown = check_output("--help", cwd=tmp_path)
    places = [shown.index(f"─ {group} ─") for group in COMMAND_GROUPS]
    assert places == sorted(places)
    assert list(COMMAND_GROUPS) == [
        "Everyday",
        "Language model",
        "Planning and budget",
        "Research",
    ]
    for name in ("tune", "sensitivity", "reproduce"):
        assert name not in ROOT.commands
        assert f"paper {name}" in COMMANDS


@pytest.fixture
def work(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def words_of(name, folder):
    """The words of an example as a shell reads it, with smaller numbers."""
    example = example_of(COMMANDS[name])
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {example}"], capture_output=True, cwd=folder, check=True
    )
    words = [word.decode() for word in done.stdout.split(b"\0")[:-1]]
    for option, number in SMALLER.items():
        if option in words:
            words[words.index(option) + 1] = number
    assert shlex.split(example)[0] == words[0] == "bayesgram"
    return [*words[1:], *ADDED.get(name, ())]


def make_room(words, folder):
    """Remove what stands where the example writes, which other examples read."""
    for option in ("-o", "--output", "--file", "--plot"):
        if option in words:
            target = words[words.index(option) + 1]
            for path in (folder / target, folder / f"{target}.rows", folder / f"{target}.model"):
                if path.is_dir():
                    shutil.rmtree(path)
                path.unlink(missing_ok=True)
    if words[:2] == ["ledger", "create"]:
        (folder / words[-1]).unlink()
    if words[:2] == ["series", "create"]:
        shutil.rmtree(folder / words[2])


@pytest.mark.parametrize("name", [name for name in RUN if name != "serve"])
def test_the_example_runs(work, name):
    words = words_of(name, work)
    make_room(words, work)
    done = bayesgram(*words, cwd=work)
    assert done.returncode == 0, (words, done.stderr)
    assert done.stdout


@pytest.mark.unwatched
def test_the_example_of_serve_runs_until_it_is_stopped(work):
    command = [str(PROGRAM), *words_of("serve", work)]
    with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("The page is at http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
    assert process.returncode in (0, 128 + signal.SIGINT)
