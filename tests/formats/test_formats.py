"""Files of earlier versions open for ever; files of later ones are refused, and the message says what to do.

A folder here holds what one version wrote (tools/make_format_samples.py), with expected.json, which was read from the
files without bayesgram. Tests work on copies.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bayesgram import Vocabulary
from bayesgram.audit.runner import FORMAT as AUDIT_FORMAT
from bayesgram.audit.runner import load_attacks
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.formats import check_format
from bayesgram.lm.arpa import read_arpa
from bayesgram.lm.files import FORMAT as MODEL_FORMAT
from bayesgram.lm.language_model import LanguageModel
from bayesgram.privacy.ledger import FORMAT as LEDGER_FORMAT
from bayesgram.private.counts_io import FORMAT as COUNTS_FORMAT
from bayesgram.public.vocabulary import FORMAT as VOCABULARY_FORMAT
from bayesgram.releases.release import FORMAT as RELEASE_FORMAT
from bayesgram.releases.release import Release
from helpers.commands import check_output, expect_failure

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "expected.json").is_file())
EXACT = {"rel": 1e-12, "abs": 0}
RELEASES = {
    "gaussian": "PROVED", "k-anonymity": "NONE", "laplace": "PROVED", "laplace-public": "PROVED", "paper": "EMPIRICAL",
    "posterior": "PROVED", "posterior-orders": "PROVED", "seeded": "NONE",
}  # fmt: skip


def expected(version):
    return json.loads((HERE / version / "expected.json").read_text(encoding="utf-8"))


def copied(version, target):
    shutil.copytree(HERE / version, target)
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


def test_there_are_files_of_the_first_version():
    assert VERSIONS[0] == "0.1"


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


# Through the command line


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


# Of a later version


def _number(file, number):
    """The same JSON file, of another format."""
    document = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(document | {"format": number}), encoding="utf-8")


def _later_vocabulary(files):
    table = pq.read_table(files / "vocab.parquet")
    later = {**table.schema.metadata, b"bayesgram.format": str(VOCABULARY_FORMAT + 1).encode()}
    pq.write_table(table.replace_schema_metadata(later), files / "vocab.parquet")


LATER = {
    "a vocabulary": (_later_vocabulary, lambda files: Vocabulary.load(files / "vocab.parquet")),
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
