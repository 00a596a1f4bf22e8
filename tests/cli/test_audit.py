"""bayesgram audit through the installed entry point."""

import json

import pytest

from helpers import attack_targets
from helpers.commands import bayesgram

USER = "person-of-interest"


def run(folder, *arguments):
    done = bayesgram("audit", "counts.parquet", "--vocab", "vocab.parquet", *arguments, cwd=folder)
    assert "Traceback" not in done.stderr
    assert USER not in done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    attack_targets.write_counts_and_vocabulary(folder, users=800, size=300, names=USER)
    return folder


CLAIM = ("--epsilon", 0.1, "--delta", 1e-6)
PAPER = (
    "--mechanism",
    "paper",
    *CLAIM,
    "--max-total",
    300,
    "--attacks",
    "likelihood-ratio,scale",
    "--seed",
    1,
)


def test_the_paper_is_caught(work):
    done = run(work, *PAPER, "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "CAUGHT" in done.stdout
    assert done.stdout.splitlines()[0].endswith("NOT private.")
    assert "not for publication" in done.stderr
    assert (work / "out" / "trade-off.png").read_bytes().startswith(b"\x89PNG")
    assert (
        "NOT private"
        in json.loads((work / "out" / "audit.json").read_text(encoding="utf-8"))["verdict"]
    )
    again = run(work, *PAPER, "-o", "out")
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_a_catch_can_fail_a_build(work):
    arguments = (
        "--mechanism",
        "paper",
        *CLAIM,
        "--max-total",
        300,
        "--attacks",
        "scale",
        "--seed",
        1,
    )
    assert run(work, *arguments, "--fail-if-caught", "--json").returncode == 1


def test_what_is_proved_passes(work):
    """The noise is real: at 99% an audit of what is private may be wrong once in a hundred times."""
    sure = ("--confidence", 0.9999999)
    done = run(work, *CLAIM, "--clip-norm", 2, *sure, "--fail-if-caught", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"].endswith(
        "no attack tried here found a violation (99.99999% confidence): not a proof"
    )
    assert {item["attack"] for item in told["findings"]} == {
        "likelihood-ratio",
        "scale",
        "one-run",
        "leaks",
    }


def test_a_series_is_attacked_by_users_of_chosen_weeks(work):
    done = run(
        work, *("--epsilon", 1, "--delta", 1e-7, "--series-releases", 6, "--full-releases", 2)
    )
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert text.startswith("Claimed ε = 1 at δ = 1e-07 (PROVED); no attack tried here found a")
    assert "Attacks on posterior, a series of 6 releases" in text
    arguments = ("--series-releases", 3, "--epsilon", 1, "--attacks", "black-box", "--runs", 10)
    told = run(work, *arguments, "--full-releases", 1, "--clip-norm", 2, "--seed", 1, "--json")
    document = json.loads(told.stdout)
    assert document["settings"] == {"clip_norm": 2.0, "releases": 3, "full_releases": 1}
    assert document["findings"][1]["neighbour"] == "with a user who writes in every week"
    assert document["findings"][1]["sentence"].startswith("from 5 series of each: at least δ = 0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "error: --epsilon is missing: posterior needs a budget; 0.1 is strong, 1 is usual."),
        (
            (*CLAIM, "--attacks", "guess"),
            "error: --attacks 'guess': choose from likelihood-ratio, scale,",
        ),
        (
            (*CLAIM, "--confidence", 1),
            "error: --confidence 1.0: give a number from 0.5 to below 1; 0.99 is usual.",
        ),
        (
            (*CLAIM, "--runs", 1),
            "error: --runs 1: the number of outputs of each dataset is a whole number from 8",
        ),
        ((*CLAIM, "--seed", -1), "error: --seed -1: a seed is a whole number"),
        ((*CLAIM, "--slope", 1), "error: --slope: not an option of the mechanism posterior"),
        ((*CLAIM, "--full-releases", 2), "error: --full-releases 2: is of a series; give"),
        (
            (*CLAIM, "--series-releases", 9, "--mechanism", "gaussian"),
            "error: --mechanism gaussian: a series is released by posterior",
        ),
        (
            (*CLAIM, "--series-releases", 9, "--attacks", "leaks"),
            "error: --attacks 'leaks': can't attack a series; choose from likelihood-ratio,",
        ),
        (
            (*CLAIM, "--series-releases", 3),
            "error: --full-releases 4: the number of full releases of a series is a whole number",
        ),
        (("--mechanism", "k-anonymity"), "error: --mechanism k-anonymity: claims no ε"),
    ],
)
def test_bad_requests(work, arguments, message):
    done = run(work, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
