"""Inference on made-up worlds where the truth is known: it sees noisy counts and public numbers only."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.inference.features import Features, word_vectors
from bayesgram.inference.measured import Measured, PublicNgrams
from bayesgram.inference.pooling import pooled_means
from bayesgram.inference.posterior import infer, thinned
from bayesgram.inference.shrinkage import GRID, posterior
from bayesgram.inference.uncertainty import fitted_trust, spread


def world(*, size=4000, order=3, words=600, word_effect=0.7, own_effect=0.5, noise=40.0, useless=False, seed=0):
    """Zipfian n-grams whose private frequencies stray from the public ones by word, and each on its own."""
    chance = np.random.default_rng(seed)
    likely = 1 / np.arange(1, words + 1) ** 0.9
    made = np.unique(chance.choice(words, (size * 3, order), p=likely / likely.sum()), axis=0)
    ngrams = made[chance.permutation(len(made))[:size]].astype(np.int32)
    public = 1 / np.arange(1, len(ngrams) + 1)
    public /= public.sum()
    stray = chance.normal(0, word_effect, words)[ngrams].sum(axis=1) / math.sqrt(order)
    truth = public * np.exp(stray + chance.normal(0, own_effect, len(ngrams)))
    truth /= truth.sum()
    prior = np.full(len(ngrams), 1 / len(ngrams)) if useless else public
    shape = prior**0.25 / math.sqrt((prior**1.5).sum())
    measured = Measured(1e6 * truth + shape * noise * chance.standard_normal(len(ngrams)), shape * noise)
    return PublicNgrams(prior, np.rint(prior * 1e7), ngrams, words), measured, truth


def kl(truth, theta):
    return float((truth * np.log(truth / theta)).sum())


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("useless", [False, True])
def test_every_order_and_also_a_useless_prior_gain_from_the_data(order, useless):
    size = 1500 if order == 6 else 4000
    public, measured, truth = world(size=size, order=order, words=4000 if order == 1 else 600, useless=useless)
    found = infer(measured, public)
    assert kl(truth, found.theta) < 0.35 * kl(truth, public.prior)
    assert found.theta.sum() == pytest.approx(1)
    assert (found.theta > 0).all()


def test_without_signal_the_answer_is_the_prior():
    public, measured, _ = world(noise=1e5)
    found = infer(measured, public)
    assert found.model == "public"
    assert found.theta == pytest.approx(public.prior)
    nobody = Measured(measured.noise * np.random.default_rng(0).standard_normal(public.prior.size), measured.noise)
    assert infer(nobody, public).theta == pytest.approx(public.prior)


def test_the_prior_may_win_the_choice_itself():
    """60 draws of what public text says, in noise: the second view often prefers the prior, whose sum is 1 but for rounding."""
    for seed in range(60):
        chance = np.random.default_rng(seed)
        prior = chance.dirichlet(np.ones(50)) * (1 + 4e-16 * chance.integers(-2, 3))
        noise = np.full(50, 30.0)
        public = PublicNgrams(prior, prior * 1e6, np.arange(50, dtype=np.int32)[:, None], 50)
        found = infer(Measured(1e4 * prior + noise * chance.standard_normal(50), noise), public)
        assert found.theta.sum() == pytest.approx(1)


@pytest.mark.parametrize("noise", [40.0, 400.0])
def test_a_perfect_prior_is_left_alone(noise):
    public, measured, truth = world(word_effect=0.0, own_effect=0.0, noise=noise)
    assert kl(truth, infer(measured, public).theta) < 2e-3


@pytest.mark.parametrize("noise", [40.0, 400.0, 2000.0])
def test_pooling_helps_where_words_explain_and_nothing_is_worse_than_public(noise):
    public, measured, truth = world(word_effect=1.2, own_effect=0.2, noise=noise)
    flat, _ = posterior(measured.counts, measured.noise, measured.counts.sum() * public.prior)
    found = infer(measured, public)
    assert found.model.startswith("pooled")
    assert kl(truth, found.theta) < 0.8 * kl(truth, flat / flat.sum())
    assert kl(truth, found.theta) < kl(truth, public.prior)


@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("noise", [40.0, 200.0])
def test_a_misleading_prior_is_set_aside(order, noise):
    """Public counts in an order of their own: far better than they are, and not much worse than with a level prior."""
    words = 4000 if order == 1 else 600
    public, measured, truth = world(order=order, words=words, noise=noise)
    chance = np.random.default_rng(3)
    wrong = replace(public, prior=public.prior[chance.permutation(public.prior.size)])
    level = replace(public, prior=np.full_like(public.prior, 1 / public.prior.size))
    found = kl(truth, infer(measured, wrong).theta)
    assert found < 0.1 * kl(truth, wrong.prior)
    assert found < 1.5 * kl(truth, infer(measured, level).theta)


@pytest.mark.parametrize(("hot", "count"), [(100, 9.0), (100, 20.0), (1, 5000.0), (1, 50000.0)])
def test_a_few_n_grams_far_above_a_flat_prior_keep_their_weight(hot, count):
    """Noise 1, 20,000 n-grams: what stands out speaks for itself, and does not raise the others."""
    chance = np.random.default_rng(2)
    truth = np.full(20_000, 0.03)
    truth[chance.choice(truth.size, hot, replace=False)] = count
    noise = np.ones(truth.size)
    words = np.arange(truth.size, dtype=np.int32)[:, None]
    public = PublicNgrams(noise / noise.size, 0 * noise, words, truth.size)
    found = infer(Measured(truth + chance.standard_normal(truth.size), noise), public)
    assert kl(truth / truth.sum(), found.theta) < 0.05


@pytest.mark.parametrize("noise", [150.0, 300.0, 600.0, 1200.0])
def test_near_the_end_of_the_signal_a_right_prior_is_not_left(noise):
    """10 draws each of a world that is as public text says: the wrong choice in at most 1 (2 standard errors: 2.3%)."""
    left = 0
    for seed in range(10):
        public, measured, truth = world(size=1500, word_effect=0.0, own_effect=0.0, noise=noise, seed=seed)
        left += kl(truth, infer(measured, public).theta) > 1e-3
    assert left <= 1


@pytest.mark.parametrize(("noise", "effects"), [(40.0, 0.5), (200.0, 0.5), (200.0, 0.0), (2000.0, 0.9)])
def test_deviations_are_as_large_as_the_errors(noise, effects):
    """Rare and frequent n-grams apart, also with a prior that is right; rather too unsure than too sure."""
    public, measured, truth = world(noise=noise, own_effect=effects, word_effect=effects)
    found = infer(measured, public)
    for part in np.array_split(np.argsort(-found.theta), 4):
        z = (found.theta - truth)[part] / found.deviation[part]
        assert (np.abs(z) < 2).mean() > 0.9
        assert np.sqrt((z**2).mean()) < 1.5
        assert np.sqrt((z**2).mean()) >= (0.3 if effects else 0.0)


def test_trust_in_what_is_expected_is_fitted_to_the_errors():
    """λ strays from E with deviation E/(t + c) for a known c; one standard error is a few percent of c here."""
    chance = np.random.default_rng(5)
    noise = np.full(100_000, 10.0)
    expected = 10 * np.exp(chance.uniform(-3, 1, noise.size))
    for trust in (0.5, 1.0, 2.0):
        truth = expected + spread(expected, noise, trust) * chance.standard_normal(noise.size)
        judge = Measured(truth + 2 * noise * chance.standard_normal(noise.size), 2 * noise)
        assert trust / 1.5 <= fitted_trust(expected, noise, judge) <= trust * 1.2
    exact = Measured(expected + 2 * noise * chance.standard_normal(noise.size), 2 * noise)
    assert fitted_trust(expected, noise, exact) > 3


def test_measured_words_help():
    public, measured, truth = world(word_effect=1.5, own_effect=0.2, noise=1500.0, size=8000)
    exact = public.per_word(1e6 * truth)
    noise = np.full(public.word_total, 50.0)
    with_words = Measured(
        measured.counts, measured.noise, exact + noise * np.random.default_rng(1).standard_normal(600), noise
    )
    assert kl(truth, infer(with_words, public).theta) < 0.9 * kl(truth, infer(measured, public).theta)


def test_the_same_measurements_give_the_same_answer():
    public, measured, _ = world()
    assert infer(measured, public).theta.tolist() == infer(measured, public).theta.tolist()


def test_thinning_gives_independent_views():
    """Noise of the two views: right scales and no correlation, within 5 standard errors over 200,000 numbers."""
    size = 200_000
    chance = np.random.default_rng(7)
    noise = np.full(size, 3.0)
    fit, judge = thinned(Measured(noise * chance.standard_normal(size), noise))
    assert np.std(fit.counts / fit.noise) == pytest.approx(1, abs=5 / math.sqrt(2 * size))
    assert np.std(judge.counts / judge.noise) == pytest.approx(1, abs=5 / math.sqrt(2 * size))
    assert abs(np.corrcoef(fit.counts, judge.counts)[0, 1]) < 5 / math.sqrt(size)


def dense(features):
    """x as a matrix."""
    size = features.ridge.size
    return np.array([features.times(row) for row in np.eye(size)]).T


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 4), st.integers(2, 6), st.integers(2, 12), st.integers(0, 999))
def test_products_with_the_features_are_those_of_a_matrix(order, words, size, seed):
    chance = np.random.default_rng(seed)
    ngrams = chance.integers(0, words, (size, order)).astype(np.int32)
    public = PublicNgrams(np.full(size, 1 / size), chance.integers(1, 9, size).astype(float), ngrams, words)
    features = Features(public, chance.normal(size=(words, 3)))
    x, values = dense(features), chance.normal(size=size)
    assert features.transposed(values) == pytest.approx(x.T @ values)
    by_word = np.zeros((size, words))
    for i, row in enumerate(ngrams):
        for word in row:
            by_word[i, word] += 1
    assert public.per_word(values) == pytest.approx(by_word.T @ values)
    assert public.per_ngram(np.arange(words, dtype=float)) == pytest.approx(by_word @ np.arange(words))


def test_the_gauss_newton_solution_is_that_of_dense_algebra():
    """At the optimum the gradient of the quasi-likelihood vanishes; checked on a small dense problem."""
    public, measured, _ = world(size=60, words=12, noise=300.0)
    features = Features(public, word_vectors(public))
    means = pooled_means(measured, features, stiffness=5.0)
    x = dense(features)
    beta, *_ = np.linalg.lstsq(
        np.vstack([x, 1e-6 * np.eye(x.shape[1])]),
        np.concatenate([np.log(means / public.prior), np.zeros(x.shape[1])]),
        rcond=None,
    )
    assert np.isfinite(beta).all()
    assert means.sum() == pytest.approx(1e6, rel=0.3)


def test_shrinkage_is_that_of_a_slow_posterior():
    """One n-gram at a time, with the mixture's weights found by the same EM written out."""
    chance = np.random.default_rng(2)
    means, noise = chance.uniform(5, 50, 40), chance.uniform(2, 20, 40)
    counts = means * np.exp(chance.normal(0, 0.7, 40)) + noise * chance.standard_normal(40)
    counts = np.minimum(counts, 11 * noise)
    weights = [math.exp(-0.5 * (g / 0.6) ** 2) for g in GRID]
    likelihood = [
        [math.exp(-0.5 * ((y - m * math.exp(g)) / s) ** 2) for g in GRID]
        for y, m, s in zip(counts, means, noise, strict=True)
    ]
    weights = [w / sum(weights) for w in weights]
    for _ in range(60):
        shares = [[w * part for w, part in zip(weights, row, strict=True)] for row in likelihood]
        weights = [sum(row[g] / sum(row) for row in shares) / len(shares) for g in range(len(GRID))]
    expected, deviation = posterior(counts, noise, means)
    for i in range(40):
        post = [w * part for w, part in zip(weights, likelihood[i], strict=True)]
        first = sum(p * means[i] * math.exp(g) for p, g in zip(post, GRID, strict=True)) / sum(post)
        second = sum(p * (means[i] * math.exp(g)) ** 2 for p, g in zip(post, GRID, strict=True)) / sum(post)
        assert expected[i] == pytest.approx(first, rel=2e-3)
        assert deviation[i] == pytest.approx(math.sqrt(second - first**2), rel=2e-2)


def test_a_clear_count_speaks_for_itself():
    expected, deviation = posterior(np.array([1000.0, 3.0]), np.array([1.0, 5.0]), np.array([1.0, 2.0]))
    assert (expected[0], deviation[0]) == (1000.0, 1.0)
    assert expected[1] < 20


def test_word_vectors_bring_words_of_like_company_together():
    """Two groups of words that public text uses in different places."""
    chance = np.random.default_rng(0)
    left = np.concatenate([chance.integers(0, 5, 300), chance.integers(5, 10, 300)])
    right = np.concatenate([chance.integers(10, 15, 300), chance.integers(15, 20, 300)])
    ngrams = np.unique(np.stack([left, right], axis=1), axis=0).astype(np.int32)
    public = PublicNgrams(np.full(len(ngrams), 1 / len(ngrams)), np.ones(len(ngrams)), ngrams, 20)
    vectors = word_vectors(public)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > likeness[0, 6] + 0.5
