"""How good a release is, judged against the private counts.

A KL divergence computed here is itself a disclosure: it is exact, no noise is added, and no budget covers it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgram.arguments import checked
from bayesgram.arrays import Floats, Integers
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.files.segments import ALL
from bayesgram.private.counts import SegmentedCounts
from bayesgram.private.over_users import PrivateCounts
from bayesgram.released.release import Release

DISCLOSURE = "computed from private data without noise: not covered by any ε, not for publication"


@checked
def kl_divergence(private_counts: NDArray[np.integer], theta: Floats) -> float:
    """KL(p ‖ θ) = Σ p log(p/θ), p = the unclipped private counts, normalised; infinite where θ = 0 < p.

    >>> round(kl_divergence(np.array([1, 1]), np.array([0.25, 0.75])), 4)
    0.1438
    """
    private_counts, theta = _numbers("private_counts", private_counts), _numbers("theta", theta)
    if private_counts.shape != theta.shape:
        raise UsageError(
            f"theta: {theta.size} probabilities for {private_counts.size} private counts; give one for each n-gram."
        )
    total = private_counts.sum()
    if not total:
        raise BayesgramError("the private counts are empty: there is nothing to compare with.")
    seen = private_counts > 0
    p, q = private_counts[seen] / total, theta[seen]
    if (q == 0).any():
        return float("inf")
    return float((p * np.log(p / q)).sum())


def _numbers(name: str, given: NDArray[Any]) -> NDArray[Any]:
    """A list or an array of numbers from 0."""
    numbers = np.asarray(given)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or not (numbers >= 0).all():
        raise UsageError(f"{name}: takes a list of numbers from 0, one for each n-gram.")
    return numbers


def totals_for(counts: PrivateCounts | SegmentedCounts, release: Release | None = None) -> Integers:
    """How often people wrote each n-gram: those whom a release is about, by its card, or everybody."""
    told = None if release is None else release.card.segment
    if not isinstance(counts, SegmentedCounts):
        if told is not None and told["name"] != ALL:
            raise UsageError(
                f"the release is of {told['by']} = {told['name']}, and the counts are not by segment; give those that"
                " it was made from."
            )
        return counts.totals
    if told is None or told["name"] == ALL:
        return counts.totals()
    if {**counts.segments.to_json(), "name": told["name"]} != told:
        raise UsageError("the release and the counts have other segments; give the counts that it was made from.")
    return counts.totals(told["name"])


def comparison_row(name: str, release: Release | None, kl: float) -> dict[str, Any]:
    """One line of the comparison; no release is public text alone, which costs nothing."""
    card = release.card if release else None
    return {
        "release": name,
        "mechanism": card.mechanism if card else "no private data",
        "guarantee": card.guarantee.name if card else "PROVED",
        "grade": card.grade if card else None,
        "unit": None if card is None or card.is_person else card.unit_shown,
        "epsilon": card.epsilon if card else 0.0,
        "delta": card.delta if card else 0.0,
        "kl": kl if kl < float("inf") else None,
    }
