"""The mechanism of the paper: Algorithm 1 (BayesianDP), with its errata repaired.

Its noise is set from the private data (errata E1), so its ε is a label, not a guarantee: EMPIRICAL.
The choice of S and ρ (Algorithm 2) is in `algorithm_2`. Errata are numbered as in docs/errata.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from bayesgram.arguments import check_fields
from bayesgram.arrays import Floats
from bayesgram.choices import Sensitivity
from bayesgram.errors import UsageError, check_int
from bayesgram.mechanisms.base import CountsMechanism, Outcome, Randomness, require_budget
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.private.clipping import check_max_count, check_max_total, clip
from bayesgram.private.counts import PrivateCounts
from bayesgram.public.vocabulary import Vocabulary, centred_log, softmax


def paper_bounds(expected_users: int) -> tuple[int, int]:
    """Return the paper's (C, W) for a population (§5.3).

    Args:
        expected_users: A public round figure, never the exact number (errata E10).

    >>> paper_bounds(978_966), paper_bounds(4_000_000)
    ((1, 978), (10, 4000))
    """
    check_int("expected_users", expected_users, 1, 10**9, "a public round figure")
    max_count = 1 if expected_users < 1_000_000 else 10
    max_total = max(expected_users // 1000, 1)
    return max_count, max_total


def classical_sigma(gamma: float, *, rho: float, budget: Budget) -> float:
    """Return σ_ps = ρ γ √(2 ln(1.25/δ)) / ε (Corollary 1).

    It is proved only for ε < 1 (errata E4), and kept as published.

    Args:
        gamma: γ, how far one user moves w⊙x̂.
        rho: ρ, the trust in private counts.
        budget: ε and δ.
    """
    return rho * gamma * math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon


def posterior_mean(
    statistics: Statistics, prior_logs: Floats, *, slope: float, rho: float
) -> Floats:
    """Return μ_ps = ρ w⊙x̂ + (1 − ρ) μ_p (Corollary 1).

    Algorithm 1 as printed computes w⊙x̂ and then forgets it (errata E2).

    Args:
        statistics: Of the clipped counts.
        prior_logs: μ_p, the centred log counts of public text.
        slope: S.
        rho: ρ, the trust in private counts.
    """
    w = statistics.weights(slope)
    return rho * w * statistics.x_hat + (1 - rho) * prior_logs


@dataclass(frozen=True)
class Paper(CountsMechanism):
    """Algorithm 1: clip, count, weigh, mix with the prior in log space, add noise, softmax.

    >>> Paper(max_count=1, max_total=100).name
    'paper'
    """

    name: ClassVar[str] = "paper"
    guarantee: ClassVar[Guarantee] = Guarantee.EMPIRICAL
    statement: ClassVar[str] = (
        "not a differential-privacy guarantee: the noise follows the most influential user who"
        " happens to be in the data, so the output itself can show that somebody was there."
    )
    shift_invariant: ClassVar[bool] = True

    max_count: int = 1  # C: the largest count of one n-gram of a user
    max_total: int = 1000  # W: the largest total of a user
    slope: float = 1e-3  # S: how fast the weight of an n-gram grows with its users
    rho: float = 0.5  # ρ: the trust in private counts
    sensitivity: Sensitivity = Sensitivity.EXACT

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_count", check_max_count(self.max_count))
        object.__setattr__(self, "max_total", check_max_total(self.max_total))
        check_fields(self)
        if not (math.isfinite(self.slope) and self.slope > 0):
            raise UsageError.for_argument(
                "slope", self.slope, "S is a number above 0; the paper tries 0.001 to 10000."
            )
        if not 0 <= self.rho <= 1:
            raise UsageError.for_argument(
                "rho", self.rho, "ρ, the trust in private counts, is a number from 0 to 1."
            )
        if self.sensitivity not in set(Sensitivity):
            raise UsageError.for_argument(
                "sensitivity", repr(self.sensitivity), f"choose one of {', '.join(Sensitivity)}."
            )

    def statistics(self, counts: PrivateCounts, randomness: Randomness) -> Statistics:
        """Return c, N and x̂ of the counts clipped to C and W (Algorithm 1, lines 1–4)."""
        return Statistics(
            clip(counts, max_count=self.max_count, max_total=self.max_total, key=randomness.key)
        )

    def gamma(self, statistics: Statistics) -> float:
        """Return γ, how far one user moves w⊙x̂. Private: not for publication."""
        if self.sensitivity == Sensitivity.EXACT:
            return statistics.exact_gamma(self.slope)
        return statistics.bounded_gamma(self.slope)

    def mean(self, statistics: Statistics, vocabulary: Vocabulary) -> Floats:
        """Return μ_ps, before noise. Private: not for publication."""
        return posterior_mean(
            statistics, centred_log(vocabulary.counts), slope=self.slope, rho=self.rho
        )

    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Run the whole of Algorithm 1."""
        statistics = self.statistics(counts, randomness)
        return Outcome(
            self.sample(statistics, vocabulary, require_budget(budget, self.name), randomness)
        )

    def sample(
        self, statistics: Statistics, vocabulary: Vocabulary, budget: Budget, randomness: Randomness
    ) -> Floats:
        """Draw h ~ N(μ_ps, σ²I), return θ = softmax(h) (Algorithm 1, from γ on)."""
        mean = self.mean(statistics, vocabulary)
        if self.rho == 0:  # public text alone
            return softmax(mean)
        sigma = classical_sigma(self.gamma(statistics), rho=self.rho, budget=budget)
        return softmax(randomness.noise.gaussian(mean, scale=sigma))


class AsPrinted(Paper):
    """Algorithm 1 to the letter, without the repair of errata E2: too little noise.

    It takes x̂ where Corollary 1 has w⊙x̂, but the γ of w⊙x̂.
    """

    def mean(self, statistics: Statistics, vocabulary: Vocabulary) -> Floats:
        """Return ρ x̂ + (1 − ρ) μ_p, as Algorithm 1 prints it."""
        return self.rho * statistics.x_hat + (1 - self.rho) * centred_log(vocabulary.counts)
