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
        (("--mechanism", "k-anonymity"), "error: --mechanism k-anonymity: claims no ε"),
    ],
)
def test_bad_requests(work, arguments, message):
    done = run(work, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
