"""What several releases about the same people cost together.

In: a `Spend` for each release.   Out: the ε they have together at a given δ, or whether they fit a budget.
Does not choose noise (calibration.py) and does not remember anything (ledger.py).

Gaussian noise composes exactly: Σ 1/σ² is all that counts. A pure-ε measurement is never worse than randomised
response, whose privacy loss is +ε with probability e^ε/(1 + e^ε) and −ε otherwise. Side by side (in any order, also
when a later release depends on earlier ones) the losses add up, so with s the sum of randomised responses' losses

    δ(ε) = Σ_s P(s) δ_Gauss(ε − s) + (1 + e^ε) η,    δ_Gauss(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ),   μ² = Σ 1/σ²,

where η is the total variation between the discrete noise that was drawn and the continuous noise of the formula. Where
(1 + e^ε) η is too large (ε above about 12), zero-concentrated DP serves instead: ρ = (Σ 1/σ² + Σ ε²)/2 holds for the
discrete noise as it is.

Rounded to the safe side: sums are exact and round up; δ_Gauss is written without cancellation (relative error below
1e-12, tested with 50 digits) and counted 1e-11 higher; sums s that pass through floats count 1e-13 higher; with more
than 12 pure-ε parts each is rounded up to a grid. All terms are positive and nothing goes through a Fourier transform,
whose rounding errors have no safe side: the reason why dp-accounting's PLDs only check this file in the tests.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy.special import erfcx, ndtr

from bayesgram.arrays import Floats
from bayesgram.errors import UsageError
from bayesgram.privacy.budget import MAX_EPSILON, MIN_EPSILON, Budget

ROUNDING = 1e-11  # what δ is raised by; calibrate_gaussian leaves a hundred times as much
LOSS_ROUNDING = 1e-13  # what sums of pure ε are raised by, relative to all that is added
LARGEST = 1e5  # an ε above is infinite
EXACT_PARTS = 12  # so many pure-ε parts have 2¹² sums; more are put on a grid of at most 2¹⁵
GRID = 1 << 14
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True)
class Spend:
    """What one release costs one user.

    `inverse_variance` is Σ 1/σ² over its discrete Gaussian measurements (σ: noise scale over L2 sensitivity), each of
    which is 1/(2σ²)-zCDP as it is; `total_variation` is how far, together, they are from continuous ones (η, not
    multiplied by 1 + e^ε); `pure_epsilon` is Σ ε over its pure-ε measurements.

    >>> Spend(pure_epsilon=0.1) + Spend(pure_epsilon=0.2)
    Spend(inverse_variance=0.0, pure_epsilon=0.3, total_variation=0.0)
    """

    inverse_variance: float = 0.0
    pure_epsilon: float = 0.0
    total_variation: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise UsageError(f"{field.name}={value}: a spend has finite numbers from 0.")
            object.__setattr__(self, field.name, float(value))
        if self.total_variation and not self.inverse_variance:
            raise UsageError(
                f"total_variation={self.total_variation}: belongs to Gaussian noise; give inverse_variance too."
            )

    @classmethod
    def gaussian(cls, multiplier: float, *, total_variation: float = 0.0) -> "Spend":
        """One discrete Gaussian measurement of noise multiplier σ; 1/σ² rounded up."""
        if not 0 < multiplier < math.inf:
            raise UsageError(f"multiplier={multiplier}: a noise multiplier is a finite number above 0.")
        return cls(_up(1 / Fraction(multiplier) ** 2), 0.0, total_variation)

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(
            _up(Fraction(self.inverse_variance) + Fraction(other.inverse_variance)),
            _written_up(_written(self.pure_epsilon) + _written(other.pure_epsilon)),
            _up(Fraction(self.total_variation) + Fraction(other.total_variation)),
        )


def composed_epsilon(spends: Iterable[Spend], delta: float) -> float:
    """The smallest ε for which all spends together are (ε, δ)-DP, rounded up; inf if there is none.

    >>> composed_epsilon([Spend(pure_epsilon=0.1), Spend(pure_epsilon=0.2)], 0.0)
    0.3
    """
    total = _Total.of(spends)
    low = _written_up(max(total.parts, default=Fraction(0)))
    if total.fits(low, delta):
        return low
    high = max(_written_up(sum(total.parts, Fraction(0))), 1.0)
    while not total.fits(high, delta):
        low, high = high, 2 * high
        if high > LARGEST:
            return math.inf
    return _smallest(lambda epsilon: total.fits(epsilon, delta), low, high)


def fits(spends: Iterable[Spend], budget: Budget) -> bool:
    """Whether all spends together are within the budget: composed_epsilon(spends, δ) ≤ ε, without the search."""
    return _Total.of(spends).fits(float(budget.epsilon), float(budget.delta))


def gaussian_left(spends: Iterable[Spend], budget: Budget) -> float:
    """The ε of the largest Gaussian release at the budget's δ that still fits, rounded down to 3 digits."""
    total, epsilon, delta = _Total.of(spends), float(budget.epsilon), float(budget.delta)

    def too_much(inverse_variance: float) -> bool:
        together = _up(Fraction(total.inverse_variance) + Fraction(inverse_variance))
        return not replace(total, inverse_variance=together).fits(epsilon, delta)

    high = 1.0
    while not too_much(high) and high < LARGEST:
        high *= 2
    enough = math.nextafter(_smallest(too_much, 0.0, high), 0)
    return _left(composed_epsilon([Spend(enough)], delta) if enough else 0.0)


def pure_left(spends: Iterable[Spend], budget: Budget) -> float:
    """The ε of the largest pure-ε release that still fits, rounded down to 3 digits."""
    spends, epsilon = list(spends), float(budget.epsilon)

    def too_much(pure: float) -> bool:
        return not fits([*spends, Spend(pure_epsilon=pure)], budget)

    if not too_much(epsilon):
        return _left(epsilon)
    return _left(math.nextafter(_smallest(too_much, 0.0, epsilon), 0))


def digits_up(value: float) -> str:
    """Four digits for a person, never fewer than were spent.

    >>> digits_up(0.123401), digits_up(0.5), digits_up(0.0)
    ('0.1235', '0.5', '0')
    """
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(value))):g}"


@dataclass(frozen=True)
class _Total:
    """All spends together."""

    inverse_variance: float
    parts: tuple[Fraction, ...]  # the pure ε, as written, in order
    total_variation: float

    @classmethod
    def of(cls, spends: Iterable[Spend]) -> "_Total":
        spends = list(spends)
        return cls(
            _up(sum((Fraction(spend.inverse_variance) for spend in spends), Fraction(0))),
            tuple(sorted(_written(spend.pure_epsilon) for spend in spends if spend.pure_epsilon)),
            _up(sum((Fraction(spend.total_variation) for spend in spends), Fraction(0))),
        )

    def fits(self, epsilon: float, delta: float) -> bool:
        """Whether it is (ε, δ)-DP by one of the proofs. A single part counts in full, whatever δ would allow."""
        pure = sum(self.parts, Fraction(0))
        if _written(epsilon) < max(self.parts, default=Fraction(0)):
            return False
        if not self.inverse_variance and pure <= _written(epsilon):
            return True
        return delta > 0 and self._fits_with_delta(epsilon, delta)

    def _fits_with_delta(self, epsilon: float, delta: float) -> bool:
        return any(curve.delta(epsilon) <= delta for curve in self.curves) or self.zcdp(epsilon) <= delta

    @cached_property
    def curves(self) -> list["_Curve"]:
        """With the pure parts as one (never worse than adding up), and one by one (never worse but for the grid)."""
        pure = [sum(self.parts, Fraction(0))] if self.parts else []
        ways = [pure, list(self.parts)] if len(self.parts) > 1 else [pure]
        mu = math.nextafter(math.sqrt(self.inverse_variance), math.inf)
        return [_Curve(mu if self.inverse_variance else 0.0, *_losses(way), self.total_variation) for way in ways]

    def zcdp(self, epsilon: float) -> float:
        """δ = min over α of e^((α−1)(αρ−ε)) (1 − 1/α)^α/(α − 1); any α serves.   Canonne, Kamath, Steinke 2020."""
        rho = math.fsum([self.inverse_variance, *(float(part) ** 2 for part in self.parts)]) / 2 * (1 + 1e-14)
        if rho == 0:
            return 1.0

        def past_the_best(alpha: float) -> bool:
            return (2 * alpha - 1) * rho - epsilon + math.log1p(-1 / alpha) >= 0

        alpha = _smallest(past_the_best, 1 + 1e-4, (epsilon / rho + 3) * 2)
        log = (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)
        return math.exp(min(log + ROUNDING * (1 + abs(log)), 0.0)) + 1e-300


@dataclass(frozen=True)
class _Curve:
    """δ(ε) of a Gaussian measurement next to randomised responses whose losses add up to s with probability P(s)."""

    mu: float
    losses: Floats
    probabilities: Floats
    eta: float

    def delta(self, epsilon: float) -> float:
        """An upper bound; (ε, δ)-DP at a smaller ε counts too, which matters where (1 + e^ε) η grows."""
        if self.eta and self._other_tail(epsilon) < self.eta:
            epsilon = min(epsilon, self._turning_point)
        shifted = epsilon - self.losses - LOSS_ROUNDING * (epsilon + self.losses[0]) * (self.losses.size > 1)
        on_curve = float(self.probabilities @ gaussian_delta(shifted, self.mu)) + 1e-300
        slack = (1 + math.exp(min(epsilon, 700.0))) * self.eta
        return (on_curve + slack) * (1 + ROUNDING)

    @cached_property
    def _turning_point(self) -> float:
        """Where the bound stops falling: its derivative by e^ε is η − P(loss > ε in the other world)."""
        return _smallest(lambda epsilon: self._other_tail(epsilon) < self.eta, 0.0, LARGEST)

    def _other_tail(self, epsilon: float) -> float:
        tails = ndtr(-(epsilon - self.losses) / self.mu - self.mu / 2)
        return float((self.probabilities * np.exp(np.minimum(-self.losses, 700.0))) @ tails)


def _losses(parts: list[Fraction]) -> tuple[Floats, Floats]:
    """The sums of the losses of randomised responses, the largest first, and their probabilities."""
    if len(parts) > EXACT_PARTS:
        return _losses_on_grid(parts)
    losses, probabilities = np.zeros(1), np.ones(1)
    for part in parts:
        epsilon = float(part)
        up = 1 / (1 + math.exp(-epsilon))
        losses = np.concatenate([losses + epsilon, losses - epsilon])
        probabilities = np.concatenate([probabilities * up, probabilities * (1 - up)])
    return losses, probabilities


def _losses_on_grid(parts: list[Fraction]) -> tuple[Floats, Floats]:
    """The same with every ε rounded up to a multiple of a power of two (coarser grids lie on finer ones)."""
    step = Fraction(2) ** (math.frexp(float(sum(parts)) / GRID)[1])
    steps = [math.ceil(part / step) for part in parts]
    probabilities = np.zeros(2 * sum(steps) + 1)
    probabilities[0] = 1.0  # the index counts steps downwards from the largest loss
    filled = 1
    for number in steps:
        up = 1 / (1 + math.exp(-float(number * step)))
        before = probabilities[:filled].copy()
        filled += 2 * number
        probabilities[:filled] *= up
        probabilities[2 * number : filled] += before * (1 - up)
    kept = np.flatnonzero(probabilities)
    return (sum(steps) - kept).astype(np.float64) * float(step), probabilities[kept]


def gaussian_delta(epsilons: Floats, mu: float) -> Floats:
    """δ_Gauss(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) for any real ε, without cancellation.

    For ε < 0 by δ(ε) = 1 − e^ε + e^ε δ(−ε): the same pair of distributions, seen from the other side.
    """
    there = _delta_from_zero(np.abs(epsilons), mu)
    below = np.minimum(epsilons, 0.0)
    delta: Floats = -np.expm1(below) + np.exp(below) * there
    return delta


def _delta_from_zero(epsilons: Floats, mu: float) -> Floats:
    """With a, b = ε/μ ∓ μ/2: δ = e^(−a²/2) (erfcx(a/√2) − erfcx(b/√2))/2, an integral of −erfcx' where μ is small."""
    if mu == 0:
        return np.zeros_like(epsilons)
    ratio, root = np.minimum(epsilons / max(mu, 1e-150), 1e5), math.sqrt(2)  # e^(−a²/2) is 0 long before
    a, b = ratio - mu / 2, ratio + mu / 2
    outside = np.exp(-a * a / 2) / 2
    if mu < 0.5:
        x = ratio[:, None] / root + _NODES * (mu / 2 / root)
        slopes = np.maximum(2 / math.sqrt(math.pi) - 2 * x * erfcx(x), 0.0)
        delta: Floats = outside * (slopes @ _WEIGHTS) * (mu / 2 / root)
        return delta
    second = erfcx(b / root)
    return np.where(a < 0, ndtr(-a) - outside * second, outside * (erfcx(np.maximum(a, 0.0) / root) - second))


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest float above `low` that holds, for something that keeps holding once it does, and holds at `high`."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _written(value: float) -> Fraction:
    """The number a person wrote: 0.1 is one tenth."""
    return Fraction(repr(float(value)))


def _written_up(value: Fraction) -> float:
    """The smallest float that, as written, is not below."""
    nearest = float(value)
    return nearest if _written(nearest) >= value else math.nextafter(nearest, math.inf)


def _up(value: Fraction) -> float:
    """The smallest float that is not below."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _left(epsilon: float) -> float:
    """What can be asked for: three digits, rounded down, and nothing below what a budget can hold."""
    down = float(Context(prec=3, rounding=ROUND_FLOOR).create_decimal(repr(epsilon)))
    return min(down, MAX_EPSILON) if down >= MIN_EPSILON else 0.0
