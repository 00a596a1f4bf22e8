"""How much Gaussian noise a budget asks for.

The noise is discrete on integers, where one user moves the sum by at most B in L2; over V coordinates of scale σB it is
within a factor e^h of rounded continuous noise, h = 5,500 V/(24 (σB)²) (docs/promise.md). So the release is
(ε, e^h δ_Gauss(ε − h) + e^ε τ)-DP.

dp-accounting finds σ; whether it is enough is judged by our own curve (accounting.py), before any noise is drawn.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from bayesgram.errors import Argument, BayesgramError, UsageError
from bayesgram.privacy.accounting import DISCRETENESS, ROUNDING, Spend, fits, largest_slack
from bayesgram.privacy.budget import Budget

SAFETY = 1 + 1e-9  # root finders stop within 1e-12
ROUNDED_UP = 1 + 2**-50  # more than the last digits of a division and a root


@dataclass(frozen=True)
class GaussianNoise:
    """σ, in units of what one user can change, and how far the discrete noise is from a continuous one."""

    multiplier: float
    total_variation: float  # η = V/(24 (σB)²)

    @property
    def spend(self) -> Spend:
        """What a ledger is charged."""
        return Spend.gaussian(self.multiplier, total_variation=self.total_variation)

    @property
    def slack(self) -> float:
        """h: the part of ε that discreteness costs."""
        return DISCRETENESS * self.total_variation

    def part(self, share: float) -> float:
        """The multiplier of a measurement that takes this share of the whole 1/σ²: rounded up, so never more."""
        return self.multiplier / math.sqrt(share) * ROUNDED_UP


@lru_cache(maxsize=64)  # audits ask the same thing for every run
def calibrate_gaussian(budget: Budget, *, coordinates: int, units: int) -> GaussianNoise:
    """σ for a sum of integers over so many coordinates that one user moves by at most `units` in L2."""
    from dp_accounting import get_sigma_gaussian  # noqa: PLC0415 - 1 s

    used = largest_slack(budget.epsilon, budget.delta)  # of ε, and a factor e^used of δ
    found = get_sigma_gaussian(
        budget.epsilon - used, budget.delta * math.exp(-used) * (1 - 3 * ROUNDING)
    )
    multiplier = float(found) * SAFETY
    return _verified(
        GaussianNoise(multiplier, coordinates / (24 * (multiplier * units) ** 2)),
        budget,
        coordinates,
    )


def _verified(noise: GaussianNoise, budget: Budget, coordinates: int) -> GaussianNoise:
    """The noise, if our own curve says that it is enough: nothing is drawn otherwise."""
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
    if not fits([noise.spend], budget):
        raise BayesgramError(
            f"the noise multiplier {noise.multiplier!r} found for ",
            Argument("epsilon", f"{budget.epsilon:g}"),
            ", ",
            Argument("delta", f"{budget.delta:g}"),
            " fails our own check, so nothing was released. Please report it, with the "
            "version of dp-accounting.",
        )
    return noise
