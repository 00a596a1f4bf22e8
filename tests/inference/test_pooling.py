"""What the words of an n-gram say about it, and how far counts are drawn there: against dense references."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.inference import pooling
from bayesgram.inference import pooling as features_module
from bayesgram.inference.pooling import (
    PRIOR_EFFECT_COUNT,
    PRIOR_RIDGES,
    RIDGE_ROUND_STEPS,
    RIDGE_ROUNDS,
    Features,
    Pool,
    compute_word_vectors,
    fit_pooled_means,
    learn_ridges,
    solve_by_conjugate_gradients,
)
from bayesgram.inference.shrinkage import LOG_RATIO_GRID, shrink_counts
from helpers.hypothesis_profiles import examples
from helpers.synthetic_measurements import kl_divergence, make_public_ngrams, simulate


def dense(features):
    """x as a matrix."""
    size = sum(features.block_sizes)
    return np.array([features.dot(row) for row in np.eye(size)]).T


@examples(25)
@given(st.integers(1, 4), st.integers(2, 6), st.integers(2, 12), st.integers(0, 999))
def test_products_with_the_features_are_those_of_a_matrix(order, words, size, seed):
    chance = np.random.default_rng(seed)
    ngrams = chance.integers(0, words, (size, order)).astype(np.int32)
    public = make_public_ngrams(
        np.full(size, 1 / size), chance.integers(1, 9, size).astype(float), ngrams, words
    )
    features = Features.from_ngrams(public, chance.normal(size=(words, 3)))
    x, values = dense(features), chance.normal(size=size)
    assert features.transposed_dot(values) == pytest.approx(x.T @ values)
    by_word = np.zeros((size, words))
    for i, row in enumerate(ngrams):
        for word in row:
            by_word[i, word] += 1
    assert public.per_word(values) == pytest.approx(by_word.T @ values)
    assert public.per_ngram(np.arange(words, dtype=float)) == pytest.approx(
        by_word @ np.arange(words)
    )


@pytest.mark.parametrize("with_words", [False, True])
def test_pooling_ends_where_the_gradient_of_the_quasi_likelihood_vanishes(with_words):
    """JᵀW(y − μ) = Rβ, with a dense x; to the precision at which steps end."""
    public, measured, _ = simulate(size=60, words=12, noise=300.0)
    if with_words:
        heard = public.per_word(measured.counts)
        measured = replace(measured, word_counts=heard, word_noise=np.full(12, 900.0))
    vectors = compute_word_vectors(public)
    pool = Pool.from_rows(public, vectors, np.arange(60))
    means, beta = fit_pooled_means(measured, pool, PRIOR_RIDGES)
    x = dense(pool.features)
    assert np.log(means / public.prior) - x @ beta == pytest.approx(
        math.log(means.sum() / (public.prior @ np.exp(x @ beta)))
    )
    pull = (measured.counts - means) / (measured.noise**2 + (0.8 * means) ** 2)
    if with_words:
        doubt = 900.0**2 + public.per_word((0.8 * means) ** 2)
        pull = pull + public.per_ngram((heard - public.per_word(means)) / doubt)
    ridge = np.repeat(PRIOR_RIDGES, pool.features.block_sizes)
    gradient, scale = (
        x.T @ (means * pull) - ridge * beta,
        np.abs(x).T @ np.abs(means * pull) + ridge * np.abs(beta),
    )
    assert np.linalg.norm(gradient) < 0.05 * np.linalg.norm(scale)


def test_of_many_ngrams_those_that_tell_most_stand_for_all(monkeypatch):
    """Half of the n-grams, and the answer hardly moves, also for the others."""
    public, measured, _ = simulate(size=4000, words=120, noise=3000.0)
    vectors = compute_word_vectors(public)
    everything, _ = fit_pooled_means(
        measured, Pool.from_measurements(measured, public, vectors), PRIOR_RIDGES
    )
    monkeypatch.setattr(pooling, "MAX_INFORMATIVE_NGRAMS", 2000)
    pool = Pool.from_measurements(measured, public, vectors)
    assert pool.informative_rows.tolist() == list(
        range(2000)
    )  # the most frequent: the noise of all is about the same
    some, _ = fit_pooled_means(measured, pool, PRIOR_RIDGES)
    assert np.abs(np.log(some / everything)).mean() < 0.1
    assert kl_divergence(everything / everything.sum(), some / some.sum()) < 0.002


def test_pieces_that_tell_nothing_have_no_effect():
    """The rows that tell something have the same products as among all n-grams; a piece of the others is 0."""
    public, _, _ = simulate(size=300, words=12)
    rows = np.arange(0, 300, 7)
    features = Features.from_ngrams(public, compute_word_vectors(public), rows)
    chance = np.random.default_rng(4)
    beta, values = chance.normal(size=sum(features.block_sizes)), chance.normal(size=rows.size)
    assert features.select(rows).dot(beta) == pytest.approx(features.dot(beta)[rows])
    placed = np.zeros(300)
    placed[rows] = values
    assert features.select(rows).transposed_dot(values) == pytest.approx(
        features.transposed_dot(placed)
    )
    seen = [set(column[rows]) for column in public.pieces.T]
    assert features.piece_count == sum(map(len, seen))
    for kind, column in enumerate(public.pieces.T):
        unknown = ~np.isin(column, list(seen[kind]))
        assert (features.pieces[unknown, kind] == features.piece_count).all()


def test_learnt_ridges_follow_the_size_of_the_effects():
    """MacKay's rule with a Gamma prior, written out; without effects the prior decides or more."""
    public, measured, _ = simulate(size=400, words=20, noise=200.0)
    pool = Pool.from_rows(public, compute_word_vectors(public), np.arange(400))
    ridges, beta = PRIOR_RIDGES, None
    for _ in range(RIDGE_ROUNDS):
        means, beta = fit_pooled_means(measured, pool, ridges, beta, RIDGE_ROUND_STEPS)
        weights, x = means**2 / (measured.noise**2 + (0.8 * means) ** 2), dense(pool.features)
        words_twice = np.array([len(set(row)) < len(row) for row in public.words])
        assert not words_twice.all()
        block = np.repeat(np.arange(6), pool.features.block_sizes)
        seen = pool.features.approximate_diagonal(weights)
        assert seen[block == 0] == pytest.approx((x[:, block == 0] ** 2).T @ weights)
        ridges = np.array(
            [
                (sum(h / (h + ridges[k]) for h in seen[block == k]) + PRIOR_EFFECT_COUNT)
                / (sum(b * b for b in beta[block == k]) + PRIOR_EFFECT_COUNT / PRIOR_RIDGES[k])
                for k in range(6)
            ]
        )
    assert learn_ridges(measured, pool)[0] == pytest.approx(ridges)
    calm = replace(measured, counts=measured.total * public.prior)
    assert (learn_ridges(calm, pool)[0] > 0.99 * PRIOR_RIDGES).all()


def test_shrinkage_is_that_of_a_slow_posterior():
    """One n-gram at a time, with the mixture's weights found by the same EM written out."""
    chance = np.random.default_rng(2)
    means, noise = chance.uniform(5, 50, 40), chance.uniform(2, 20, 40)
    counts = means * np.exp(chance.normal(0, 0.7, 40)) + noise * chance.standard_normal(40)
    counts = np.minimum(counts, 11 * noise)
    weights = [math.exp(-0.5 * (g / 0.6) ** 2) for g in LOG_RATIO_GRID]
    likelihood = [
        [math.exp(-0.5 * ((y - m * math.exp(g)) / s) ** 2) for g in LOG_RATIO_GRID]
        for y, m, s in zip(counts, means, noise, strict=True)
    ]
    weights = [w / sum(weights) for w in weights]
    for _ in range(60):
        shares = [[w * part for w, part in zip(weights, row, strict=True)] for row in likelihood]
        weights = [
            sum(row[g] / sum(row) for row in shares) / len(shares)
            for g in range(len(LOG_RATIO_GRID))
        ]
    expected, deviation = shrink_counts(counts, noise, means)
    for i in range(40):
        post = [w * part for w, part in zip(weights, likelihood[i], strict=True)]
        first = sum(
            p * means[i] * math.exp(g) for p, g in zip(post, LOG_RATIO_GRID, strict=True)
        ) / sum(post)
        second = sum(
            p * (means[i] * math.exp(g)) ** 2 for p, g in zip(post, LOG_RATIO_GRID, strict=True)
        ) / sum(post)
        assert expected[i] == pytest.approx(first, rel=2e-3)
        assert deviation[i] == pytest.approx(math.sqrt(second - first**2), rel=2e-2)


@pytest.mark.parametrize("number", [1, 15, 16, pytest.param(5000, marks=pytest.mark.compiled)])
def test_on_one_core_shrinkage_is_the_same_to_six_digits(number):
    chance = np.random.default_rng(3)
    means, noise = chance.uniform(5, 50, number), chance.uniform(2, 20, number)
    counts = np.minimum(
        means * np.exp(chance.normal(0, 0.7, number)) + noise * chance.standard_normal(number),
        9 * noise,
    )
    found = zip(
        shrink_counts(counts, noise, means),
        shrink_counts(counts, noise, means, on_one_core=True),
        strict=True,
    )
    for one, other in found:
        assert one == pytest.approx(other, rel=1e-4)


def test_a_clear_count_speaks_for_itself():
    expected, deviation = shrink_counts(
        np.array([1000.0, 3.0]), np.array([1.0, 5.0]), np.array([1.0, 2.0])
    )
    assert (expected[0], deviation[0]) == (1000.0, 1.0)
    assert expected[1] < 20


def test_word_vectors_bring_words_of_like_company_together():
    """Two groups of words that public text uses in different places."""
    chance = np.random.default_rng(0)
    left = np.concatenate([chance.integers(0, 5, 300), chance.integers(5, 10, 300)])
    right = np.concatenate([chance.integers(10, 15, 300), chance.integers(15, 20, 300)])
    ngrams = np.unique(np.stack([left, right], axis=1), axis=0).astype(np.int32)
    public = make_public_ngrams(
        np.full(len(ngrams), 1 / len(ngrams)), np.ones(len(ngrams)), ngrams, 20
    )
    vectors = compute_word_vectors(public)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > likeness[0, 6] + 0.5


@examples(25)
@given(st.integers(2, 3), st.sampled_from([2, 5, 30, 200]), st.integers(1, 40), st.integers(0, 999))
def test_word_vectors_of_the_same_text_are_the_same(order, words, size, seed):
    """To the last bit, also of few n-grams of many words, whose matrix has a low rank."""
    chance = np.random.default_rng(seed)
    ngrams = np.unique(chance.integers(0, words, (size, order)), axis=0).astype(np.int32)
    counts = chance.integers(1, 9, len(ngrams)).astype(float)
    public = make_public_ngrams(np.full(len(ngrams), 1 / len(ngrams)), counts, ngrams, words)
    assert np.array_equal(compute_word_vectors(public), compute_word_vectors(public))


@pytest.mark.parametrize("order", [2, 3])
def test_word_vectors_of_few_words_are_those_of_many(order, monkeypatch):
    """Dense and by ARPACK, the same but for a rotation."""
    public, _, _ = simulate(size=900, order=order, words=200)
    dense_vectors = compute_word_vectors(public)
    monkeypatch.setattr(features_module, "MAX_DENSE_SVD_WORDS", 0)
    vectors = compute_word_vectors(public)
    assert dense_vectors.shape == vectors.shape
    assert dense_vectors @ dense_vectors.T == pytest.approx(vectors @ vectors.T, abs=1e-8)


def test_conjugate_gradients_solve_a_dense_system():
    chance = np.random.default_rng(3)
    root = chance.normal(size=(30, 30))
    matrix, target = root @ root.T + np.eye(30), chance.normal(size=30)
    found = solve_by_conjugate_gradients(
        lambda vector: matrix @ vector, target, 1 / np.diag(matrix), tolerance=1e-10
    )
    assert found == pytest.approx(np.linalg.solve(matrix, target))
