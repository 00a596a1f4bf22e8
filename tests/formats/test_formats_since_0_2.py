"""Files that 0.1 did not have, as later versions wrote them: they open for ever, too."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayesgram import Discovery, PublicModel, Release, SegmentedRelease, Vocabulary
from bayesgram.private.counts_on_disk import open_any_counts
from bayesgram.releases.chain import Chain

HERE = Path(__file__).parent
VERSIONS = sorted(
    path.name for path in HERE.iterdir() if path.name[0].isdigit() and path.name != "0.1"
)


@pytest.fixture(params=VERSIONS)
def files(request):
    return HERE / request.param


@pytest.fixture
def told(files):
    return json.loads((files / "expected.json").read_text(encoding="utf-8"))


def test_there_are_some():
    assert "0.2" in VERSIONS


def test_the_vocabulary_of_several_sources_opens(files, told):
    vocabulary, expected = (
        Vocabulary.load(files / "vocab-sources.parquet"),
        told["vocabularies"]["vocab-sources"],
    )
    assert vocabulary.source_names == ["articles", "chat"]
    assert vocabulary.ngrams.to_pylist() == expected["ngrams"]
    assert vocabulary.counts.tolist() == expected["counts"]


def test_the_public_model_opens_and_belongs_to_its_vocabulary(files):
    model = PublicModel.load(files / "public-model")
    assert model.source_names == ["articles", "chat"]
    assert all(model[name].predict("the", 1) for name in model.source_names)


def test_counts_and_releases_by_segment_open(files, told):
    counts = open_any_counts(files / "counts-countries", vocabulary_size=40)
    assert list(counts.segments.names) == ["de", "fr", "it"]
    release = SegmentedRelease.load(files / "countries")
    assert set(release) == set(told["segments"]) == {"all", "de", "fr", "it", "other"}
    for name, expected in told["segments"].items():
        assert release[name].probabilities[:5].tolist() == expected["probabilities"]
        assert release[name].card.segment["name"] == name


def test_the_chain_of_a_release_holds(files):
    release = Release.load(files / "next")
    assert [link.name for link in Chain.from_json(release.card.chain).links] == ["gaussian"]
    assert release.measured.carried is not None


def test_the_discovery_opens(files, told):
    found = Discovery.load(files / "discovery")
    assert found.ngrams.to_pylist() == told["discovered"]
    vocabulary = Vocabulary.load(files / "discovery" / "vocab.parquet")
    assert set(told["discovered"]) <= set(vocabulary.ngrams.to_pylist())


def test_a_card_knows_the_rows_beside_it(files):
    release = Release.load(files / "posterior")
    assert release.card.distribution == release.described
    assert np.isfinite(release.deviations).all()
