"""Several orders together: what words have taught moves the prior of pairs, and pairs that of triples.

The lift of an n-gram is log θ/π, what its order has learnt. Of an n-gram that is not in its order's list, and of a
whole order before it is looked at, it is put together from shorter ones, as a Markov chain would:

    lift(w₁…wₙ) = lift(w₁…wₙ₋₁) + lift(w₂…wₙ) − lift(w₂…wₙ₋₁)

Noise of the orders is independent, so all of what was measured of the next order may judge how far to follow.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Floats
from bayesgram.inference.model import Inferred, infer
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.public.vocabulary import Vocabulary

LAST_TOKEN, FIRST_TOKEN = r" [^ ]*$", r"^[^ ]* "


class Lifts:
    """What the orders that were looked at have learnt."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[pa.LargeStringArray, Floats]] = {}

    def learn(self, order: int, ngrams: pa.LargeStringArray, lifts: Floats) -> None:
        """Of n-grams of one order."""
        self._known[order] = (ngrams, lifts)

    def expected(self, ngrams: pa.LargeStringArray, order: int) -> Floats:
        """Of n-grams of an order, by shorter ones alone."""
        if order == 1:
            return np.zeros(len(ngrams))
        before, after = _without(LAST_TOKEN, ngrams), _without(FIRST_TOKEN, ngrams)
        found = self.of(before, order - 1) + self.of(after, order - 1)
        return found if order == 2 else found - self.of(_without(FIRST_TOKEN, before), order - 2)

    def of(self, ngrams: pa.LargeStringArray, order: int) -> Floats:
        """As learnt, or as expected where an n-gram is not in the list."""
        listed, lifts = self._known.get(order, (ngrams[:0], np.zeros(0)))
        at = pc.index_in(ngrams, listed)
        missing = at.is_null().to_numpy(zero_copy_only=False)
        found: Floats = np.append(lifts, 0.0)[at.fill_null(len(listed)).to_numpy()]
        if order > 1 and missing.any():
            found[missing] = self.expected(ngrams.filter(pa.array(missing)), order)
        return found


def infer_orders(
    measured: Sequence[NoisyCounts],
    parts: Sequence[Vocabulary],
    publics: Sequence[PublicNgrams] | None = None,
    vectors: Sequence[Floats | None] | None = None,
) -> list[Inferred]:
    """The posterior of each order, short ones first; `parts` are the n-grams of each.

    `publics` is what is known of them before, if not public text; `vectors` are those of words, where they are known.
    """
    lifts, found = Lifts(), []
    publics = [PublicNgrams.of(part) for part in parts] if publics is None else publics
    vectors = [None for _ in parts] if vectors is None else vectors
    for noisy, part, public, known in zip(measured, parts, publics, vectors, strict=True):
        inferred = infer(noisy, public, lifts.expected(part.ngrams, part.order), known)
        lifts.learn(
            part.order,
            part.ngrams,
            np.log(inferred.theta / (inferred.weights.weights @ public.sources)),
        )
        found.append(inferred)
    return found


def _without(pattern: str, ngrams: pa.LargeStringArray) -> pa.LargeStringArray:
    return pc.replace_substring_regex(ngrams, pattern, "")
