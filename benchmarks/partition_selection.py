"""Published ways to find what many users have, for `discovery.py`: the peers.

In:  users' lists of candidates, ε and δ.   Out: which candidates are published. All are (ε, δ)-DP
at the level of a user, half of δ for noise and half for what only one user has, σ by the exact
curve of the Gaussian mechanism. A user with more than `most` candidates (Δ₀) takes part with so
many, drawn at random. Noise is NumPy's, which will do for figures only.

weighted Gaussian   Gopi et al. 2020: every candidate of a user weighs 1/√n. policy Gaussian     the
same paper, ℓ2 descent: users one after the other move the sums toward Γ = T + 5σ, by 1 at most.
DP-SIPS             Swanberg et al. 2023: three weighted Gaussians that leave out what was found;
each has 0.3 of the
                    budget of the next (μ² and δ alike).
MAD                 Chen et al. 2025, MaxAdaptiveDegree: users with at most 50 candidates first give
1/n to each; what
                    an item gets above τ = T + 2σ goes back to them, and each puts 1/50 of it on every candidate;
                    then 1/√n − 1/n is added. (A user can then move the sums by 1.0025 in L2, not 1: in its favour.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.kernels import kernel

AHEAD = 5.0  # Γ of the policy, in σ above T
ROUNDS, GROWTH = 3, 0.3  # of DP-SIPS
ADAPTIVE, EXCESS = 50, 2.0  # of MAD: the most candidates of an adaptive user, and τ in σ above T


@dataclass(frozen=True, eq=False)
class Lists:
    """User u has candidates[starts[u] : starts[u + 1]], each once; they are numbers below `size`."""

    starts: Integers
    candidates: Ids
    size: int

    @property
    def lengths(self) -> Integers:
        """How many candidates each user has."""
        return np.diff(self.starts)

    def cut(self, keys: Floats, most: int) -> "Lists":
        """Of each user those with the smallest keys; there is one for every entry."""
        if self.lengths.max(initial=0) <= most:
            return self
        return Lists(*smallest(self.starts, self.candidates, keys, most), self.size)

    def without(self, found: Integers) -> "Lists":
        """All but some candidates."""
        stays = np.ones(self.size, bool)
        stays[found] = False
        rows = stays[self.candidates]
        return Lists(np.append(0, np.cumsum(rows))[self.starts], self.candidates[rows], self.size)

    def sums(self, weights: Floats) -> Floats:
        """Σ over users, each of whom gives all own candidates the same weight."""
        found = np.bincount(self.candidates, np.repeat(weights, self.lengths), self.size)
        return found.astype(np.float64)  # whole numbers where there are no candidates


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The σ of a Gaussian mechanism of sensitivity 1 whose curve is δ at ε (Balle and Wang 2018)."""

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        first, second = (float(log_ndtr(sign / (2 * sigma) - epsilon * sigma)) for sign in (1, -1))
        return (
            first + math.log(-math.expm1(min(epsilon + second - first, -1e-15))) - math.log(delta)
        )

    return math.exp(brentq(excess, math.log(1e-3), math.log(1e4)))


def threshold(sigma: float, delta: float, most: int) -> float:
    """T of Gopi et al.: whatever number t of candidates, of 1/√t each, only one user has."""
    number = np.arange(1, most + 1)
    return float(np.max(1 / np.sqrt(number) - sigma * ndtri(-np.expm1(np.log1p(-delta) / number))))


def passing(sums: Floats, sigma: float, level: float, rng: np.random.Generator) -> Integers:
    """Candidates that somebody has whose noisy sums exceed T."""
    somebody = np.flatnonzero(sums > 0)
    return somebody[sums[somebody] + rng.normal(0, sigma, somebody.size) > level]


@dataclass(frozen=True)
class CountMinSketch:
    """What all peers know."""

    epsilon: float
    delta: float
    most: int  # Δ₀

    def calibrate(self) -> tuple[float, float]:
        """σ and T."""
        sigma = noise_multiplier(self.epsilon, self.delta / 2)
        return sigma, threshold(sigma, self.delta / 2, self.most)


def weighted_gaussian(lists: Lists, bounds: CountMinSketch, rng: np.random.Generator) -> Integers:
    """All alike."""
    sigma, level = bounds.calibrate()
    lists = lists.cut(rng.random(lists.candidates.size), bounds.most)
    return passing(lists.sums(1 / np.sqrt(np.maximum(lists.lengths, 1))), sigma, level, rng)


def policy_gaussian(lists: Lists, bounds: CountMinSketch, rng: np.random.Generator) -> Integers:
    """Users in random order, each by the ℓ2 descent."""
    sigma, level = bounds.calibrate()
    lists = lists.cut(rng.random(lists.candidates.size), bounds.most)
    order = rng.permutation(lists.lengths.size)
    sums = descent(lists.starts, lists.candidates, order, lists.size, level + AHEAD * sigma)
    return passing(sums, sigma, level, rng)


def dp_sips(lists: Lists, bounds: CountMinSketch, rng: np.random.Generator) -> Integers:
    """Rounds with a growing budget; what was found is left out."""
    shares = GROWTH ** np.arange(ROUNDS)[::-1]
    sigma, found = noise_multiplier(bounds.epsilon, bounds.delta / 2), [np.zeros(0, np.int64)]
    for share in (shares / shares.sum()).tolist():
        some = lists.cut(rng.random(lists.candidates.size), bounds.most)
        level = threshold(sigma / math.sqrt(share), share * bounds.delta / 2, bounds.most)
        sums = some.sums(1 / np.sqrt(np.maximum(some.lengths, 1)))
        found.append(passing(sums, sigma / math.sqrt(share), level, rng))
        lists = lists.without(found[-1])
    return np.concatenate(found)


def mad(lists: Lists, bounds: CountMinSketch, rng: np.random.Generator) -> Integers:
    """MaxAdaptiveDegree."""
    sigma, level = bounds.calibrate()
    lists = lists.cut(rng.random(lists.candidates.size), bounds.most)
    return passing(adaptive_sums(lists, level + EXCESS * sigma), sigma, level, rng)


def adaptive_sums(lists: Lists, most: float, degree: int = ADAPTIVE) -> Floats:
    """The sums of MAD; `most` is τ."""
    number = np.maximum(lists.lengths, 1).astype(np.float64)
    adaptive: Bools = lists.lengths <= degree
    first = lists.sums(np.where(adaptive, 1 / number, 0))
    returned = np.maximum(first - most, 0) / np.maximum(
        first, most
    )  # the part of an item that goes back
    upto = np.append(0.0, np.cumsum(returned[lists.candidates]))
    own = np.diff(upto[lists.starts]) / number  # what goes back to each user
    rest = np.where(adaptive, own / degree + 1 / np.sqrt(number) - 1 / number, 1 / np.sqrt(number))
    return np.minimum(first, most) + lists.sums(rest)


PEERS: dict[str, Callable[[Lists, CountMinSketch, np.random.Generator], Integers]] = {
    "weighted Gaussian": weighted_gaussian,
    "policy Gaussian": policy_gaussian,
    "DP-SIPS": dp_sips,
    "MAD": mad,
}


@kernel
def descent(starts: Integers, candidates: Ids, order: Integers, size: int, most: float) -> Floats:
    """Let one user after the other move the sums of their candidates toward `most`.

    Each moves them by a vector of length 1 or less.
    """
    sums = np.zeros(size)
    for user in order:
        squares = 0.0
        for at in range(starts[user], starts[user + 1]):
            squares += (most - sums[candidates[at]]) ** 2
        step = 1.0 / max(1.0, np.sqrt(squares))
        for at in range(starts[user], starts[user + 1]):
            sums[candidates[at]] += (most - sums[candidates[at]]) * step
    return sums


@kernel
def smallest(starts: Integers, candidates: Ids, keys: Floats, most: int) -> tuple[Integers, Ids]:
    """Of each user the candidates with the smallest keys, in order."""
    kept = np.zeros(starts.size, np.int64)
    for user in range(starts.size - 1):
        kept[user + 1] = kept[user] + min(most, starts[user + 1] - starts[user])
    found = np.empty(kept[-1], candidates.dtype)
    for user in range(starts.size - 1):
        order = np.argsort(keys[starts[user] : starts[user + 1]])
        for at in range(kept[user + 1] - kept[user]):
            found[kept[user] + at] = candidates[starts[user] + order[at]]
    return kept, found
