"""Which public text do these people write like? The weights of the sources, from noisy counts alone.

y_i ~ N(n Σ_k w_k π_ki, noise_i² + (τ λ_i)²), w on the simplex, with a weak prior that all sources weigh alike: where
noise hides everything the weights stay equal, and a source that is given twice shares its weight with its twin.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats, Ids
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams

SPREAD = 0.8  # τ: log-ratios of private frequencies to any mixture
PRIOR_DEVIATION = 0.5  # of a weight from 1/K before anything is seen
MANNER_DEVIATION = 0.03  # nobody writes like a mixture: frequent and rare n-grams ask for weights some points apart
KIND_DEVIATION = 0.02  # of the share of a kind: people are no mixture
SIGNAL = 10.0  # noise deviations by which users must be seen for rough weights
ROUNDS = 40


@dataclass(frozen=True, eq=False)
class Weights:
    """How much each source counts, and the standard deviation of that."""

    weights: Floats
    deviations: Floats


def dominant_source(public: PublicNgrams) -> Ids:
    """The source that every n-gram is most frequent in: the first of those that have it alike."""
    kinds: Ids = np.argmax(public.sources, axis=0).astype(np.int32)
    return kinds


def likely_weights(kinds: Floats, noise: float, public: PublicNgrams) -> Floats | None:
    """Rough weights of the sources before counts are measured; None where noise hides them.

    `kinds` are noisy sums over users of the share of their n-grams that is of each kind. A source k would give kind j
    the share A_kj = Σ π_ki, over n-grams i of kind j: Σ_k w_k A_kj is fitted to the shares.
    """
    number, users = len(public.sources), float(kinds.sum())
    if number == 1 or users < SIGNAL * noise * np.sqrt(number):
        return None
    of_kind = np.eye(number)[dominant_source(public)]
    shares = public.sources @ of_kind
    doubt = (noise / users) ** 2 + KIND_DEVIATION**2
    curvature = shares @ shares.T / doubt + np.eye(number) / PRIOR_DEVIATION**2
    pull = shares @ (kinds / users) / doubt + 1 / (number * PRIOR_DEVIATION**2)
    return _on_the_simplex(curvature, pull)


def fitted_weights(measured: NoisyCounts, public: PublicNgrams) -> Weights:
    """The most likely weights; one source has the weight 1."""
    number, weights = len(public.sources), public.start
    if number == 1 or measured.total <= 0:
        return Weights(
            weights, np.zeros(number) if number == 1 else np.full(number, PRIOR_DEVIATION)
        )
    total = measured.total
    for _ in range(ROUNDS):
        curvature, pull = _normal_equations(measured, public, weights, total)
        found = _on_the_simplex(curvature, pull)
        step = float(np.abs(found - weights).max())
        weights = (weights + found) / 2
        total = _total(measured, public, weights, total)
        if step < 1e-4:
            break
    return Weights(weights, _deviations(_normal_equations(measured, public, weights, total)[0]))


def _normal_equations(
    measured: NoisyCounts, public: PublicNgrams, weights: Floats, total: float
) -> tuple[Floats, Floats]:
    """Of the weighted least squares Σ (y − n w·π)²/Var + Σ (w − w₀)²/s², w₀ = 1/K unless something is known."""
    number = len(public.sources)
    means = total * (weights @ public.sources)
    precision = 1 / (measured.noise**2 + (SPREAD * means) ** 2)
    columns = total * public.sources
    curvature = (columns * precision) @ columns.T + np.eye(number) / PRIOR_DEVIATION**2
    pull = columns @ (measured.counts * precision) + public.start / PRIOR_DEVIATION**2
    return curvature, pull


def _total(measured: NoisyCounts, public: PublicNgrams, weights: Floats, total: float) -> float:
    """n, from the counts and from their total."""
    shape = weights @ public.sources
    precision = 1 / (measured.noise**2 + (SPREAD * total * shape) ** 2)
    trust = 1 / measured.total_noise**2
    seen = float((measured.counts * shape * precision).sum()) + measured.total * trust
    return max(seen / (float((shape * shape * precision).sum()) + trust), 1.0)


def _on_the_simplex(curvature: Floats, pull: Floats) -> Floats:
    """The w ≥ 0 with Σ w = 1 that minimises ½ wᵀAw − bᵀw: those below 0 are held at 0, one after the other."""
    free = np.ones(pull.size, bool)
    while True:
        weights = np.zeros(pull.size)
        inverse = np.linalg.inv(curvature[np.ix_(free, free)])
        plain, ones = inverse @ pull[free], inverse.sum(axis=1)
        weights[free] = plain + ones * (1 - plain.sum()) / ones.sum()
        if weights.min() >= 0:
            return weights
        free[np.argmin(weights)] = False


def _deviations(curvature: Floats) -> Floats:
    """Standard deviations of weights that must add up to 1."""
    inverse = np.linalg.inv(curvature)
    ones = inverse.sum(axis=1)
    covariance = inverse - np.outer(ones, ones) / ones.sum()
    deviations: Floats = np.sqrt(np.maximum(np.diag(covariance), 0))
    wider: Floats = np.hypot(deviations, MANNER_DEVIATION)
    return wider
