"""Add the text that clipping removed back to what it kept, as far as words tell.

People who write much are clipped, and write differently. Where the words of the removed text were
measured, the removed n-grams are u_i exp(x_i·γ): u is in proportion to what was kept, x are the
words of an n-gram and their vectors, and γ is fitted to the noisy words by ridge
quasi-likelihood. Where noise hides them, γ stays 0.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.noisy_counts import ClippedMass, NoisyCounts, PublicNgrams
from bayesgram.inference.pooling import solve_by_conjugate_gradients

# Relative standard deviation of the removed words that words and vectors leave unexplained.
UNEXPLAINED_REL_STD = 0.1

# 1/variance of the effect of a word, and of a coordinate of the vectors.
WORD_RIDGE = 15.0
VECTOR_RIDGE = 7.0

MAX_STEPS = 8  # of Gauss–Newton
TOLERANCE = 0.02  # of a log-ratio, at which the steps end
MAX_LOG_EFFECT = 3.0  # no n-gram is removed e³ times more or less than others by its words

# Standard deviations by which the removed total must exceed 0 for γ to be fitted.
MIN_TOTAL_Z = 2.0


def add_clipped_mass(
    kept: Floats, measured: NoisyCounts, public: PublicNgrams, vectors: Floats
) -> Floats:
    """Return what people wrote: the counts that clipping kept, and those that it removed.

    Args:
        kept: Expected counts after clipping.
        measured: Noisy counts, with what is known of the clipping.
        public: Public n-grams.
        vectors: Vectors of the words.
    """
    has_rarity = measured.left is not None and bool((measured.left < 1).any())
    removed = kept * (1 / measured.left - 1) if measured.left is not None and has_rarity else kept
    if measured.lost is None:
        return kept + removed if has_rarity else kept
    return kept + removed_counts(removed, measured.lost, public, vectors)


def removed_counts(
    proportions: Floats, clipped_mass: ClippedMass, public: PublicNgrams, vectors: Floats
) -> Floats:
    """Return the n-grams that clipping removed, fitted to the noisy words of the removed text.

    Args:
        proportions: In proportion to what clipping would remove if words told nothing.
        clipped_mass: Noisy words of the removed text, and their total.
        public: Public n-grams.
        vectors: Vectors of the words.
    """
    total = max(clipped_mass.total, 0.0)
    means: Floats = total * proportions / proportions.sum()
    if total < MIN_TOTAL_Z * clipped_mass.total_noise:
        return means
    effects = WordEffects(public, vectors)
    ridge = np.repeat([WORD_RIDGE, VECTOR_RIDGE], [public.word_total, vectors.shape[1]])
    gamma = np.zeros(ridge.size)
    for _ in range(MAX_STEPS):
        change = _gauss_newton_step(means, clipped_mass, effects, gamma, ridge)
        gamma += change
        log_effects = np.clip(effects.times(gamma), -MAX_LOG_EFFECT, MAX_LOG_EFFECT)
        means = proportions * np.exp(log_effects)
        means *= total / means.sum()
        if float(np.abs(effects.times(change)).max()) < TOLERANCE:
            break
    return means


@dataclass(frozen=True, eq=False)
class WordEffects:
    """Products with X and its transpose: a word, and words like it, lift all of their n-grams."""

    public: PublicNgrams
    vectors: Floats

    def times(self, gamma: Floats) -> Floats:
        """Return X·γ, a value for every n-gram."""
        words, meanings = np.split(gamma, [self.public.word_total])
        return self.public.per_ngram(words + self.vectors @ meanings)

    def transposed_times(self, values: Floats, *, squared: bool = False) -> Floats:
        """Return Xᵀ·values; if `squared`, about the diagonal of Xᵀ diag(values) X."""
        words = self.public.per_word(values)
        return np.concatenate([words, words @ (self.vectors**2 if squared else self.vectors)])


def _gauss_newton_step(
    means: Floats, clipped_mass: ClippedMass, effects: WordEffects, gamma: Floats, ridge: Floats
) -> Floats:
    """Solve (JᵀWJ + R) Δ = JᵀW(y − μ) − Rγ, with J the words of diag(μ) X."""
    public = effects.public
    which = clipped_mass.which
    expected_words = public.per_word(means)
    unexplained = UNEXPLAINED_REL_STD * expected_words[which]
    weights = np.zeros(expected_words.size)
    weights[which] = 1 / (clipped_mass.noise**2 + unexplained**2)
    residual = np.zeros(expected_words.size)
    residual[which] = (clipped_mass.counts - expected_words[which]) * weights[which]

    def normal(vector: Floats) -> Floats:
        moved = public.per_word(means * effects.times(vector)) * weights
        return effects.transposed_times(means * public.per_ngram(moved)) + ridge * vector

    target = effects.transposed_times(means * public.per_ngram(residual)) - ridge * gamma
    diagonal = effects.transposed_times(means**2 * public.per_ngram(weights), squared=True) + ridge
    return solve_by_conjugate_gradients(normal, target, 1 / diagonal)
