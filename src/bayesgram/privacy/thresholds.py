"""How much noise a discovery needs, and the level above which a candidate is published.

The candidates of a discovery are n-grams that users wrote, so that the list itself is private. A
user u has at most m candidates with weights wᵢ ≥ w₀, Σ wᵢ² ≤ 1. Sums below a floor S are dropped;
the others get Gaussian noise σ and are published above a level T. Candidates of u that reach S
without u are a Gaussian mechanism, which u moves by b in L2. A candidate that is below S without u
is published with u only if its noise exceeds T − S − wᵢ (docs/promise.md):

    δ ≤ max over b² of  δ_Gauss(ε; σ/b) + p(1 − b²),    p(a²) = k ĥ(a²/k),  k = min(m, a²/w₀²),

where h(x) = Q((T − S − √x)/σ) and ĥ is the smallest concave function above it on [0, 1] (Jensen).
Where u has much in common with others, little is u's alone, so both terms are never large together.

T is computed for the noise that is drawn. Its scale is a number of few binary digits, a little
above what is needed, and more noise lifts more candidates over T.

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
    delta_bound,
    largest_slack,
)
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.calibration import ROUNDED_UP

# Number of cells of the grid over a² = 1 − b², finer where u has nearly everything in common with
# others. Not measured against other numbers; a finer grid can only lower T.
GRID_CELLS = 400

# Shares of δ that noise may take when u has everything in common with others. The one with the
# lowest T is used. Chosen by hand.
SPLITS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.98)

# S over T − S. Sums that small can hardly be published, and most sums are that small. Chosen by
# hand.
FLOOR_SHARE = 0.02

# The allowance of a discovery that is charged to no ledger.
UNLIMITED = Allowance(math.inf, math.inf, 1.0)

# The tail of discrete noise is at most this times that of continuous noise. It is far less.
TAIL_FACTOR = 1 + 1e-9

# Binary digits of the scale of the noise: the sampler is twice as quick with few of them.
SCALE_BITS = 12

# Noisy sums of all rounds have 64 bits: noise of so many standard deviations must fit in half of
# their range.
MAX_NOISE_STDS = 40
LARGEST_SUM = 1 << 62


@dataclass(frozen=True)
class Threshold:
    """The noise and the level of a discovery. All but `scale` are in units of B.

    Attributes:
        multiplier: σ, the standard deviation of the noise of the mean of all rounds.
        floor: S, below which a sum is dropped before noise; 0 with several rounds.
        level: T, above which a noisy sum is published.
        failure: p(1), the probability that something is published that only one user lifted over S.
        total_variation: η = m/(24 (σB)²), as only one user's candidates differ between neighbours.
        scale: σ√R B, the scale of the noise of each of R rounds, as an integer sum has it.
    """

    multiplier: float
    floor: float
    level: float
    failure: float
    total_variation: float
    scale: float

    @property
    def spend(self) -> Spend:
        """The spend that a ledger is charged: for the noise, and for the failure probability."""
        return Spend.gaussian(
            self.multiplier, total_variation=self.total_variation, failure=self.failure
        )


@lru_cache(maxsize=64)
def calibrate_threshold(
    budget: Budget,
    *,
    max_candidates: int,
    min_weight: float,
    units: int,
    at_least: int = 1,
    allowance: Allowance = UNLIMITED,
) -> Threshold:
    """Return the lowest level T for a discovery of one round.

    Args:
        budget: The (ε, δ) of the discovery.
        max_candidates: m, the largest number of candidates of a user.
        min_weight: w₀, the smallest weight of a candidate.
        units: B, which the weights of one user have as their L2 norm, in integers.
        at_least: T is no lower than what one fewer than so many users can add up to.
        allowance: What the ledger still allows.

    Raises:
        UsageError: If the budget is too small for any T; `check_epsilon` says when it is.
    """
    check_epsilon(budget)
    slack = largest_slack(budget.epsilon, budget.delta)
    thresholds = [
        _calibrate_split(budget, split, max_candidates, min_weight, units, allowance, slack)
        for split in SPLITS
    ]
    feasible = [threshold for threshold in thresholds if threshold is not None]
    if not feasible:
        raise _no_threshold(budget, max_candidates)
    return _choose_lowest(feasible, at_least)


@lru_cache(maxsize=64)
def calibrate_rounds(
    budget: Budget,
    *,
    rounds: int,
    max_candidates: int,
    units: int,
    at_least: int = 1,
    allowance: Allowance = UNLIMITED,
) -> Threshold:
    """Return the lowest level T for the mean of several rounds.

    The weights of a round follow the noisy answers of the rounds before it. R rounds of noise σ√R
    are 1/σ-Gaussian DP together, and the noise of their mean is σ. Of u's own candidates, at most
    m, u adds at most 1 to each in every round, whatever the noise was: p = m Q((T − 1)/σ).

    Args:
        budget: The (ε, δ) of the discovery.
        rounds: R, the number of rounds.
        max_candidates: m, the largest number of candidates of a user.
        units: B, which the weights of one user have as their L2 norm, in integers.
        at_least: T is no lower than what one fewer than so many users can add up to.
        allowance: What the ledger still allows.

    Raises:
        UsageError: If the budget is too small for any T; `check_epsilon` says when it is.
    """
    check_epsilon(budget)
    slack = largest_slack(budget.epsilon, budget.delta)
    epsilon = budget.epsilon - 2 * budget.delta  # −log(1 − p), which the other direction costs
    delta = budget.delta * (1 - 3 * ROUNDING)
    feasible = []
    for split in SPLITS:
        failure = min((1 - split) * delta, allowance.failure)
        needed = max(
            _calibrate_multiplier(epsilon, split * delta, slack), _min_multiplier(allowance)
        )
        multiplier, scale = _round_scale(needed, rounds, units)
        variation = max_candidates / (24 * (multiplier * units) ** 2)
        if (
            DISCRETENESS * variation <= slack * (1 - 2 * ROUNDING)
            and failure > 0
            and math.isfinite(multiplier)
        ):
            quantile = float(-ndtri(failure / max_candidates / TAIL_FACTOR**2))
            level = 1 + multiplier * quantile * ROUNDED_UP
            feasible.append(Threshold(multiplier, 0.0, level, failure, variation, scale))
    if not feasible:
        raise _no_threshold(budget, max_candidates)
    return _choose_lowest(feasible, at_least)


@dataclass(frozen=True)
class RunningThreshold:
    """The noise of a discovery that goes on in every run of a series, and the level of each run.

    All but `scale` are in units of B.

    Attributes:
        multiplier: σ√(k/q), the standard deviation of the noise of one run; q is the share of the
            discoveries in the series.
        levels: T₁, T₂, …: what the running sum must exceed in each run to be published.
        scale: The scale of the noise of one run, as an integer sum has it.
    """

    multiplier: float
    levels: tuple[float, ...]
    scale: float

    def noise_std(self, runs: int) -> float:
        """Return the standard deviation of the running sum after so many runs."""
        return self.multiplier * math.sqrt(runs)


@lru_cache(maxsize=64)
def calibrate_running_sums(
    multiplier: float,
    *,
    runs: int,
    full_runs: int,
    max_candidates: int,
    units: int,
    failure: float,
    at_least: int = 1,
) -> RunningThreshold:
    """Return the lowest levels T_t for a sum of noisy weights that goes on run after run.

    By run t one user has at most mt candidates that nobody else has. To each of them the user adds
    at most B a run, and squares that add up to at most kB², so C_t = √(t·min(t, k)) in all
    (Cauchy and Schwarz), wherever noise leads the user. The noise of a running sum is σ₁√t, of
    candidates that come late, too. So p = Σ_t mt·Q((T_t − C_t)/(σ₁√t)), and every run gets the same
    part of p.

    Args:
        multiplier: σ₁, which the noise of a run must have at least.
        runs: W, the number of runs.
        full_runs: k, how many of them one user can contribute to in full.
        max_candidates: m, the largest number of candidates of a user in one run.
        units: B, in integers.
        failure: p, the probability that a candidate is published that only one user has.
        at_least: T_t is no lower than what one fewer than so many users can add up to.

    Raises:
        UsageError: If sums could leave 64 bits.

    >>> threshold = calibrate_running_sums(
    ...     30.0, runs=52, full_runs=8, max_candidates=100, units=1 << 30, failure=2.5e-8)
    >>> [round(threshold.levels[run - 1]) for run in (1, 4, 12, 52)]
    [205, 425, 754, 1613]
    """
    noise_std, scale = _round_scale(multiplier, 1, units)
    # A sum that is not found yet is below a level. Nothing else bounds it, so a sum that wraps
    # around 64 bits must be as unlikely as noise of so many standard deviations.
    if not multiplier * math.sqrt(runs) * units * MAX_NOISE_STDS <= LARGEST_SUM:
        raise UsageError(
            f"the noise of {runs:,} discoveries does not fit in 64 bits at this ",
            Argument("epsilon"),
            " and ",
            Argument("discovery_share"),
            "; give more of them, or a smaller number of ",
            Argument("full_releases"),
            ".",
        )
    levels = []
    for run in range(1, runs + 1):
        candidates = max_candidates * run
        quantile = float(-ndtri(failure / runs / candidates / TAIL_FACTOR**2))
        largest = largest_running_sum(run, full_runs)
        level = largest + noise_std * math.sqrt(run) * quantile * ROUNDED_UP
        levels.append(max(level, (at_least - 1) * largest))
    return RunningThreshold(noise_std, tuple(levels), scale)


def largest_running_sum(run: int, full_runs: int) -> float:
    """Return the most that one user can add to one candidate by a run, in units of B.

    >>> largest_running_sum(4, full_runs=8), largest_running_sum(32, full_runs=8)
    (4.0000000000000036, 16.000000000000014)
    """
    return math.sqrt(run * min(run, full_runs)) * ROUNDED_UP


def check_epsilon(budget: Budget) -> None:
    """Refuse an ε of which nothing remains for noise, as 2δ of it are set aside for failures.

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


def _no_threshold(budget: Budget, max_candidates: int) -> UsageError:
    return UsageError.for_argument(
        "delta",
        f"{budget.delta:g}",
        f"leaves no threshold for {max_candidates} candidates a user at ",
        Argument("epsilon", f"{budget.epsilon:g}"),
        "; give a larger epsilon, delta or ledger.",
    )


def _choose_lowest(thresholds: list[Threshold], at_least: int) -> Threshold:
    lowest = min(thresholds, key=lambda threshold: threshold.level)
    return replace(lowest, level=max(lowest.level, at_least - 1.0))


def _calibrate_split(
    budget: Budget,
    split: float,
    max_candidates: int,
    min_weight: float,
    units: int,
    allowance: Allowance,
    slack: float,
) -> Threshold | None:
    """Return the lowest T for the σ that takes this share of δ, or None if no T is enough."""
    epsilon = budget.epsilon - 2 * budget.delta  # −log(1 − p), which the other direction costs
    delta = budget.delta * (1 - 3 * ROUNDING)
    needed = max(_calibrate_multiplier(epsilon, split * delta, slack), _min_multiplier(allowance))
    multiplier, scale = _round_scale(needed, 1, units)
    variation = max_candidates / (24 * (multiplier * units) ** 2)
    if (
        DISCRETENESS * variation > slack * (1 - 2 * ROUNDING)
        or allowance.failure <= 0
        or math.isinf(multiplier)
    ):
        return None
    # a², the squared weights of what is u's alone: nothing, or at least one candidate.
    squares = np.append(0.0, np.geomspace(min_weight**2, 1.0, GRID_CELLS))
    noise_delta = np.array(
        [
            delta_bound(epsilon, (1 - square) / multiplier**2 * ROUNDED_UP, slack)
            for square in squares
        ]
    )

    def is_enough(gap: float) -> bool:
        failure = failure_bound(
            squares, gap / multiplier, 1 / multiplier, max_candidates, min_weight
        )
        # A cell has its largest b at its begin, and its largest p at its end.
        cell_failure = np.append(failure[1:], failure[-1])
        return bool(
            (noise_delta + cell_failure <= delta).all() and failure[-1] <= allowance.failure
        )

    # Bisect T − S. From `low` on, h is concave and then convex, as `failure_bound` needs it.
    low = 1.0 + 2 * multiplier
    high = 40 * multiplier + 2
    if not is_enough(high):  # pragma: no cover - beyond 40σ, p is below any δ that a Budget takes
        return None
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    failure = failure_bound(
        np.ones(1), high / multiplier, 1 / multiplier, max_candidates, min_weight
    )
    return Threshold(
        multiplier,
        FLOOR_SHARE * high,
        (1 + FLOOR_SHARE) * high * ROUNDED_UP,
        float(failure[0]),
        variation,
        scale,
    )


def _round_scale(needed: float, rounds: int, units: int) -> tuple[float, float]:
    """Return σ and the scale of the noise that is drawn.

    The scale has few binary digits and is not below what is needed; σ follows from it. Both are
    infinite where noisy sums of all rounds could leave 64 bits: a sum that wraps around could
    exceed any level.
    """
    if not needed * rounds * units * MAX_NOISE_STDS <= LARGEST_SUM:
        return math.inf, math.inf
    unit = math.sqrt(rounds) * units
    mantissa, exponent = math.frexp(needed * unit * ROUNDED_UP)
    scale = math.ldexp(math.ceil(math.ldexp(mantissa, SCALE_BITS)), exponent - SCALE_BITS)
    return scale / unit / ROUNDED_UP, scale


def _min_multiplier(allowance: Allowance) -> float:
    """Return the σ that takes all that the ledger allows."""
    return math.inf if allowance.mu_squared <= 0 else ROUNDED_UP / math.sqrt(allowance.mu_squared)


def _calibrate_multiplier(epsilon: float, delta: float, slack: float) -> float:
    """Return the smallest σ whose curve is at most δ at ε, rounded up; inf if there is none."""
    low = 1e-6
    high = 1.0
    while delta_bound(epsilon, 1 / high**2 * ROUNDED_UP, slack) > delta:
        high *= 2
        if high > LARGEST_SUM:  # no noise is enough where ε is below 0 by more than δ
            return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (
            (low, middle)
            if delta_bound(epsilon, 1 / middle**2 * ROUNDED_UP, slack) <= delta
            else (middle, high)
        )
    return high * ROUNDED_UP


def failure_bound(
    squares: Floats, gap: float, unit: float, max_candidates: int, min_weight: float
) -> Floats:
    """Return p(a²), an upper bound of Σ h(wᵢ²) with h(x) = Q(gap − unit·√x), for many a².

    h is concave and then convex, so a line that touches h where it is concave and is above it at 1
    is above it everywhere: Σ h(wᵢ²) ≤ k·line(a²/k).

    Args:
        squares: a², the squared norms of what is one user's alone, ascending.
        gap: T − S, in standard deviations of the noise.
        unit: One, in standard deviations of the noise.
        max_candidates: m, the largest number of candidates of a user.
        min_weight: w₀, the smallest weight of a candidate.
    """
    numbers = np.minimum(float(max_candidates), squares / min_weight**2 * ROUNDED_UP)
    means = np.where(numbers > 0, squares / np.maximum(numbers, 1e-300), min_weight**2)
    touching = np.minimum(means, _tangent_point(gap, unit))
    slopes = _exceedance_slope(touching, gap, unit)
    bound: Floats = numbers * (_exceedance(touching, gap, unit) + slopes * (means - touching))
    return np.maximum.accumulate(bound) * TAIL_FACTOR


def _exceedance(squares: Floats, gap: float, unit: float) -> Floats:
    """Return h(x) = Q(gap − unit·√x)."""
    probabilities: Floats = ndtr(unit * np.sqrt(squares) - gap)
    return probabilities


def _exceedance_slope(squares: Floats, gap: float, unit: float) -> Floats:
    """Return h′(x)."""
    distance = gap - unit * np.sqrt(squares)
    slopes: Floats = (
        np.exp(-(distance**2) / 2)
        / math.sqrt(2 * math.pi)
        * unit
        / (2 * np.sqrt(np.maximum(squares, 1e-300)))
    )
    return slopes


def _tangent_point(gap: float, unit: float) -> float:
    """Return the largest x whose tangent is above h at 1, where h is concave.

    h is concave where unit·√x·(gap − unit·√x) ≤ 1.
    """
    discriminant = gap * gap - 4
    root = (gap - math.sqrt(discriminant)) / 2 / unit if discriminant > 0 else math.inf
    low = 0.0
    high = min(root, 1.0) ** 2
    at_one = _exceedance(np.ones(1), gap, unit)[0]

    def is_above(square: float) -> bool:
        x = np.array([square])
        tangent = _exceedance(x, gap, unit)[0] + _exceedance_slope(x, gap, unit)[0] * (1 - square)
        return bool(tangent >= at_one)

    if is_above(high):
        return high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if is_above(middle) else (low, middle)
    return low
