"""The pooled model: what a word is worth in private text is learnt from all of its n-grams together.

λ_i = n π_i exp(x_i·β + e_i), e of variance τ²; β is fitted by ridge quasi-likelihood with Var y_i = noise² + (λ_i τ)²,
by Gauss–Newton steps that are solved with conjugate gradients. Words that were measured themselves are fitted too.
"""

from collections.abc import Callable

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.features import Features
from bayesgram.inference.measured import Measured

SPREAD = 0.8  # τ: of what the features leave unexplained; anything from 0.6 to 1 does
STEPS = 15
LARGEST_STEP = 2.0  # no log-ratio moves further in one step
LARGEST_EFFECT = 12.0  # no n-gram is e¹² times as frequent as public text and n say, by its features alone


def pooled_means(measured: Measured, features: Features, *, stiffness: float) -> Floats:
    """μ_i = n π_i exp(x_i·β): what pooling expects of every count. `stiffness` multiplies all ridges."""
    prior = features.public.prior
    ridge = features.ridge * stiffness
    beta = np.zeros(ridge.size)
    means = max(float(measured.counts.sum()), 1.0) * prior
    for _ in range(STEPS):
        change = _gauss_newton(measured, features, means, beta, ridge)
        furthest = float(np.abs(features.times(change)).max(initial=0.0))
        beta += change * min(1.0, LARGEST_STEP / max(furthest, 1e-12))
        ratios = np.exp(np.clip(features.times(beta), -LARGEST_EFFECT, LARGEST_EFFECT))
        means = _rescaled(measured, prior * ratios, means)
        if furthest < 0.02:
            break
    return means


def _gauss_newton(measured: Measured, features: Features, means: Floats, beta: Floats, ridge: Floats) -> Floats:
    """One step for β: (JᵀWJ + R) Δ = JᵀW(y − μ) − Rβ, with J = diag(μ) x."""
    public = features.public
    weights = 1 / (measured.noise**2 + (means * SPREAD) ** 2)
    residual = (measured.counts - means) * weights
    curvature = means**2 * weights
    word_weights = np.zeros(public.word_total)
    if measured.word_counts is not None and measured.word_noise is not None:
        word_weights = 1 / (measured.word_noise**2 + public.per_word((means * SPREAD) ** 2))
        residual = residual + public.per_ngram((measured.word_counts - public.per_word(means)) * word_weights)
        curvature = curvature + means**2 * public.per_ngram(word_weights)

    def normal(vector: Floats) -> Floats:
        moved = means * features.times(vector)
        pulled = moved * weights
        if word_weights.any():
            pulled = pulled + public.per_ngram(public.per_word(moved) * word_weights)
        return features.transposed(means * pulled) + ridge * vector

    target = features.transposed(means * residual) - ridge * beta
    return _conjugate_gradients(normal, target, 1 / (features.squared_sums(curvature) + ridge))


def _rescaled(measured: Measured, shape: Floats, means: Floats) -> Floats:
    """n·shape, with n fitted to the counts: n is unknown, and clipping has changed it."""
    weights = 1 / (measured.noise**2 + (means * SPREAD) ** 2)
    scale = float((measured.counts * shape * weights).sum() / (shape * shape * weights).sum())
    return max(scale, 1.0) * shape


def _conjugate_gradients(
    product: Callable[[Floats], Floats], target: Floats, inverse_diagonal: Floats, *, tolerance: float = 0.015
) -> Floats:
    """Solve a positive definite system to a relative residual of `tolerance`, preconditioned by its diagonal."""
    solution = np.zeros_like(target)
    residual = target.copy()
    direction = inverse_diagonal * residual
    progress = float(residual @ direction)
    goal = tolerance * float(np.linalg.norm(target))
    for _ in range(150):
        if np.linalg.norm(residual) <= goal:
            break
        image = product(direction)
        length = progress / float(direction @ image)
        solution += length * direction
        residual -= length * image
        preconditioned = inverse_diagonal * residual
        next_progress = float(residual @ preconditioned)
        direction = preconditioned + (next_progress / progress) * direction
        progress = next_progress
    return solution
