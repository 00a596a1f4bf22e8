"""What several releases about the same people cost together, also when each is chosen after seeing those before it.

In: a `Spend` for each release.   Out: the ε they have together at a given δ, or whether they fit a budget.
Does not choose noise (calibration.py) and does not remember anything (ledger.py). docs/ledger.md has the proofs.

A budget of δ = 0 adds up ε, and nothing else fits it. One of δ > 0 has one currency, Gaussian differential privacy:

    Gaussian noise of multiplier σ costs μ² = 1/σ²;    a pure-ε release costs μ² for μ = −2 Φ⁻¹(1/(1 + e^ε)),

and what is spent along any path, however it was chosen, may add up to the largest μ² for which

    δ ≥ e^h δ_Gauss(ε − h) + n e^ε τ,    δ_Gauss(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).

The noise is discrete, and h and n e^ε τ are what that costs. With η = V/(24 s²), V coordinates of noise scale s, its
law is within a factor e^h of the rounded continuous law, h = 5,500 Σ η, but for an event of probability τ = e^(−450) a
release. What a ledger may hold is fixed by its budget before the first release (μ² and h each have a limit of their
own): trading one for the other along the way would be a choice that the proof does not cover.

A discovery may, with a *failure probability* p, publish what only one user wrote, which no Gaussian curve covers. A
ledger whose first reservation has such a p sets F = δ/4 aside: Σ p ≤ F, and noise has the curve of (ε − 2F, δ − F). In
any other, noise has all of (ε, δ), and no p fits.

Rounded to the safe side: sums are exact and round up; δ_Gauss is written without cancellation (relative error below
1e-12, tested with 60 digits) and counted 1e-11 higher, and so is the μ² of a pure ε.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.errors import UsageError
from bayesgram.privacy.budget import MAX_EPSILON, MIN_EPSILON, Budget

ROUNDING = 1e-11  # what δ and μ² are raised by; calibrate_gaussian leaves a hundred times as much
LARGEST = 300.0  # an ε above is infinite; e^ε τ is nothing up to there
DISCRETENESS = 5_500  # h/η
ASIDE = 0.25  # the part of δ for failures, where the first reservation may fail; a power of 2, so that F is exact
SLACK = 5e-10  # the part of ε (or of δ, if that is larger) that h may take: less than calibrate_gaussian leaves free
LOG_TAIL = -450.0  # log τ
MOST_RELEASES = 1_000_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True)
class Spend:
    """What one release costs one user.

    `inverse_variance` is Σ 1/σ² over its discrete Gaussian measurements (σ: noise scale over L2 sensitivity);
    `total_variation` is η = Σ V/(24 s²), how far they are from continuous ones; `pure_epsilon` is Σ ε over its pure-ε
    measurements; `failure` is Σ p, the chance that something is published which the noise does not cover.

    >>> Spend(pure_epsilon=0.1) + Spend(pure_epsilon=0.2)
    Spend(inverse_variance=0.0, pure_epsilon=0.3, total_variation=0.0, failure=0.0)
    """

    inverse_variance: float = 0.0
    pure_epsilon: float = 0.0
    total_variation: float = 0.0
    failure: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value < math.inf
            ):
                raise UsageError(f"{field.name}={value}: a spend has finite numbers from 0.")
            object.__setattr__(self, field.name, float(value))
        for name in ("total_variation", "failure"):
            if getattr(self, name) and not self.inverse_variance:
                raise UsageError(
                    f"{name}={getattr(self, name)}: belongs to Gaussian noise; give inverse_variance too."
                )

    @classmethod
    def gaussian(
        cls, multiplier: float, *, total_variation: float = 0.0, failure: float = 0.0
    ) -> "Spend":
        """One discrete Gaussian measurement of noise multiplier σ; 1/σ² rounded up."""
        if not 0 < multiplier < math.inf:
            raise UsageError.for_argument(
                "multiplier", multiplier, "a noise multiplier is a finite number above 0."
            )
        return cls(_up(1 / Fraction(multiplier) ** 2), 0.0, total_variation, failure)

    @property
    def mu_squared(self) -> float:
        """μ² of the Gaussian DP that the release has, rounded up."""
        return _up(Fraction(self.inverse_variance) + Fraction(pure_mu_squared(self.pure_epsilon)))

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(
            _up(Fraction(self.inverse_variance) + Fraction(other.inverse_variance)),
            _written_up(_written(self.pure_epsilon) + _written(other.pure_epsilon)),
            _up(Fraction(self.total_variation) + Fraction(other.total_variation)),
            _up(Fraction(self.failure) + Fraction(other.failure)),
        )


def pure_mu_squared(epsilon: float) -> float:
    """μ² for which every ε-DP release is μ-GDP: Φ(−μ/2) = 1/(1 + e^ε), which is erf(μ/√8) = tanh(ε/2); rounded up.

    >>> round(pure_mu_squared(0.1) ** 0.5, 4), round(pure_mu_squared(1.0) ** 0.5, 4)
    (0.1253, 1.232)
    """
    from scipy.special import erfcinv, erfinv  # noqa: PLC0415 - 0.1 s

    root = (
        erfinv(math.tanh(epsilon / 2))
        if epsilon < 1
        else erfcinv(2 / (1 + math.exp(min(epsilon, 700.0))))
    )
    return float(8 * root**2) * (1 + ROUNDING)


def pure_epsilon_of(mu_squared: float) -> float:
    """The ε whose `pure_mu_squared` is this, to some digits."""
    from scipy.special import ndtr  # noqa: PLC0415 - 0.1 s

    below = float(ndtr(-math.sqrt(mu_squared) / 2))
    return math.log1p(-below) - math.log(below)


@dataclass(frozen=True)
class Allowance:
    """What the spends of one ledger may add up to: fixed by its budget, whatever is released in the meantime."""

    mu_squared: float
    total_variation: float
    failure: float = 0.0

    @classmethod
    def of(cls, epsilon: float, delta: float, *, failures: bool = False) -> "Allowance":
        """The largest μ² whose curve is at most δ at ε; with failures, what they leave of both."""
        high = 1.0
        slack = largest_slack(epsilon, delta)
        for_noise, most = _beside_failures(epsilon, delta, failures=failures)
        while delta_of(for_noise, high, slack) <= most:
            high *= 2
        first_too_much = _smallest(
            lambda mu_squared: delta_of(for_noise, mu_squared, slack) > most, 0.0, high
        )
        variation = slack / DISCRETENESS * (1 - ROUNDING)
        return cls(
            math.nextafter(first_too_much, 0), variation, _set_aside(delta, failures=failures)
        )

    @classmethod
    def of_budget(cls, budget: Budget, *, failures: bool) -> "Allowance":
        """The same of a budget with δ > 0."""
        return cls.of(float(budget.epsilon), float(budget.delta), failures=failures)

    def covers(self, total: Spend, mu_squared: float) -> bool:
        """Whether all sums are within."""
        return (
            mu_squared <= self.mu_squared
            and total.total_variation <= self.total_variation
            and total.failure <= self.failure
        )


def largest_slack(epsilon: float, delta: float) -> float:
    """What h may add up to."""
    return SLACK * max(epsilon, delta)


def delta_of(epsilon: float, mu_squared: float, slack: float) -> float:
    """An upper bound of e^h δ_Gauss(ε − h) + n e^ε τ, for the largest n that a ledger may hold."""
    mu = math.nextafter(math.sqrt(mu_squared), math.inf)
    on_curve = float(gaussian_delta(np.array([epsilon - slack]), mu)[0]) * math.exp(slack)
    tail = math.exp(epsilon + math.log(MOST_RELEASES) + LOG_TAIL)
    return (on_curve + tail) * (1 + ROUNDING) + 1e-300


def composed_epsilon(spends: Iterable[Spend], delta: float) -> float:
    """The smallest ε whose budget (ε, δ) all spends together would fit, rounded up; inf if there is none.

    >>> composed_epsilon([Spend(pure_epsilon=0.1), Spend(pure_epsilon=0.2)], 0.0)
    0.3
    """
    spends = list(spends)
    if not spends or delta == 0:
        return _pure_sum(spends)
    total, mu_squared = _total(spends)
    failures = may_fail(spends)

    def enough(epsilon: float) -> bool:
        # A little stricter than `fits`, which rounds differently in the last digits: an ε that comes out fits.
        slack = largest_slack(epsilon, delta)
        within = DISCRETENESS * total.total_variation * (1 + 2 * ROUNDING) <= slack
        for_noise, most = _beside_failures(epsilon, delta, failures=failures)
        return within and delta_of(for_noise, mu_squared, slack) * (1 + ROUNDING) <= most

    too_many = len(spends) > MOST_RELEASES or total.failure > _set_aside(delta, failures=failures)
    if too_many or not enough(LARGEST):
        return math.inf
    return 0.0 if enough(0.0) else _smallest(enough, 0.0, LARGEST)


def fits(spends: Iterable[Spend], budget: Budget) -> bool:
    """Whether all spends together are within the budget, by the one rule that it has."""
    spends, epsilon, delta = list(spends), float(budget.epsilon), float(budget.delta)
    if delta == 0:
        return _pure_sum(spends) <= epsilon
    limit = Allowance.of_budget(budget, failures=may_fail(spends))
    return len(spends) <= MOST_RELEASES and limit.covers(*_total(spends))


def gaussian_left(spends: Iterable[Spend], budget: Budget, releases: int = 1) -> float:
    """The ε of the largest Gaussian release at the budget's δ that still fits, rounded down to 3 digits.

    Of several releases: the ε of each, if all get the same part of what is left of μ².
    """
    left = _mu_squared_left(spends, budget) if budget.delta else 0.0
    each = _down(Fraction(left) / releases)
    return _left(composed_epsilon([Spend(each)], float(budget.delta)) if each else 0.0)


def pure_left(spends: Iterable[Spend], budget: Budget) -> float:
    """The ε of the largest pure-ε release that still fits, rounded down to 3 digits."""
    spends = list(spends)
    if budget.delta == 0:
        exactly = _written(float(budget.epsilon)) - sum(
            (_written(spend.pure_epsilon) for spend in spends), Fraction(0)
        )
        return _left(float(exactly) if _pure_sum(spends) < math.inf else 0.0)
    left = _mu_squared_left(spends, budget)
    return _left(pure_epsilon_of(left) * (1 - 1e-9) if left else 0.0)


def discovery_left(spends: Iterable[Spend], budget: Budget) -> Allowance:
    """What a discovery may still take of each limit; nothing of any where there can be none."""
    spends, nothing = list(spends), Allowance(0.0, 0.0)
    if budget.delta == 0 or len(spends) >= MOST_RELEASES:
        return nothing
    failures = may_fail(spends) or not spends
    limit, (total, mu_squared) = Allowance.of_budget(budget, failures=failures), _total(spends)
    left = Allowance(
        _down(Fraction(limit.mu_squared) - Fraction(mu_squared)),
        _down(Fraction(limit.total_variation) - Fraction(total.total_variation)),
        _down(Fraction(limit.failure) - Fraction(total.failure)),
    )
    return left if min(astuple(left)) > 0 else nothing


def failure_left(spends: Iterable[Spend], budget: Budget) -> float:
    """The largest failure probability that a discovery may still have; 0 if there can be none."""
    return discovery_left(spends, budget).failure


def digits_up(value: float) -> str:
    """Four digits for a person, never fewer than were spent.

    >>> digits_up(0.123401), digits_up(0.5), digits_up(0.0)
    ('0.1235', '0.5', '0')
    """
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(value))):g}"


def may_fail(spends: Sequence[Spend]) -> bool:
    """Whether a part of δ is set aside for failures: the first spend decides, when nothing has been seen yet."""
    return bool(spends) and spends[0].failure > 0


def _set_aside(delta: float, *, failures: bool) -> float:
    """F: what failures may add up to."""
    return ASIDE * delta if failures else 0.0


def _beside_failures(epsilon: float, delta: float, *, failures: bool) -> tuple[float, float]:
    """What noise has of ε and of δ: all, or ε − 2F and δ − F, rounded down."""
    if not failures:
        return epsilon, delta
    aside = Fraction(_set_aside(delta, failures=True))
    return _down(Fraction(epsilon) - 2 * aside), _down(Fraction(delta) - aside)


def _total(spends: list[Spend]) -> tuple[Spend, float]:
    """All spends as one, and Σ μ²; both rounded up."""
    total = sum(spends, Spend())
    mu_squared = sum((Fraction(spend.mu_squared) for spend in spends), Fraction(0))
    return total, _up(mu_squared)


def _pure_sum(spends: list[Spend]) -> float:
    """Σ ε as written, rounded up; inf if there is Gaussian noise among them, which no ε covers at δ = 0."""
    if any(spend.inverse_variance for spend in spends):
        return math.inf
    return _written_up(sum((_written(spend.pure_epsilon) for spend in spends), Fraction(0)))


def _mu_squared_left(spends: Iterable[Spend], budget: Budget) -> float:
    """What is left of μ², rounded down; 0 if nothing is."""
    spends = list(spends)
    limit = Allowance.of_budget(budget, failures=may_fail(spends))
    total, mu_squared = _total(spends)
    if not limit.covers(total, mu_squared):
        return 0.0
    return max(math.nextafter(float(Fraction(limit.mu_squared) - Fraction(mu_squared)), 0), 0.0)


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
    from scipy.special import erfcx, ndtr  # noqa: PLC0415 - 0.1 s

    if mu == 0:
        return np.zeros_like(epsilons)
    ratio, root = (
        np.minimum(epsilons / max(mu, 1e-150), 1e5),
        math.sqrt(2),
    )  # e^(−a²/2) is 0 long before
    a, b = ratio - mu / 2, ratio + mu / 2
    outside = np.exp(-a * a / 2) / 2
    if mu < 0.5:
        x = ratio[:, None] / root + _NODES * (mu / 2 / root)
        slopes = np.maximum(2 / math.sqrt(math.pi) - 2 * x * erfcx(x), 0.0)
        delta: Floats = outside * (slopes @ _WEIGHTS) * (mu / 2 / root)
        return delta
    second = erfcx(b / root)
    return np.where(
        a < 0, ndtr(-a) - outside * second, outside * (erfcx(np.maximum(a, 0.0) / root) - second)
    )


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


def _down(value: Fraction) -> float:
    """The largest float that is not above."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _left(epsilon: float) -> float:
    """What can be asked for: three digits, rounded down, and nothing below what a budget can hold."""
    down = float(Context(prec=3, rounding=ROUND_FLOOR).create_decimal(repr(epsilon)))
    return min(down, MAX_EPSILON) if down >= MIN_EPSILON else 0.0
