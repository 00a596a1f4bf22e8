"""The attack of the paper (its Section 5, last paragraph): who of two outputs has seen the user with the most counts?

In:  counts, a mechanism, budgets.   Out: for each budget how often KL(p_u ‖ θ_D) < KL(p_u ‖ θ_{D−u}), with an interval
and the ceiling that no attack on pairs can pass if the claim is true (errata E13).
Does not prove privacy: it removes one user, who seldom is the one that matters.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from bayesgram.arrays import Floats
from bayesgram.audit.evaluation import kl_divergence
from bayesgram.audit.findings import Finding, Target, at_least, at_most
from bayesgram.choices import Attack
from bayesgram.errors import BayesgramError, check_int
from bayesgram.inference.design import Choice
from bayesgram.mechanisms.base import Mechanism, Outcome, Randomness, normalised
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Design, Posterior
from bayesgram.paper.algorithm_1 import Paper, classical_sigma
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import NoiseSource, SeededNoise
from bayesgram.private.clipping import UNITS, clip, clipped_sum
from bayesgram.private.counts import PrivateCounts, UserCounts, without_user
from bayesgram.public.vocabulary import Vocabulary, centred_log, softmax

Sampler = Callable[[Budget, NoiseSource], Floats]


class AsPrinted(Paper):
    """Algorithm 1 to the letter (errata E2): x̂ where Corollary 1 has w⊙x̂, but the γ of w⊙x̂: too little noise."""

    def mean(self, statistics: Statistics, vocabulary: Vocabulary) -> Floats:
        """ρ x̂ + (1 − ρ) μ_p."""
        return self.rho * statistics.x_hat + (1 - self.rho) * centred_log(vocabulary.counts)


class NoisyCounts(Posterior):
    """`posterior` as it leaves the door, before inference, which can only take away."""

    def distribution(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> Outcome:
        """The noisy counts of the longest n-grams, as a distribution."""
        return Outcome(normalised(self.measure(counts, vocabulary, budget, chance)[0][-1].counts))


@dataclass(frozen=True)
class WinRate:
    """How often the attack won at one budget; a tie is half a win."""

    epsilon: float
    delta: float
    wins: float
    pairs: int
    rate: float
    low: float  # Clopper–Pearson, both sides together wrong with the stated error
    high: float
    ceiling: float


def win_rates(
    counts: UserCounts,
    vocabulary: Vocabulary,
    mechanism: Mechanism,
    budgets: Sequence[Budget],
    *,
    pairs: int,
    seed: int,
    error: float = 0.05,
) -> list[WinRate]:
    """The attack at each budget, on so many pairs of outputs with and without the user with the most counts."""
    check_int("pairs", pairs, 1, 10**7, "pairs of outputs")
    user = most_counts(counts)
    rows = slice(counts.starts[user], counts.starts[user + 1])
    own = np.zeros(counts.vocabulary_size, np.int64)
    own[counts.ngrams[rows]] = counts.counts[rows]
    noise_seed, key = (
        int(word) for word in np.random.SeedSequence(seed).generate_state(2, np.uint64)
    )
    noise = SeededNoise(noise_seed)
    samplers = [
        sampler(mechanism, data, vocabulary, key) for data in (counts, without_user(counts, user))
    ]
    return [
        _win_rate(
            samplers, own, budget, noise, pairs, error, ceiling(mechanism, vocabulary, budget)
        )
        for budget in budgets
    ]


def _win_rate(
    samplers: Sequence[Sampler],
    own: NDArray[np.int64],
    budget: Budget,
    noise: NoiseSource,
    pairs: int,
    error: float,
    most: float,
) -> WinRate:
    wins = 0.0
    for _ in range(pairs):
        near, far = (kl_divergence(own, sample(budget, noise)) for sample in samplers)
        wins += 0.5 * (near <= far) + 0.5 * (near < far)
    low, high = (bound(wins, pairs, error=error / 2) for bound in (at_least, at_most))
    return WinRate(budget.epsilon, budget.delta, wins, pairs, wins / pairs, low, high, most)


def attack(target: Target, rng: np.random.Generator, *, error: float, pairs: int) -> list[Finding]:
    """The attack at the claimed budget. Who always loses has only to say the opposite: that counts as well."""
    claim, seed = target.claim, int(rng.integers(2**62))
    [found] = win_rates(
        target.counts,
        target.vocabulary,
        target.mechanism,
        [claim],
        pairs=pairs,
        seed=seed,
        error=error,
    )
    caught = max(found.low, 1 - found.high) > found.ceiling
    sentence = f"wins {found.rate:.3f} ({found.low:.3f} to {found.high:.3f}) of {pairs:,} pairs;"
    sentence += (
        f" if the claim is true, at most {found.ceiling:.3f} and at least {1 - found.ceiling:.3f}"
    )
    return [
        Finding(
            Attack.MEMBERSHIP,
            "without the user with the most counts",
            caught,
            sentence,
            samples=pairs,
        )
    ]


def most_counts(counts: UserCounts) -> int:
    """The row of the user with the most counts."""
    if counts.starts.size == 1:
        raise BayesgramError("the private counts are empty: there is nobody to look for.")
    sums = np.concatenate([[0], np.cumsum(counts.counts, dtype=np.int64)])
    return int(np.argmax(np.diff(sums[counts.starts])))


def ceiling(mechanism: Mechanism, vocabulary: Vocabulary, budget: Budget) -> float:
    """The most that any attack on pairs wins if the claim is true.

    Gaussian noise at a distance of d standard deviations: Φ(d/√2). Pure ε: randomised response wins e^ε/(1 + e^ε).
    """
    if isinstance(mechanism, Paper):  # as if σ were the same for both datasets
        return float(
            ndtr(budget.epsilon / math.sqrt(2 * math.log(1.25 / budget.delta)) / math.sqrt(2))
        )
    spend = mechanism.spend(vocabulary, budget)
    return float(
        expit(spend.pure_epsilon)
        if spend.pure_epsilon
        else ndtr(math.sqrt(spend.inverse_variance / 2))
    )


def sampler(mechanism: Mechanism, counts: UserCounts, vocabulary: Vocabulary, key: int) -> Sampler:
    """What draws θ at a budget; whatever does not depend on the noise is computed once."""
    if isinstance(mechanism, Paper):
        return _paper_sampler(mechanism, counts, vocabulary, key)
    if isinstance(mechanism, Laplace):
        totals = clip(counts, max_count=None, max_total=mechanism.max_total, key=key).totals
        return lambda budget, noise: mechanism.sample(totals, vocabulary, budget, noise)
    if isinstance(mechanism, NoisyCounts) and mechanism.clip_norm:
        return _counts_sampler(mechanism, counts, vocabulary, mechanism.clip_norm)
    return lambda budget, noise: (
        mechanism.distribution(counts, vocabulary, budget, Randomness(noise, key)).theta
    )


def _counts_sampler(
    mechanism: NoisyCounts, counts: UserCounts, vocabulary: Vocabulary, clip_norm: float
) -> Sampler:
    """The sum is made once: with Λ given, only the noise's scale follows the budget."""
    design = Design.of(vocabulary)
    measured = design.coordinates(Choice.fixed(clip_norm))
    total = clipped_sum(counts, measured, clip_norm=clip_norm)

    def sample(budget: Budget, noise: NoiseSource) -> Floats:
        sigma = mechanism.calibrated(vocabulary, budget).part(1.0)
        noisy = noise.discrete_gaussian(total, scale=sigma * UNITS)
        return normalised(design.as_measured(noisy, measured, sigma, clip_norm)[0][-1].counts)

    return sample


def _paper_sampler(paper: Paper, counts: UserCounts, vocabulary: Vocabulary, key: int) -> Sampler:
    statistics = Statistics(
        clip(counts, max_count=paper.max_count, max_total=paper.max_total, key=key)
    )
    gamma, mean = paper.gamma(statistics), paper.mean(statistics, vocabulary)

    def sample(budget: Budget, noise: NoiseSource) -> Floats:
        if paper.rho == 0:  # public text alone, as in `Paper.sample`
            return softmax(mean)
        return softmax(
            noise.gaussian(mean, scale=classical_sigma(gamma, rho=paper.rho, budget=budget))
        )

    return sample
