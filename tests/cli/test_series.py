"""bayesgram series and release --series, through the real entry point."""

import json
import os
import signal
import subprocess
import sys

import pytest

from helpers.commands import PROGRAM, check_output, expect_refusal, run_in_process

SERIES = "weekly.series --ledger app.ledger --epsilon 1 --delta 1e-7 --releases 3 --full-releases 2"
RELEASE = "release counts --vocab vocab.parquet --series weekly.series"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Counts of made-up people, a ledger and a series with one release."""
    folder = tmp_path_factory.mktemp("series")
    for command in (
        "generate --users 300 --sentences 900 --seed 3 -o data",
        "vocab data/articles.txt.gz --order 2 --size 200 --no-model -o vocab.parquet",
        "count data/messages --vocab vocab.parquet -o counts",
        "ledger create --population everybody --epsilon 2 --delta 1e-6 app.ledger",
        f"series create {SERIES}",
        f"{RELEASE} -o week1",
    ):
        run_in_process(*command.split(), cwd=folder)
    return folder


def test_a_series_from_its_beginning_to_its_end(made):
    printed = check_output(*f"{RELEASE} --previous week1 -o week2".split(), cwd=made)
    assert "release 2 of at most 3; ε and δ are for everything in the series together" in " ".join(
        printed.split()
    )
    shown = json.loads(check_output("series", "show", "weekly.series", "--json", cwd=made))
    assert [run["state"] for run in shown["runs"]] == ["published", "published"]
    assert (shown["released"], shown["left"], shown["full_releases"]) == (2, 1, 2)
    text = check_output("series", "show", "weekly.series", cwd=made)
    assert "2 of at most 3 releases were made." in text
    assert "(PROVED) for everything one user wrote in these data." in " ".join(text.split())
    published = check_output("series", "publish", "weekly.series", "2", cwd=made)
    assert "Release 2 of weekly.series is noted as published." in published
    check_output(*f"{RELEASE} -o week3".split(), cwd=made)
    message = expect_refusal(*f"{RELEASE} -o week4".split(), cwd=made, code=1)
    assert "all 3 releases of this series were made" in message
    assert not (made / "week4").exists()


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (f"{RELEASE} -o x --epsilon 1", 2, "--epsilon 1.0: the series has its budget"),
        (f"{RELEASE} -o x --ledger app.ledger", 2, "the series has its budget"),
        (f"{RELEASE} -o x --seed 1", 2, "--seed 1: the series has its budget"),
        (f"{RELEASE} -o x --dry-run", 2, "--dry-run"),
        (f"{RELEASE} -o x --mechanism gaussian", 2, "a series is released by posterior"),
        (f"{RELEASE} -o x --engine spark", 2, "leave spark out"),
        (f"{RELEASE} -o x --unit week", 2, "the unit of the series is"),
        ("release counts --vocab vocab.parquet --series app.ledger -o x", 2, "is no series"),
        (f"series create {SERIES}", 2, "exists already"),
        (f"series create n{SERIES} --unit week", 2, "lasts as long as it does"),
        ("series create n --ledger app.ledger --epsilon 9 --delta 1e-7", 1, "Nothing was reserved"),
        ("series create n --ledger no.ledger --epsilon 1 --delta 1e-7", 2, "can't be opened"),
        ("series show counts", 2, "is no series"),
        ("series publish weekly.series 9", 2, "no release of weekly.series with this number"),
    ],
)
def test_what_can_not_be_asked_for(made, command, code, message):
    before = sorted(made.iterdir())
    assert message in expect_refusal(*command.split(), cwd=made, code=code)
    assert sorted(made.iterdir()) == before


def test_a_run_that_is_killed_costs_allowance_and_can_be_made_again(made, tmp_path):
    """kill -9 as soon as users are charged: the state goes on from there."""
    work = tmp_path / "work"
    subprocess.run(["cp", "-r", made, work], check=True)
    run_in_process(
        *[
            "series",
            "create",
            "killed.series",
            "--ledger",
            "app.ledger",
            "--epsilon",
            "0.5",
            "--delta",
            "1e-7",
        ],
        cwd=work,
    )
    state = work / "killed.series" / "state.json"
    first = state.read_bytes()
    arguments = [
        "release",
        "counts",
        "--vocab",
        "vocab.parquet",
        "--series",
        "killed.series",
        "-o",
        "out",
    ]
    process = subprocess.Popen(
        [sys.executable, PROGRAM, *arguments],
        cwd=work,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while state.read_bytes() == first and process.poll() is None:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    shown = json.loads(check_output("series", "show", "killed.series", "--json", cwd=work))
    assert len(shown["runs"]) == 1
    check_output(*arguments, "--force", cwd=work)
    shown = json.loads(check_output("series", "show", "killed.series", "--json", cwd=work))
    assert shown["runs"][-1]["state"] == "published"
    assert (work / "out" / "card.json").is_file()
