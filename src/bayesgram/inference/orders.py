"""Several orders together: what was learnt of words moves the prior of bigrams, and so on.

The *lift* of an n-gram is log θ/π, what was learnt of it. For an n-gram that is not listed, and for
all of an order before it is inferred, the lift is put together from shorter n-grams, as in a Markov
chain:

    lift(w₁…wₙ) = lift(w₁…wₙ₋₁) + lift(w₂…wₙ) − lift(w₂…wₙ₋₁)

The noise of the orders is independent, so all that was measured of an order may judge how far to
follow the shorter ones (`model`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Floats
from bayesgram.inference.model import Inferred, infer
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.inference.quality import estimate_coverage
from bayesgram.public.vocabulary import Vocabulary

LAST_WORD = r" [^ ]*$"
FIRST_WORD = r"^[^ ]* "


class Lifts:
    """The lifts of the orders that were inferred so far."""

    def __init__(self) -> None:
        self._by_order: dict[int, tuple[pa.LargeStringArray, Floats]] = {}

    def add(self, order: int, ngrams: pa.LargeStringArray, lifts: Floats) -> None:
        """Add the lifts of all listed n-grams of an order."""
        self._by_order[order] = (ngrams, lifts)

    def predict(self, ngrams: pa.LargeStringArray, order: int) -> Floats:
        """Return the lifts of n-grams of an order, by shorter ones alone."""
        if order == 1:
            return np.zeros(len(ngrams))
        without_last = _remove(LAST_WORD, ngrams)
        without_first = _remove(FIRST_WORD, ngrams)
        lifts = self.find(without_last, order - 1) + self.find(without_first, order - 1)
        if order > 2:
            lifts -= self.find(_remove(FIRST_WORD, without_last), order - 2)
        return lifts

    def find(self, ngrams: pa.LargeStringArray, order: int) -> Floats:
        """Return the lifts of n-grams: as learnt, or predicted where one is not listed."""
        listed, learnt = self._by_order.get(order, (ngrams[:0], np.zeros(0)))
        places = pc.index_in(ngrams, listed)
        is_missing = places.is_null().to_numpy(zero_copy_only=False)
        lifts: Floats = np.append(learnt, 0.0)[places.fill_null(len(listed)).to_numpy()]
        if order > 1 and is_missing.any():
            lifts[is_missing] = self.predict(ngrams.filter(pa.array(is_missing)), order)
        return lifts


def infer_orders(
    measured: Sequence[NoisyCounts],
    parts: Sequence[Vocabulary],
    publics: Sequence[PublicNgrams] | None = None,
    vectors: Sequence[Floats | None] | None = None,
) -> list[Inferred]:
    """Return the posterior of each order, short ones first.

    Args:
        measured: Noisy counts by order.
        parts: The n-grams of each order.
        publics: What is known of them before; by default, public text.
        vectors: Vectors of the words of each order, where they are known already.
    """
    lifts = Lifts()
    posteriors = []
    publics = [PublicNgrams.of(part) for part in parts] if publics is None else publics
    vectors = [None for _ in parts] if vectors is None else vectors
    for noisy, part, public, word_vectors in zip(measured, parts, publics, vectors, strict=True):
        predicted = lifts.predict(part.ngrams, part.order)
        posterior = infer(noisy, public, predicted, word_vectors)
        mixture = posterior.weights.weights @ public.sources
        lifts.add(part.order, part.ngrams, np.log(posterior.theta / mixture))
        posteriors.append(replace(posterior, coverage=estimate_coverage(noisy)))
    return posteriors


def _remove(pattern: str, ngrams: pa.LargeStringArray) -> pa.LargeStringArray:
    return pc.replace_substring_regex(ngrams, pattern, "")
