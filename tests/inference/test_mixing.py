"""Weights of several public sources, on made-up worlds where the mixture is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.inference.design import noise_shape, order_shapes
from bayesgram.inference.mixing import (
    PRIOR_WEIGHT_STD,
    dominant_source,
    fit_rough_weights,
    fit_weights,
)
from bayesgram.inference.model import infer
from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.inference.pooling import RESIDUAL_STD
from helpers.hypothesis_profiles import examples
from helpers.synthetic_measurements import kl_divergence, make_measured, simulate


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
    public, measured, truth = simulate(noise=20.0)
    chance = np.random.default_rng(8)
    hostile = chance.permutation(public.prior)
    sources = several(public, truth, extra=[hostile])
    mixed = 0.3 * sources.sources[0] + 0.7 * sources.sources[1]
    counts = 1e6 * mixed + measured.noise * chance.standard_normal(mixed.size)
    found = fit_weights(make_measured(counts, measured.noise), sources)
    assert found.weights == pytest.approx([0.3, 0.7, 0.0], abs=0.03)
    assert found.weights.sum() == pytest.approx(1)
    assert np.abs(found.weights - [0.3, 0.7, 0.0]).max() < 5 * found.deviations.max() + 0.01


@examples(40)
@given(st.integers(2, 5), st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_weights_are_those_of_a_search_over_the_simplex(number, seed, power):
    """At the weights that are found no step toward any source, and none between two, lowers the penalised squares."""
    chance = np.random.default_rng(seed)
    sources = chance.dirichlet(np.full(60, 0.5), number) + 1e-6
    sources /= sources.sum(axis=1, keepdims=True)
    public = PublicNgrams(
        sources.mean(axis=0), np.ones(60), np.arange(60, dtype=np.int32)[:, None], 60, sources
    )
    truth, noise = chance.dirichlet(np.ones(number)) @ sources, np.full(60, 10.0**power)
    measured = make_measured(1e4 * truth + noise * chance.standard_normal(60), noise, total=1e4)
    found = fit_weights(measured, public)
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1)
    shape = found.weights @ sources
    precision = 1 / (noise**2 + (RESIDUAL_STD * 1e4 * shape) ** 2)
    trust, fit = 1 / measured.total_noise**2, (measured.counts * shape * precision).sum()
    total = (fit + measured.total * trust) / ((shape**2 * precision).sum() + trust)
    precision = 1 / (noise**2 + (RESIDUAL_STD * total * shape) ** 2)

    def penalised(weights):
        squares = ((measured.counts - total * (weights @ sources)) ** 2 * precision).sum()
        return squares + ((weights - 1 / number) ** 2).sum() / PRIOR_WEIGHT_STD**2

    here = penalised(found.weights)
    for source in np.eye(number):
        assert penalised(0.98 * found.weights + 0.02 * source) >= here - 0.02 * abs(here) - 0.02


def test_a_source_that_is_given_twice_shares_its_weight():
    public, measured, truth = simulate(noise=20.0)
    once = several(public, truth)
    twice = replace(once, sources=np.concatenate([once.sources, once.sources[:1]]))
    counts = 1e6 * (once.sources.T @ [0.6, 0.4]) + measured.noise * np.random.default_rng(
        1
    ).standard_normal(truth.size)
    one, two = (
        fit_weights(make_measured(counts, measured.noise), each).weights for each in (once, twice)
    )
    assert two[0] == pytest.approx(two[2], abs=1e-3)
    assert two[0] + two[2] == pytest.approx(one[0], abs=0.02)


def test_without_a_signal_all_sources_weigh_alike():
    public, measured, truth = simulate(noise=1e7)
    sources = several(public, truth)
    assert fit_weights(measured, sources).weights == pytest.approx([0.5, 0.5], abs=0.2)
    assert fit_weights(replace(measured, total=-5.0), sources).weights.tolist() == [0.5, 0.5]


def of_sources(*rows):
    """Unigrams in several sources."""
    sources = np.array([row / row.sum() for row in rows])
    size = sources.shape[1]
    words = np.arange(size, dtype=np.int32)[:, None]
    return PublicNgrams(sources.mean(axis=0), sources.mean(axis=0) * 1e6, words, size, sources)


def test_an_ngram_is_of_the_kind_of_the_source_that_has_it_most():
    assert dominant_source(of_sources(np.array([5, 1, 1]), np.array([1, 5, 1]))).tolist() == [
        0,
        1,
        0,
    ]


@pytest.mark.parametrize("noise", [0.0, 20.0])
def test_rough_weights_are_those_of_the_mixture_that_people_write(noise):
    """A thousand users and more, each with a share of every kind as the mixture has it."""
    chance = np.random.default_rng(6)
    public = of_sources(*np.exp(chance.normal(0, 1.5, (4, 3000))))
    truth = np.array([0.5, 0.3, 0.2, 0.0])
    shares = np.bincount(dominant_source(public), truth @ public.sources, 4)
    found = fit_rough_weights(10_000 * shares + noise * chance.standard_normal(4), noise, public)
    assert found == pytest.approx(truth, abs=0.08)


def test_without_users_there_are_no_rough_weights():
    public = of_sources(np.array([5.0, 1, 1]), np.array([1.0, 5, 1]))
    assert fit_rough_weights(np.array([30.0, 10.0]), 10.0, public) is None
    assert fit_rough_weights(np.zeros(0), 10.0, of_sources(np.array([5.0, 1, 1]))) is None


def test_shapes_for_a_known_mixture_leave_norms_as_they_are():
    public = of_sources(np.array([50.0, 10, 1]), np.array([1.0, 5, 30]))
    mixed = public.mixed(np.array([1.0, 0.0]))
    before, after = order_shapes(public)[0], order_shapes(mixed)[0]
    assert (mixed.prior / after**2).sum() == pytest.approx((mixed.prior / before**2).sum())
    assert after / after[0] == pytest.approx(noise_shape(mixed.prior) / noise_shape(mixed.prior)[0])


def test_words_keep_their_part_of_the_norm_whatever_the_sources():
    public, *_ = simulate(noise=100.0)
    other = public.prior[np.random.default_rng(4).permutation(public.prior.size)]
    mixed = replace(public, sources=np.array([public.prior, other])).mixed(np.array([1.0, 0.0]))
    (ngrams, words), (ngrams_alone, words_alone) = order_shapes(mixed), order_shapes(public)
    assert ngrams / words[0] == pytest.approx(ngrams_alone / words_alone[0])


@pytest.mark.parametrize("noise", [40.0, 400.0, 4000.0])
def test_a_second_source_that_is_nearer_helps_and_a_useless_one_does_not_hurt(noise):
    public, measured, truth = simulate(noise=noise)
    chance = np.random.default_rng(4)
    near = truth * np.exp(chance.normal(0, 0.3, truth.size))
    useless = chance.permutation(public.prior)
    alone = kl_divergence(truth, infer(measured, public).theta)

    def with_source(extra):
        sources = np.array([public.prior, extra / extra.sum()])
        return infer(measured, replace(public, prior=sources.mean(axis=0), sources=sources))

    helped, hurt = with_source(near), with_source(useless)
    assert kl_divergence(truth, helped.theta) < 0.8 * alone
    assert helped.weights.weights[1] > (0.8 if noise < 1000 else 0.6)
    assert kl_divergence(truth, hurt.theta) < 1.02 * alone
