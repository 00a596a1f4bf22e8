"""Perplexity of a trigram model without back-off, on held-out users.

P(w₃ | w₁ w₂) = θ(w₁ w₂ w₃) / Σ_w θ(w₁ w₂ w), the sum over the n-grams of the vocabulary that share the context;
perplexity = exp(−Σ c log P / Σ c), c = the held-out counts. It is an average over covered n-grams; the paper averages
over words of sentences whose n-grams are all covered, which asks for the sentences themselves.
"""

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats, Integers
from bayesgram.errors import BayesgramError
from bayesgram.public.vocabulary import Vocabulary


def contexts(vocabulary: Vocabulary) -> Integers:
    """The number of each n-gram's context: all of its words but the last."""
    words, total = vocabulary.words
    numbers = np.zeros(len(vocabulary), np.int64)
    for column in words.T[:-1]:  # after each word the numbers are made small again, so nothing overflows
        numbers = np.unique(numbers * total + column, return_inverse=True)[1]
    return numbers


def perplexity(held_out: NDArray[np.integer], theta: Floats, context: Integers) -> float:
    """Exp of the average −log P(last word | context) of the held-out counts.

    >>> perplexity(np.array([1, 1]), np.array([0.5, 0.5]), np.array([0, 0]))
    2.0
    """
    if not held_out.sum():
        raise BayesgramError("nobody is held out, or they have no n-gram of the vocabulary; give more users.")
    seen = held_out > 0
    conditional = theta[seen] / np.bincount(context, theta)[context[seen]]
    loss = -(held_out[seen] * np.log(conditional)).sum() / held_out.sum()
    return float(np.exp(loss))
