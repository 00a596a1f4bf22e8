"""The mechanism of the paper: Algorithm 1 (BayesianDP), with its errata repaired. Tuning (Algorithm 2) is in `tuning`.

Its noise is set from the private data (errata E1), so its ε is a label, not a guarantee: EMPIRICAL.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from bayesgram.arguments import check_fields
from bayesgram.arrays import Floats
from bayesgram.choices import Sensitivity
from bayesgram.errors import UsageError, check_int
from bayesgram.mechanisms.base import Mechanism, Outcome, Randomness, need
from bayesgram.paper.sensitivity import Statistics
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.private.clipping import check_max_count, check_max_total, clip
from bayesgram.private.counts import PrivateCounts
from bayesgram.public.vocabulary import Vocabulary, centred_log, softmax


def paper_bounds(expected_users: int) -> tuple[int, int]:
    """The paper's (C, W) for a population (§5.3); `expected_users` is a public figure, never the exact number (E10).

    >>> paper_bounds(978_966), paper_bounds(4_000_000)
    ((1, 978), (10, 4000))
    """
    check_int("expected_users", expected_users, 1, 10**9, "a public round figure")
    return (1 if expected_users < 1_000_000 else 10), max(expected_users // 1000, 1)


def classical_sigma(gamma: float, *, rho: float, budget: Budget) -> float:
    """σ_ps = ρ γ √(2 ln(1.25/δ)) / ε.   Corollary 1; proved only for ε < 1 (errata E4), kept as published."""
    return rho * gamma * math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon


def posterior_mean(
    statistics: Statistics, prior_logs: Floats, *, slope: float, rho: float
) -> Floats:
    """μ_ps = ρ w⊙x̂ + (1 − ρ) μ_p.   Corollary 1; Algorithm 1 computes w⊙x̂ and then forgets it (errata E2)."""
    w, x_hat, mu_p = statistics.weights(slope), statistics.x_hat, prior_logs
    return rho * w * x_hat + (1 - rho) * mu_p


@dataclass(frozen=True)
class Paper(Mechanism):
    """Algorithm 1: clamp, count, weigh, mix with the prior in log space, add Gaussian noise, softmax."""

    name: ClassVar[str] = "paper"
    guarantee: ClassVar[Guarantee] = Guarantee.EMPIRICAL
    statement: ClassVar[str] = (
        "not a differential-privacy guarantee: the noise follows the most influential user who happens to be in the"
        " data, so the output itself can show that somebody was there."
    )
    shift_invariant: ClassVar[bool] = True

    max_count: int = 1  # C
    max_total: int = 1000  # W
    slope: float = 1e-3  # S
    rho: float = 0.5  # ρ
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

    def statistics(self, counts: PrivateCounts, chance: Randomness) -> Statistics:
        """Algorithm 1, lines 1–4: clamp to C and W, then c, N and x̂."""
        return Statistics(
            clip(counts, max_count=self.max_count, max_total=self.max_total, key=chance.key)
        )

    def gamma(self, statistics: Statistics) -> float:
        """γ: how far one user moves w⊙x̂. Read from private data: not for publication."""
        exact = self.sensitivity == Sensitivity.EXACT
        return statistics.exact_gamma(self.slope) if exact else statistics.bounded_gamma(self.slope)

    def mean(self, statistics: Statistics, vocabulary: Vocabulary) -> Floats:
        """μ_ps, before noise. Read from private data: not for publication."""
        return posterior_mean(
            statistics, centred_log(vocabulary.counts), slope=self.slope, rho=self.rho
        )

    def distribution(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        chance: Randomness,
    ) -> Outcome:
        """The whole of Algorithm 1."""
        statistics = self.statistics(counts, chance)
        return Outcome(self.sample(statistics, vocabulary, need(budget, self.name), chance))

    def sample(
        self, statistics: Statistics, vocabulary: Vocabulary, budget: Budget, chance: Randomness
    ) -> Floats:
        """Algorithm 1, from γ on: h ~ N(μ_ps, σ²I), θ = softmax(h)."""
        mean = self.mean(statistics, vocabulary)
        if self.rho == 0:  # public text alone
            return softmax(mean)
        sigma = classical_sigma(self.gamma(statistics), rho=self.rho, budget=budget)
        return softmax(chance.noise.gaussian(mean, scale=sigma))
