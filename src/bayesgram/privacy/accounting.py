"""What several releases about the same people cost together.

In:  a `Spend` for each release. A release may be chosen after seeing those before it.
Out: the ε that they have together at a given δ, or whether they fit a budget.

This module does not choose noise (`calibration`) and stores nothing (`ledger`). docs/ledger.md has
the proofs.

A budget of δ = 0 adds up ε, and nothing else fits it. A budget of δ > 0 has one currency, Gaussian
differential privacy:

    Gaussian noise of multiplier σ costs μ² = 1/σ²;
    a pure-ε release costs μ² for μ = −2 Φ⁻¹(1/(1 + e^ε)).

Spends may add up to the largest μ² for which

    δ ≥ e^h δ_Gauss(ε − h) + n e^ε τ,    δ_Gauss(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).

The noise is discrete, and h and n e^ε τ are what that costs. Over V coordinates of noise scale s,
let η = V/(24 s²). The law of the noise is within a factor e^h of the rounded continuous law, with
h = 5,500 Σ η, except for an event of probability τ = e^(−450) for each release. The limits of μ²
and of h are fixed by the budget before the first release: trading one for the other later would be
a choice that the proof does not cover.

A discovery may, with a *failure probability* p, publish what only one user wrote, which no Gaussian
curve covers. Any (ε, δ)-DP release of another tool costs its pure ε and a failure probability δ. A
ledger whose first reservation has such a p sets F = δ/4 aside: Σ p ≤ F, and noise
has the curve of (ε − 2F, δ − F). In any other ledger, noise has all of (ε, δ), and no p fits.

Everything is rounded to the safe side. Sums are exact and round up. δ_Gauss is computed without
cancellation (relative error below 1e-12, tested with 60 digits) and raised by 1e-11, and so is the
μ² of a pure ε.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.errors import UsageError
from bayesgram.privacy.budget import MAX_EPSILON, MIN_EPSILON, Budget, parse_decimal

# Relative amount that δ and μ² are raised by, against rounding of floating point.
# `calibrate_gaussian` leaves a hundred times as much free. Follows from the error that is tested.
ROUNDING = 1e-11

# An ε above this counts as infinite; up to it, e^ε τ is negligible. Not tuned.
MAX_COMPOSED_EPSILON = 300.0

# h/η: what one unit of η costs of ε. From the proof (docs/ledger.md), not from an experiment.
DISCRETENESS = 5_500

# Share of δ that is set aside for failures, if the first reservation may fail. A power of 2, so
# that F is exact. No experiment compared it with other shares.
FAILURE_SHARE = 0.25

# The part of ε (or of δ, if that is larger) that h may take: less than `calibrate_gaussian` leaves
# free. Not tuned.
SLACK_SHARE = 5e-10

# log τ: the logarithm of the probability that the bound of discrete noise does not hold, for one
# release. From the proof.
LOG_TAIL = -450.0

# The number of releases that one ledger holds at most. Not tuned.
MAX_RELEASES = 1_000_000

# The number of runs, failed ones included, that one series of releases makes at most. Not tuned.
MAX_SERIES_RUNS = 10_000

# Nodes and weights of Gauss-Legendre quadrature, for δ_Gauss at a small μ (`_delta_from_zero`).
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True)
class Spend:
    """What one release costs one user.

    Attributes:
        inverse_variance: Σ 1/σ² over its discrete Gaussian measurements, where σ is the noise scale
            over the L2 sensitivity.
        pure_epsilon: Σ ε over its pure-ε measurements.
        total_variation: η = Σ V/(24 s²): how far the discrete noise is from continuous noise.
        failure: Σ p: the probability that something is published which the noise does not cover.

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
        if self.total_variation and not self.inverse_variance:
            raise UsageError(
                f"total_variation={self.total_variation}: belongs to Gaussian noise; give"
                " inverse_variance too."
            )
        if self.failure and not (self.inverse_variance or self.pure_epsilon):
            raise UsageError(
                f"failure={self.failure}: belongs to a release that has noise; give"
                " inverse_variance or pure_epsilon too."
            )

    @classmethod
    def gaussian(
        cls, multiplier: float, *, total_variation: float = 0.0, failure: float = 0.0
    ) -> "Spend":
        """Return the spend of one discrete Gaussian measurement.

        Args:
            multiplier: σ, the noise scale over the L2 sensitivity; 1/σ² is rounded up.
            total_variation: η of its noise.
            failure: The probability that it publishes what the noise does not cover.

        Raises:
            UsageError: If the multiplier is not a finite number above 0.
        """
        if not 0 < multiplier < math.inf:
            raise UsageError.for_argument(
                "multiplier", multiplier, "a noise multiplier is a finite number above 0."
            )
        return cls(_round_up(1 / Fraction(multiplier) ** 2), 0.0, total_variation, failure)

    @classmethod
    def approximate(cls, epsilon: float, delta: float) -> "Spend":
        """Return the spend of any (ε, δ)-DP release: its pure ε, and failure with probability δ.

        Formal guarantee: for each ordered pair of neighbours there is a law within total variation
        δ of the one that comes out, which is ε-indistinguishable from the other, in both
        directions (docs/ledger.md, "Releases of other tools").

        Args:
            epsilon: ε of the release, for adding or removing one unit.
            delta: Its δ; 0 for a pure-ε release.
        """
        return cls(pure_epsilon=epsilon, failure=delta)

    @property
    def mu_squared(self) -> float:
        """μ² of the Gaussian differential privacy that the release has, rounded up."""
        return _round_up(
            Fraction(self.inverse_variance) + Fraction(pure_mu_squared(self.pure_epsilon))
        )

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(
            _round_up(Fraction(self.inverse_variance) + Fraction(other.inverse_variance)),
            _round_up_decimal(parse_decimal(self.pure_epsilon) + parse_decimal(other.pure_epsilon)),
            _round_up(Fraction(self.total_variation) + Fraction(other.total_variation)),
            _round_up(Fraction(self.failure) + Fraction(other.failure)),
        )


def pure_mu_squared(epsilon: float) -> float:
    """Return the μ² for which every ε-DP release is μ-GDP, rounded up.

    It solves Φ(−μ/2) = 1/(1 + e^ε), which is erf(μ/√8) = tanh(ε/2).

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
    """Return the ε whose `pure_mu_squared` is this, with a relative error below 1e-9."""
    from scipy.special import ndtr  # noqa: PLC0415 - 0.1 s

    tail = float(ndtr(-math.sqrt(mu_squared) / 2))
    return math.log1p(-tail) - math.log(tail)


@dataclass(frozen=True)
class Allowance:
    """What the spends of one ledger may add up to: three limits, fixed by its budget.

    Attributes:
        mu_squared: The limit of Σ μ².
        total_variation: The limit of Σ η.
        failure: The limit of Σ p.
    """

    mu_squared: float
    total_variation: float
    failure: float = 0.0

    @classmethod
    def of(cls, epsilon: float, delta: float, *, failures: bool = False) -> "Allowance":
        """Return the largest limits for which all spends together are (ε, δ)-DP.

        Args:
            epsilon: ε of the budget.
            delta: δ of the budget; above 0.
            failures: Whether a part of both is set aside for failures.
        """
        slack = largest_slack(epsilon, delta)
        noise_epsilon, noise_delta = _noise_budget(epsilon, delta, failures=failures)

        def is_too_much(mu_squared: float) -> bool:
            return delta_bound(noise_epsilon, mu_squared, slack) > noise_delta

        high = 1.0
        while not is_too_much(high):
            high *= 2
        first_too_much = _smallest_float(is_too_much, 0.0, high)
        return cls(
            mu_squared=math.nextafter(first_too_much, 0),
            total_variation=slack / DISCRETENESS * (1 - ROUNDING),
            failure=_failure_allowance(delta, failures=failures),
        )

    @classmethod
    def of_budget(cls, budget: Budget, *, failures: bool) -> "Allowance":
        """Return the limits of a budget with δ > 0."""
        return cls.of(float(budget.epsilon), float(budget.delta), failures=failures)

    def covers(self, total: Spend, mu_squared: float) -> bool:
        """Return whether a total spend, and its Σ μ², are within all three limits."""
        return (
            mu_squared <= self.mu_squared
            and total.total_variation <= self.total_variation
            and total.failure <= self.failure
        )


def largest_slack(epsilon: float, delta: float) -> float:
    """Return what h, the cost of discreteness, may add up to."""
    return SLACK_SHARE * max(epsilon, delta)


def delta_bound(epsilon: float, mu_squared: float, slack: float) -> float:
    """Return an upper bound of e^h δ_Gauss(ε − h) + n e^ε τ.

    Args:
        epsilon: ε of everything together.
        mu_squared: Σ μ².
        slack: h. For n, the largest number of releases that a ledger holds is taken, as if each
            were a series.
    """
    mu = math.nextafter(math.sqrt(mu_squared), math.inf)
    on_curve = float(gaussian_delta(np.array([epsilon - slack]), mu)[0]) * math.exp(slack)
    tail = math.exp(epsilon + math.log(MAX_RELEASES * MAX_SERIES_RUNS) + LOG_TAIL)
    return (on_curve + tail) * (1 + ROUNDING) + 1e-300


def composed_epsilon(spends: Iterable[Spend], delta: float) -> float:
    """Return the smallest ε whose budget (ε, δ) all spends together would fit, rounded up.

    It is infinite if there is none.

    >>> composed_epsilon([Spend(pure_epsilon=0.1), Spend(pure_epsilon=0.2)], 0.0)
    0.3
    """
    spends = list(spends)
    if not spends or delta == 0:
        return _pure_sum(spends)
    total, mu_squared = _compose(spends)
    failures = may_fail(spends)

    def is_enough(epsilon: float) -> bool:
        # A little stricter than `fits`, which rounds differently in the last digits, so that the ε
        # that comes out fits.
        slack = largest_slack(epsilon, delta)
        is_within = DISCRETENESS * total.total_variation * (1 + 2 * ROUNDING) <= slack
        noise_epsilon, noise_delta = _noise_budget(epsilon, delta, failures=failures)
        bound = delta_bound(noise_epsilon, mu_squared, slack) * (1 + ROUNDING)
        return is_within and bound <= noise_delta

    too_many = len(spends) > MAX_RELEASES
    too_likely_to_fail = total.failure > _failure_allowance(delta, failures=failures)
    if too_many or too_likely_to_fail or not is_enough(MAX_COMPOSED_EPSILON):
        return math.inf
    return 0.0 if is_enough(0.0) else _smallest_float(is_enough, 0.0, MAX_COMPOSED_EPSILON)


def fits(spends: Iterable[Spend], budget: Budget) -> bool:
    """Return whether all spends together are within a budget."""
    spends = list(spends)
    epsilon = float(budget.epsilon)
    delta = float(budget.delta)
    if delta == 0:
        return _pure_sum(spends) <= epsilon
    limit = Allowance.of_budget(budget, failures=may_fail(spends))
    return len(spends) <= MAX_RELEASES and limit.covers(*_compose(spends))


def remaining_gaussian_epsilon(spends: Iterable[Spend], budget: Budget, releases: int = 1) -> float:
    """Return the ε of the largest Gaussian release that still fits, rounded down to 3 digits.

    Args:
        spends: Everything that was charged so far.
        budget: The budget of the ledger; its δ is that of the release, too.
        releases: The number of releases that share what remains of μ²; the ε is that of one.
    """
    remaining = _remaining_mu_squared(spends, budget) if budget.delta else 0.0
    mu_squared = _round_down(Fraction(remaining) / releases)
    if not mu_squared:
        return 0.0
    return _round_remaining(composed_epsilon([Spend(mu_squared)], float(budget.delta)))


def remaining_pure_epsilon(spends: Iterable[Spend], budget: Budget) -> float:
    """Return the ε of the largest pure-ε release that still fits, rounded down to 3 digits."""
    spends = list(spends)
    if budget.delta == 0:
        if _pure_sum(spends) == math.inf:
            return 0.0
        spent = sum((parse_decimal(spend.pure_epsilon) for spend in spends), Fraction(0))
        return _round_remaining(float(parse_decimal(float(budget.epsilon)) - spent))
    remaining = _remaining_mu_squared(spends, budget)
    # `pure_epsilon_of` may be wrong by a relative 1e-9, so that much is taken off.
    return _round_remaining(pure_epsilon_of(remaining) * (1 - 1e-9) if remaining else 0.0)


def remaining_for_discovery(spends: Iterable[Spend], budget: Budget) -> Allowance:
    """Return what a discovery may still take of each limit; zeros where none is possible."""
    spends = list(spends)
    nothing = Allowance(0.0, 0.0)
    if budget.delta == 0 or len(spends) >= MAX_RELEASES:
        return nothing
    limit = Allowance.of_budget(budget, failures=may_fail(spends) or not spends)
    total, mu_squared = _compose(spends)
    remaining = Allowance(
        _round_down(Fraction(limit.mu_squared) - Fraction(mu_squared)),
        _round_down(Fraction(limit.total_variation) - Fraction(total.total_variation)),
        _round_down(Fraction(limit.failure) - Fraction(total.failure)),
    )
    return remaining if min(astuple(remaining)) > 0 else nothing


def remaining_failure(spends: Iterable[Spend], budget: Budget) -> float:
    """Return the largest failure probability that a discovery may still have, or 0."""
    return remaining_for_discovery(spends, budget).failure


def digits_up(value: float) -> str:
    """Return a number with four digits, rounded up, so that no spend looks smaller than it is.

    >>> digits_up(0.123401), digits_up(0.5), digits_up(0.0)
    ('0.1235', '0.5', '0')
    """
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(value))):g}"


def may_fail(spends: Sequence[Spend]) -> bool:
    """Return whether a part of δ is set aside for failures.

    The first spend decides, since nothing has been published before it.
    """
    return bool(spends) and spends[0].failure > 0


def _failure_allowance(delta: float, *, failures: bool) -> float:
    """Return F: what failure probabilities may add up to."""
    return FAILURE_SHARE * delta if failures else 0.0


def _noise_budget(epsilon: float, delta: float, *, failures: bool) -> tuple[float, float]:
    """Return the (ε, δ) that noise may use: all of it, or (ε − 2F, δ − F), rounded down."""
    if not failures:
        return epsilon, delta
    aside = Fraction(_failure_allowance(delta, failures=True))
    return _round_down(Fraction(epsilon) - 2 * aside), _round_down(Fraction(delta) - aside)


def _compose(spends: list[Spend]) -> tuple[Spend, float]:
    """Return all spends as one, and Σ μ²; both rounded up."""
    total = sum(spends, Spend())
    mu_squared = sum((Fraction(spend.mu_squared) for spend in spends), Fraction(0))
    return total, _round_up(mu_squared)


def _pure_sum(spends: list[Spend]) -> float:
    """Return Σ ε in decimals, rounded up.

    It is infinite if there is Gaussian noise among them, or something that may fail: no ε covers
    either at δ = 0.
    """
    if any(spend.inverse_variance or spend.failure for spend in spends):
        return math.inf
    return _round_up_decimal(
        sum((parse_decimal(spend.pure_epsilon) for spend in spends), Fraction(0))
    )


def _remaining_mu_squared(spends: Iterable[Spend], budget: Budget) -> float:
    """Return what remains of μ², rounded down; 0 if any limit is exceeded."""
    spends = list(spends)
    limit = Allowance.of_budget(budget, failures=may_fail(spends))
    total, mu_squared = _compose(spends)
    if not limit.covers(total, mu_squared):
        return 0.0
    return max(math.nextafter(float(Fraction(limit.mu_squared) - Fraction(mu_squared)), 0), 0.0)


def gaussian_delta(epsilons: Floats, mu: float) -> Floats:
    """Return δ_Gauss(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) for any real ε, without cancellation."""
    delta_of_absolute = _delta_from_zero(np.abs(epsilons), mu)
    # For ε < 0: δ(ε) = 1 − e^ε + e^ε δ(−ε), the same two distributions with their roles exchanged.
    negative = np.minimum(epsilons, 0.0)
    delta: Floats = -np.expm1(negative) + np.exp(negative) * delta_of_absolute
    return delta


def _delta_from_zero(epsilons: Floats, mu: float) -> Floats:
    """Return δ_Gauss(ε) for ε ≥ 0.

    With a = ε/μ − μ/2 and b = ε/μ + μ/2, δ = e^(−a²/2) (erfcx(a/√2) − erfcx(b/√2))/2. Where μ is
    small, the difference is computed as an integral of −erfcx′.
    """
    from scipy.special import erfcx, ndtr  # noqa: PLC0415 - 0.1 s

    if mu == 0:
        return np.zeros_like(epsilons)
    ratio = np.minimum(epsilons / max(mu, 1e-150), 1e5)  # e^(−a²/2) is 0 long before
    root = math.sqrt(2)
    a = ratio - mu / 2
    b = ratio + mu / 2
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


def _smallest_float(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest float above `low` for which a monotone condition holds, by bisection.

    Args:
        holds: Once it holds, it holds for all larger numbers; it holds at `high`.
        low: Where it does not hold.
        high: Where it holds.
    """
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _round_up_decimal(value: Fraction) -> float:
    """Return the smallest float whose decimal digits are not below `value`."""
    nearest = float(value)
    return nearest if parse_decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def _round_up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _round_down(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _round_remaining(epsilon: float) -> float:
    """Return the ε that a person can ask for: three digits, rounded down, 0 below MIN_EPSILON."""
    down = float(Context(prec=3, rounding=ROUND_FLOOR).create_decimal(repr(epsilon)))
    return min(down, MAX_EPSILON) if down >= MIN_EPSILON else 0.0
