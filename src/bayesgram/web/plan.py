"""Plan a release on the page: what accuracy to expect for so many users, from public text and assumptions alone."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from bayesgram.errors import UsageError
from bayesgram.inference.measured import PublicNgrams
from bayesgram.inference.measuring import NORM_EDGES
from bayesgram.inference.planning import Assumed, Expected, simulate
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import calibrate_gaussian
from bayesgram.public.vocabulary import Vocabulary

UNITS = 1 << 30  # B, as the mechanism has it; only the slack of δ depends on it
MOST_NGRAMS = 100_000  # of an order: more take too long to wait for
MOST_DRAWS = 10


@dataclass(frozen=True)
class Wish:
    """What somebody would like to release."""

    assumed: Assumed
    budget: Budget
    size: int  # n-grams of each order

    def __post_init__(self) -> None:
        if self.budget.delta == 0:
            raise UsageError("delta=0: the mechanism needs a delta above 0, such as 1e-7.")


@dataclass(frozen=True, eq=False)
class Planner:
    """Simulates releases of the most frequent n-grams of a vocabulary."""

    vocabulary: Vocabulary

    @property
    def largest(self) -> int:
        """How many n-grams of an order can be planned with."""
        return min(MOST_NGRAMS, max(len(part) for _, part in self.vocabulary.parts))

    @cached_property
    def smallest(self) -> int:
        """Below, there is nothing to learn from."""
        return min(10, self.largest)

    def expect(self, wish: Wish, draw: int) -> Expected:
        """One simulated release; a draw is the same people whatever the budget, so that budgets can be compared."""
        if not self.smallest <= wish.size <= self.largest:
            raise UsageError(f"size={wish.size}: give a number of n-grams from {self.smallest:,} to {self.largest:,}.")
        if not 0 <= draw < MOST_DRAWS:
            raise UsageError(f"draw={draw}: give a number from 0 to {MOST_DRAWS - 1}.")
        parts = self._parts(wish.size)
        total = sum(part.prior.size for part in parts) + parts[-1].word_total * (parts[-1].words.shape[1] > 1)
        noise = calibrate_gaussian(wish.budget, coordinates=total + NORM_EDGES.size + 1, units=UNITS)
        seed = int.from_bytes(hashlib.sha256(f"{wish.assumed} {wish.size} {draw}".encode()).digest()[:8])
        return simulate(parts, wish.assumed, multiplier=noise.multiplier, seed=seed)

    @cached_property
    def _parts(self) -> Callable[[int], list[PublicNgrams]]:
        return lru_cache(4)(self._cut)

    def _cut(self, size: int) -> list[PublicNgrams]:
        return [PublicNgrams.of(_most_frequent(part, size)) for _, part in self.vocabulary.parts]


def _most_frequent(part: Vocabulary, size: int) -> Vocabulary:
    return part.taken(np.sort(np.argsort(-part.counts, kind="stable")[:size]))
