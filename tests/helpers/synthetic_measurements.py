"""Made-up worlds in which the truth is known: public n-grams, noisy measurements, and what is true."""

import math

import numpy as np

from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams


def make_public_ngrams(prior, counts, words, word_total):
    return PublicNgrams(prior, counts, words, word_total, prior[None])


def make_measured(counts, noise, *words, total=None, total_noise=None, **more):
    """Measurements whose total was measured as well as a hundred n-grams are."""
    doubt = total_noise or 10 * float(np.median(noise))
    return NoisyCounts(
        counts, noise, float(counts.sum()) if total is None else total, doubt, *words, **more
    )


def simulate(
    *,
    size=4000,
    order=3,
    words=600,
    word_effect=0.7,
    own_effect=0.5,
    noise=40.0,
    useless=False,
    seed=0,
):
    """Zipfian n-grams whose private frequencies stray from the public ones by word, and each on its
    own.
    """
    randomness = np.random.default_rng(seed)
    likely = 1 / np.arange(1, words + 1) ** 0.9
    made = np.unique(randomness.choice(words, (size * 3, order), p=likely / likely.sum()), axis=0)
    ngrams = made[randomness.permutation(len(made))[:size]].astype(np.int32)
    public = 1 / np.arange(1, len(ngrams) + 1)
    public /= public.sum()
    stray = randomness.normal(0, word_effect, words)[ngrams].sum(axis=1) / math.sqrt(order)
    truth = public * np.exp(stray + randomness.normal(0, own_effect, len(ngrams)))
    truth /= truth.sum()
    prior = np.full(len(ngrams), 1 / len(ngrams)) if useless else public
    shape = prior**0.25 / math.sqrt((prior**1.5).sum())
    total_noise = 10 * noise
    total = 1e6 + total_noise * randomness.standard_normal()
    counts = 1e6 * truth + shape * noise * randomness.standard_normal(len(ngrams))
    measured = make_measured(counts, shape * noise, total=total, total_noise=total_noise)
    return make_public_ngrams(prior, np.rint(prior * 1e7), ngrams, words), measured, truth


def kl_divergence(truth, theta):
    return float((truth * np.log(truth / theta)).sum())
