"""How much Gaussian noise a budget asks for.

The noise is discrete on integers, where one user moves the sum by at most B in L2. Two proofs give a multiplier σ
(noise scale σ·B); the second serves where the first can't.

1. Exact curve. Over V coordinates the discrete Gaussian is within total variation η ≤ V/(24 (σB)²) of a rounded
   continuous one, so the release is (ε, δ_Gauss(ε) + (1 + e^ε) η)-DP. The last term is the slack.
2. zCDP: the discrete Gaussian is 1/(2σ²)-zCDP, converted by OpenDP. No slack, but a little more noise.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.noise import opendp

SAFETY = 1 + 1e-9  # root finders stop within 1e-12


@dataclass(frozen=True)
class GaussianNoise:
    """σ, in units of what one user can change, and the part of δ that discreteness costs."""

    multiplier: float
    slack: float
    total_variation: float  # η: how far the discrete noise is from a rounded continuous one

    @property
    def spend(self) -> Spend:
        """What a ledger is charged."""
        return Spend.gaussian(self.multiplier, total_variation=self.total_variation)


@lru_cache(maxsize=64)  # audits ask the same thing for every run
def calibrate_gaussian(budget: Budget, *, coordinates: int, units: int) -> GaussianNoise:
    """σ for a sum of integers over so many coordinates that one user moves by at most `units` in L2."""
    return _on_exact_curve(budget, coordinates, units) or _by_zcdp(budget, coordinates, units)


def _on_exact_curve(budget: Budget, coordinates: int, units: int) -> GaussianNoise | None:
    """σ with δ_Gauss(ε; σ) = δ − slack. A smaller σ has a larger slack, so the first guess errs on the safe side."""
    from dp_accounting import get_sigma_gaussian  # noqa: PLC0415 - 1 s

    guess = get_sigma_gaussian(budget.epsilon, budget.delta)
    distance = coordinates / (24 * (guess * units) ** 2)
    slack = (1 + math.exp(budget.epsilon)) * distance
    if slack >= budget.delta / 100:  # e^ε is huge
        return None
    return GaussianNoise(get_sigma_gaussian(budget.epsilon, budget.delta - slack) * SAFETY, slack, distance)


def _by_zcdp(budget: Budget, coordinates: int, units: int) -> GaussianNoise:
    """σ with 1/(2σ²)-zCDP ⇒ (ε, δ)-DP by OpenDP's conversion."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")

    def spends_at_most(scale: float) -> bool:
        curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)).map(1.0)
        return bool(curve.epsilon(delta=budget.delta) <= budget.epsilon)

    multiplier = float(dp.binary_search(spends_at_most, bounds=(0.05, 1e9))) * SAFETY
    return GaussianNoise(multiplier, 0.0, coordinates / (24 * (multiplier * units) ** 2))
