"""The paper's two Laplace baselines (§5.2), with discrete noise on integers so that the ε holds.

`laplace`: at most W occurrences a user, noise of scale W/ε (errata E3), counts below 1 set to 1, normalised.
`laplace-public`: the users' difference to the public distribution, noised, added back to it.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesgram.arrays import Floats, Integers
from bayesgram.mechanisms.base import (
    CountsMechanism,
    Outcome,
    Randomness,
    normalise_counts,
    require_budget,
)
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget, Guarantee
from bayesgram.privacy.noise import NoiseSource
from bayesgram.private.clipping import check_max_total, clip
from bayesgram.private.counts import PrivateCounts
from bayesgram.public.vocabulary import Vocabulary

STATEMENT = "ε-differential privacy, for every dataset: the noise follows public bounds alone."


@dataclass(frozen=True)
class Laplace(CountsMechanism):
    """c + Lap(W/ε) on the clipped counts."""

    name: ClassVar[str] = "laplace"
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED
    statement: ClassVar[str] = STATEMENT
    default_delta: ClassVar[float] = 0.0

    max_total: int = 10  # W

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_total", check_max_total(self.max_total))

    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Clip, then noise."""
        clipped = clip(counts, max_count=None, max_total=self.max_total, key=randomness.key)
        return Outcome(
            self.sample(
                clipped.totals, vocabulary, require_budget(budget, self.name), randomness.noise
            )
        )

    def sample(
        self, totals: Integers, vocabulary: Vocabulary, budget: Budget, noise: NoiseSource
    ) -> Floats:
        """One user changes the sum by at most W in L1."""
        noisy = noise.discrete_laplace(totals, scale=_rounded_up(self.max_total / budget.epsilon))
        return normalise_counts(noisy.astype(np.float64))

    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """Pure ε: no δ is used."""
        return require_budget(budget, self.name).epsilon, 0.0

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """ε, and nothing else."""
        return Spend(pure_epsilon=budget.epsilon)


@dataclass(frozen=True)
class LaplacePublic(Laplace):
    """Σ_n (Δcⁿ − ‖Δcⁿ‖₁ α̃) and ‖c‖₁, noised together; then α̃ ‖c‖₁ is added back.

    In integers: z = B·c − ‖c‖₁·a with a = round(B·α̃), and B·‖c‖₁. One user with at most W occurrences moves the first
    by at most W·(B + Σa) in L1 and the second by W·B: together W·(2B + Σa), which is about 3W in units of B.
    """

    name: ClassVar[str] = "laplace-public"

    def sample(
        self, totals: Integers, vocabulary: Vocabulary, budget: Budget, noise: NoiseSource
    ) -> Floats:
        """The paper's modified mechanism: max(Σ w_n (Δc̃ⁿ − α̃) + e + α̃, 0), normalised."""
        one = fixed_point_one(self.max_total)
        public = np.rint(vocabulary.counts / max(vocabulary.counts.sum(), 1) * one).astype(np.int64)
        scale = _rounded_up(public_sensitivity(public, one, self.max_total) / budget.epsilon)
        noisy = noise.discrete_laplace(differences_to_public(totals, public, one), scale=scale)
        return normalise_counts((noisy[:-1] + noisy[-1] * (public / one)) / one)


def fixed_point_one(max_total: int) -> int:
    """B: a power of two, as large as 64 bits allow for 2³¹ users with W occurrences each.

    >>> fixed_point_one(10).bit_length() - 1, fixed_point_one(1_000_000).bit_length() - 1
    (27, 11)
    """
    return 1 << (31 - max_total.bit_length())


def differences_to_public(totals: Integers, public: Integers, one: int) -> Integers:
    """B·c − ‖c‖₁·a, and B·‖c‖₁ at the end."""
    total = totals.sum()
    return np.append(totals * one - total * public, total * one)


def public_sensitivity(public: Integers, one: int, max_total: int) -> int:
    """W·(2B + Σa): how far one user moves `differences_to_public` in L1."""
    return max_total * (2 * one + int(public.sum()))


def _rounded_up(scale: float) -> float:
    """The next float above: rounding never makes the noise too small."""
    return math.nextafter(scale, math.inf)
