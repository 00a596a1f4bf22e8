"""μ and ρ beside (ε, δ) on a card, and what no ε covers."""

import math

import pyarrow as pa
import pytest

import bayesgram as bg
from bayesgram.privacy.accounting import composed_epsilon
from bayesgram.privacy.budget import Budget

PUBLIC = pa.table({"text": ["the red fish swims", "the blue fish sleeps"] * 5})
PRIVATE = pa.table({"user": range(40), "text": ["the red fish"] * 40, "country": ["at", "de"] * 20})


@pytest.fixture(scope="module")
def vocabulary():
    return bg.Vocabulary.from_public(PUBLIC, order=[1, 2])


@pytest.mark.parametrize("mechanism", [bg.Posterior(), bg.Posterior(clip_norm=2.0)])
def test_mu_and_rho_are_those_of_what_a_ledger_is_charged(vocabulary, mechanism):
    budget = Budget(0.7, 1e-6)
    counts = bg.count(PRIVATE, vocabulary)
    card = bg.release(counts, vocabulary, mechanism=mechanism, epsilon=0.7, delta=1e-6).card
    spend = mechanism.spend(vocabulary, budget)
    assert card.gaussian_mu == pytest.approx(math.sqrt(spend.mu_squared), rel=1e-9)
    assert card.zcdp_rho == pytest.approx(spend.mu_squared / 2, rel=1e-9)
    assert composed_epsilon([spend], 1e-6) == pytest.approx(0.7, rel=1e-6)
    assert card.to_json()["mu"] == card.gaussian_mu
    assert card.to_json()["rho"] == card.zcdp_rho
    assert "(Gaussian differential privacy), ρ = " in dict(card.summary_lines)["Also"]


def test_so_are_those_of_gaussian_counts_and_of_segments():
    vocabulary = bg.Vocabulary.from_public(PUBLIC, order=2)
    counts = bg.count(PRIVATE, vocabulary)
    card = bg.release(counts, vocabulary, mechanism=bg.Gaussian(), epsilon=1, delta=1e-6).card
    spend = bg.Gaussian().spend(vocabulary, Budget(1, 1e-6))
    assert card.gaussian_mu == pytest.approx(math.sqrt(spend.mu_squared))
    by_country = bg.count(PRIVATE, vocabulary, by="country", segments=["at", "de"])
    parts = bg.release(by_country, vocabulary, epsilon=1, delta=1e-6)
    for name in parts:
        assert parts[name].card.gaussian_mu == pytest.approx(card.gaussian_mu, rel=1e-3)


def test_other_noise_has_neither():
    vocabulary = bg.Vocabulary.from_public(PUBLIC, order=2)
    counts = bg.count(PRIVATE, vocabulary)
    laplace = bg.release(counts, vocabulary, mechanism=bg.Laplace(), epsilon=1).card
    assert laplace.gaussian_sentence is None
    assert laplace.to_json()["mu"] is laplace.to_json()["rho"] is None
    assert laplace.not_protected
    seeded = bg.release(counts, vocabulary, epsilon=1, seed=1).card
    assert seeded.gaussian_mu is None
    assert seeded.not_protected == ()


def test_a_discovery_names_its_failure_probability():
    text = pa.table({"user": range(400), "text": ["a new phrase for the red fish"] * 400})
    vocabulary = bg.Vocabulary.from_public(PUBLIC)
    card = bg.discover(text, vocabulary, epsilon=1, delta=1e-6).card
    assert "but for a failure probability of" in card.gaussian_sentence


def test_the_card_says_what_no_epsilon_covers(vocabulary, tmp_path):
    release = bg.release(bg.count(PRIVATE, vocabulary), vocabulary, epsilon=1)
    said = "; ".join(release.card.to_json()["not_protected"])
    for what in (
        "what the curator states",
        "the public text",
        "that the release exists",
        "`count`",
    ):
        assert what in said
    assert "Outside ε" in dict(release.card.summary_lines)
    release.save(tmp_path / "out")
    assert bg.Release.load(tmp_path / "out").card.gaussian_mu == release.card.gaussian_mu
