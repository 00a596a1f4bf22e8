"""bayesgram release --previous and bayesgram infer, as people start them."""

import json

import numpy as np
import pyarrow as pa
import pytest

from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.ledger import Ledger
from bayesgram.private.counts_io import save_counts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.release import Release
from bayesgram.reports.report import render_report
from bayesgram.reports.views import ReleaseView
from bayesgram.text.tokenizer import Tokenizer
from bayesgram.web.panels import card_details
from helpers import commands
from mechanisms.test_replay import SIZE, counts, vocabulary

BUDGET = ("--epsilon", "0.5", "--delta", "1e-6")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Counts, vocabularies, and a release."""
    folder = tmp_path_factory.mktemp("chain")
    vocabulary().save(folder / "vocab.parquet")
    Vocabulary(vocabulary().ngrams, np.arange(1, SIZE + 1), 3, Tokenizer()).save(
        folder / "other.parquet"
    )
    Vocabulary(pa.array(["q q q"], pa.large_string()), np.array([5]), 3, Tokenizer()).save(
        folder / "apart.parquet"
    )
    save_counts(counts("few", vocabulary()), vocabulary(), folder / "counts")
    commands.run_in_process(
        "release", "counts", "--vocab", "vocab.parquet", *BUDGET, "-o", "week-1", cwd=folder
    )
    options = ("--mechanism", "laplace", "--epsilon", "1", "-o", "laplace")
    commands.run_in_process("release", "counts", "--vocab", "vocab.parquet", *options, cwd=folder)
    return folder


def release(output, *more):
    return ("release", "counts", "--vocab", "vocab.parquet", *BUDGET, "-o", output, *more)


def test_weeks_follow_one_another_and_every_page_says_so(work):
    printed = commands.check_output(*release("week-2", "--previous", "week-1"), cwd=work)
    assert "Chain:      follows week-1. Not a promise: the 2 releases have spent ε = 0.7" in printed
    assert "so far, for everything one user wrote in these data." in printed
    told = json.loads(
        commands.check_output(*release("week-3", "--previous", "week-2", "--json"), cwd=work)
    )
    assert [link["name"] for link in told["card"]["chain"]["links"]] == ["week-1", "week-2"]
    assert told["card"]["chain"]["links"][0]["guarantee"] == "PROVED"
    assert "drift" in told["card"]["details"]
    view = ReleaseView("week-3", Release.load(work / "week-3"))
    sentence = view.card.chain_sentence
    assert sentence.startswith(
        "follows 2 releases, the last of them week-2. Not a promise: the 3 releases have spent"
    )
    assert sentence in render_report([view])
    assert card_details(view)["chain"] == told["card"]["follows"] == sentence
    again = json.loads(
        commands.check_output(
            "infer", "week-3", "--vocab", "other.parquet", "-o", "a", "--json", cwd=work
        )
    )
    assert again["card"]["follows"] == sentence


def test_infer_takes_the_measurements_and_another_vocabulary(work):
    printed = commands.check_output(
        "infer", "week-1", "--vocab", "other.parquet", "-o", "again", cwd=work
    )
    assert (
        "Inferred:   from the measurements of week-1, with public as public text; 60 n-grams were measured"
        in printed
    )
    assert "Claims:     ε = 0.5, δ = 1e-06 (PROVED)" in printed
    given, made = Release.load(work / "week-1"), Release.load(work / "again")
    assert made.measurements.digest == given.measurements.digest
    assert made.card.command == "bayesgram infer week-1 --vocab other.parquet --output again"
    told = json.loads(
        commands.check_output(
            "infer", "week-1", "--vocab", "vocab.parquet", "-o", "same", "--json", cwd=work
        )
    )
    assert told["card"]["inferred"]["from"] == "week-1"
    assert np.array_equal(Release.load(work / "same").probabilities, given.probabilities)
    assert card_details(ReleaseView("again", made))["inferred"] == made.card.reinference_sentence


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            release("x", "--previous", "laplace"),
            2,
            "laplace: keeps no noisy measurements (mechanism laplace",
        ),
        (release("x", "--previous", "nowhere"), 2, "nowhere: no such folder"),
        (release("week-1", "--previous", "week-1", "--force"), 2, "week-1"),
        (
            release("x", "--previous", "week-1", "--mechanism", "gaussian"),
            2,
            "only posterior can follow another",
        ),
        (
            ("infer", "laplace", "--vocab", "vocab.parquet", "-o", "x"),
            2,
            "laplace: keeps no noisy measurements",
        ),
        (
            ("infer", "week-1", "--vocab", "apart.parquet", "-o", "x"),
            2,
            "measured none of the 1 n-grams",
        ),
        (("infer", "nowhere", "--vocab", "vocab.parquet", "-o", "x"), 2, "nowhere: no such folder"),
        (("infer", "week-1", "--vocab", "vocab.parquet", "-o", "laplace"), 2, "laplace"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(work, arguments, code, message):
    assert message in commands.expect_refusal(*arguments, cwd=work, code=code)
    assert not (work / "x").exists()
    assert Release.load(work / "laplace").card.mechanism == "laplace"


def test_what_is_not_marked_as_published_is_not_followed(work):
    """A run that was stopped before its mark: refused with the command that sets it, and nothing is spent."""
    create = (
        "ledger",
        "create",
        "--population",
        "people",
        "--epsilon",
        9,
        "--delta",
        1e-5,
        "people.ledger",
    )
    commands.check_output(*create, cwd=work)
    charged = ("--ledger", "people.ledger")
    commands.check_output(*release("paid-1", *charged), cwd=work)
    ledger = Ledger.open(work / "people.ledger")
    number = ledger.reserve(Spend.gaussian(50.0), {"mechanism": "posterior"})
    card = json.loads((work / "paid-1" / "card.json").read_text())
    card["ledger"]["entry"] = number
    (work / "paid-1" / "card.json").write_text(json.dumps(card))
    before = (work / "people.ledger").read_bytes()
    for more in ((), ("--dry-run",)):
        told = commands.expect_refusal(
            *release("paid-2", *charged, "--previous", "paid-1", *more), cwd=work
        )
        assert f"bayesgram ledger publish people.ledger {number}" in told.replace(f"{work}/", "")
    assert (work / "people.ledger").read_bytes() == before
    assert not (work / "paid-2").exists()
    shown = json.loads(
        commands.check_output("ledger", "publish", "people.ledger", number, "--json", cwd=work)
    )
    assert shown == {"ledger": "people.ledger", "entry": number, "state": "published"}
    assert "is marked as published already" in commands.expect_refusal(
        "ledger", "publish", "people.ledger", number, cwd=work
    )
    assert "no reservation of" in commands.expect_refusal(
        "ledger", "publish", "people.ledger", 99, cwd=work
    )
    printed = commands.check_output(*release("paid-2", *charged, "--previous", "paid-1"), cwd=work)
    promise = "stays within ε = 9, δ = 1e-05 (PROVED) for everything one user wrote in these data, whenever the curator"
    assert promise in " ".join(printed.split())


def test_a_release_after_a_seeded_one_says_that_nothing_is_proved(work):
    commands.check_output(*release("seeded", "--seed", 1), cwd=work)
    printed = commands.check_output(*release("after", "--previous", "seeded"), cwd=work)
    assert (
        "Guarantee:  NONE: made from seeded (ε = 0.5, δ = 1e-06, NONE): nothing is proved"
        in printed
    )
    assert "(NONE)" in printed
    again = commands.check_output(
        "infer", "after", "--vocab", "other.parquet", "-o", "after-2", cwd=work
    )
    assert "Guarantee:  NONE" in again
    model = commands.bayesgram("export", "after", "--format", "arpa", "-o", "after.arpa", cwd=work)
    assert "label: NONE" in " ".join(model.stdout.split())
    assert "warning: after.arpa is not for publication: made from a release" in " ".join(
        model.stderr.split()
    )
    report = json.loads(
        commands.check_output("report", "after", "-o", "after.html", "--json", cwd=work)
    )
    assert report["label"] == "NONE"
    assert "Must not be published" in (work / "after.html").read_text()
