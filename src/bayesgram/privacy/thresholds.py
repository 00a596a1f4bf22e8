"""How much noise a budget asks for, and from where on something is published, when the candidates are people's own.

A user has at most m candidates with weights wᵢ ≥ w₀, Σ wᵢ² ≤ 1. Sums below a floor S are dropped; the others get
Gaussian noise σ and are published above T. What u has in common with others' sums that reach S is a Gaussian mechanism,
moved by b, and what is below S without u can come out with u only if its noise exceeds T − S − wᵢ (docs/promise.md):

    δ ≤ max over b² of  δ_Gauss(ε; σ/b) + p(1 − b²),    p(a²) = k ĥ(a²/k),  k = min(m, a²/w₀²),

where h(x) = Q((T − S − √x)/σ) and ĥ is the smallest concave function above it on [0, 1] (Jensen). Where u has much in
common with others, little is left that is only u's, so both terms are never large together.

T is that of the noise which is drawn: its scale is a number of few binary digits, a little above what is needed, and
more noise lifts more over T.

In:  a budget, m, w₀.   Out: σ, the scale of the noise, and T, verified.   Does not draw noise.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from bayesgram.arrays import Floats
from bayesgram.errors import Argument, UsageError
from bayesgram.privacy.accounting import (
    DISCRETENESS,
    ROUNDING,
    Allowance,
    Spend,
    delta_of,
    largest_slack,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import ROUNDED_UP

CELLS = 400  # of b², finer where u has nearly everything in common with others
SPLITS = (
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.75,
    0.8,
    0.9,
    0.95,
    0.98,
)  # of δ, that noise may take when all is in common
FLOOR_PART = 0.02  # S over T − S: sums that small can hardly be published, and are most of all
ANYTHING = Allowance(math.inf, math.inf, 1.0)  # without a ledger
TAIL = 1 + 1e-9  # the tail of discrete noise over that of continuous noise, far more than it is
DIGITS = 12  # binary, of the scale: the sampler is twice as quick with those
# Noisy sums of all rounds have 64 bits: noise so many standard deviations from 0 must fit in half of them.
DEVIATIONS_THAT_FIT = 40
LARGEST_SUM = 1 << 62


@dataclass(frozen=True)
class Threshold:
    """σ, S and T, in units of what one user can add."""

    multiplier: float  # σ
    floor: float  # S
    level: float  # T
    failure: float  # p(1): the chance that something is published which only one user lifted over S
    total_variation: float  # η = m/(24 (σB)²): only what one user moves differs between neighbours
    scale: float  # of the noise of every round, in units: σ√R B, so that the mean of R rounds has σ

    @property
    def spend(self) -> Spend:
        """What a ledger is charged: everything in common, and everything not."""
        return Spend.gaussian(
            self.multiplier, total_variation=self.total_variation, failure=self.failure
        )


@lru_cache(maxsize=64)
def calibrate_threshold(
    budget: Budget,
    *,
    most: int,
    smallest: float,
    units: int,
    at_least: int = 1,
    left: Allowance = ANYTHING,
) -> Threshold:
    """The lowest T for users of at most `most` candidates (m), each of weight `smallest` (w₀) or more.

    `at_least`: T is no lower than what one fewer than so many people can add up to. `left`: what a ledger still allows.

    Raises:
        UsageError: If the budget is too small for any T; `check_epsilon` says when it is.
    """
    check_epsilon(budget)
    slack = largest_slack(budget.epsilon, budget.delta)
    found = [
        threshold
        for split in SPLITS
        if (threshold := _with_split(budget, split, most, smallest, units, left, slack)) is not None
    ]
    if not found:
        raise _no_threshold(budget, most)
    best = min(found, key=lambda threshold: threshold.level)
    return replace(best, level=max(best.level, at_least - 1.0))


@lru_cache(maxsize=64)
def calibrate_rounds(
    budget: Budget,
    *,
    rounds: int,
    most: int,
    units: int,
    at_least: int = 1,
    left: Allowance = ANYTHING,
) -> Threshold:
    """The lowest T for the mean of several rounds whose weights follow the noisy answers of the rounds before.

    R rounds of noise σ√R are 1/σ-Gaussian DP together, and the noise of their mean is σ. Of what is u's alone, at most
    m candidates, u adds at most 1 to each in every round, wherever the noise leads u: p = m Q((T − 1)/σ).

    Raises:
        UsageError: If the budget is too small for any T; `check_epsilon` says when it is.
    """
    check_epsilon(budget)
    slack = largest_slack(budget.epsilon, budget.delta)
    epsilon, allowed = budget.epsilon - 2 * budget.delta, budget.delta * (1 - 3 * ROUNDING)
    found = []
    for split in SPLITS:
        chance = min((1 - split) * allowed, left.failure)
        needed = max(_multiplier(epsilon, split * allowed, slack), _least_multiplier(left))
        multiplier, scale = _drawn(needed, rounds, units)
        variation = most / (24 * (multiplier * units) ** 2)
        if (
            DISCRETENESS * variation <= slack * (1 - 2 * ROUNDING)
            and chance > 0
            and math.isfinite(multiplier)
        ):
            level = 1 + multiplier * float(-ndtri(chance / most / TAIL**2)) * ROUNDED_UP
            found.append(Threshold(multiplier, 0.0, level, chance, variation, scale))
    if not found:
        raise _no_threshold(budget, most)
    best = min(found, key=lambda threshold: threshold.level)
    return replace(best, level=max(best.level, at_least - 1.0))


def check_epsilon(budget: Budget) -> None:
    """Refuse an ε of which nothing is left for noise, as 2δ of it are set aside for failures.

    Raises:
        UsageError: If ε is not above 2δ.
    """
    if budget.epsilon <= 2 * budget.delta:
        raise UsageError.for_argument(
            "epsilon",
            f"{budget.epsilon:g}",
            "a discovery with ",
            Argument("delta", f"{budget.delta:g}"),
            f" needs an epsilon above 2·delta = {2 * budget.delta:g}; give a larger "
            "epsilon or a smaller delta (1e-7 is usual).",
        )


def _no_threshold(budget: Budget, most: int) -> UsageError:
    return UsageError.for_argument(
        "delta",
        f"{budget.delta:g}",
        f"leaves no threshold for {most} candidates a user at ",
        Argument("epsilon", f"{budget.epsilon:g}"),
        "; give a larger epsilon, delta or ledger.",
    )


def _with_split(
    budget: Budget,
    split: float,
    most: int,
    smallest: float,
    units: int,
    left: Allowance,
    slack: float,
) -> Threshold | None:
    """The lowest T for the σ that takes this part of δ when all is in common; None where there is none."""
    epsilon = budget.epsilon - 2 * budget.delta  # −log(1 − p), which the other direction costs
    allowed = budget.delta * (1 - 3 * ROUNDING)
    multiplier, scale = _drawn(
        max(_multiplier(epsilon, split * allowed, slack), _least_multiplier(left)), 1, units
    )
    variation = most / (24 * (multiplier * units) ** 2)
    if (
        DISCRETENESS * variation > slack * (1 - 2 * ROUNDING)
        or left.failure <= 0
        or math.isinf(multiplier)
    ):
        return None
    alone = np.append(
        0.0, np.geomspace(smallest**2, 1.0, CELLS)
    )  # a²: below the first nothing is u's alone
    noise = np.array(
        [delta_of(epsilon, (1 - own) / multiplier**2 * ROUNDED_UP, slack) for own in alone]
    )

    def fits(gap: float) -> bool:
        chance = failure(alone, gap / multiplier, 1 / multiplier, most, smallest)
        inside = np.append(
            chance[1:], chance[-1]
        )  # the largest p of the cell that begins here, with its largest b
        return bool((noise + inside <= allowed).all() and chance[-1] <= left.failure)

    low, high = 1.0 + 2 * multiplier, 40 * multiplier + 2  # above: h is concave, then convex
    if not fits(high):  # pragma: no cover - beyond 40σ failures are below any δ that a Budget takes
        return None
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    chance = float(failure(np.ones(1), high / multiplier, 1 / multiplier, most, smallest)[0])
    return Threshold(
        multiplier,
        FLOOR_PART * high,
        (1 + FLOOR_PART) * high * ROUNDED_UP,
        chance,
        variation,
        scale,
    )


def _drawn(needed: float, rounds: int, units: int) -> tuple[float, float]:
    """The σ that noise has when it is drawn, to the last digits, and its scale: short, and not below what is needed.

    Infinite where noisy sums of all rounds would leave 64 bits: one that wraps around could exceed any level.
    """
    if not needed * rounds * units * DEVIATIONS_THAT_FIT <= LARGEST_SUM:
        return math.inf, math.inf
    unit = math.sqrt(rounds) * units
    part, power = math.frexp(needed * unit * ROUNDED_UP)
    scale = math.ldexp(math.ceil(math.ldexp(part, DIGITS)), power - DIGITS)
    return scale / unit / ROUNDED_UP, scale


def _least_multiplier(left: Allowance) -> float:
    """The σ that takes all that is left."""
    return math.inf if left.mu_squared <= 0 else ROUNDED_UP / math.sqrt(left.mu_squared)


def _multiplier(epsilon: float, delta: float, slack: float) -> float:
    """The smallest σ whose curve is at most δ at ε, rounded up; infinite if there is none."""
    low, high = 1e-6, 1.0
    while delta_of(epsilon, 1 / high**2 * ROUNDED_UP, slack) > delta:
        high *= 2
        if high > LARGEST_SUM:  # no noise is enough where ε is below 0 by more than δ
            return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (
            (low, middle)
            if delta_of(epsilon, 1 / middle**2 * ROUNDED_UP, slack) <= delta
            else (middle, high)
        )
    return high * ROUNDED_UP


def failure(squares: Floats, gap: float, unit: float, most: int, smallest: float) -> Floats:
    """p(a²) for many a²: an upper bound of Σ h(wᵢ²), h(x) = Q(gap − unit·√x), gap and unit in standard deviations.

    A line that touches h where it is concave and is above it at 1 is above it everywhere, as h is concave and then
    convex: Σ h(wᵢ²) ≤ k·line(a²/k).
    """
    number = np.minimum(float(most), squares / smallest**2 * ROUNDED_UP)
    touched = _touching(gap, unit)
    mean = np.where(number > 0, squares / np.maximum(number, 1e-300), smallest**2)
    at = np.minimum(mean, touched)
    bound: Floats = number * (_chance(at, gap, unit) + _slope(at, gap, unit) * (mean - at))
    return np.maximum.accumulate(bound) * TAIL


def _chance(square: Floats, gap: float, unit: float) -> Floats:
    chance: Floats = ndtr(unit * np.sqrt(square) - gap)
    return chance


def _slope(square: Floats, gap: float, unit: float) -> Floats:
    """h′ of a square."""
    away = gap - unit * np.sqrt(square)
    slope: Floats = (
        np.exp(-(away**2) / 2)
        / math.sqrt(2 * math.pi)
        * unit
        / (2 * np.sqrt(np.maximum(square, 1e-300)))
    )
    return slope


def _touching(gap: float, unit: float) -> float:
    """The largest x whose tangent is above h at 1, where h is concave: unit·√x·(gap − unit·√x) ≤ 1."""
    inside = gap * gap - 4
    root = (gap - math.sqrt(inside)) / 2 / unit if inside > 0 else math.inf
    low, high = 0.0, min(root, 1.0) ** 2
    last = _chance(np.ones(1), gap, unit)[0]

    def is_above(square: float) -> bool:
        at = np.array([square])
        return bool(_chance(at, gap, unit)[0] + _slope(at, gap, unit)[0] * (1 - square) >= last)

    if is_above(high):
        return high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if is_above(middle) else (low, middle)
    return low
