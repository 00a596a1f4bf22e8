"""How good a release is, estimated from noisy counts alone: coverage, and how much was learnt.

*Coverage* is the share of people's n-grams of an order that the vocabulary lists. Both the listed
and the unlisted n-grams were measured, so it is t/(t + u), with noise known for both.

*Error removed* is 1 − KL(p ‖ θ)/KL(p ‖ π), with p what people write. If θ is the posterior mean of
p, then E KL(p ‖ π) = E KL(p ‖ θ) + KL(θ ‖ π). The first term is the error that is left. With p_i
Gamma-distributed with mean θ_i and the stated standard deviation s_i, it is

    E KL(p ‖ θ) = Σ_i θ_i (ψ(k_i + 1) − log k_i),   k_i = (θ_i/s_i)²

with ψ the digamma function; it is about ½ Σ s_i²/θ_i where deviations are small. Stated deviations
are cautious, so s_i is `TYPICAL_ERROR` times as large. The same Gamma distribution says how many
n-grams are known within a factor of 2 (`releases.intervals`).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.model import Inferred
from bayesgram.inference.noisy_counts import NoisyCounts
from bayesgram.releases.intervals import (
    INTERVAL_STDS,
    KNOWN_FACTOR,
    TYPICAL_ERROR,
    probability_within_factor,
)
from bayesgram.releases.quality import COVERAGE_DETAIL, QUALITY_DETAIL, STD_PARTS_DETAIL

# Standard deviation of the logarithm of the ratio of two orders' clipped totals, from that of the
# text: it was 0.8 to 1.2 times the true one for commits, reviews and posts.
TOTAL_RATIO_LOG_STD = 0.2

# The smallest coverage that is used in a ratio: a guard against division by 0.
MIN_SHARE = 1e-6

# Points of an ellipse that stand for all of it.
ELLIPSE_POINTS = 64

# The smallest relative standard deviation that the error left is computed with: a guard against
# division by 0.
MIN_REL_STD = 1e-6


def estimate_coverage(measured: NoisyCounts) -> tuple[float, float] | None:
    """Return the share of people's n-grams that is listed, and its standard deviation.

    Returns:
        None where the counts do not tell how many n-grams are not listed.
    """
    if measured.unlisted is None:
        return None
    listed = max(measured.total, 0.0)
    unlisted = max(measured.unlisted, 0.0)
    both = max(listed + unlisted, 1.0)
    share = listed / both
    # A derivative at the noisy counts would call a share known where noise is as large as they are.
    # So the share is taken all around the ellipse of counts that are likely, given the noise.
    angles = np.linspace(0, 2 * np.pi, ELLIPSE_POINTS, endpoint=False)
    listed_at = np.maximum(listed + INTERVAL_STDS * measured.total_noise * np.cos(angles), 0.0)
    unlisted_at = np.maximum(
        unlisted + INTERVAL_STDS * measured.unlisted_noise * np.sin(angles), 0.0
    )
    shares = listed_at / np.maximum(listed_at + unlisted_at, 1.0)
    noise_std = float(np.abs(shares - share).max()) / INTERVAL_STDS
    # The odds t/u have the bias of a frequent n-gram: users who write little, and none of the listed
    # n-grams, are clipped least. Odds of clipped text were 0.68 to 1.02 times those of all text
    # (commits, reviews, posts).
    bias_std = measured.clipping.bias_rel_std * share * (1 - share)
    return share, float(min(np.hypot(noise_std, bias_std), 1.0))


def estimate_error_removed(theta: Floats, std: Floats, prior: Floats) -> float:
    """Return the share of public text's error that a release removes, between 0 and 1.

    Args:
        theta: Released probabilities.
        std: Their standard deviations.
        prior: Public text.
    """
    from scipy.special import digamma  # noqa: PLC0415 - 0.1 s

    gain = max(float((theta * np.log(theta / prior)).sum()), 0.0)
    shape = (theta / np.maximum(std, MIN_REL_STD * theta)) ** 2
    error_left = float((theta * (digamma(shape + 1) - np.log(shape))).sum())
    return gain / (gain + max(error_left, 1e-12))


def make_totals_comparable(inferred: Mapping[str, Inferred]) -> dict[str, float]:
    """Return the expected number of n-grams of each order, as if all were clipped like the first.

    Orders have clip norms of their own, so their totals can't be compared: a language model needs
    how often a bigram goes on as a listed trigram. People write about as many n-grams of one order
    as of another, so the ratio of two coverages is that of the totals, whatever the clip norms.
    Where noise hides coverages, the ratio of the measured totals is better. Both are averaged on a
    log scale, by their precision.

    Args:
        inferred: The posterior, by order, short ones first.
    """
    orders = list(inferred)
    first = inferred[orders[0]]
    totals = {orders[0]: first.total}
    for order in orders[1:]:
        other = inferred[order]
        total = max(other.total, 1.0)
        if first.coverage is not None and other.coverage is not None:
            total = _average_totals(max(first.total, 1.0), total, first.coverage, other.coverage)
        totals[order] = total
    return totals


def _average_totals(
    first_total: float,
    total: float,
    first_coverage: tuple[float, float],
    coverage: tuple[float, float],
) -> float:
    """Return the total of an order by both ratios to the first order."""
    first_share = max(first_coverage[0], MIN_SHARE)
    share = max(coverage[0], MIN_SHARE)
    share_log_var = (first_coverage[1] / first_share) ** 2 + (coverage[1] / share) ** 2
    weight = TOTAL_RATIO_LOG_STD**2 / (TOTAL_RATIO_LOG_STD**2 + share_log_var)
    log_ratio = weight * np.log(share / first_share) + (1 - weight) * np.log(total / first_total)
    return float(first_total * np.exp(log_ratio))


def describe_quality(
    inferred: Mapping[str, Inferred], priors: Mapping[str, Floats]
) -> dict[str, Any]:
    """Return what the card says of the quality of each order.

    Args:
        inferred: The posterior, by order.
        priors: The distribution of public text, by order.
    """
    quality = {}
    for order, posterior in inferred.items():
        expected_std = TYPICAL_ERROR * posterior.deviation
        within = probability_within_factor(posterior.theta, expected_std, KNOWN_FACTOR)
        error_removed = estimate_error_removed(posterior.theta, expected_std, priors[order])
        quality[order] = {
            "error_removed": round(error_removed, 4),
            "known": round(float(within.sum()), 1),
            "known_mass": round(min(float(posterior.theta @ within), 1.0), 4),
        }
    coverage = {
        order: None
        if posterior.coverage is None
        else {"share": round(posterior.coverage[0], 6), "std": round(posterior.coverage[1], 6)}
        for order, posterior in inferred.items()
    }
    std_parts = {
        order: {name: round(value, 4) for name, value in posterior.std_parts.items()}
        for order, posterior in inferred.items()
    }
    return {COVERAGE_DETAIL: coverage, QUALITY_DETAIL: quality, STD_PARTS_DETAIL: std_parts}
