"""Files of earlier versions open for ever; files of later ones are refused, and the message says what to do.

A folder here holds what one version wrote (tools/make_format_samples.py), with expected.json, which was read from the
files without bayesgram. Tests work on copies: opening a ledger may write.
"""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bayesgram import Budget, Ledger, Vocabulary, load_counts
from bayesgram.audit.runner import FORMAT as AUDIT_FORMAT
from bayesgram.audit.runner import load_attacks
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.formats import check_format
from bayesgram.lm.arpa import read_arpa
from bayesgram.lm.files import FORMAT as MODEL_FORMAT
from bayesgram.lm.language_model import LanguageModel
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.ledger import FORMAT as LEDGER_FORMAT
from bayesgram.privacy.ledger_io import read_ledger
from bayesgram.private.counts_io import FORMAT as COUNTS_FORMAT
from bayesgram.public.vocabulary import FORMAT as VOCABULARY_FORMAT
from bayesgram.releases.release import FORMAT as RELEASE_FORMAT
from bayesgram.releases.release import Release
from helpers.commands import check_output, expect_failure

HERE = Path(__file__).parent
FOLDERS = sorted(path.name for path in HERE.iterdir() if (path / "expected.json").is_file())
VERSIONS = [
    name for name in FOLDERS if name[0].isdigit()
]  # others hold files of a single format, which no version wrote
EXACT = {"rel": 1e-12, "abs": 0}
RELEASES = {
    "gaussian": "PROVED", "k-anonymity": "NONE", "laplace": "PROVED", "laplace-public": "PROVED", "paper": "EMPIRICAL",
    "posterior": "PROVED", "posterior-orders": "PROVED", "seeded": "NONE",
}  # fmt: skip
LEDGERS = {"empty": 0, "full": 1, "mixed": 3, "pure": 2, "tight": 2}  # reservations


def expected(version):
    return json.loads((HERE / version / "expected.json").read_text(encoding="utf-8"))


def copied(version, target):
    """The files as a user would have them: a ledger is its owner's, whatever git made of that."""
    shutil.copytree(HERE / version, target)
    for ledger in target.glob("*.ledger"):
        ledger.chmod(0o600)
    return target


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def opened(version, tmp_path_factory):
    """Shared, for tests that only read."""
    return copied(version, tmp_path_factory.mktemp("formats") / version)


@pytest.fixture
def files(tmp_path):
    """Of the first version, to be changed."""
    return copied(VERSIONS[0], tmp_path / "files")


@pytest.fixture(params=FOLDERS)
def ledgers(request, tmp_path):
    """Of every folder, to be charged."""
    return copied(request.param, tmp_path / "files")


def test_there_are_files_of_the_first_version_and_ledgers_of_every_format():
    assert VERSIONS[0] == "0.1"
    formats = {_ledger_format(HERE / folder / "pure.ledger") for folder in FOLDERS}
    assert formats | {LEDGER_FORMAT} == set(range(1, LEDGER_FORMAT + 1))


def _ledger_format(file):
    """At byte 60: opening it might write."""
    return int.from_bytes(file.read_bytes()[60:64], "big")


# From Python


@pytest.mark.parametrize(("name", "orders"), [("vocab", [3]), ("vocab-orders", [1, 2, 3])])
def test_vocabularies_open(version, opened, name, orders):
    told, vocabulary = (
        expected(version)["vocabularies"][name],
        Vocabulary.load(opened / f"{name}.parquet"),
    )
    assert vocabulary.ngrams.to_pylist() == told["ngrams"]
    assert vocabulary.counts.tolist() == told["counts"]
    assert [part.order for _, part in vocabulary.parts] == orders
    assert vocabulary.tokenizer.name == told["metadata"]["bayesgram.tokenizer"]
    assert vocabulary.tokenizer.boundaries == (name == "vocab-orders")


@pytest.mark.parametrize("name", ["", "-orders"])
def test_counts_open_and_fit_their_vocabulary(version, opened, name):
    told, vocabulary = (
        expected(version)["counts"][f"counts{name}"],
        Vocabulary.load(opened / f"vocab{name}.parquet"),
    )
    counts = load_counts(opened / f"counts{name}", vocabulary_size=len(vocabulary))
    assert (len(counts.users), counts.ngrams.size) == (told["users"], told["rows"])
    totals = np.bincount(counts.ngrams, counts.counts, minlength=len(vocabulary))
    assert np.trim_zeros(totals, "b").tolist() == told["totals"]
    assert counts.vocabulary_fingerprint == told["fingerprint"] == vocabulary.fingerprint


@pytest.mark.parametrize("name", RELEASES)
def test_releases_open_with_the_claim_they_had(version, opened, name):
    told, release = expected(version)["releases"][name], Release.load(opened / name)
    assert (release.card.guarantee.name, told["guarantee"]) == (RELEASES[name], RELEASES[name])
    for field in ("mechanism", "statement", "epsilon", "delta", "seeded", "ledger"):
        assert getattr(release.card, field) == told[field], field
    assert len(release.ngrams) == told["size"]
    assert release.ngrams.to_pylist()[:5] == told["ngrams"]
    assert release.probabilities[:5].tolist() == pytest.approx(told["probabilities"], **EXACT)
    deviations = None if release.deviations is None else release.deviations[:5].tolist()
    assert deviations == told["deviations"]
    assert str(release.card).splitlines()[0].startswith(f"Mechanism:  {told['mechanism']}")


def test_a_release_that_is_saved_again_says_the_same(opened, tmp_path):
    release = Release.load(opened / "posterior")
    release.save(tmp_path / "again")
    again = Release.load(tmp_path / "again")
    assert again.card == release.card
    assert again.card.distribution == release.described
    assert np.array_equal(again.probabilities, release.probabilities)


def test_models_open_and_agree_with_their_arpa_files(version, opened):
    told, model = expected(version)["model"], LanguageModel.load(opened / "model")
    assert (model.order, list(model.sizes), model.tokenizer.name) == (
        told["order"],
        told["ngrams"],
        told["tokenizer"],
    )
    assert model.trie.log_probability[1:6].astype(float).tolist() == pytest.approx(
        told["log_probabilities"], **EXACT
    )
    for name in ("model.arpa", "model.arpa.gz"):
        imported = read_arpa(opened / name, tokenizer=model.tokenizer)
        assert [word for word, *_ in imported.predict("", 3)] == [
            word for word, *_ in model.predict("", 3)
        ]


def test_audits_open(version, opened):
    told, attacks = expected(version)["audit"], load_attacks(opened / "audit")
    for field in ("mechanism", "guarantee", "epsilon", "delta", "verdict", "caught"):
        assert getattr(attacks, field) == told[field], field
    assert [found["attack"] for found in attacks.findings] == told["attacks"]


@pytest.mark.parametrize("name", LEDGERS)
def test_ledgers_open_with_all_that_was_reserved(ledgers, name):
    told = json.loads((ledgers / "expected.json").read_text(encoding="utf-8"))["ledgers"][name]
    contents = read_ledger(ledgers / f"{name}.ledger")
    for entry, row in zip(contents.reservations, told["reservations"], strict=True):
        assert entry.spend == Spend(**row.pop("spend", vars(entry.spend)))  # 0.1 did not say
        assert entry.spend.failure == 0
    for field in ("identity", "population", "created"):
        assert getattr(contents, field) == told[field], field
    assert contents.budget == Budget(told["epsilon"], told["delta"])
    found = [
        {
            "number": entry.number,
            "time": entry.time,
            "published": entry.published,
            "description": entry.description,
        }
        for entry in contents.reservations
    ]
    assert found == told["reservations"]
    assert len(found) == LEDGERS[name]


def test_a_ledger_of_delta_0_is_charged_on(ledgers):
    """0.75 of 2 is spent: 1.25 more fits, by what ε adds up to, and nothing after that."""
    ledger = Ledger.open(ledgers / "pure.ledger")
    before = ledger.read().reservations
    number = ledger.reserve(Spend(pure_epsilon=1.25), {"mechanism": "laplace"})
    after = ledger.read().reservations
    assert [entry.description for entry in after[:-1]] == [entry.description for entry in before]
    assert after[-1].number == number
    with pytest.raises(BayesgramError, match="Nothing was reserved"):
        ledger.reserve(Spend(pure_epsilon=0.001), {})


def test_a_ledger_of_delta_above_0_is_charged_on(ledgers):
    """Whatever its format becomes by that: what was there stays, in its order, and the new entry is the last."""
    ledger = Ledger.open(ledgers / "mixed.ledger")
    before = ledger.read().reservations
    number = ledger.reserve(Spend.gaussian(50.0), {"mechanism": "gaussian"})
    ledger.complete(number)
    after = Ledger.open(ledgers / "mixed.ledger").read().reservations
    assert [(entry.number, entry.description, entry.hash) for entry in after[:-1]] == [
        (entry.number, entry.description, entry.hash) for entry in before
    ]
    assert (after[-1].number, after[-1].published) == (number, True)


@pytest.mark.parametrize("name", ["full", "tight"])
def test_what_is_spent_stays_spent(ledgers, name):
    ledger = Ledger.open(ledgers / f"{name}.ledger")
    with pytest.raises(BayesgramError, match="Nothing was reserved"):
        ledger.reserve(Spend(pure_epsilon=0.2), {})
    assert len(ledger.read().reservations) == LEDGERS[name]


def test_a_discovery_can_only_come_first(ledgers):
    found = Spend.gaussian(40.0, failure=1e-9)
    with pytest.raises(BayesgramError, match="its first entry was no discovery"):
        Ledger.open(ledgers / "mixed.ledger").reserve(found, {})
    empty = Ledger.open(ledgers / "empty.ledger")
    number = empty.reserve(found, {})
    assert [(entry.number, entry.spend) for entry in empty.read().reservations] == [(number, found)]


# Through the command line


def test_the_command_line_compares_releases_with_counts(opened):
    command = ["evaluate", *RELEASES, "--against", "counts", "--vocab", "vocab.parquet", "--json"]
    command.remove("posterior-orders")
    rows = json.loads(check_output(*command, cwd=opened))["releases"]
    assert {row["release"] for row in rows} >= set(RELEASES) - {"posterior-orders"}


def test_the_command_line_reports_with_an_audit(opened, tmp_path):
    page = tmp_path / "page.html"
    check_output(
        "report",
        "posterior",
        "paper",
        "--vocab",
        "vocab.parquet",
        "--audit",
        "audit",
        "-o",
        page,
        cwd=opened,
    )
    assert "PROVED" in page.read_text(encoding="utf-8")


def test_the_command_line_predicts_with_a_model(version, opened):
    found = json.loads(check_output("predict", "model", "", "-k", "3", "--json", cwd=opened))[
        "predictions"
    ]
    assert len(found) == 3
    assert 0 < found[0]["probability"] < 1


def test_the_command_line_shows_ledgers(version, opened):
    rows = json.loads(check_output("ledger", "list", ".", "--json", cwd=opened))["ledgers"]
    assert {Path(row["ledger"]).stem: row["reservations"] for row in rows} == LEDGERS
    assert all(row["problem"] is None for row in rows)


# Of a later version


def _number(file, number):
    """The same JSON file, of another format."""
    document = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(document | {"format": number}), encoding="utf-8")


def _later_vocabulary(files):
    table = pq.read_table(files / "vocab.parquet")
    later = {**table.schema.metadata, b"bayesgram.format": str(VOCABULARY_FORMAT + 1).encode()}
    pq.write_table(table.replace_schema_metadata(later), files / "vocab.parquet")


def _later_ledger(files):
    with closing(sqlite3.connect(files / "pure.ledger")) as connection:
        connection.execute(f"PRAGMA user_version = {LEDGER_FORMAT + 1}")


LATER = {
    "a vocabulary": (_later_vocabulary, lambda files: Vocabulary.load(files / "vocab.parquet")),
    "a counts folder": (
        lambda files: _number(files / "counts" / "meta.json", COUNTS_FORMAT + 1),
        lambda files: load_counts(files / "counts", vocabulary_size=40),
    ),
    "a release": (
        lambda files: _number(files / "posterior" / "card.json", RELEASE_FORMAT + 1),
        lambda files: Release.load(files / "posterior"),
    ),
    "a model": (
        lambda files: _number(files / "model" / "model.json", MODEL_FORMAT + 1),
        lambda files: LanguageModel.load(files / "model"),
    ),
    "an audit": (
        lambda files: _number(files / "audit" / "audit.json", AUDIT_FORMAT + 1),
        lambda files: load_attacks(files / "audit"),
    ),
    "a ledger": (_later_ledger, lambda files: read_ledger(files / "pure.ledger")),
}


@pytest.mark.parametrize("kind", LATER)
def test_a_later_format_is_refused_with_what_to_do(files, kind):
    change, load = LATER[kind]
    load(files)
    change(files)
    with pytest.raises(
        UsageError,
        match=rf": is {kind} of format \d+; this bayesgram reads \d+\. Use a newer one\.$",
    ):
        load(files)


def test_the_command_line_refuses_later_formats(files):
    for change, _ in LATER.values():
        change(files)
    for command in (["count", "none.csv"], ["release", "counts", "--epsilon", "1"]):
        told = expect_failure(
            *command, "--vocab", "vocab.parquet", "-o", "out", cwd=files, code=2, secret="no secret"
        )
        assert "vocab.parquet: is a vocabulary of format" in told
        assert "Use a newer one." in told
    told = expect_failure(
        "report", "posterior", "-o", "page.html", cwd=files, code=2, secret="no secret"
    )
    assert "posterior: is a release of format 2; this bayesgram reads 1. Use a newer one." in told


@pytest.mark.parametrize("number", [0, -1, True, 1.0, "1", None, [1]])
def test_what_is_no_number_is_a_damaged_file(files, number):
    with pytest.raises(ValueError, match="a format is a whole number from 1"):
        check_format("card.json", "a release", number, newest=1)
    _number(files / "posterior" / "card.json", number)
    with pytest.raises(BayesgramError, match="the release is damaged"):
        Release.load(files / "posterior")


FORMATS = {
    "vocabulary": VOCABULARY_FORMAT, "counts": COUNTS_FORMAT, "release": RELEASE_FORMAT, "model": MODEL_FORMAT,
    "audit": AUDIT_FORMAT, "ledger": LEDGER_FORMAT,
}  # fmt: skip


def test_the_page_about_versions_has_every_format_and_its_number():
    page = (HERE.parent.parent / "docs" / "versioning.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| (\w+) \| (\d+) \|", page, re.MULTILINE))
    assert {name: int(number) for name, number in told.items()} == FORMATS


def test_what_is_written_says_its_format(opened, tmp_path):
    Vocabulary.load(opened / "vocab.parquet").save(tmp_path / "vocab.parquet")
    assert (
        pq.read_schema(tmp_path / "vocab.parquet").metadata[b"bayesgram.format"]
        == str(VOCABULARY_FORMAT).encode()
    )
    Release.load(opened / "posterior").save(tmp_path / "release")
    assert (
        json.loads((tmp_path / "release" / "card.json").read_text(encoding="utf-8"))["format"]
        == RELEASE_FORMAT
    )
    LanguageModel.load(opened / "model").save(tmp_path / "model")
    assert (
        json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))["format"]
        == MODEL_FORMAT
    )
