"""Give back what clipping took away, as far as words tell.

Those who write a lot are clipped, and write differently: clipped counts are distorted. The words of the lost part were
measured; the lost n-grams are taken to be u_i exp(x_i·γ), u what is usual, x the words of an n-gram and their vectors,
γ fitted to the noisy lost words by ridge quasi-likelihood. Where noise hides them γ stays 0: what was lost is usual.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.measured import Lost, PublicNgrams
from bayesgram.inference.pooling import conjugate_gradients

SPREAD = 0.1  # τ: what words and vectors leave unexplained of the lost words' log-ratios
WORD_RIDGE, MEANING_RIDGE = 15.0, 7.0
STEPS = 8
LARGEST_EFFECT = 3.0
SIGNAL = 2.0  # standard deviations by which the total of what was lost must exceed 0


@dataclass(frozen=True, eq=False)
class WordEffects:
    """X·γ and its transpose: a word, and words like it, lift all of their n-grams."""

    public: PublicNgrams
    vectors: Floats

    def times(self, gamma: Floats) -> Floats:
        """For every n-gram."""
        words, meanings = np.split(gamma, [self.public.word_total])
        return self.public.per_ngram(words + self.vectors @ meanings)

    def transposed(self, values: Floats, *, squared: bool = False) -> Floats:
        """Of a value of every n-gram; squared, for the diagonal of xᵀ diag(values) x."""
        words = self.public.per_word(values)
        return np.concatenate([words, words @ (self.vectors**2 if squared else self.vectors)])


def lost_counts(usual: Floats, lost: Lost, public: PublicNgrams, vectors: Floats) -> Floats:
    """The n-grams that clipping took away, in the counts' own units; `usual` is in proportion to what it takes."""
    total = max(lost.total, 0.0)
    means: Floats = total * usual / usual.sum()
    if total < SIGNAL * lost.total_noise:
        return means
    effects = WordEffects(public, vectors)
    ridge = np.repeat([WORD_RIDGE, MEANING_RIDGE], [public.word_total, vectors.shape[1]])
    gamma = np.zeros(ridge.size)
    for _ in range(STEPS):
        change = _gauss_newton(means, lost, effects, gamma, ridge)
        gamma += change
        means = usual * np.exp(np.clip(effects.times(gamma), -LARGEST_EFFECT, LARGEST_EFFECT))
        means *= total / means.sum()
        if float(np.abs(effects.times(change)).max()) < 0.02:
            break
    return means


def _gauss_newton(means: Floats, lost: Lost, effects: WordEffects, gamma: Floats, ridge: Floats) -> Floats:
    """One step for γ: (JᵀWJ + R) Δ = JᵀW(y − μ) − Rγ, with J the words of diag(μ) x."""
    public = effects.public
    said = public.per_word(means)
    weights, residual = np.zeros(said.size), np.zeros(said.size)
    weights[lost.which] = 1 / (lost.noise**2 + (SPREAD * said[lost.which]) ** 2)
    residual[lost.which] = (lost.counts - said[lost.which]) * weights[lost.which]

    def normal(vector: Floats) -> Floats:
        moved = public.per_word(means * effects.times(vector)) * weights
        return effects.transposed(means * public.per_ngram(moved)) + ridge * vector

    target = effects.transposed(means * public.per_ngram(residual)) - ridge * gamma
    diagonal = effects.transposed(means**2 * public.per_ngram(weights), squared=True) + ridge
    return conjugate_gradients(normal, target, 1 / diagonal)
