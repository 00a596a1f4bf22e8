"""Dry runs: everything that a release checks; nothing spent, drawn, written or told of private data."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.mechanisms import publish
from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import dry_run
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.private.counts_io import save_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer
from helpers import commands, reference_paper

pytestmark = pytest.mark.slow

SIZE = 30
SECRET = "xyzzy"
DATASETS = {
    "many": np.random.default_rng(1).poisson(0.3, (700, SIZE)),
    "one": np.eye(1, SIZE, 7, dtype=np.int64) * (2**31 - 1),
    "nobody": np.zeros((0, SIZE), np.int64),
}


def vocabulary():
    ngrams = pa.array([f"w{i % 7} w{i}" for i in range(SIZE)], pa.large_string())
    return Vocabulary(ngrams, 10_000 // np.arange(1, SIZE + 1), 2, Tokenizer())


def counts(name):
    return reference_paper.make_user_counts(DATASETS[name], fingerprint=vocabulary().fingerprint)


@pytest.fixture
def work(tmp_path):
    """One folder a dataset, which differ in nothing but private data."""
    for name, people in DATASETS.items():
        folder = tmp_path / name
        folder.mkdir()
        vocabulary().save(folder / "vocab.parquet")
        save_counts(counts(name), vocabulary(), folder / "counts")
        Ledger.create(folder / "a.ledger", population="p", budget=Budget(1, 1e-6))
        users = [f"{SECRET}-{n}" for n in range(len(people))]
        pq.write_table(
            pa.table({"user": users, "text": ["w1 w8"] * len(users)}), folder / "text.parquet"
        )
    return tmp_path


RELEASE = (
    "release",
    "counts",
    "--vocab",
    "vocab.parquet",
    "--epsilon",
    0.2,
    "--delta",
    1e-6,
    "-o",
    "out",
    "--dry-run",
)
DISCOVER = (
    "discover",
    "text.parquet",
    "--vocab",
    "vocab.parquet",
    "--epsilon",
    1,
    "-o",
    "out",
    "--dry-run",
)
COMMANDS = {
    "release": (*RELEASE, "--ledger", "a.ledger", "--unit", "a post", "--expected-users", 500),
    "as JSON": (*RELEASE, "--json"),
    "gaussian": (*RELEASE, "--mechanism", "gaussian"),
    "discover": (*DISCOVER, "--ledger", "a.ledger", "--delta", 1e-7),
    "discover as JSON": (*DISCOVER, "--json"),
}


def unchanged(folder):
    """All bytes of a folder."""
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_dry_run_says_the_same_of_unrelated_people_and_leaves_everything_as_it_was(command, work):
    said = {}
    for name in DATASETS if command is COMMANDS["release"] else ["many", "one"]:
        before = unchanged(work / name)
        done = commands.bayesgram(*command, cwd=work / name)
        assert done.returncode == 0, done.stderr
        assert unchanged(work / name) == before
        assert SECRET not in done.stdout + done.stderr
        said[name] = (
            done.stdout,
            # Without how long it took, and without the note of a first run with cold kernels.
            re.sub(r".*(\d:\d\d:\d\d|Compiling inner loops.*) *\n?", "", done.stderr),
        )
    assert len(set(said.values())) == 1


def test_no_noise_is_drawn(work, monkeypatch):
    def drawn(*_arguments, **_options):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr("bayesgram.privacy.noise.ExactNoise.discrete_gaussian", drawn)
    commands.run_in_process(*COMMANDS["release"], cwd=work / "many")
    commands.run_in_process(*COMMANDS["discover"], cwd=work / "many")
    with pytest.raises(AssertionError, match="noise was drawn"):
        commands.run_in_process(*really("release"), cwd=work / "many")


def really(name):
    """The same command without --dry-run."""
    return [word for word in COMMANDS[name] if word != "--dry-run"]


def test_what_would_be_charged_is_what_a_release_is_charged(work):
    told = json.loads(commands.check_output(*COMMANDS["release"], "--json", cwd=work / "many"))
    assert (told["dry_run"], told["unit"], told["ledger"]["population"]) == (True, "a post", "p")
    assert told["plan"]["users"] == 500
    commands.check_output(*really("release"), cwd=work / "many")
    contents = Ledger.open(work / "many" / "a.ledger").read()
    (entry,) = contents.reservations
    spend = {name: value for name, value in told["spend"].items() if name != "mu_squared"}
    assert spend == vars(entry.spend)
    assert contents.remaining_gaussian_epsilon() == told["ledger"]["left_then_gaussian_epsilon"]
    assert (entry.unit, contents.unit) == ("a post", "a post")
    card = json.loads((work / "many" / "out" / "card.json").read_text())
    assert (card["unit"], card["protects"]) == (
        "a post",
        "a post (neighbours: add or remove one unit)",
    )
    assert card["assumes"][0] == "one user id is one unit: a post"
    assert "for one unit: a post" in card["person"]
    shown = commands.check_output("ledger", "show", "a.ledger", cwd=work / "many")
    assert "for one unit: a post" in shown
    other = commands.expect_refusal(
        *RELEASE[:-3], "-o", "other", "--ledger", "a.ledger", cwd=work / "many"
    )
    assert "counts in another unit, 'a post'" in other
    assert len(Ledger.open(work / "many" / "a.ledger").read().reservations) == 1


@pytest.mark.parametrize(
    ("mechanism", "budget", "more"),
    [
        (Posterior(), None, {}),
        (Posterior(), Budget(1, 0), {}),
        (Paper(), Budget(1, 1e-6), {"ledger": True}),
        (KAnonymity(5), None, {"ledger": True}),
        (Gaussian(), Budget(3, 1e-6), {"ledger": True}),
        (Laplace(), Budget(3), {"ledger": True}),
        (Gaussian(), Budget(0.1, 1e-6), {"ledger": True, "seed": 1}),
        (Gaussian(), Budget(0.1, 1e-6), {"unit": "\n"}),
        (Gaussian(), Budget(0.1, 1e-6), {"seed": -1}),
    ],
)
def test_a_dry_run_refuses_what_a_release_refuses_in_the_same_words(
    mechanism, budget, more, tmp_path
):
    more = {**more}
    if more.get("ledger"):
        more["ledger"] = Ledger.create(
            tmp_path / "a.ledger", population="p", budget=Budget(1, 1e-6)
        )
    told = []
    for run, where in ((dry_run, {}), (publish.release, {"output": tmp_path / "out"})):
        with pytest.raises(BayesgramError) as error:
            run(counts("many"), vocabulary(), mechanism, budget, **more, **where)
        told.append((str(error.value), type(error.value)))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("mechanism", "budget", "epsilon", "delta"),
    [(Paper(), Budget(1, 1e-6), 1, 1e-6), (KAnonymity(5), None, None, None)],
    ids=["paper", "k-anonymity"],
)
def test_a_dry_run_of_what_is_not_proved_names_no_cost(mechanism, budget, epsilon, delta):
    """A ledger takes no such release, so there is nothing that it would be charged."""
    told = json.loads(
        json.dumps(dry_run(counts("many"), vocabulary(), mechanism, budget).to_json())
    )
    assert (told["mechanism"], told["guarantee"]) == (mechanism.name, mechanism.guarantee.name)
    assert (told["epsilon"], told["delta"]) == (epsilon, delta)
    assert (told["spend"], told["ledger"]) == (None, None)
    proved = dry_run(counts("many"), vocabulary(), Gaussian(), Budget(1, 1e-6)).to_json()
    assert proved["spend"]["mu_squared"] > 0


def test_counts_of_another_vocabulary_are_refused():
    other = reference_paper.make_user_counts(DATASETS["many"], fingerprint="0" * 64)
    with pytest.raises(UsageError, match="vocabulary"):
        dry_run(other, vocabulary(), Posterior(), Budget(1, 1e-6))
