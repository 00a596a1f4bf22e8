"""How sure a release is of its numbers: intervals, and how many n-grams are known within a factor.

An interval is two standard deviations to each side, about 95%. It is about noise, inference and what clipping is
expected to distort. Released data only.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.releases.release import Release

ACCURACY_FACTORS = (1.1, 1.25, 1.5, 2.0, 4.0)
INTERVAL_STDS = 2.0  # standard deviations


@dataclass(frozen=True)
class AccuracyShare:
    """How much is known within a factor."""

    factor: float
    ngram_share: float  # share of the n-grams
    mass_share: float  # share of what people write: the probability of those n-grams


def probability_interval(release: Release, row: int) -> tuple[float, float] | None:
    """From where to where an n-gram's probability lies; None where the mechanism doesn't say."""
    if release.probability_std is None:
        return None
    middle, reach = (
        float(release.probabilities[row]),
        INTERVAL_STDS * float(release.probability_std[row]),
    )
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def probability_intervals(release: Release, rows: Integers) -> tuple[Floats, Floats] | None:
    """The same of many n-grams at once: all lower ends, all upper ends."""
    if release.probability_std is None:
        return None
    middle, reach = release.probabilities[rows], INTERVAL_STDS * release.probability_std[rows]
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def accuracy_shares(release: Release, rows: Bools) -> list[AccuracyShare]:
    """Among these n-grams (of one order), those whose whole interval lies between p/factor and p·factor."""
    if release.probability_std is None:
        return []
    probabilities, deviations = release.probabilities[rows], release.probability_std[rows]
    return [accuracy_share(factor, probabilities, deviations) for factor in ACCURACY_FACTORS]


def accuracy_share(factor: float, probabilities: Floats, deviations: Floats) -> AccuracyShare:
    """How much of these n-grams is known within a factor."""
    sure = (
        INTERVAL_STDS * deviations <= (1 - 1 / factor) * probabilities
    )  # the lower side is the narrower one
    return AccuracyShare(
        factor, float(np.mean(sure)), float(probabilities[sure].sum()) / float(probabilities.sum())
    )
