"""How all commands behave: quiet where asked, JSON where asked, tables that fit, one bar over the demo."""

import json

import pytest
import typer

from bayesgram.cli import app, console
from helpers import fork_server
from helpers.commands import bayesgram, check_output, expect_refusal


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "public.txt").write_text(
        "the red fish swims\nthe blue fish sleeps\n" * 50, encoding="utf-8"
    )
    rows = "\n".join(json.dumps({"user": n, "text": "the red fish"}) for n in range(150))
    (folder / "private.jsonl").write_text(rows + "\n", encoding="utf-8")
    check_output(
        "vocab", "public.txt", "--order", 2, "--size", 50, "-o", "vocab.parquet", cwd=folder
    )
    check_output("count", "private.jsonl", "--vocab", "vocab.parquet", "-o", "counts", cwd=folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 0, "-o", "x"), 2, "--epsilon 0.0: give a number"),
        (("release", "counts", "-o", "x"), 2, "Missing option '--vocab'."),
        (("release", "counts", "--vocab", "vocab.parquet", "--what", "-o", "x"), 2, "No such option: --what"),
        (("count", "none.jsonl", "--vocab", "vocab.parquet", "-o", "x"), 2, "none.jsonl: no such file"),
    ],
)  # fmt: skip
def test_an_error_is_one_json_document(work, arguments, code, error):
    done = bayesgram(*arguments, "--json", cwd=work)
    assert done.returncode == code
    told = json.loads(done.stdout)
    assert told["exit_code"] == code
    assert told["error"].startswith(error)
    assert " ".join(done.stderr.split()).endswith(f"error: {told['error']}")


def test_help_and_version_are_no_errors(work):
    assert "--epsilon" in check_output("release", "--json", "--help", cwd=work)


def test_a_result_that_tells_of_problems_is_the_only_document(work):
    (work / "broken.ledger").write_bytes(b"no ledger")
    done = bayesgram("ledger", "list", "broken.ledger", "--json", cwd=work)
    assert done.returncode == 1
    assert json.loads(done.stdout)["ledgers"][0]["problem"]
    assert done.stderr.startswith("error: ")


def test_numbers_are_numbers_and_rounded(work):
    told = json.loads(
        check_output(
            "count", "private.jsonl", "--vocab", "vocab.parquet", "-o", "again", "--json", cwd=work
        )
    )
    assert (told["users"], told["nonzeros"]) == (150, 300)
    assert told["rounded"] == console.ROUNDING


def test_quiet_says_what_may_be_wrong_and_nothing_else(work):
    arguments = ("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 5)
    loud, quiet = (
        bayesgram(*arguments, *more, cwd=work)
        for more in (("-o", "loud"), ("-o", "quiet", "--quiet"))
    )
    assert "Releasing by posterior" in loud.stderr
    assert quiet.stderr.startswith("warning: Weak: ε = 5")
    assert "Releasing" not in quiet.stderr
    assert quiet.stdout.startswith("Privacy: ")
    assert "--quiet" not in json.loads((work / "loud" / "card.json").read_text())["command"]


def test_quiet_still_says_what_is_not_for_publication(work):
    check_output(
        "release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1, "-o", "judged", cwd=work
    )
    said = bayesgram("evaluate", "judged", "--against", "counts", "--quiet", cwd=work).stderr
    assert said.startswith("These numbers are computed from private data without noise")


def test_the_card_is_for_people(work):
    shown = check_output(
        "release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1, "-o", "told", cwd=work
    )
    for word in ("None", "slack", "multiplier"):
        assert word not in shown
    details = json.loads((work / "told" / "card.json").read_text())["details"]
    assert "epsilon_slack" in details
    assert "noise_multiplier" in details["by_order"]["2"]


def test_a_card_fits_a_terminal(work):
    arguments = ("release", "counts", "--vocab", "vocab.parquet", "--epsilon", 1, "--verbose")
    wrapped = bayesgram(*arguments, "-o", "wrapped", cwd=work, COLUMNS="80").stdout.splitlines()
    assert max(map(len, wrapped)) <= 80
    assert wrapped[-1] == "Written to: wrapped"
    assert all(line.startswith(" " * 12) or line[:12].rstrip().endswith(":") for line in wrapped)
    whole = bayesgram(*arguments, "-o", "whole", cwd=work, COLUMNS="0").stdout.splitlines()
    names = [line.partition(":")[0] for line in whole]
    # Advice is there where noise says that the coverage is low.
    assert [name for name in names if name != "Advice"][-3:] == [
        "Quality",
        "Deviations",
        "Written to",
    ]


def test_tables_fit_a_terminal(work):
    check_output(
        "release",
        "counts",
        "--vocab",
        "vocab.parquet",
        "--epsilon",
        1,
        "-o",
        "out-of-posterior",
        cwd=work,
    )
    text = (
        "--text",
        "held-out=public.txt",
        "--text",
        "again=private.jsonl",
        "--vocab",
        "vocab.parquet",
    )
    make = ("--population", "everybody who uses the app", "--epsilon", 3, "--delta", 1e-6)
    check_output("ledger", "create", *make, "everybody.ledger", cwd=work)
    tables = [
        ("evaluate", "out-of-posterior", *text),
        ("evaluate", "out-of-posterior", "--against", "counts", "--vocab", "vocab.parquet"),
        ("ledger", "list", "everybody.ledger"),
    ]
    for arguments in tables:
        shown = bayesgram(*arguments, cwd=work, COLUMNS="80").stdout
        assert max(map(len, shown.splitlines())) <= 80
        header = [line for line in shown.splitlines() if line.startswith("┃")]
        assert all(len(line.split("┃")) > 3 for line in header)
        assert len(header) == shown.count("┏"), f"a header is folded:\n{shown}"


def test_completion_is_offered(work):
    done = bayesgram(
        "--show-completion", "bash", cwd=work, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    assert (done.returncode, "complete -o default -F" in done.stdout) == (0, True)


def test_steps_are_one_bar(capsys):
    with console.steps(2) as step:
        for label in ("First", "Second"):
            with step(label):
                pass
    shown = capsys.readouterr().err
    assert "2/2" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("vocab", "none.txt"),
        ("count", "none.jsonl", "--vocab", "none.parquet"),
        ("discover", "none.jsonl", "--vocab", "none.parquet", "--epsilon", 1),
        ("release", "none", "--vocab", "none.parquet", "--epsilon", 1),
        ("review", "none"),
        ("export", "none", "--format", "arpa"),
        ("import", "none.arpa"),
        ("interpolate", "none.arpa", "none-2.arpa", "--weights", "1,1"),
        ("report", "none"),
        ("paper", "reproduce", "all", "--counts", "none", "--vocab", "none.parquet"),
        ("audit", "none", "--vocab", "none.parquet", "--epsilon", 1),
        ("demo",),
        ("generate",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_output_is_tried_before_anything_is_read(tmp_path, arguments):
    (tmp_path / "file").touch()
    assert "file is a file, and no folder can be in it; choose" in expect_refusal(
        *arguments, "-o", "file/x", cwd=tmp_path
    )


@pytest.mark.posix("the mode of a program")
def test_the_demo_says_a_command_that_can_be_typed(monkeypatch, tmp_path):
    from bayesgram.cli import demo

    beside = tmp_path / "bin" / "bayesgram"
    beside.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo.sys, "executable", str(beside.with_name("python")))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo._own_command() == "bin/python -m bayesgram"
    beside.write_text("")
    assert demo._own_command() == "bin/bayesgram"
    beside.chmod(0o755)
    monkeypatch.setenv("PATH", str(beside.parent))
    assert demo._own_command() == "bayesgram"


def test_text_is_printed_as_it_is(capsys):
    console._rich_console.cache_clear()
    console.print_table(":bug: [red]", ["[b]"], [[":smile: [red]x[/red]"]])
    console.print_note("note: :bug: [b]x[/b]")
    with console.step(":bug: [i]"):
        pass
    shown = capsys.readouterr()
    assert ":bug: [red]" in shown.out
    assert "[b]" in shown.out
    assert ":smile: [red]x[/red]" in shown.out
    assert "note: :bug: [b]x[/b]" in shown.err
    assert ":bug: [i]" in shown.err


@pytest.mark.parametrize(
    "failure",
    ["MemoryError()", "pyarrow.ArrowMemoryError('malloc of 99 bytes')", "OSError(12, 'x', 'y')"],
)
@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["count", "x"], "Give the command less with --memory (such as --memory 200MB), or use a"),
        (["release", "x"], "Use a"),
    ],
)
def test_too_little_memory_is_one_line(work, failure, command, advice):
    code = (
        "import sys, pyarrow, bayesgram.cli.app as a\n"
        f"def fail(): raise {failure}\n"
        f"a._run = fail; sys.argv = ['bayesgram', *{command}]; a.main()"
    )
    done = fork_server.run_code(code, cwd=work, COLUMNS="1000")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: out of memory. {advice} smaller vocabulary (`bayesgram vocab --size`) or a machine"
        " with more memory.\n"
    )


def test_the_commands_with_memory_are_known():
    group = typer.main.get_command(app.build_app())
    with_memory = [
        name
        for name, command in group.commands.items()
        if any("--memory" in parameter.opts for parameter in command.params)
    ]
    assert tuple(with_memory) == app.MEMORY_COMMANDS
