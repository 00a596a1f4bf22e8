"""What a release says that public text did not: post-processing, so free and publishable."""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats, Integers
from bayesgram.released.release import Release


@dataclass(frozen=True)
class Moved:
    """An n-gram with its probability before (public) and after (released)."""

    ngram: str
    before: float
    after: float


def most_moved(release: Release, before: Floats, *, how_many: int) -> tuple[list[Moved], list[Moved]]:
    """The n-grams lifted and lowered most: those with the largest parts θ log(θ/π) and π log(π/θ)."""
    after = release.probabilities
    ratio = np.log(after) - np.log(before)
    lifted = np.argsort(-after * ratio, kind="stable")[:how_many]
    lowered = np.argsort(before * ratio, kind="stable")[:how_many]

    def rows(ids: Integers) -> list[Moved]:
        return [Moved(release.ngrams[int(i)].as_py(), float(before[i]), float(after[i])) for i in ids]

    return rows(lifted), rows(lowered)
