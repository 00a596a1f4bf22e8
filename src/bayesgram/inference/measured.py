"""Noisy counts as they leave the door, with everything inference may know about them."""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats, Ids


@dataclass(frozen=True, eq=False)
class Measured:
    """y ~ N(λ, noise²) for every n-gram, and the same for every word where words were measured too."""

    counts: Floats
    noise: Floats  # standard deviation of each count
    word_counts: Floats | None = None  # how often each word occurs in the n-grams
    word_noise: Floats | None = None


@dataclass(frozen=True, eq=False)
class PublicNgrams:
    """What inference knows from public text: π, and the words that each n-gram is made of."""

    prior: Floats  # π
    counts: Floats  # α
    words: Ids  # V × n, a number for each word
    word_total: int

    def per_word(self, values: Floats) -> Floats:
        """Sum a value of every n-gram over the n-grams of each word, once for each time the word is in it."""
        total = np.zeros(self.word_total)
        for place in self.words.T:
            total += np.bincount(place, values, self.word_total)
        return total

    def per_ngram(self, values: Floats) -> Floats:
        """Sum a value of every word over the words of each n-gram."""
        total = np.zeros(len(self.words))
        for place in self.words.T:
            total += values[place]
        return total
