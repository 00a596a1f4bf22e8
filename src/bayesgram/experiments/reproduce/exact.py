"""What the mechanisms read of users, without noise, made once and shared by every ε, seed and prior.

In:  counts.   Out: clipped totals for each W, w⊙x̂ and γ for each S; counts that remember their clipped sums.
All of it is private. The subsample to W is drawn once, with the first seed's key; seeds vary the noise, and the split
of Algorithm 2. So the first seed gives what `mechanism.release(..., seed=…)` gives, bit for bit, and a test says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from threading import RLock
from typing import TypeVar

import numpy as np

from bayesgram.arrays import Floats, Integers
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.choices import ScoreSensitivity
from bayesgram.mechanisms.paper import classical_sigma, paper_bounds
from bayesgram.mechanisms.sensitivity import Statistics
from bayesgram.mechanisms.tuning import Grid, cross_entropy, held_out, lipschitz
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import NoiseSource
from bayesgram.private.clip_counts import ClippedCounts, clip
from bayesgram.private.counts import UserCounts
from bayesgram.public.prior import softmax

GRID = Grid(score_sensitivity=ScoreSensitivity.PUBLISHED)  # Algorithm 2 as published
BEST_SLOPES = tuple(sorted({*(10.0 ** (power / 2) for power in range(-12, -1)), *GRID.slopes}))
BEST_RHOS = tuple(tenth / 10 for tenth in range(1, 11))

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Weighted:
    """All that Algorithm 1 reads of users: x̂, and w and γ for each S. Prior, ρ and ε come later and cost little."""

    x_hat: Floats
    weights: dict[float, Floats]
    gamma: dict[float, float]

    @classmethod
    def of(cls, statistics: Statistics, slopes: Sequence[float]) -> "Weighted":
        """One pass over the users for each S."""
        weights = {slope: statistics.weights(slope) for slope in slopes}
        return cls(statistics.x_hat, weights, {slope: statistics.exact_gamma(slope) for slope in slopes})

    def mean(self, prior_logs: Floats, *, slope: float, rho: float) -> Floats:
        """μ_ps = ρ w⊙x̂ + (1 − ρ) μ_p."""
        mu_ps: Floats = rho * self.weights[slope] * self.x_hat + (1 - rho) * prior_logs
        return mu_ps

    def theta(self, prior_logs: Floats, budget: Budget, noise: NoiseSource, *, slope: float, rho: float) -> Floats:
        """Algorithm 1 from here on."""
        sigma = classical_sigma(self.gamma[slope], rho=rho, budget=budget)
        return softmax(noise.gaussian(self.mean(prior_logs, slope=slope, rho=rho), scale=sigma))


@dataclass(frozen=True, eq=False)
class HeldOutSplit:
    """Algorithm 2 up to its noise: the scoring users' totals, and the others."""

    scoring: Integers
    others: Weighted

    @classmethod
    def of(cls, clipped: ClippedCounts, scoring: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> "HeldOutSplit":
        """Split the users, then a pass over the others for each S of the grid."""
        return cls(clipped.select(scoring).totals, Weighted.of(Statistics(clipped.select(~scoring)), GRID.slopes))

    def choose(self, prior_logs: Floats, epsilon: float, noise: NoiseSource) -> tuple[float, float]:
        """The (S, ρ) of the smallest noisy score, |Δq| by Claim 3 as published."""
        steepness = lipschitz(self.scoring, GRID.score_sensitivity)
        pairs = list(product(GRID.slopes, GRID.rhos))
        means = (self.others.mean(prior_logs, slope=slope, rho=rho) for slope, rho in pairs)
        scores = np.array([cross_entropy(self.scoring, mean) for mean in means])
        change = max(rho * steepness * self.others.gamma[slope] for slope, rho in pairs)
        return pairs[int(np.argmin(noise.laplace(scores, scale=2 * change / epsilon)))]


@dataclass(frozen=True, eq=False, repr=False)
class Cached(UserCounts):
    """Counts that keep their sums: a mechanism that asks again for the same clipped sum gets it at once."""

    _kept: dict[tuple[object, ...], Integers] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    @classmethod
    def of(cls, counts: UserCounts) -> "Cached":
        """The same counts."""
        size, fingerprint = counts.vocabulary_size, counts.vocabulary_fingerprint
        return cls(counts.users, counts.starts, counts.ngrams, counts.counts, size, fingerprint)

    def once(self, name: tuple[object, ...], make: Callable[[], Integers]) -> Integers:
        """Make it, or find it: threads that ask for the same thing wait for the first."""
        with self._lock:
            if name not in self._kept:
                self._kept[name] = make()
            return self._kept[name]


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact sums of one dataset."""

    counts: Cached
    users: int  # the round figure that C and W follow
    seeds: tuple[int, ...]
    _made: dict[tuple[object, ...], object] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    @property
    def bounds(self) -> tuple[int, int]:
        """The paper's C and W."""
        return paper_bounds(self.users)

    @property
    def key(self) -> int:
        """Of the subsample to W."""
        return Randomness.make(self.seeds[0]).key

    def laplace_totals(self, max_total: int) -> Integers:
        """Totals of counts clipped to W."""
        clipped = partial(clip, self.counts, max_count=None, max_total=max_total, key=self.key)
        return self.counts.once(("totals", max_total), lambda: clipped().totals)

    @property
    def weighted(self) -> Weighted:
        """Algorithm 1 for all users and every S."""
        return self._once(("weighted",), lambda: Weighted.of(Statistics(self._clipped()), BEST_SLOPES))

    @property
    def held_out_splits(self) -> dict[int, HeldOutSplit]:
        """Algorithm 2 for each seed's split."""
        return self._once(("rehearsals",), self._split)

    def _split(self) -> dict[int, HeldOutSplit]:
        clipped = self._clipped()
        splits = ((seed, held_out(self.counts, key=Randomness.make(seed).key)) for seed in self.seeds)
        return {seed: HeldOutSplit.of(clipped, scoring) for seed, scoring in splits}

    def _clipped(self) -> ClippedCounts:
        """To C and W; as large as the counts, so it is not kept."""
        max_count, max_total = self.bounds
        return clip(self.counts, max_count=max_count, max_total=max_total, key=self.key)

    def _once(self, name: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """Make it, or find it: threads that ask for the same thing wait for the first."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value]
