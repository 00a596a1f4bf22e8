"""What a release says that public text did not: post-processing, so free and publishable."""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.released.release import Release

SMALLEST = np.finfo(np.float64).tiny  # stands for a probability of 0, which has no logarithm


@dataclass(frozen=True)
class ProbabilityChange:
    """An n-gram with its probability before (public) and after (released)."""

    ngram: str
    before: float
    after: float
    row: int  # its id


def largest_changes(
    release: Release, before: Floats, *, how_many: int, among: Bools | None = None
) -> tuple[list[ProbabilityChange], list[ProbabilityChange]]:
    """The n-grams lifted and lowered most: those with the largest parts θ log(θ/π) and π log(π/θ).

    `among`: of these n-grams only, such as those of one order.
    """
    rows = np.arange(before.size) if among is None else np.flatnonzero(among)
    old, new = before[rows], release.probabilities[rows]
    ratio = np.log(np.maximum(new, SMALLEST)) - np.log(np.maximum(old, SMALLEST))
    lifted = np.argsort(-new * ratio, kind="stable")
    lowered = np.argsort(old * ratio, kind="stable")

    def first(places: Integers) -> list[ProbabilityChange]:
        return [_moved(release, before, int(row)) for row in rows[places[:how_many]]]

    return first(lifted[ratio[lifted] > 0]), first(lowered[ratio[lowered] < 0])


def _moved(release: Release, before: Floats, row: int) -> ProbabilityChange:
    return ProbabilityChange(release.ngrams[row].as_py(), float(before[row]), float(release.probabilities[row]), row)
