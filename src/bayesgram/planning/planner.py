"""Simulated releases of a vocabulary's most frequent n-grams: what the page and `bayesgram plan` both ask.

In:  a vocabulary, assumptions, the budget of one release.   Out: how one simulated release came out.
Does not know of several releases or of ledgers (shares.py), and reads nothing private.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from bayesgram.errors import UsageError
from bayesgram.inference.measured import PublicNgrams
from bayesgram.inference.measuring import NORM_EDGES
from bayesgram.planning.simulation import Assumed, Expected, simulate
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import GaussianNoise, calibrate_gaussian
from bayesgram.public.vocabulary import Vocabulary

UNITS = 1 << 30  # B, as the mechanism has it; only the slack of δ depends on it
MOST_NGRAMS = 100_000  # of an order: more take too long to wait for
MOST_DRAWS = 10


@dataclass(frozen=True)
class PlanRequest:
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
    def longest_list(self) -> int:
        """How many n-grams the vocabulary has of the order of which it has most."""
        return max(len(part) for _, part in self.vocabulary.parts)

    @property
    def largest(self) -> int:
        """How many n-grams of an order can be planned with."""
        return min(MOST_NGRAMS, self.longest_list)

    @cached_property
    def smallest(self) -> int:
        """Below, there is nothing to learn from."""
        return min(10, self.largest)

    def check_size(self, size: int) -> None:
        """Refuse what can't be simulated."""
        if not self.smallest <= size <= self.largest:
            raise UsageError(f"size={size}: give a number of n-grams from {self.smallest:,} to {self.largest:,}.")

    def expect(self, request: PlanRequest, draw: int) -> Expected:
        """One simulated release; a draw is the same people whatever the budget, so that budgets can be compared."""
        self.check_size(request.size)
        if not 0 <= draw < MOST_DRAWS:
            raise UsageError(f"draw={draw}: give a number from 0 to {MOST_DRAWS - 1}.")
        noise = self.noise(request.budget, request.size)
        seed = int.from_bytes(hashlib.sha256(f"{request.assumed} {request.size} {draw}".encode()).digest()[:8])
        return simulate(self._parts(request.size), request.assumed, multiplier=noise.multiplier, seed=seed)

    def noise(self, budget: Budget, size: int) -> GaussianNoise:
        """What a release of this budget adds."""
        parts = self._parts(size)
        total = sum(part.prior.size for part in parts) + parts[-1].word_total * (parts[-1].words.shape[1] > 1)
        return calibrate_gaussian(budget, coordinates=total + NORM_EDGES.size + 1, units=UNITS)

    @cached_property
    def _parts(self) -> Callable[[int], list[PublicNgrams]]:
        return lru_cache(4)(self._cut)

    def _cut(self, size: int) -> list[PublicNgrams]:
        found = [PublicNgrams.of(_most_frequent(part, size)) for _, part in self.vocabulary.parts]
        return [replace(public, on_one_core=True) for public in found]


def _most_frequent(part: Vocabulary, size: int) -> Vocabulary:
    return part.taken(np.sort(np.argsort(-part.counts, kind="stable")[:size]))
