"""How accurate a release is: intervals of probabilities, and shares that are known within a factor.

An interval is two standard deviations to each side, about 95%. It covers noise, inference and what
clipping is expected to distort. All of it is computed from released data.

Known within a factor f: the true probability is expected to lie between p/f and p·f. Shares are
expectations: each n-gram counts by the probability of that (`probability_within_factor`). Stated
deviations are cautious, so expectations take errors of `TYPICAL_ERROR` times as much.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers

if TYPE_CHECKING:  # a card says how accurate its release is, so a release imports this module
    from bayesgram.releases.release import Release

ACCURACY_FACTORS = (1.1, 1.25, 1.5, 2.0, 4.0)  # that a report shows; chosen by hand
KNOWN_FACTOR = 2.0  # within which a probability is called known, where one factor is shown
# Errors over stated deviations, which are cautious: their root mean square was 0.75 on average over
# 36 rows of docs/results.md (commits, reviews, posts and Reddit, ε = 0.2 to 4). With 0.7, nine of
# ten estimates of what is known within a factor of 2 were within 10 points of the truth.
TYPICAL_ERROR = 0.7
INTERVAL_STDS = 2.0  # standard deviations to each side of an interval: about 95%

# The shape of the Gamma distribution is kept between these: beyond them the probability is 0 or 1
# to the last digit, and products of the shape would leave the range of floating-point numbers.
_SMALLEST_SHAPE = 1e-200
_LARGEST_SHAPE = 1e15


@dataclass(frozen=True)
class AccuracyShare:
    """How many n-grams, and how much of what people write, are expected to lie within a factor."""

    factor: float
    ngram_share: float  # of the n-grams
    mass_share: float  # of what people write: the probability of those n-grams


def probability_interval(release: "Release", row: int) -> tuple[float, float] | None:
    """Return the interval of one probability; None if the mechanism does not know it."""
    if release.probability_std is None:
        return None
    middle = float(release.probabilities[row])
    reach = INTERVAL_STDS * float(release.probability_std[row])
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def probability_intervals(release: "Release", rows: Integers) -> tuple[Floats, Floats] | None:
    """Return the lower and the upper ends of the intervals of many probabilities."""
    if release.probability_std is None:
        return None
    middle = release.probabilities[rows]
    reach = INTERVAL_STDS * release.probability_std[rows]
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def probability_within_factor(probabilities: Floats, std: Floats, factor: float) -> Floats:
    """Return how probable it is that each true probability lies between p/factor and p·factor.

    The truth is taken as Gamma-distributed, with mean p and the stated standard deviation s: with a
    normal distribution it could be below 0. The shape is k = (p/s)², and k·truth/p has the
    distribution Gamma(k, 1), so that the answer is P(k, k·factor) − P(k, k/factor), where P is the
    regularised lower incomplete gamma function.

    Args:
        probabilities: The released probabilities p.
        std: Their standard deviations s; where s is 0, the truth is p.
        factor: At least 1.

    Returns:
        A number between 0 and 1 for each n-gram.

    >>> probabilities = np.array([0.1, 0.1, 0.1])
    >>> probability_within_factor(probabilities, np.array([0.0, 0.02, 0.1]), 2.0).round(3)
    array([1.   , 0.999, 0.471])
    """
    from scipy.special import gammainc  # noqa: PLC0415 - 0.1 s

    is_exact = std <= 0
    with np.errstate(over="ignore"):  # a tiny deviation: the shape is bounded below
        shape = (probabilities / np.where(is_exact, 1.0, std)) ** 2
    shape = np.clip(shape, _SMALLEST_SHAPE, _LARGEST_SHAPE)
    within: Floats = gammainc(shape, shape * factor) - gammainc(shape, shape / factor)
    # Where p is 0 and s is not, p/factor and p·factor are both 0, and the truth is not.
    within = np.where(probabilities > 0, within, 0.0)
    return np.where(is_exact, 1.0, np.clip(within, 0.0, 1.0))


def accuracy_shares(release: "Release", rows: Bools) -> list[AccuracyShare]:
    """Return, for each factor, the expected share of n-grams that are known within it.

    Args:
        release: The release.
        rows: Which n-grams, all of one order.
    """
    if release.probability_std is None:
        return []
    probabilities = release.probabilities[rows]
    probability_std = release.probability_std[rows]
    return [accuracy_share(factor, probabilities, probability_std) for factor in ACCURACY_FACTORS]


def accuracy_share(factor: float, probabilities: Floats, probability_std: Floats) -> AccuracyShare:
    """Return how many of these n-grams are expected to lie within a factor."""
    within = probability_within_factor(probabilities, TYPICAL_ERROR * probability_std, factor)
    mass_share = float(probabilities @ within) / float(probabilities.sum())
    # Rounding may take a sum above 1, which would be outside the axis of a picture.
    return AccuracyShare(factor, float(np.mean(within)), min(mass_share, 1.0))
