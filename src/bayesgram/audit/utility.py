"""How good a release is, judged against the private counts.

A KL divergence computed here is itself a disclosure: it is exact, no noise is added, and no budget covers it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgram.arguments import checked
from bayesgram.arrays import Floats
from bayesgram.errors import BayesgramError
from bayesgram.released.release import Release

DISCLOSURE = "computed from private data without noise: not covered by any ε, not for publication"


@checked
def kl_divergence(private_counts: NDArray[np.integer], theta: Floats) -> float:
    """KL(p ‖ θ) = Σ p log(p/θ), p = the unclipped private counts, normalised; infinite where θ = 0 < p.

    >>> round(kl_divergence(np.array([1, 1]), np.array([0.25, 0.75])), 4)
    0.1438
    """
    total = private_counts.sum()
    if not total:
        raise BayesgramError("the private counts are empty: there is nothing to compare with.")
    seen = private_counts > 0
    p, q = private_counts[seen] / total, theta[seen]
    if (q == 0).any():
        return float("inf")
    return float((p * np.log(p / q)).sum())


def comparison_row(name: str, release: Release | None, kl: float) -> dict[str, Any]:
    """One line of the comparison; no release is public text alone, which costs nothing."""
    card = release.card if release else None
    return {
        "release": name,
        "mechanism": card.mechanism if card else "no private data",
        "guarantee": card.guarantee.name if card else "PROVED",
        "grade": card.grade if card else None,
        "epsilon": card.epsilon if card else 0.0,
        "delta": card.delta if card else 0.0,
        "kl": kl if kl < float("inf") else None,
    }
