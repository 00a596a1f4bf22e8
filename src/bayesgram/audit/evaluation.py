"""How far a release is from the private counts: the KL divergence.

A KL divergence computed here is itself a disclosure: it is exact, no noise is added, and no budget
covers it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgram.arguments import check_arguments
from bayesgram.arrays import Floats, Integers
from bayesgram.charts import printable
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.segments import ALL
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.releases.release import Release
from bayesgram.reports.report import Score
from bayesgram.text.ngrams import distinct_orders

PUBLIC_ALONE = "public text alone"  # the name of public text beside releases
DISCLOSURE = "computed from private data without noise: not covered by any ε, not for publication"


@check_arguments
def kl_divergence(private_counts: NDArray[np.integer], theta: Floats) -> float:
    """Return KL(p ‖ θ) = Σ p log(p/θ), in nats; infinite where θ = 0 < p.

    Args:
        private_counts: Unclipped; p is these counts, normalised.
        theta: A probability for each n-gram.

    >>> round(kl_divergence(np.array([1, 1]), np.array([0.25, 0.75])), 4)
    0.1438
    """
    private_counts = _check_numbers("private_counts", private_counts)
    theta = _check_numbers("theta", theta)
    if private_counts.shape != theta.shape:
        raise UsageError(
            f"theta: {theta.size} probabilities for {private_counts.size} private counts; give one"
            " for each n-gram."
        )
    total = private_counts.sum()
    if not total:
        raise BayesgramError("the private counts are empty: there is nothing to compare with.")
    occurs = private_counts > 0
    p = private_counts[occurs] / total
    q = theta[occurs]
    if (q == 0).any():
        return float("inf")
    return float((p * np.log(p / q)).sum())


def _check_numbers(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return a list or an array of numbers from 0 as an array."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or not (numbers >= 0).all():
        raise UsageError(f"{name}: takes a list of numbers from 0, one for each n-gram.")
    return numbers


def totals_for(counts: PrivateCounts | SegmentedCounts, release: Release | None = None) -> Integers:
    """Return how often people wrote each n-gram: those whom a release is about, or everybody.

    Raises:
        UsageError: If the release is of a segment that the counts do not have.
    """
    segment = None if release is None else release.card.segment
    if not isinstance(counts, SegmentedCounts):
        if segment is not None and segment["name"] != ALL:
            raise UsageError(
                f"the release is of {segment['by']} = {segment['name']}, and the counts are not by"
                " segment; give those that it was made from."
            )
        return counts.totals
    if segment is None or segment["name"] == ALL:
        return counts.totals()
    if {**counts.segments.to_json(), "name": segment["name"]} != segment:
        raise UsageError(
            "the release and the counts have other segments; give the counts that it was made from."
        )
    return counts.totals(segment["name"])


def comparison_row(name: str, release: Release | None, kl: float) -> dict[str, Any]:
    """Return one row of a table of releases; without a release, that of public text alone.

    Args:
        name: What the row is called.
        release: The release, None for public text alone.
        kl: Its KL divergence, which may be infinite.
    """
    card = release.card if release else None
    return {
        "release": name,
        "mechanism": card.mechanism if card else "no private data",
        "guarantee": card.guarantee.name if card else "PROVED",
        "grade": card.grade if card else None,
        "unit": None if card is None or card.is_person else card.unit_text,
        "epsilon": card.epsilon if card else 0.0,
        "delta": card.delta if card else 0.0,
        "kl": _none_if_infinite(kl),
    }


def kl_by_order(
    counts: PrivateCounts | SegmentedCounts,
    releases: Sequence[tuple[str, Release]],
    public: Floats | None,
    orders: Integers | None = None,
) -> list[Score]:
    """Return the KL divergence of public text and of every release, separately for each order.

    A release of a segment is judged by the people of that segment, and is left out where there are
    none. Orders that nobody wrote are left out.

    Args:
        counts: The private counts.
        releases: With their names; all of one vocabulary.
        public: The public distribution, where it is known.
        orders: The order of each n-gram; needed only if there are no releases.
    """
    if orders is None:
        orders = releases[0][1].orders
    all_totals = totals_for(counts)
    release_totals = [totals_for(counts, release) for _, release in releases]
    present = [order for order in distinct_orders(orders) if all_totals[orders == order].any()]
    if not present:
        raise BayesgramError("the private counts are empty: there is nothing to compare with.")
    scores: list[Score] = []
    for order in present:
        rows = orders == order
        if public is not None:
            kl = kl_divergence(all_totals[rows], public[rows])
            scores.append(Score(**comparison_row(PUBLIC_ALONE, None, kl), order=order))
        for (name, release), totals in zip(releases, release_totals, strict=True):
            if not totals[rows].any():
                continue
            kl = kl_divergence(totals[rows], release.probabilities[rows])
            row = comparison_row(printable(name), release, kl)
            scores.append(Score(**row, order=order))
    return scores


def _none_if_infinite(value: float) -> float | None:
    return value if value < float("inf") else None
