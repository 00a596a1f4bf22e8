"""Inference on made-up worlds where the truth is known: it sees noisy counts and public numbers only."""

from dataclasses import replace

import numpy as np
import pytest

from bayesgram.inference.model import (
    PUBLIC_REL_STD,
    choose_model,
    estimate_difference,
    fit_models,
    infer,
    match_total,
    refine_total,
)
from bayesgram.inference.pooling import Pool, compute_word_vectors, fit_scale
from bayesgram.inference.shrinkage import shrink_counts
from helpers.synthetic_measurements import (
    kl_divergence,
    make_measured,
    make_public_ngrams,
    simulate,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("useless", [False, True])
def test_every_order_and_also_a_useless_prior_gain_from_the_data(order, useless):
    size = 1500 if order == 6 else 4000
    public, measured, truth = simulate(
        size=size, order=order, words=4000 if order == 1 else 600, useless=useless
    )
    found = infer(measured, public)
    assert kl_divergence(truth, found.theta) < 0.35 * kl_divergence(truth, public.prior)
    assert found.theta.sum() == pytest.approx(1)
    assert (found.theta > 0).all()


def test_without_signal_the_answer_is_the_prior():
    public, measured, _ = simulate(noise=1e5)
    found = infer(measured, public)
    assert found.model == "public"
    assert found.theta == pytest.approx(public.prior)
    nothing = measured.noise * np.random.default_rng(0).standard_normal(public.prior.size)
    nobody = make_measured(
        nothing, measured.noise, total=measured.total_noise, total_noise=measured.total_noise
    )
    assert infer(nobody, public).theta == pytest.approx(public.prior)


def test_the_prior_may_win_the_choice_itself():
    """60 draws of what public text says, in noise: the second view often prefers the prior, whose sum is 1 but for rounding."""
    for seed in range(60):
        chance = np.random.default_rng(seed)
        prior = chance.dirichlet(np.ones(50)) * (1 + 4e-16 * chance.integers(-2, 3))
        noise = np.full(50, 30.0)
        public = make_public_ngrams(prior, prior * 1e6, np.arange(50, dtype=np.int32)[:, None], 50)
        found = infer(
            make_measured(1e4 * prior + noise * chance.standard_normal(50), noise), public
        )
        assert found.theta.sum() == pytest.approx(1)


@pytest.mark.parametrize("noise", [40.0, 400.0])
def test_a_perfect_prior_is_left_alone(noise):
    public, measured, truth = simulate(word_effect=0.0, own_effect=0.0, noise=noise)
    assert kl_divergence(truth, infer(measured, public).theta) < 2e-3


@pytest.mark.parametrize("noise", [40.0, 400.0, 2000.0])
def test_pooling_helps_where_words_explain_and_nothing_is_worse_than_public(noise):
    public, measured, truth = simulate(word_effect=1.2, own_effect=0.2, noise=noise)
    flat, _ = shrink_counts(measured.counts, measured.noise, measured.counts.sum() * public.prior)
    found = infer(measured, public)
    assert found.model.startswith("words pooled")
    assert kl_divergence(truth, found.theta) < 0.8 * kl_divergence(truth, flat / flat.sum())
    assert kl_divergence(truth, found.theta) < kl_divergence(truth, public.prior)


@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("noise", [40.0, 200.0])
def test_a_misleading_prior_is_set_aside(order, noise):
    """Public counts in an order of their own: far better than they are, and not much worse than with a level prior."""
    words = 4000 if order == 1 else 600
    public, measured, truth = simulate(order=order, words=words, noise=noise)
    chance = np.random.default_rng(3)
    mixed_up = public.prior[chance.permutation(public.prior.size)]
    wrong = replace(public, prior=mixed_up, sources=mixed_up[None])
    level = np.full_like(public.prior, 1 / public.prior.size)
    level = replace(public, prior=level, sources=level[None])
    found = kl_divergence(truth, infer(measured, wrong).theta)
    assert found < 0.1 * kl_divergence(truth, wrong.prior)
    assert found < 1.5 * kl_divergence(truth, infer(measured, level).theta)


@pytest.mark.parametrize(("hot", "count"), [(100, 9.0), (100, 20.0), (1, 5000.0), (1, 50000.0)])
def test_a_few_n_grams_far_above_a_flat_prior_keep_their_weight(hot, count):
    """Noise 1, 20,000 n-grams: what stands out speaks for itself, and does not raise the others."""
    chance = np.random.default_rng(2)
    truth = np.full(20_000, 0.03)
    truth[chance.choice(truth.size, hot, replace=False)] = count
    noise = np.ones(truth.size)
    words = np.arange(truth.size, dtype=np.int32)[:, None]
    public = make_public_ngrams(noise / noise.size, 0 * noise, words, truth.size)
    found = infer(
        make_measured(truth + chance.standard_normal(truth.size), noise, total=truth.sum()), public
    )
    assert kl_divergence(truth / truth.sum(), found.theta) < 0.05


@pytest.mark.parametrize("noise", [150.0, 300.0, 600.0, 1200.0])
def test_near_the_end_of_the_signal_a_right_prior_is_not_left(noise):
    """10 draws each of a world that is exactly as public text says: noise hardly moves it, and never far."""
    found = []
    for seed in range(10):
        public, measured, truth = simulate(
            size=1500, word_effect=0.0, own_effect=0.0, noise=noise, seed=seed
        )
        found.append(kl_divergence(truth, infer(measured, public).theta))
    assert sorted(found)[-2] < 0.001
    assert max(found) < 0.005


@pytest.mark.parametrize(
    ("noise", "effects"), [(40.0, 0.5), (200.0, 0.5), (200.0, 0.0), (2000.0, 0.9)]
)
def test_deviations_are_as_large_as_the_errors(noise, effects):
    """Rare and frequent n-grams apart, also with a prior that is right; rather too unsure than too sure."""
    public, measured, truth = simulate(noise=noise, own_effect=effects, word_effect=effects)
    found = infer(measured, public)
    for part in np.array_split(np.argsort(-found.theta), 4):
        z = (found.theta - truth)[part] / found.deviation[part]
        assert (np.abs(z) < 2).mean() > 0.9
        assert np.sqrt((z**2).mean()) < 1.5
        assert np.sqrt((z**2).mean()) >= (0.2 if effects else 0.0)


def test_measured_words_help():
    public, measured, truth = simulate(word_effect=1.5, own_effect=0.2, noise=1500.0, size=8000)
    exact = public.per_word(1e6 * truth)
    noise = np.full(public.word_total, 50.0)
    heard = exact + noise * np.random.default_rng(1).standard_normal(600)
    with_words = replace(measured, word_counts=heard, word_noise=noise)
    assert kl_divergence(truth, infer(with_words, public).theta) < 0.9 * kl_divergence(
        truth, infer(measured, public).theta
    )


def test_the_same_measurements_give_the_same_answer():
    public, measured, _ = simulate()
    assert infer(measured, public).theta.tolist() == infer(measured, public).theta.tolist()


def test_public_text_that_is_wrong_does_not_spoil_the_total():
    """Counts where public text has most say too little; the total was measured, and is believed."""
    public, measured, _ = simulate(noise=200.0)
    wrong = np.random.default_rng(3).permutation(public.prior)
    mended = refine_total(measured, wrong)
    assert mended.total == pytest.approx(1e6, abs=4 * measured.total_noise)
    unsure = replace(measured, total=2e6, total_noise=2e6)  # it helps where public text is right
    assert refine_total(unsure, public.prior).total == pytest.approx(1e6, rel=0.4)


def test_the_answer_moves_steadily_with_the_noise():
    """Medians of 5 worlds at each of 8 levels of noise, a factor 2 apart: no step is much more than its share."""
    levels = 40 * 2.0 ** np.arange(8)
    found = [
        np.median(
            [
                kl_divergence(truth, infer(measured, public).theta)
                / kl_divergence(truth, public.prior)
                for public, measured, truth in (
                    simulate(size=600, words=200, noise=noise, seed=seed) for seed in range(5)
                )
            ]
        )
        for noise in levels
    ]
    assert (np.diff(found) > -0.02).all()
    assert np.diff(found).max() < 0.4
    assert found[-1] < 1.01


def test_the_total_that_was_measured_holds_where_the_sum_is_noise():
    """200,000 n-grams in noise: Σ y is off by more than there is, and the total says what there is."""
    chance = np.random.default_rng(1)
    shape = 1 / np.arange(1, 200_001)
    noise = np.full(shape.size, 50.0)
    truth = 1e4 * shape / shape.sum()
    measured = make_measured(
        truth + noise * chance.standard_normal(shape.size), noise, total=1.01e4, total_noise=200.0
    )
    assert abs(measured.counts.sum() - 1e4) > 5e3
    assert fit_scale(measured, shape, truth).sum() == pytest.approx(1e4, rel=0.1)


def test_the_sum_of_what_is_expected_is_the_total_and_clear_counts_stay():
    """Shrinkage that expects a third too much of what noise hides: the total corrects it."""
    clear = np.full(100, 1000.0)
    hidden = np.full(10_000, 4.0)
    expected = np.concatenate([clear, hidden])
    noise = np.full(expected.size, 10.0)
    total = float(clear.sum()) + 30_000
    matched = match_total(expected, make_measured(expected, noise, total=total, total_noise=1.0))
    assert matched.sum() == pytest.approx(total, rel=1e-3)
    assert matched[:100] == pytest.approx(clear, rel=1e-3)
    assert matched[100:] == pytest.approx(np.full(10_000, 3.0), rel=1e-2)
    unknown = make_measured(expected, noise, total=total, total_noise=1e9)
    assert match_total(expected, unknown) == pytest.approx(expected)
    nothing = make_measured(expected, noise, total=0.0, total_noise=1.0)
    assert (match_total(expected, nothing) > 0).all()


def test_counts_of_zero_match_any_total():
    measured = make_measured(np.zeros(3), np.ones(3), total=5.0, total_noise=1.0)
    assert match_total(np.zeros(3), measured).tolist() == [0, 0, 0]


def test_single_n_grams_of_a_segment_may_differ_where_nothing_else_does():
    """No share of the model is worth what it must gain, but two n-grams are clearly not as all people's."""
    chance = np.random.default_rng(4)
    size = 400
    prior = chance.dirichlet(np.full(size, 5.0))
    words = np.arange(size, dtype=np.int32)[:, None]
    public = replace(make_public_ngrams(prior, prior * 1e6, words, size), learnt=True)
    noise = np.full(size, 10.0)
    same = 1e4 * prior + noise * chance.standard_normal(size)
    differing = [7, 250]
    other = same.copy()
    other[differing] += 150.0

    def choose(counts):
        measured = make_measured(counts, noise)
        pool = Pool.from_measurements(measured, public, compute_word_vectors(public))
        [plain] = fit_models(measured, pool)
        return choose_model([replace(plain, penalty=1e9)], measured, pool)

    assert choose(same) is None
    choice = choose(other)
    assert choice is not None
    assert choice.share == 0.0
    assert np.flatnonzero(choice.fit.outliers).tolist() == differing
    theta = choice.fit.mix(prior, choice.share)
    theta /= theta.sum()
    assert theta[differing] == pytest.approx(other[differing] / other.sum(), rel=0.1)
    # All others are in the proportions that all people's have.
    ratio = np.delete(theta / prior, differing)
    assert ratio == pytest.approx(np.full(size - 2, ratio[0]))


@pytest.mark.parametrize("difference", [0.0, 0.2, 0.5])
def test_the_difference_from_the_prior_is_bounded_by_the_data(difference):
    """It must not be below the truth by more than chance allows; ten seeds, so no failure by chance."""
    size = 2000
    bounds = []
    for seed in range(10):
        chance = np.random.default_rng(seed)
        prior = chance.dirichlet(np.full(size, 2.0))
        truth = prior * np.exp(difference * chance.standard_normal(size) - difference**2 / 2)
        noise = np.full(size, 20.0)
        counts = 1e5 * truth / truth.sum() + noise * chance.standard_normal(size)
        bounds.append(estimate_difference(make_measured(counts, noise), prior))
    assert difference * 0.9 <= np.mean(bounds) <= difference * 1.2 + 0.15


def test_without_a_signal_the_difference_is_that_of_public_text():
    chance = np.random.default_rng(1)
    prior = chance.dirichlet(np.full(500, 2.0))
    noise = np.full(500, 1e4)
    measured = make_measured(noise * chance.standard_normal(500), noise)
    assert estimate_difference(measured, prior) == PUBLIC_REL_STD
