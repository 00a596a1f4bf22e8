"""bayesgram ledger create, show and list, as a person calls them."""

import json
import shutil
import subprocess
import sys

import pytest
import typer

from bayesgram.cli.ledger import ledger_app
from bayesgram.privacy.accounting import Spend, composed_epsilon
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.ledger_io import read_ledger
from helpers.commands import bayesgram, check_output, expect_failure
from helpers.modes import has_mode

CREATE = ("create", "--population", "app users", "--epsilon", 1, "--delta", "1e-6")


def bayesgram_ledger(*arguments, cwd):
    return bayesgram("ledger", *arguments, cwd=cwd)


def succeed(*arguments, cwd):
    done = bayesgram_ledger(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail(*arguments, cwd, code):
    done = bayesgram_ledger(*arguments, cwd=cwd)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_a_budget_that_protects_nobody_is_warned_about(tmp_path):
    weak = ("create", "--population", "app users", "--epsilon", 20, "--delta", 0)
    done = bayesgram_ledger(*weak, "a.ledger", cwd=tmp_path)
    assert done.returncode == 0
    assert (
        "warning: Worthless: ε = 20 allows odds to change by a factor of 4.9e+08: PROVED"
        in done.stderr
    )
    assert len(json.loads(succeed(*weak, "b.ledger", "--json", cwd=tmp_path))["warnings"]) == 1
    assert bayesgram_ledger(*CREATE, "c.ledger", cwd=tmp_path).stderr == ""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a used ledger, a new one, and a file that is none."""
    folder = tmp_path_factory.mktemp("a folder with spaces")
    succeed(*CREATE, "app.ledger", cwd=folder)
    ledger = Ledger.open(folder / "app.ledger")
    ledger.reserve(
        Spend.gaussian(10.0),
        {"mechanism": "gaussian", "epsilon": 0.5, "delta": 1e-7, "output": "out [b]1"},
    )
    ledger.reserve(
        Spend(pure_epsilon=0.1), {"mechanism": "laplace", "epsilon": 0.1, "output": "\x1b[2Jout"}
    )
    ledger.complete(1)
    succeed(
        "create",
        "--population",
        "web users",
        "--epsilon",
        2,
        "--delta",
        0,
        "web.ledger",
        cwd=folder,
    )
    (folder / "notes.txt").write_text("nothing")
    return folder


def test_create_makes_a_private_file_and_says_what_it_is(tmp_path):
    told = json.loads(succeed(*CREATE, "new.ledger", "--json", cwd=tmp_path))
    contents = read_ledger(tmp_path / "new.ledger")
    assert told == {
        "ledger": "new.ledger",
        "population": "app users",
        "epsilon": 1.0,
        "delta": 1e-6,
        "identity": contents.identity,
        "last_hash": contents.last_hash,
        "warnings": [],
    }
    assert has_mode(tmp_path / "new.ledger", 0o600)
    assert "exists already, and a ledger is never replaced" in fail(
        *CREATE, "new.ledger", cwd=tmp_path, code=2
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--population", "p", "--epsilon", 0, "--delta", 0),
            "--epsilon 0.0: give a number from 1e-05 to 100",
        ),
        (("--population", "p", "--epsilon", 1, "--delta", 1), "--delta 1.0: give 0, or a number"),
        (
            ("--population", "a\nb", "--epsilon", 1, "--delta", 0),
            r"--population 'a\nb': a name has 1 to 200 printable",
        ),
        (("--epsilon", 1, "--delta", 0), "Missing option '--population'"),
    ],
)
def test_a_wrong_create_makes_nothing(tmp_path, arguments, message):
    assert message in fail("create", *arguments, "new.ledger", cwd=tmp_path, code=2)
    assert not list(tmp_path.iterdir())


def test_show_tells_what_was_reserved_and_what_is_left(work):
    shown = succeed("show", "app.ledger", cwd=work)
    assert "Ledger of app users" in shown
    assert "\x1b" not in shown
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in shown.splitlines()
        if line.startswith("│")
    ]
    assert [[row[0], *row[2:]] for row in rows] == [
        ["1", "gaussian", "0.5", "1e-07", "published", "out [b]1"],
        ["2", "laplace", "0.1", "–", "reserved", "�[2Jout"],
    ]
    told = " ".join(shown.split())
    assert "budget: ε = 1, δ = 1e-06" in told
    assert "at δ = 1e-06 by 2 reservations, 1 of them not published" in shown
    assert "left: about ε = 0." in told
    last_hash = read_ledger(work / "app.ledger").last_hash
    assert last_hash not in shown
    assert last_hash in succeed("show", "app.ledger", "--verbose", cwd=work)


def test_show_for_machines(work):
    told = json.loads(succeed("show", "app.ledger", "--json", cwd=work))
    assert told["spent_epsilon"] == composed_epsilon(
        [Spend.gaussian(10.0), Spend(pure_epsilon=0.1)], 1e-6
    )
    assert 0 < told["left_pure_epsilon"] < told["left_gaussian_epsilon"] < 1
    assert (told["population"], told["epsilon"], told["delta"]) == ("app users", 1.0, 1e-6)
    assert (told["reservations"], told["unpublished"], told["last_number"]) == (2, 1, 3)
    first = told["entries"][0]
    assert first["spend"] == {
        "inverse_variance": 0.01,
        "pure_epsilon": 0.0,
        "total_variation": 0.0,
        "mu_squared": 0.01,
    }
    assert "spent_failure" not in told
    assert "left_failure" not in told
    assert told["format"] == 4
    assert (first["number"], first["state"], first["description"]["mechanism"]) == (
        1,
        "published",
        "gaussian",
    )


def test_discoveries_are_shown_with_their_chance_to_fail(tmp_path):
    succeed(*CREATE, "app.ledger", cwd=tmp_path)
    new = json.loads(succeed("show", "app.ledger", "--json", cwd=tmp_path))
    assert new["left_failure"] == 2.5e-7
    assert "spent_failure" not in new
    ledger = Ledger.open(tmp_path / "app.ledger")
    ledger.reserve(
        Spend.gaussian(10.0, failure=1e-7), {"mechanism": "discover", "epsilon": 0.5, "delta": 4e-7}
    )
    ledger.reserve(Spend.gaussian(10.0), {"mechanism": "gaussian"})
    shown = succeed("show", "app.ledger", cwd=tmp_path)
    sentence = (
        "discoveries and other tools have used 1e-07 of δ; 1.5e-07 of the quarter that is reserved"
        " for them is left"
    )
    assert sentence in shown
    told = json.loads(succeed("show", "app.ledger", "--json", cwd=tmp_path))
    assert (told["spent_failure"], told["left_failure"]) == (1e-7, pytest.approx(1.5e-7))
    assert [entry["spend"].get("failure") for entry in told["entries"]] == [1e-7, None]
    (row,) = json.loads(succeed("list", ".", "--json", cwd=tmp_path))["ledgers"]
    assert (row["spent_failure"], row["left_failure"]) == (
        told["spent_failure"],
        told["left_failure"],
    )


def test_list_takes_files_folders_and_patterns(work):
    for arguments in (["app.ledger", "web.ledger"], [".", "app.ledger"], [work / "*.ledger"]):
        told = json.loads(succeed("list", *arguments, "--json", cwd=work))["ledgers"]
        assert [(row["population"], row["problem"]) for row in told] == [
            ("app users", None),
            ("web users", None),
        ]
    shown = succeed("list", ".", cwd=work)
    assert [line.split("│")[2].strip() for line in shown.splitlines() if line.startswith("│")] == [
        "app users",
        "web users",
    ]


def test_list_shows_the_sound_ones_and_fails_for_a_broken_one(work, tmp_path):
    shutil.copy(work / "app.ledger", tmp_path)
    data = (work / "web.ledger").read_bytes()
    (tmp_path / "web.ledger").write_bytes(data.replace(b"web users", b"all users"))
    done = bayesgram_ledger("list", ".", cwd=tmp_path)
    assert done.returncode == 1
    assert "app users" in done.stdout
    assert "refused" in done.stdout
    assert (
        "web.ledger: this ledger was edited or damaged and is refused (its header was changed)"
        in done.stderr
    )
    assert "(its header was changed)" in fail("show", "web.ledger", cwd=tmp_path, code=1)


def test_list_notices_copies_of_one_ledger(work, tmp_path):
    for name in ("a", "b"):
        shutil.copy(work / "app.ledger", tmp_path / name)
    assert "a: is one of 2 copies of one ledger; keep the longest" in fail(
        "list", ".", cwd=tmp_path, code=1
    )


def test_things_that_are_no_ledgers(work, tmp_path):
    assert "is not a ledger" in fail("show", "notes.txt", cwd=work, code=2)
    assert "make it with: bayesgram ledger create" in fail("show", "none.ledger", cwd=work, code=2)
    assert "holds no ledger" in fail("list", tmp_path, cwd=work, code=2)
    assert "holds no ledger" in fail("list", "*.none", cwd=work, code=2)
    assert "notes.txt: is not a ledger" in fail("list", "notes.txt", cwd=work, code=1)


@pytest.mark.parametrize("name", ["create", "show", "list"])
def test_every_command_is_explained(name):
    command = typer.main.get_command(ledger_app).commands[name]
    assert f"Example: bayesgram ledger {name} " in command.help
    assert all(parameter.help for parameter in command.params)
    assert "--json" in [option for parameter in command.params for option in parameter.opts]


@pytest.mark.unwatched
def test_nothing_heavy_is_loaded_for_help():
    code = "import sys; import bayesgram.cli.ledger; print([m for m in ('scipy', 'sqlite3', 'dp_accounting') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


# --- Releases of other tools, and periods ---


def test_a_release_of_another_tool_is_charged(tmp_path):
    made = ("--population", "app users", "--epsilon", 4, "--delta", 1e-6, "--period", "2026")
    check_output("ledger", "create", *made, "a.ledger", cwd=tmp_path)
    charge = ("ledger", "charge", "a.ledger", "--epsilon", 0.5, "--delta", 1e-8)
    told = json.loads(
        check_output(*charge, "--by", "dashboard, other tool", "--json", cwd=tmp_path)
    )
    assert (told["entry"], told["epsilon"], told["delta"]) == (1, 0.5, 1e-8)
    assert told["spent_failure"] == 1e-8
    shown = check_output("ledger", "show", "a.ledger", cwd=tmp_path)
    assert "another tool" in shown
    assert "dashboard, other tool" in shown
    assert "2026 (a label: nothing renews; a new period is a new ledger" in " ".join(shown.split())
    as_json = json.loads(check_output("ledger", "show", "a.ledger", "--json", cwd=tmp_path))
    assert as_json["period"] == "2026"
    assert as_json["entries"][0]["state"] == "published"
    assert as_json["entries"][0]["spend"]["pure_epsilon"] == 0.5


def test_a_refused_charge_says_what_to_do_if_the_release_was_made_already(tmp_path):
    made = ("--population", "app users", "--epsilon", 1, "--delta", 1e-6)
    check_output("ledger", "create", *made, "a.ledger", cwd=tmp_path)
    given = ("ledger", "charge", "a.ledger", "--epsilon", 0.5, "--by", "dashboard")
    message = expect_failure(*given, "--delta", 1e-8, cwd=tmp_path, code=1, secret="\0")
    assert "If that release was made already, its cost is real all the same" in message
    wrong = expect_failure(*given, "--delta", 2, cwd=tmp_path, code=2, secret="\0")
    assert "--delta 2.0: give 0, or a number from 1e-30 to below 1" in wrong
    assert "made already" not in wrong
