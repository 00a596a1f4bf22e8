"""How much Gaussian noise a budget needs.

The noise is discrete on integers, where one user moves the sum by at most B in L2. Over V
coordinates of scale σB it is within a factor e^h of rounded continuous noise, with
h = 5,500 V/(24 (σB)²) (docs/promise.md). So the release is (ε, e^h δ_Gauss(ε − h) + e^ε τ)-DP.

dp-accounting finds σ. Before any noise is drawn, our own curve (`accounting`) checks that it is
enough.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.privacy.accounting import (
    DISCRETENESS,
    ROUNDING,
    Allowance,
    Spend,
    fits,
    largest_slack,
)
from bayesgram.privacy.budget import Budget

# Factor on the σ that dp-accounting finds: its root finder stops within 1e-12. Not tuned.
SAFETY = 1 + 1e-9

# Factor that is more than a division and a square root lose in their last digits.
ROUNDED_UP = 1 + 2**-50


@dataclass(frozen=True)
class GaussianNoise:
    """Discrete Gaussian noise for a budget.

    Attributes:
        multiplier: σ, the noise scale over what one user can change.
        total_variation: η = V/(24 (σB)²), how far the noise is from continuous noise.
    """

    multiplier: float
    total_variation: float

    @property
    def spend(self) -> Spend:
        """The spend that a ledger is charged."""
        return Spend.gaussian(self.multiplier, total_variation=self.total_variation)

    @property
    def slack(self) -> float:
        """h, the part of ε that discreteness costs."""
        return DISCRETENESS * self.total_variation

    def multiplier_for_share(self, share: float) -> float:
        """Return the multiplier of a measurement that takes this share of 1/σ².

        It is rounded up, so that measurements whose shares add up to 1 never take more than 1/σ².
        """
        return self.multiplier / math.sqrt(share) * ROUNDED_UP


@lru_cache(maxsize=64)  # audits ask the same thing for every run
def calibrate_gaussian(budget: Budget, *, coordinates: int, units: int) -> GaussianNoise:
    """Return the noise for a sum of integers.

    Args:
        budget: The (ε, δ) that the noise may take.
        coordinates: V, the number of integers that get noise.
        units: B, the most that one user moves the sum by, in L2.

    Raises:
        UsageError: If there are too many coordinates for discrete noise at this budget.
    """
    from dp_accounting import get_sigma_gaussian  # noqa: PLC0415 - 1 s

    slack = largest_slack(budget.epsilon, budget.delta)  # of ε, and a factor e^slack of δ
    sigma = get_sigma_gaussian(
        budget.epsilon - slack, budget.delta * math.exp(-slack) * (1 - 3 * ROUNDING)
    )
    multiplier = float(sigma) * SAFETY
    total_variation = coordinates / (24 * (multiplier * units) ** 2)
    return _verify(GaussianNoise(multiplier, total_variation), budget, coordinates)


@lru_cache(maxsize=64)
def calibrate_beside_failures(budget: Budget, *, coordinates: int, units: int) -> GaussianNoise:
    """Return the noise that takes all that a budget leaves beside its part for failures.

    A mechanism that also fails with probability δ/4 takes the whole budget with it.

    Args:
        budget: The (ε, δ) that noise and failures take together.
        coordinates: V, the number of integers that get noise.
        units: B, the most that one user moves the sum by, in L2.

    Raises:
        UsageError: If there are too many coordinates for discrete noise at this budget.
    """
    limit = Allowance.of_budget(budget, failures=True)
    multiplier = ROUNDED_UP**2 / math.sqrt(limit.mu_squared)
    noise = GaussianNoise(multiplier, coordinates / (24 * (multiplier * units) ** 2))
    return _verify(noise, budget, coordinates, failure=limit.failure)


def _verify(
    noise: GaussianNoise, budget: Budget, coordinates: int, failure: float = 0.0
) -> GaussianNoise:
    """Return the noise unchanged, if our own curve says that it is enough for the budget."""
    if noise.slack > largest_slack(budget.epsilon, budget.delta) * (1 - 2 * ROUNDING):
        room = int(coordinates * largest_slack(budget.epsilon, budget.delta) / noise.slack)
        raise UsageError.for_argument(
            "coordinates",
            f"{coordinates:,}",
            "too many for discrete noise at ",
            Argument("epsilon", f"{budget.epsilon:g}"),
            ", ",
            Argument("delta", f"{budget.delta:g}"),
            f", which has room for {room:,}; use a smaller vocabulary, fewer segments, or "
            "a smaller epsilon.",
        )
    if not fits([replace(noise.spend, failure=failure)], budget):
        raise BayesgramError(
            f"the noise multiplier {noise.multiplier!r} found for ",
            Argument("epsilon", f"{budget.epsilon:g}"),
            ", ",
            Argument("delta", f"{budget.delta:g}"),
            " fails our own check, so nothing was released. Please report it, with the "
            "version of dp-accounting.",
        )
    return noise
