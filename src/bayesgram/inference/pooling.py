"""The pooled model: what a word is worth in private text is learnt from all of its n-grams together.

λ_i = n π_i exp(x_i·β + e_i), e of variance τ²; β is fitted by ridge quasi-likelihood with Var y_i = noise² + (λ_i τ)²,
by Gauss–Newton steps that are solved with conjugate gradients. Words that were measured themselves are fitted too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesgram.arrays import Floats, Integers
from bayesgram.inference.features import Features
from bayesgram.inference.measured import Measured, PublicNgrams, per_ngram, per_word
from bayesgram.kernels import kernel

SPREAD = 0.8  # τ: of what the features leave unexplained; anything from 0.6 to 1 does
MOST_INFORMATIVE = 300_000  # n-grams that effects are learnt from
STEPS = 15
ROUNDS = 3  # of learning ridges
LEARNT_RIDGES = 0.1, 1000.0  # between these
LARGEST_STEP = 2.0  # no log-ratio moves further in one step
LARGEST_EFFECT = 12.0  # no n-gram is e¹² times as frequent as public text and n say, by its features alone


@dataclass(frozen=True, eq=False)
class Pool:
    """What is pooled: n-grams of public text and their features, and which of them tell something of β."""

    public: PublicNgrams
    features: Features  # of all n-grams
    telling: Integers

    @classmethod
    def of(cls, measured: Measured, public: PublicNgrams, vectors: Floats) -> "Pool":
        """For these measurements."""
        return cls.with_rows(public, vectors, _informative(measured, public.prior))

    @classmethod
    def with_rows(cls, public: PublicNgrams, vectors: Floats, telling: Integers) -> "Pool":
        """Of n-grams that tell something."""
        return cls(public, Features.of(public, vectors, telling), telling)

    @cached_property
    def rows(self) -> Features:
        """The features of those that tell something."""
        return self.features.rows(self.telling)


def _informative(measured: Measured, prior: Floats) -> Integers:
    """The n-grams that tell most of effects, where there are millions: the others only follow."""
    if prior.size <= MOST_INFORMATIVE:
        return np.arange(prior.size)
    means = max(measured.total, 1.0) * prior
    information = means**2 / (measured.noise**2 + (means * SPREAD) ** 2)
    return np.sort(np.argsort(-information, kind="stable")[:MOST_INFORMATIVE])


def pooled_means(measured: Measured, pool: Pool, ridges: Floats, start: Floats | None = None) -> tuple[Floats, Floats]:
    """μ_i = n π_i exp(x_i·β): what pooling expects of every count; and β. `ridges` of its blocks."""
    ridge = np.repeat(ridges, pool.features.sizes)
    beta = np.zeros(ridge.size) if start is None else start.copy()
    means = _means(measured, pool, beta, max(measured.total, 1.0) * pool.public.prior)
    for _ in range(STEPS):
        change = _gauss_newton(measured, pool, means, beta, ridge)
        furthest = float(np.abs(pool.rows.times(change)).max(initial=0.0))
        beta += change * min(1.0, LARGEST_STEP / max(furthest, 1e-12))
        means = _means(measured, pool, beta, means)
        if furthest < 0.02:
            break
    return means, beta


def learnt_ridges(measured: Measured, pool: Pool, ridges: Floats, start: Floats | None) -> tuple[Floats, Floats | None]:
    """Ridges under which the effects are as large as they turn out to be, and β: other people, other effects.

    MacKay's rule for each block: 1/variance = Σ_j h_j/(h_j + ridge) / Σ_j β_j², h the diagonal of the information.
    """
    beta = start
    for _ in range(ROUNDS):
        means, beta = pooled_means(measured, pool, ridges, beta)
        expected, noise = means[pool.telling], measured.noise[pool.telling]
        information = pool.rows.squared_sums(expected**2 / (noise**2 + (expected * SPREAD) ** 2))
        pairs = zip(pool.features.blocks(information), pool.features.blocks(beta), ridges, strict=True)
        found = [(seen / (seen + ridge)).sum() / max(float(effects @ effects), 1e-9) for seen, effects, ridge in pairs]
        ridges = np.clip(found, *LEARNT_RIDGES)
    return ridges, beta


def _means(measured: Measured, pool: Pool, beta: Floats, means: Floats) -> Floats:
    ratios = np.exp(np.clip(pool.features.times(beta), -LARGEST_EFFECT, LARGEST_EFFECT))
    return rescaled(measured, pool.public.prior * ratios, means)


def _gauss_newton(measured: Measured, pool: Pool, means: Floats, beta: Floats, ridge: Floats) -> Floats:
    """One step for β: (JᵀWJ + R) Δ = JᵀW(y − μ) − Rβ, with J = diag(μ) x; rows of n-grams that tell something."""
    public, features, words = pool.public, pool.rows, pool.rows.words
    counts, noise, expected = (each[pool.telling] for each in (measured.counts, measured.noise, means))
    weights = 1 / (noise**2 + (expected * SPREAD) ** 2)
    residual = (counts - expected) * weights
    curvature = expected**2 * weights
    word_weights = np.zeros(public.word_total)
    if measured.word_counts is not None and measured.word_noise is not None:
        word_weights = 1 / (measured.word_noise**2 + public.per_word((means * SPREAD) ** 2))
        residual = residual + per_ngram(words, (measured.word_counts - public.per_word(means)) * word_weights)
        curvature = curvature + expected**2 * per_ngram(words, word_weights)

    def normal(vector: Floats) -> Floats:
        moved = expected * features.times(vector)
        pulled = moved * weights
        if word_weights.any():
            pulled = pulled + per_ngram(words, per_word(words, moved, public.word_total) * word_weights)
        return features.transposed(expected * pulled) + ridge * vector

    target = features.transposed(expected * residual) - ridge * beta
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
