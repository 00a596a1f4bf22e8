"""The paper's two Laplace baselines (§5.2), with discrete noise on integers so that the ε holds.

`laplace`: at most W occurrences of a user, noise of scale W/ε (errata E3), counts below 1 are
raised to 1, and all are normalised.
`laplace-public`: the users' difference to the public distribution gets noise and is added to it.
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
from bayesgram.privacy.budget import Budget, Guarantee, parse_decimal
from bayesgram.privacy.noise import NoiseSource
from bayesgram.private.clipping import check_max_total, clip
from bayesgram.private.counts import PrivateCounts
from bayesgram.public.vocabulary import Vocabulary

STATEMENT = "ε-differential privacy, for every dataset: the noise follows public bounds alone."


@dataclass(frozen=True)
class Laplace(CountsMechanism):
    """Counts with Laplace noise: c + Lap(W/ε), at most W occurrences of each user.

    Attributes:
        max_total: W. No experiment chose the default.

    Example:
        >>> Laplace(max_total=5).settings()
        {'max_total': 5}
    """

    name: ClassVar[str] = "laplace"
    guarantee: ClassVar[Guarantee] = Guarantee.PROVED
    statement: ClassVar[str] = STATEMENT
    default_delta: ClassVar[float] = 0.0

    max_total: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_total", check_max_total(self.max_total))

    def estimate(
        self,
        counts: PrivateCounts,
        vocabulary: Vocabulary,
        budget: Budget | None,
        randomness: Randomness,
    ) -> Outcome:
        """Clip every user's counts, add noise, and normalise."""
        clipped = clip(counts, max_count=None, max_total=self.max_total, key=randomness.key)
        checked_budget = require_budget(budget, self.name)
        return Outcome(self.sample(clipped.totals, vocabulary, checked_budget, randomness.noise))

    def sample(
        self, totals: Integers, vocabulary: Vocabulary, budget: Budget, noise: NoiseSource
    ) -> Floats:
        """Return the distribution of noisy totals.

        Formal guarantee: one user changes `totals` by at most W in L1, so noise of scale W/ε is
        enough for ε-DP.

        Args:
            totals: The sum of clipped counts, by n-gram. Private.
            vocabulary: The public vocabulary.
            budget: ε.
            noise: Draws the noise.
        """
        noisy = noise.discrete_laplace(totals, scale=laplace_scale(self.max_total, budget))
        return normalise_counts(noisy.astype(np.float64))

    def check_budget(self, budget: Budget | None) -> tuple[float | None, float | None]:
        """Return (ε, 0): a δ in the budget is not used."""
        return require_budget(budget, self.name).epsilon, 0.0

    def spend(self, vocabulary: Vocabulary, budget: Budget) -> Spend:
        """Return the cost of a pure-ε release."""
        return Spend(pure_epsilon=budget.epsilon)


@dataclass(frozen=True)
class LaplacePublic(Laplace):
    """The difference of counts to the public distribution, with Laplace noise.

    Σ_n (Δcⁿ − ‖Δcⁿ‖₁ α̃) and ‖c‖₁ get noise together; then α̃ ‖c‖₁ is added back. In integers:
    z = B·c − ‖c‖₁·a with a = round(B·α̃), and B·‖c‖₁. One user with at most W occurrences moves the
    first by at most W·(B + Σa) in L1 and the second by W·B: together W·(2B + Σa), which is about 3W
    in units of B.

    Example:
        >>> LaplacePublic().name
        'laplace-public'
    """

    name: ClassVar[str] = "laplace-public"

    def sample(
        self, totals: Integers, vocabulary: Vocabulary, budget: Budget, noise: NoiseSource
    ) -> Floats:
        """Return the paper's modified mechanism: max(Σ w_n (Δc̃ⁿ − α̃) + e + α̃, 0), normalised."""
        unit = fixed_point_one(self.max_total)
        public = np.rint(vocabulary.counts / max(vocabulary.counts.sum(), 1) * unit).astype(
            np.int64
        )
        scale = laplace_scale(public_sensitivity(public, unit, self.max_total), budget)
        noisy = noise.discrete_laplace(differences_to_public(totals, public, unit), scale=scale)
        return normalise_counts((noisy[:-1] + noisy[-1] * (public / unit)) / unit)


def fixed_point_one(max_total: int) -> int:
    """Return B: a power of two, as large as 64 bits allow for 2³¹ users with W occurrences each.

    >>> fixed_point_one(10).bit_length() - 1, fixed_point_one(1_000_000).bit_length() - 1
    (27, 11)
    """
    return 1 << (31 - max_total.bit_length())


def differences_to_public(totals: Integers, public: Integers, unit: int) -> Integers:
    """Return B·c − ‖c‖₁·a, and B·‖c‖₁ at the end.

    Args:
        totals: c, the sum of clipped counts.
        public: a, the public distribution in fixed point.
        unit: B, one in fixed point.
    """
    total = totals.sum()
    return np.append(totals * unit - total * public, total * unit)


def public_sensitivity(public: Integers, unit: int, max_total: int) -> int:
    """Return W·(2B + Σa): how far one user moves `differences_to_public` in L1."""
    return max_total * (2 * unit + int(public.sum()))


def laplace_scale(sensitivity: int, budget: Budget) -> float:
    """Return sensitivity/ε, rounded up by a digit or two, so that rounding costs no privacy.

    ε is the decimal that the card states: 1.1 is eleven tenths, although the float that is written
    so is a little more. One digit more leaves room for the rounding of OpenDP's own check.

    >>> round(laplace_scale(10, Budget(0.5)), 9)
    20.0
    """
    exact = sensitivity / parse_decimal(budget.epsilon)
    nearest = float(exact)
    not_below = nearest if nearest >= exact else math.nextafter(nearest, math.inf)
    return math.nextafter(not_below, math.inf)
