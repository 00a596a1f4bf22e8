"""Give back what clipping took away, as far as words tell.

Those who write a lot are clipped, and write differently: clipped counts are distorted. The words of the lost part were
measured; the lost n-grams are taken to be λ_i exp(x_i·γ), x the words of an n-gram and their vectors, γ fitted to the
noisy lost words by ridge quasi-likelihood. Where noise hides them γ stays 0: what was lost is like what was kept.
"""

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.measured import Lost, PublicNgrams
from bayesgram.inference.pooling import conjugate_gradients

SPREAD = 0.1  # τ: what words and vectors leave unexplained of the lost words' log-ratios
WORD_RIDGE, MEANING_RIDGE = 15.0, 7.0
STEPS = 8
LARGEST_EFFECT = 3.0


def lost_counts(kept: Floats, lost: Lost, public: PublicNgrams, vectors: Floats, *, stiffness: float = 1.0) -> Floats:
    """The n-grams that clipping took away, in the counts' own units, given those that it kept."""
    total = max(lost.total, 0.0)
    if total < 2 * lost.total_noise:
        return total * kept / kept.sum()
    known = np.zeros(public.word_total, bool)
    known[lost.which] = True
    counts, noise = np.zeros(known.size), np.ones(known.size)
    counts[lost.which], noise[lost.which] = lost.counts, lost.noise
    gamma = np.zeros(known.size + vectors.shape[1])
    ridge = stiffness * np.repeat([WORD_RIDGE, MEANING_RIDGE], [known.size, vectors.shape[1]])

    def times(vector: Floats) -> Floats:
        return public.per_ngram(vector[: known.size] + vectors @ vector[known.size :])

    def transposed(values: Floats, squares: bool = False) -> Floats:
        words = public.per_word(values)
        return np.concatenate([words, (vectors**2 if squares else vectors).T @ words])

    means = total * kept / kept.sum()
    for _ in range(STEPS):
        said = public.per_word(means)
        weights = np.where(known, 1 / (noise**2 + (SPREAD * said) ** 2), 0.0)
        current = means

        def normal(vector: Floats, current: Floats = current, weights: Floats = weights) -> Floats:
            moved = public.per_word(current * times(vector)) * weights
            return transposed(current * public.per_ngram(moved)) + ridge * vector

        target = transposed(means * public.per_ngram((counts - said) * weights)) - ridge * gamma
        diagonal = transposed(means**2 * public.per_ngram(weights), squares=True) + ridge
        change = conjugate_gradients(normal, target, 1 / diagonal)
        gamma += change
        means = kept * np.exp(np.clip(times(gamma), -LARGEST_EFFECT, LARGEST_EFFECT))
        means *= total / means.sum()
        if float(np.abs(times(change)).max()) < 0.02:
            break
    return means
