"""The prior of the paper: public counts in log space, and as a distribution."""

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Floats


def centred_log(counts: NDArray[np.integer] | Floats) -> Floats:
    """x̂ = log(c + 1) − mean log(c + 1).   Eq. 1 (public α; errata E11), Eq. 2 (private c).

    >>> centred_log(np.array([0.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    logs: Floats = np.log1p(counts)
    centred: Floats = logs - logs.mean()
    return centred


def softmax(logits: Floats) -> Floats:
    """θ = exp(h) / Σ exp(h).   Eq. 4."""
    weights: Floats = np.exp(logits - logits.max())
    theta: Floats = weights / weights.sum()
    return theta


def public_distribution(counts: NDArray[np.integer]) -> Floats:
    """π = (α + 1) / Σ (α + 1): softmax of Eq. 1."""
    raised = counts.astype(np.float64) + 1
    theta: Floats = raised / raised.sum()
    return theta


def source_distributions(by_source: NDArray[np.integer], counts: NDArray[np.integer]) -> Floats:
    """π of every source (K × V): what a source lacks it has from the mixture, at one count for each n-gram."""
    mixture = public_distribution(counts)
    if len(by_source) == 1:
        return mixture[None]
    raised = by_source + counts.size * mixture
    distributions: Floats = raised / raised.sum(axis=1, keepdims=True)
    return distributions
