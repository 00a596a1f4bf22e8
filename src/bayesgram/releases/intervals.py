"""How accurate a release is: intervals of probabilities, and shares that are known within a factor.

An interval is two standard deviations to each side, about 95%. It covers noise, inference and what
clipping is expected to distort. All of it is computed from released data.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.releases.release import Release

ACCURACY_FACTORS = (1.1, 1.25, 1.5, 2.0, 4.0)  # that a report shows; chosen by hand
INTERVAL_STDS = 2.0  # standard deviations to each side of an interval: about 95%


@dataclass(frozen=True)
class AccuracyShare:
    """How many n-grams, and how much of what people write, are known within a factor."""

    factor: float
    ngram_share: float  # of the n-grams
    mass_share: float  # of what people write: the probability of those n-grams


def probability_interval(release: Release, row: int) -> tuple[float, float] | None:
    """Return the interval of one probability; None if the mechanism does not know it."""
    if release.probability_std is None:
        return None
    middle = float(release.probabilities[row])
    reach = INTERVAL_STDS * float(release.probability_std[row])
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def probability_intervals(release: Release, rows: Integers) -> tuple[Floats, Floats] | None:
    """Return the lower and the upper ends of the intervals of many probabilities."""
    if release.probability_std is None:
        return None
    middle = release.probabilities[rows]
    reach = INTERVAL_STDS * release.probability_std[rows]
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def accuracy_shares(release: Release, rows: Bools) -> list[AccuracyShare]:
    """Return, for each factor, the share of n-grams that are known within it.

    Known within a factor means that the whole interval lies between p/factor and p·factor.

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
    """Return how many of these n-grams are known within a factor."""
    # The lower side, from p/factor to p, is the narrower one.
    is_known = INTERVAL_STDS * probability_std <= (1 - 1 / factor) * probabilities
    return AccuracyShare(
        factor,
        float(np.mean(is_known)),
        float(probabilities[is_known].sum()) / float(probabilities.sum()),
    )
