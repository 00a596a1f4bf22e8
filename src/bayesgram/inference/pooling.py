"""The pooled model: what a word is worth in private text is learnt from all of its n-grams together.

λ_i = n π_i exp(x_i·β + e_i), e of variance τ²; β is fitted by ridge quasi-likelihood with Var y_i = noise² + (λ_i τ)²,
by Gauss–Newton steps that are solved with conjugate gradients. Words that were measured themselves are fitted too.
"""

from collections.abc import Callable

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.inference.features import Features
from bayesgram.inference.measured import Measured
from bayesgram.kernels import kernel

SPREAD = 0.8  # τ: of what the features leave unexplained; anything from 0.6 to 1 does
STEPS = 15
LARGEST_STEP = 2.0  # no log-ratio moves further in one step
LARGEST_EFFECT = 12.0  # no n-gram is e¹² times as frequent as public text and n say, by its features alone


def pooled_means(
    measured: Measured, features: Features, *, stiffness: float, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """μ_i = n π_i exp(x_i·β): what pooling expects of every count; and β. `stiffness` multiplies all ridges."""
    ridge = features.ridge * stiffness
    beta = np.zeros(ridge.size) if start is None else start.copy()
    means = _means(measured, features, beta, max(measured.total, 1.0) * features.public.prior)
    for _ in range(STEPS):
        change = _gauss_newton(measured, features, means, beta, ridge)
        furthest = float(np.abs(features.times(change)).max(initial=0.0))
        beta += change * min(1.0, LARGEST_STEP / max(furthest, 1e-12))
        means = _means(measured, features, beta, means)
        if furthest < 0.02:
            break
    return means, beta


def _means(measured: Measured, features: Features, beta: Floats, means: Floats) -> Floats:
    ratios = np.exp(np.clip(features.times(beta), -LARGEST_EFFECT, LARGEST_EFFECT))
    return rescaled(measured, features.public.prior * ratios, means)


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
    return conjugate_gradients(normal, target, 1 / (features.squared_sums(curvature) + ridge))


def rescaled(measured: Measured, shape: Floats, means: Floats) -> Floats:
    """n·shape, with n fitted to the counts and to their total, which `means` say how much to trust."""
    weights = 1 / (measured.noise**2 + (means * SPREAD) ** 2)
    whole, trust = float(shape.sum()), 1 / measured.total_noise**2
    seen = float((measured.counts * shape * weights).sum()) + measured.total * whole * trust
    scale = seen / (float((shape * shape * weights).sum()) + whole**2 * trust)
    return max(scale, 1.0 / whole) * shape


def conjugate_gradients(
    product: Callable[[Floats], Floats], target: Floats, inverse_diagonal: Floats, *, tolerance: float = 0.015
) -> Floats:
    """Solve a positive definite system to a relative residual of `tolerance`, preconditioned by its diagonal."""
    solution = np.zeros_like(target)
    residual = target.copy()
    direction = inverse_diagonal * residual
    progress, squares = _products(residual, inverse_diagonal)
    goal = tolerance**2 * squares
    for _ in range(150):
        if squares <= goal:
            break
        image = product(direction)
        _advance(solution, residual, direction, image, progress)
        next_progress, squares = _products(residual, inverse_diagonal)
        _turn(direction, residual, inverse_diagonal, next_progress / progress)
        progress = next_progress
    return solution


# In kernels, so that an answer does not depend on the number of cores, as sums in BLAS do.
@kernel
def _products(residual: Floats, inverse_diagonal: Floats) -> tuple[float, float]:
    """The residual's products with itself, preconditioned and plain."""
    progress = squares = 0.0
    for at in range(residual.size):
        square = residual[at] * residual[at]
        squares += square
        progress += square * inverse_diagonal[at]
    return progress, squares


@kernel
def _advance(solution: Floats, residual: Floats, direction: Floats, image: Floats, progress: float) -> None:
    """As far along the direction as lowers the error most."""
    bend = 0.0
    for at in range(direction.size):
        bend += direction[at] * image[at]
    length = progress / bend
    for at in range(direction.size):
        solution[at] += length * direction[at]
        residual[at] -= length * image[at]


@kernel
def _turn(direction: Floats, residual: Floats, inverse_diagonal: Floats, part: float) -> None:
    """The next direction, conjugate to the last."""
    for at in range(direction.size):
        direction[at] = inverse_diagonal[at] * residual[at] + part * direction[at]
