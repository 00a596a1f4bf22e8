"""Thinning into two views, and evidence on the second, against slow literal references."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.inference.model_choice import (
    MODEL_SHARES,
    WORD_REL_STD,
    log_likelihood,
    ngram_evidence,
    thin,
    word_evidence,
)
from helpers.hypothesis_profiles import examples
from helpers.synthetic_measurements import make_measured, make_public_ngrams


def test_thinning_gives_independent_views():
    """Noise of the two views: right scales and no correlation, within 5 standard errors over 200,000 numbers."""
    size = 200_000
    chance = np.random.default_rng(7)
    noise = np.full(size, 3.0)
    fit, judge = thin(make_measured(noise * chance.standard_normal(size), noise), 0)
    assert np.std(fit.counts / fit.noise) == pytest.approx(1, abs=5 / math.sqrt(2 * size))
    assert np.std(judge.counts / judge.noise) == pytest.approx(1, abs=5 / math.sqrt(2 * size))
    assert abs(np.corrcoef(fit.counts, judge.counts)[0, 1]) < 5 / math.sqrt(size)


def test_words_are_thinned_too_and_every_split_is_another():
    """20,000 words: no correlation between the views, nor between two splits, within 5 standard errors."""
    size = 20_000
    chance = np.random.default_rng(8)
    noise = np.full(size, 2.0)
    words = noise * chance.standard_normal(size)
    measured = make_measured(words, noise, word_counts=words, word_noise=noise)
    fit, judge = thin(measured, 0)
    assert abs(np.corrcoef(fit.word_counts, judge.word_counts)[0, 1]) < 5 / math.sqrt(size)
    other, _ = thin(measured, 1)
    moved = fit.word_counts - words
    assert abs(np.corrcoef(moved, other.word_counts - words)[0, 1]) < 5 / math.sqrt(size)
    again, _ = thin(measured, 1)
    assert again.counts.tolist() == other.counts.tolist()


@examples(30)
@given(st.integers(0, 10**6))
def test_evidence_is_the_log_likelihood_with_the_total_that_fits_best(seed):
    chance = np.random.default_rng(seed)
    prior, theta = chance.dirichlet(np.ones(20), 2)
    noise = chance.uniform(1, 30, 20)
    judge = make_measured(300 * theta + noise * chance.standard_normal(20), noise)

    def likelihood(shape):
        off = judge.counts - np.linspace(0, 2000, 8_001)[:, None] * shape
        return float((-0.5 * (off / noise) ** 2).sum(axis=1).max())

    found = ngram_evidence(theta, prior, judge)
    for at in (0, 7, 20):
        slow = likelihood((1 - MODEL_SHARES[at]) * prior + MODEL_SHARES[at] * theta) - likelihood(
            prior
        )
        assert found[at] == pytest.approx(slow, abs=0.05)


@examples(30)
@given(st.integers(0, 10**6))
def test_evidence_about_words_is_a_log_likelihood_with_a_stated_spread(seed):
    chance = np.random.default_rng(seed)
    words = chance.integers(0, 6, (30, 2)).astype(np.int32)
    prior, theta = chance.dirichlet(np.ones(30), 2)
    public = make_public_ngrams(prior, prior * 1e6, words, 6)
    noise = chance.uniform(1, 30, 6)
    heard = public.per_word(300 * theta) + noise * chance.standard_normal(6)
    judge = make_measured(
        np.zeros(30), np.ones(30), total=300.0, total_noise=1.0, word_counts=heard, word_noise=noise
    )
    middle = 300 * (public.per_word(prior) + public.per_word(theta)) / 2
    variances = noise**2 + (WORD_REL_STD * middle) ** 2

    def likelihood(share):
        means = 300 * public.per_word((1 - share) * prior + share * theta)
        return float((-0.5 * (heard - means) ** 2 / variances).sum())

    found = word_evidence(theta, public, judge)
    for at in (0, 7, 20):
        slow = likelihood(MODEL_SHARES[at]) - likelihood(0)
        assert found[at] == pytest.approx(slow, abs=1e-6)


def test_without_words_there_is_no_evidence_about_them():
    public = make_public_ngrams(np.full(4, 0.25), np.ones(4), np.zeros((4, 2), np.int32), 1)
    judge = make_measured(np.ones(4), np.ones(4))
    assert not word_evidence(np.full(4, 0.25), public, judge).any()


def test_counts_below_zero_are_as_likely_as_nothing():
    judge = make_measured(np.full(4, -5.0), np.ones(4))
    assert log_likelihood(np.full(4, 0.25), judge) == 0
