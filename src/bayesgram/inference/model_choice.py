"""How much of a model to believe: two independent views of the noisy counts, one to fit, one to judge.

Gaussian measurements can be thinned: y + cξ and y − ξ/c are independent if ξ has the law of the
noise. A model is fitted to the first view, and the second view says how likely its answer is, in
place of public text and in every mixture of both. Several thinnings are averaged, because one of
them is a matter of luck. Words are judged as well as n-grams: they are measured far better, and
what pooling learns is mostly about words.

This is post-processing of noisy answers. The thinning is drawn from a fixed seed: it hides
nothing, it only splits, and the same measurements give the same answer.
"""

from dataclasses import replace

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams

# Number of thinnings whose evidence is averaged. Two, to save time: with four, the chosen shares and
# KL were about the same in the few runs that were compared (commits and film reviews).
SPLITS = 2

# Share of the information that judges; the rest fits. Not measured against other shares.
JUDGE_SHARE = 0.2

# Shares of a model that are tried, in a mixture with public text.
MODEL_SHARES = np.linspace(0, 1, 21)

# Relative standard deviation of a word's frequency that evidence about words allows for: no model
# is right about every word, and a few very frequent words would decide alone. Tried with 0.3 only
# (commits and film reviews, ε from 0.05 to 4).
WORD_REL_STD = 0.3


def thin(measured: NoisyCounts, split: int) -> tuple[NoisyCounts, NoisyCounts]:
    """Return two independent views of Gaussian measurements: one to fit, one to judge.

    Args:
        measured: Noisy counts.
        split: The number of the thinning; each has a seed of its own.
    """
    c = np.sqrt(JUDGE_SHARE / (1 - JUDGE_SHARE))
    generator = np.random.default_rng(20210427 + split)
    widths = (np.sqrt(1 + c**2), np.sqrt(1 + 1 / c**2))

    def thin_values(values: Floats, noise_std: Floats) -> tuple[Floats, Floats]:
        xi = noise_std * generator.standard_normal(np.shape(values))
        return values + c * xi, values - xi / c

    counts = thin_values(measured.counts, measured.noise)
    totals = thin_values(np.array(measured.total), np.array(measured.total_noise))
    views = [
        NoisyCounts(view, measured.noise * width, float(total), measured.total_noise * width)
        for view, total, width in zip(counts, totals, widths, strict=True)
    ]
    if measured.word_counts is not None and measured.word_noise is not None:
        words = thin_values(measured.word_counts, measured.word_noise)
        views = [
            replace(view, word_counts=word_counts, word_noise=measured.word_noise * width)
            for view, word_counts, width in zip(views, words, widths, strict=True)
        ]
    return views[0], views[1]


def log_likelihood(theta: Floats, measured: NoisyCounts) -> float:
    """Return the log-likelihood of nθ over that of zeros, with the n that fits best."""
    weights = 1 / measured.noise**2
    observed = float((weights * measured.counts * theta).sum())
    return max(observed, 0.0) ** 2 / (2 * float((weights * theta * theta).sum()))


def ngram_evidence(theta: Floats, prior: Floats, measured: NoisyCounts) -> Floats:
    """Return the log-likelihood of n((1 − t)π + tθ) over that of nπ, for every share t.

    The n that fits best is taken for each t.
    """
    weights = 1 / measured.noise**2
    observed_prior = float((weights * measured.counts * prior).sum())
    observed_theta = float((weights * measured.counts * theta).sum())
    prior_square = float((weights * prior * prior).sum())
    product = float((weights * prior * theta).sum())
    theta_square = float((weights * theta * theta).sum())
    t = MODEL_SHARES
    observed = (1 - t) * observed_prior + t * observed_theta
    square = (1 - t) ** 2 * prior_square + 2 * t * (1 - t) * product + t**2 * theta_square
    likelihoods: Floats = np.maximum(observed, 0) ** 2 / (2 * square)
    evidence: Floats = likelihoods - likelihoods[0]
    return evidence


def word_evidence(theta: Floats, public: PublicNgrams, measured: NoisyCounts) -> Floats:
    """Return the same for the words that were measured; zeros where none were."""
    if measured.word_counts is None or measured.word_noise is None:
        return np.zeros(MODEL_SHARES.size)
    total = max(measured.total, 1.0)
    prior_words = total * public.per_word(public.prior)
    change = total * public.per_word(theta) - prior_words
    variances = measured.word_noise**2 + (WORD_REL_STD * (prior_words + change / 2)) ** 2
    residual = measured.word_counts - prior_words
    # Σ (r − t·d)²/v is a parabola in t.
    product = float((residual * change / variances).sum())
    square = float((change**2 / variances).sum())
    evidence: Floats = MODEL_SHARES * product - MODEL_SHARES**2 * square / 2
    return evidence
