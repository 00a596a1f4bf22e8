"""Weights of the public sources: which mixture of them is most like what people write.

In:  noisy counts (or, before these, noisy shares of the sources), and public n-grams.
Out: a weight for each source, and its standard deviation.

The model is

    y_i ~ N(n Σ_k w_k π_ki, noise_i² + (τ λ_i)²),     λ_i = n Σ_k w_k π_ki,

where π_k is source k, and w is on the simplex with a weak normal prior around equal weights. Where
noise hides everything, the weights stay equal. A source that is given twice shares its weight with
its copy.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats, Ids
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams
from bayesgram.inference.pooling import RESIDUAL_STD

# Standard deviation of a weight from 1/K, of K sources, before anything is measured. Chosen by
# hand; not measured against other values.
PRIOR_WEIGHT_STD = 0.5

# Standard deviation of a weight beyond noise, because nobody writes exactly like a mixture:
# frequent and rare n-grams were seen to need weights that are some percentage points apart. Chosen
# by hand; not measured against other values.
MISFIT_WEIGHT_STD = 0.03

# Standard deviation, for the same reason, of the share of text whose n-grams are most frequent in
# one source. Chosen by hand; not measured against other values.
MISFIT_SHARE_STD = 0.02

# Noise standard deviations by which the number of users must exceed 0 for rough weights. Chosen by
# hand; not measured against other values.
MIN_USERS_Z = 10.0

# Iterations of reweighted least squares, at most, and the change of a weight at which they end.
# Chosen by hand; not measured against other values.
MAX_ITERATIONS = 40
WEIGHT_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Weights:
    """The weight of each source, and the standard deviation of that weight."""

    weights: Floats
    deviations: Floats


def dominant_source(public: PublicNgrams) -> Ids:
    """Return the source in which each n-gram is most frequent: the first, where several tie."""
    sources: Ids = np.argmax(public.sources, axis=0).astype(np.int32)
    return sources


def fit_rough_weights(share_sums: Floats, noise_std: float, public: PublicNgrams) -> Floats | None:
    """Return rough weights of the sources before counts are measured; None if noise hides them.

    An n-gram belongs to its dominant source. Source k gives dominant source j the share
    A_kj = Σ π_ki over the n-grams i of j, and Σ_k w_k A_kj is fitted to the measured shares.

    Args:
        share_sums: For each source, the noisy sum over users of the share of their n-grams that
            belong to it.
        noise_std: The standard deviation of that noise.
        public: Public n-grams.
    """
    source_count = len(public.sources)
    user_count = float(share_sums.sum())
    if source_count == 1 or user_count < MIN_USERS_Z * noise_std * np.sqrt(source_count):
        return None
    belongs_to = np.eye(source_count)[dominant_source(public)]
    source_shares = public.sources @ belongs_to
    share_var = (noise_std / user_count) ** 2 + MISFIT_SHARE_STD**2
    curvature = (
        source_shares @ source_shares.T / share_var + np.eye(source_count) / PRIOR_WEIGHT_STD**2
    )
    target = source_shares @ (share_sums / user_count) / share_var + 1 / (
        source_count * PRIOR_WEIGHT_STD**2
    )
    return _minimise_on_simplex(curvature, target)


def fit_weights(measured: NoisyCounts, public: PublicNgrams) -> Weights:
    """Return the most likely weights of the sources; a single source has the weight 1."""
    source_count = len(public.sources)
    weights = public.start
    if source_count == 1:
        return Weights(weights, np.zeros(source_count))
    if measured.total <= 0:
        return Weights(weights, np.full(source_count, PRIOR_WEIGHT_STD))
    total = measured.total
    for _ in range(MAX_ITERATIONS):
        curvature, target = _make_normal_equations(measured, public, weights, total)
        next_weights = _minimise_on_simplex(curvature, target)
        max_change = float(np.abs(next_weights - weights).max())
        # Half a step, because the precisions depend on the weights.
        weights = (weights + next_weights) / 2
        total = _fit_total(measured, public, weights, total)
        if max_change < WEIGHT_TOLERANCE:
            break
    curvature, _ = _make_normal_equations(measured, public, weights, total)
    return Weights(weights, _compute_weight_std(curvature))


def _make_normal_equations(
    measured: NoisyCounts, public: PublicNgrams, weights: Floats, total: float
) -> tuple[Floats, Floats]:
    """Return A and b of the weighted least squares ½ wᵀAw − bᵀw.

    The squares are Σ (y − n w·π)²/Var + Σ (w − w₀)²/s², with w₀ = 1/K unless other weights are
    known before.
    """
    means = total * (weights @ public.sources)
    precision = 1 / (measured.noise**2 + (RESIDUAL_STD * means) ** 2)
    columns = total * public.sources
    prior_curvature = np.eye(len(public.sources)) / PRIOR_WEIGHT_STD**2
    curvature = (columns * precision) @ columns.T + prior_curvature
    target = columns @ (measured.counts * precision) + public.start / PRIOR_WEIGHT_STD**2
    return curvature, target


def _fit_total(measured: NoisyCounts, public: PublicNgrams, weights: Floats, total: float) -> float:
    """Return n, fitted to the counts and to their total."""
    shape = weights @ public.sources
    precision = 1 / (measured.noise**2 + (RESIDUAL_STD * total * shape) ** 2)
    total_precision = 1 / measured.total_noise**2
    product = float((measured.counts * shape * precision).sum()) + measured.total * total_precision
    square = float((shape * shape * precision).sum()) + total_precision
    return max(product / square, 1.0)


def _minimise_on_simplex(curvature: Floats, target: Floats) -> Floats:
    """Return the w ≥ 0 with Σ w = 1 that minimises ½ wᵀAw − bᵀw.

    An active-set method: the most negative weight is held at 0 until none is negative.
    """
    is_free = np.ones(target.size, bool)
    while True:
        weights = np.zeros(target.size)
        inverse = np.linalg.inv(curvature[np.ix_(is_free, is_free)])
        unconstrained = inverse @ target[is_free]
        # The Lagrange multiplier of Σ w = 1 moves the weights along A⁻¹1.
        direction = inverse.sum(axis=1)
        weights[is_free] = unconstrained + direction * (1 - unconstrained.sum()) / direction.sum()
        if weights.min() >= 0:
            return weights
        is_free[np.argmin(weights)] = False


def _compute_weight_std(curvature: Floats) -> Floats:
    """Return the standard deviations of weights that must add up to 1."""
    inverse = np.linalg.inv(curvature)
    direction = inverse.sum(axis=1)
    covariance = inverse - np.outer(direction, direction) / direction.sum()
    noise_std = np.sqrt(np.maximum(np.diag(covariance), 0))
    std: Floats = np.hypot(noise_std, MISFIT_WEIGHT_STD)
    return std
