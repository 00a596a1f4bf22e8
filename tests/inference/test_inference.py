"""Inference on made-up worlds where the truth is known: it sees noisy counts and public numbers only."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.inference import pooling
from bayesgram.inference.features import RIDGES, Features, word_vectors
from bayesgram.inference.measured import Clipping, Lost, Measured, PublicNgrams
from bayesgram.inference.measuring import shape_of, shapes
from bayesgram.inference.mixing import PRIOR_DEVIATION, SPREAD, fitted_weights, kinds_of, likely_weights
from bayesgram.inference.pooling import Pool, conjugate_gradients, learnt_ridges, pooled_means, rescaled
from bayesgram.inference.posterior import PARTS, _evidence, _gain, _with_better_total, infer, thinned
from bayesgram.inference.shrinkage import GRID, posterior
from bayesgram.inference.uncertainty import BURST, MANNER, WIDER, fitted_trust, of_what_was_written, spread
from bayesgram.inference.unclipping import lost_counts


def of_one_source(prior, counts, words, word_total):
    return PublicNgrams(prior, counts, words, word_total, prior[None])


def noisy(counts, noise, *words, total=None, total_noise=None):
    """Measurements whose total was measured as well as a hundred n-grams are."""
    doubt = total_noise or 10 * float(np.median(noise))
    return Measured(counts, noise, float(counts.sum()) if total is None else total, doubt, *words)


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
    total_noise = 10 * noise
    total = 1e6 + total_noise * chance.standard_normal()
    counts = 1e6 * truth + shape * noise * chance.standard_normal(len(ngrams))
    measured = noisy(counts, shape * noise, total=total, total_noise=total_noise)
    return of_one_source(prior, np.rint(prior * 1e7), ngrams, words), measured, truth


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
    nothing = measured.noise * np.random.default_rng(0).standard_normal(public.prior.size)
    nobody = noisy(nothing, measured.noise, total=measured.total_noise, total_noise=measured.total_noise)
    assert infer(nobody, public).theta == pytest.approx(public.prior)


def test_the_prior_may_win_the_choice_itself():
    """60 draws of what public text says, in noise: the second view often prefers the prior, whose sum is 1 but for rounding."""
    for seed in range(60):
        chance = np.random.default_rng(seed)
        prior = chance.dirichlet(np.ones(50)) * (1 + 4e-16 * chance.integers(-2, 3))
        noise = np.full(50, 30.0)
        public = of_one_source(prior, prior * 1e6, np.arange(50, dtype=np.int32)[:, None], 50)
        found = infer(noisy(1e4 * prior + noise * chance.standard_normal(50), noise), public)
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
    mixed_up = public.prior[chance.permutation(public.prior.size)]
    wrong = replace(public, prior=mixed_up, sources=mixed_up[None])
    level = np.full_like(public.prior, 1 / public.prior.size)
    level = replace(public, prior=level, sources=level[None])
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
    public = of_one_source(noise / noise.size, 0 * noise, words, truth.size)
    found = infer(noisy(truth + chance.standard_normal(truth.size), noise, total=truth.sum()), public)
    assert kl(truth / truth.sum(), found.theta) < 0.05


@pytest.mark.parametrize("noise", [150.0, 300.0, 600.0, 1200.0])
def test_near_the_end_of_the_signal_a_right_prior_is_not_left(noise):
    """10 draws each of a world that is exactly as public text says: noise hardly moves it, and never far."""
    found = []
    for seed in range(10):
        public, measured, truth = world(size=1500, word_effect=0.0, own_effect=0.0, noise=noise, seed=seed)
        found.append(kl(truth, infer(measured, public).theta))
    assert sorted(found)[-2] < 0.001
    assert max(found) < 0.005


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
        judge = noisy(truth + 2 * noise * chance.standard_normal(noise.size), 2 * noise)
        assert trust / 1.5 <= fitted_trust(expected, noise, judge) <= trust * 1.2
    exact = noisy(expected + 2 * noise * chance.standard_normal(noise.size), 2 * noise)
    assert fitted_trust(expected, noise, exact) > 3


def test_measured_words_help():
    public, measured, truth = world(word_effect=1.5, own_effect=0.2, noise=1500.0, size=8000)
    exact = public.per_word(1e6 * truth)
    noise = np.full(public.word_total, 50.0)
    heard = exact + noise * np.random.default_rng(1).standard_normal(600)
    with_words = replace(measured, word_counts=heard, word_noise=noise)
    assert kl(truth, infer(with_words, public).theta) < 0.9 * kl(truth, infer(measured, public).theta)


def test_the_same_measurements_give_the_same_answer():
    public, measured, _ = world()
    assert infer(measured, public).theta.tolist() == infer(measured, public).theta.tolist()


def test_thinning_gives_independent_views():
    """Noise of the two views: right scales and no correlation, within 5 standard errors over 200,000 numbers."""
    size = 200_000
    chance = np.random.default_rng(7)
    noise = np.full(size, 3.0)
    fit, judge = thinned(noisy(noise * chance.standard_normal(size), noise))
    assert np.std(fit.counts / fit.noise) == pytest.approx(1, abs=5 / math.sqrt(2 * size))
    assert np.std(judge.counts / judge.noise) == pytest.approx(1, abs=5 / math.sqrt(2 * size))
    assert abs(np.corrcoef(fit.counts, judge.counts)[0, 1]) < 5 / math.sqrt(size)


def dense(features):
    """x as a matrix."""
    size = sum(features.sizes)
    return np.array([features.times(row) for row in np.eye(size)]).T


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 4), st.integers(2, 6), st.integers(2, 12), st.integers(0, 999))
def test_products_with_the_features_are_those_of_a_matrix(order, words, size, seed):
    chance = np.random.default_rng(seed)
    ngrams = chance.integers(0, words, (size, order)).astype(np.int32)
    public = of_one_source(np.full(size, 1 / size), chance.integers(1, 9, size).astype(float), ngrams, words)
    features = Features.of(public, chance.normal(size=(words, 3)))
    x, values = dense(features), chance.normal(size=size)
    assert features.transposed(values) == pytest.approx(x.T @ values)
    by_word = np.zeros((size, words))
    for i, row in enumerate(ngrams):
        for word in row:
            by_word[i, word] += 1
    assert public.per_word(values) == pytest.approx(by_word.T @ values)
    assert public.per_ngram(np.arange(words, dtype=float)) == pytest.approx(by_word @ np.arange(words))


@pytest.mark.parametrize("with_words", [False, True])
def test_pooling_ends_where_the_gradient_of_the_quasi_likelihood_vanishes(with_words):
    """JᵀW(y − μ) = Rβ, with a dense x; to the precision at which steps end."""
    public, measured, _ = world(size=60, words=12, noise=300.0)
    if with_words:
        heard = public.per_word(measured.counts)
        measured = replace(measured, word_counts=heard, word_noise=np.full(12, 900.0))
    vectors = word_vectors(public)
    pool = Pool.with_rows(public, vectors, np.arange(60))
    means, beta = pooled_means(measured, pool, 5 * RIDGES)
    x = dense(pool.features)
    assert np.log(means / public.prior) - x @ beta == pytest.approx(
        math.log(means.sum() / (public.prior @ np.exp(x @ beta)))
    )
    pull = (measured.counts - means) / (measured.noise**2 + (0.8 * means) ** 2)
    if with_words:
        doubt = 900.0**2 + public.per_word((0.8 * means) ** 2)
        pull = pull + public.per_ngram((heard - public.per_word(means)) / doubt)
    ridge = 5 * np.repeat(RIDGES, pool.features.sizes)
    gradient, scale = x.T @ (means * pull) - ridge * beta, np.abs(x).T @ np.abs(means * pull) + ridge * np.abs(beta)
    assert np.linalg.norm(gradient) < 0.05 * np.linalg.norm(scale)


def test_of_many_ngrams_those_that_tell_most_stand_for_all(monkeypatch):
    """Half of the n-grams, and the answer hardly moves, also for the others."""
    public, measured, _ = world(size=4000, words=120, noise=3000.0)
    vectors = word_vectors(public)
    everything, _ = pooled_means(measured, Pool.of(measured, public, vectors), 8 * RIDGES)
    monkeypatch.setattr(pooling, "MOST_TELLING", 2000)
    pool = Pool.of(measured, public, vectors)
    assert pool.telling.tolist() == list(range(2000))  # the most frequent: the noise of all is about the same
    some, _ = pooled_means(measured, pool, 8 * RIDGES)
    assert np.abs(np.log(some / everything)).mean() < 0.1
    assert kl(everything / everything.sum(), some / some.sum()) < 0.002


def test_pieces_that_tell_nothing_have_no_effect():
    """The rows that tell something have the same products as among all n-grams; a piece of the others is 0."""
    public, _, _ = world(size=300, words=12)
    rows = np.arange(0, 300, 7)
    features = Features.of(public, word_vectors(public), rows)
    chance = np.random.default_rng(4)
    beta, values = chance.normal(size=sum(features.sizes)), chance.normal(size=rows.size)
    assert features.rows(rows).times(beta) == pytest.approx(features.times(beta)[rows])
    placed = np.zeros(300)
    placed[rows] = values
    assert features.rows(rows).transposed(values) == pytest.approx(features.transposed(placed))
    seen = [set(column[rows]) for column in public.pieces.T]
    assert features.piece_total == sum(map(len, seen))
    for kind, column in enumerate(public.pieces.T):
        unknown = ~np.isin(column, list(seen[kind]))
        assert (features.pieces[unknown, kind] == features.piece_total).all()


def test_learnt_ridges_follow_the_size_of_the_effects():
    """One round of MacKay's rule, written out; and without effects they are as large as may be."""
    public, measured, _ = world(size=400, words=20, noise=200.0)
    pool = Pool.with_rows(public, word_vectors(public), np.arange(400))
    _, start = pooled_means(measured, pool, RIDGES)
    ridges, beta = RIDGES, start
    for _ in range(3):
        means, beta = pooled_means(measured, pool, ridges, beta)
        weights, x = means**2 / (measured.noise**2 + (0.8 * means) ** 2), dense(pool.features)
        words_twice = np.array([len(set(row)) < len(row) for row in public.words])
        assert not words_twice.all()
        block = np.repeat(np.arange(6), pool.features.sizes)
        seen = pool.features.squared_sums(weights)
        assert seen[block == 0] == pytest.approx((x[:, block == 0] ** 2).T @ weights)
        found = [
            sum(h / (h + ridges[k]) for h in seen[block == k]) / sum(b * b for b in beta[block == k]) for k in range(6)
        ]
        ridges = np.clip(found, 0.1, 1000.0)
    assert learnt_ridges(measured, pool, RIDGES, start)[0] == pytest.approx(ridges)
    calm = replace(measured, counts=measured.total * public.prior)
    assert (learnt_ridges(calm, pool, RIDGES, np.zeros_like(start))[0] == 1000).all()


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


@pytest.mark.parametrize("number", [1, 15, 16, 5000])
def test_on_one_core_shrinkage_is_the_same_to_six_digits(number):
    chance = np.random.default_rng(3)
    means, noise = chance.uniform(5, 50, number), chance.uniform(2, 20, number)
    counts = np.minimum(
        means * np.exp(chance.normal(0, 0.7, number)) + noise * chance.standard_normal(number), 9 * noise
    )
    found = zip(posterior(counts, noise, means), posterior(counts, noise, means, on_one_core=True), strict=True)
    for one, other in found:
        assert one == pytest.approx(other, rel=1e-4)


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
    public = of_one_source(np.full(len(ngrams), 1 / len(ngrams)), np.ones(len(ngrams)), ngrams, 20)
    vectors = word_vectors(public)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > likeness[0, 6] + 0.5


def several(public, truth, *, useful=(0.6, 0.4), extra=(), seed=1):
    """Sources of which the truth is a mixture, but for what is n-grams' own; and others."""
    chance = np.random.default_rng(seed)
    tilt = np.exp(chance.normal(0, 1.0, truth.size))
    first = truth * tilt
    first /= first.sum()
    second = (truth - useful[0] * np.minimum(first, 0.99 * truth / useful[0])) / useful[1]
    sources = np.array([first, second / second.sum(), *extra])
    return replace(public, prior=sources.mean(axis=0), sources=sources)


def test_weights_of_sources_are_learnt_and_a_useless_one_gets_none():
    public, measured, truth = world(noise=20.0)
    chance = np.random.default_rng(8)
    hostile = chance.permutation(public.prior)
    sources = several(public, truth, extra=[hostile])
    mixed = 0.3 * sources.sources[0] + 0.7 * sources.sources[1]
    counts = 1e6 * mixed + measured.noise * chance.standard_normal(mixed.size)
    found = fitted_weights(noisy(counts, measured.noise), sources)
    assert found.weights == pytest.approx([0.3, 0.7, 0.0], abs=0.03)
    assert found.weights.sum() == pytest.approx(1)
    assert np.abs(found.weights - [0.3, 0.7, 0.0]).max() < 5 * found.deviations.max() + 0.01


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 5), st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_weights_are_those_of_a_search_over_the_simplex(number, seed, power):
    """At the weights that are found no step toward any source, and none between two, lowers the penalised squares."""
    chance = np.random.default_rng(seed)
    sources = chance.dirichlet(np.full(60, 0.5), number) + 1e-6
    sources /= sources.sum(axis=1, keepdims=True)
    public = PublicNgrams(sources.mean(axis=0), np.ones(60), np.arange(60, dtype=np.int32)[:, None], 60, sources)
    truth, noise = chance.dirichlet(np.ones(number)) @ sources, np.full(60, 10.0**power)
    measured = noisy(1e4 * truth + noise * chance.standard_normal(60), noise, total=1e4)
    found = fitted_weights(measured, public)
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1)
    shape = found.weights @ sources
    precision = 1 / (noise**2 + (SPREAD * 1e4 * shape) ** 2)
    trust, fit = 1 / measured.total_noise**2, (measured.counts * shape * precision).sum()
    total = (fit + measured.total * trust) / ((shape**2 * precision).sum() + trust)
    precision = 1 / (noise**2 + (SPREAD * total * shape) ** 2)

    def penalised(weights):
        squares = ((measured.counts - total * (weights @ sources)) ** 2 * precision).sum()
        return squares + ((weights - 1 / number) ** 2).sum() / PRIOR_DEVIATION**2

    here = penalised(found.weights)
    for source in np.eye(number):
        assert penalised(0.98 * found.weights + 0.02 * source) >= here - 0.02 * abs(here) - 0.02


def test_a_source_that_is_given_twice_shares_its_weight():
    public, measured, truth = world(noise=20.0)
    once = several(public, truth)
    twice = replace(once, sources=np.concatenate([once.sources, once.sources[:1]]))
    counts = 1e6 * (once.sources.T @ [0.6, 0.4]) + measured.noise * np.random.default_rng(1).standard_normal(truth.size)
    one, two = (fitted_weights(noisy(counts, measured.noise), each).weights for each in (once, twice))
    assert two[0] == pytest.approx(two[2], abs=1e-3)
    assert two[0] + two[2] == pytest.approx(one[0], abs=0.02)


def test_without_a_signal_all_sources_weigh_alike():
    public, measured, truth = world(noise=1e7)
    sources = several(public, truth)
    assert fitted_weights(measured, sources).weights == pytest.approx([0.5, 0.5], abs=0.2)
    assert fitted_weights(replace(measured, total=-5.0), sources).weights.tolist() == [0.5, 0.5]


def of_sources(*rows):
    """Unigrams in several sources."""
    sources = np.array([row / row.sum() for row in rows])
    size = sources.shape[1]
    words = np.arange(size, dtype=np.int32)[:, None]
    return PublicNgrams(sources.mean(axis=0), sources.mean(axis=0) * 1e6, words, size, sources)


def test_an_ngram_is_of_the_kind_of_the_source_that_has_it_most():
    assert kinds_of(of_sources(np.array([5, 1, 1]), np.array([1, 5, 1]))).tolist() == [0, 1, 0]


@pytest.mark.parametrize("noise", [0.0, 20.0])
def test_rough_weights_are_those_of_the_mixture_that_people_write(noise):
    """A thousand users and more, each with a share of every kind as the mixture has it."""
    chance = np.random.default_rng(6)
    public = of_sources(*np.exp(chance.normal(0, 1.5, (4, 3000))))
    truth = np.array([0.5, 0.3, 0.2, 0.0])
    shares = np.bincount(kinds_of(public), truth @ public.sources, 4)
    found = likely_weights(10_000 * shares + noise * chance.standard_normal(4), noise, public)
    assert found == pytest.approx(truth, abs=0.08)


def test_without_users_there_are_no_rough_weights():
    public = of_sources(np.array([5.0, 1, 1]), np.array([1.0, 5, 1]))
    assert likely_weights(np.array([30.0, 10.0]), 10.0, public) is None
    assert likely_weights(np.zeros(0), 10.0, of_sources(np.array([5.0, 1, 1]))) is None


def test_shapes_for_a_known_mixture_leave_norms_as_they_are():
    public = of_sources(np.array([50.0, 10, 1]), np.array([1.0, 5, 30]))
    mixed = public.mixed(np.array([1.0, 0.0]))
    before, after = shapes([public])[0], shapes([mixed])[0]
    assert (mixed.prior / after**2).sum() == pytest.approx((mixed.prior / before**2).sum())
    assert after / after[0] == pytest.approx(shape_of(mixed.prior) / shape_of(mixed.prior)[0])


def test_words_keep_their_part_of_the_norm_whatever_the_sources():
    public, *_ = world(noise=100.0)
    other = public.prior[np.random.default_rng(4).permutation(public.prior.size)]
    mixed = replace(public, sources=np.array([public.prior, other])).mixed(np.array([1.0, 0.0]))
    (ngrams, words), (ngrams_alone, words_alone) = shapes([mixed]), shapes([public])
    assert ngrams / words[0] == pytest.approx(ngrams_alone / words_alone[0])


@pytest.mark.parametrize("noise", [40.0, 400.0, 4000.0])
def test_a_second_source_that_is_nearer_helps_and_a_useless_one_does_not_hurt(noise):
    public, measured, truth = world(noise=noise)
    chance = np.random.default_rng(4)
    near = truth * np.exp(chance.normal(0, 0.3, truth.size))
    useless = chance.permutation(public.prior)
    alone = kl(truth, infer(measured, public).theta)

    def with_source(extra):
        sources = np.array([public.prior, extra / extra.sum()])
        return infer(measured, replace(public, prior=sources.mean(axis=0), sources=sources))

    helped, hurt = with_source(near), with_source(useless)
    assert kl(truth, helped.theta) < 0.8 * alone
    assert helped.weights.weights[1] > (0.8 if noise < 1000 else 0.6)
    assert kl(truth, hurt.theta) < 1.02 * alone


def test_public_text_that_is_wrong_does_not_spoil_the_total():
    """Counts where public text has most say too little; the total was measured, and is believed."""
    public, measured, _ = world(noise=200.0)
    wrong = np.random.default_rng(3).permutation(public.prior)
    mended = _with_better_total(measured, wrong)
    assert mended.total == pytest.approx(1e6, abs=4 * measured.total_noise)
    unsure = replace(measured, total=2e6, total_noise=2e6)  # it helps where public text is right
    assert _with_better_total(unsure, public.prior).total == pytest.approx(1e6, rel=0.4)


def test_the_gain_is_judged_without_the_noise_of_the_sum():
    """Against 2,000 draws of a second view: no bias, and as unsure as it says, within 5 standard errors."""
    public, measured, truth = world(size=3000, words=300, noise=2000.0)
    level = np.full(truth.size, 1 / truth.size)
    chance = np.random.default_rng(8)
    gains = []
    for _ in range(2000):
        counts = 1e6 * truth + measured.noise * chance.standard_normal(truth.size)
        total = 1e6 + measured.total_noise * chance.standard_normal()
        gain, doubt = _gain(level, public.prior, replace(measured, counts=counts, total=total))
        gains.append(gain)
    right = 1e6 * float(truth @ np.log(level / public.prior))
    assert np.mean(gains) == pytest.approx(right, abs=5 * doubt / math.sqrt(2000))
    assert np.std(gains) == pytest.approx(doubt, rel=5 / math.sqrt(4000))


def test_the_answer_moves_steadily_with_the_noise():
    """Medians of 5 worlds at each of 8 levels of noise, a factor 2 apart: no step is much more than its share."""
    levels = 40 * 2.0 ** np.arange(8)
    found = [
        np.median(
            [
                kl(truth, infer(measured, public).theta) / kl(truth, public.prior)
                for public, measured, truth in (world(size=600, words=200, noise=noise, seed=seed) for seed in range(5))
            ]
        )
        for noise in levels
    ]
    assert (np.diff(found) > -0.02).all()
    assert np.diff(found).max() < 0.4
    assert found[-1] < 1.01


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_evidence_is_the_log_likelihood_with_the_total_that_fits_best(seed):
    chance = np.random.default_rng(seed)
    prior, theta = chance.dirichlet(np.ones(20), 2)
    noise = chance.uniform(1, 30, 20)
    judge = noisy(300 * theta + noise * chance.standard_normal(20), noise)

    def likelihood(shape):
        off = judge.counts - np.linspace(0, 2000, 8_001)[:, None] * shape
        return float((-0.5 * (off / noise) ** 2).sum(axis=1).max())

    found = _evidence(theta, prior, judge)
    for at in (0, 7, 20):
        slow = likelihood((1 - PARTS[at]) * prior + PARTS[at] * theta) - likelihood(prior)
        assert found[at] == pytest.approx(slow, abs=0.05)


def test_conjugate_gradients_solve_a_dense_system():
    chance = np.random.default_rng(3)
    root = chance.normal(size=(30, 30))
    matrix, target = root @ root.T + np.eye(30), chance.normal(size=30)
    found = conjugate_gradients(lambda vector: matrix @ vector, target, 1 / np.diag(matrix), tolerance=1e-10)
    assert found == pytest.approx(np.linalg.solve(matrix, target))


def test_the_total_that_was_measured_holds_where_the_sum_is_noise():
    """200,000 n-grams in noise: Σ y is off by more than there is, and the total says what there is."""
    chance = np.random.default_rng(1)
    shape = 1 / np.arange(1, 200_001)
    noise = np.full(shape.size, 50.0)
    truth = 1e4 * shape / shape.sum()
    measured = noisy(truth + noise * chance.standard_normal(shape.size), noise, total=1.01e4, total_noise=200.0)
    assert abs(measured.counts.sum() - 1e4) > 5e3
    assert rescaled(measured, shape, truth).sum() == pytest.approx(1e4, rel=0.1)


@pytest.mark.parametrize(("noise", "better"), [(10.0, 0.4), (3e5, 1.2)])
def test_what_clipping_took_away_is_given_back_by_its_words(noise, better):
    """Half is lost, of words that are like others but for a factor; where noise hides them nothing is worse."""
    public, _, kept = world(word_effect=0.0)
    chance = np.random.default_rng(6)
    lost = kept * np.exp(public.per_ngram(chance.normal(0, 0.4, public.word_total)))
    lost *= 1e6 / lost.sum()
    which = np.argsort(-public.per_word(kept), kind="stable")[:400]
    said = public.per_word(lost)[which] + noise * chance.standard_normal(400)
    seen = Lost(which, said, np.full(400, noise), 1e6, 3e4)
    given_back = lost_counts(1e6 * kept, seen, public, word_vectors(public))
    assert given_back.sum() == pytest.approx(1e6)
    written = (1e6 * kept + lost) / 2e6
    assert kl(written, (1e6 * kept + given_back) / 2e6) < better * kl(written, kept)


def test_a_loss_that_noise_hides_is_like_what_was_kept():
    public, _, kept = world()
    seen = Lost(np.arange(5), np.full(5, 1e6), np.full(5, 1.0), 10.0, 10.0)
    assert lost_counts(kept, seen, public, word_vectors(public)) == pytest.approx(10 * kept / kept.sum())


def test_deviations_of_what_was_written_add_manner_and_chance():
    theta, deviation = np.array([0.5, 1e-6]), np.array([0.01, 1e-7])
    wide = of_what_was_written(deviation, theta, 1e4, Clipping(0.5, 0.2))
    assert wide[0] == pytest.approx(WIDER * math.sqrt(0.01**2 + 0.25 * ((MANNER * 0.5) ** 2 + BURST * 0.2 / 5000)))
    assert wide[1] == pytest.approx(WIDER * math.sqrt(1e-14 + 1e-12 * ((MANNER * 0.5) ** 2 + BURST * 0.2)))
    assert of_what_was_written(deviation, theta, 1e4, Clipping(0.0, 0.0)) == pytest.approx(WIDER * deviation)
