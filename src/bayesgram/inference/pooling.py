"""The pooled model: effects that n-grams with common words share, fitted to all of them together.

In:  noisy counts of one order, public n-grams, and vectors of their words.
Out: the expected count μ_i of every n-gram, from which `shrinkage` starts.

The count of n-gram i has the mean

    λ_i = n π_i exp(x_i·β + e_i),     Var e_i = τ²,

where π is public text, n the total, x_i the features of the n-gram, β their effects, and e_i what
the features leave unexplained. The effects are fitted by ridge quasi-likelihood with

    Var y_i = noise_i² + (λ_i τ)²,

by Gauss–Newton steps, each solved by conjugate gradients. Words that were measured themselves are
fitted as well, with their own noise.

β has six blocks, each with a ridge (1/variance) of its own:

1. *Slopes*: of the public log-frequency log π. A slope of 0 trusts public text as it is; a slope
   of −1/(standard deviation of log π) ignores it. With several sources there is also a slope for
   each source over the mixture (log-linear pooling), so that one source can be trusted for
   n-grams that are rare in the others.
2. *Words*: a word changes all of its n-grams, at any position.
3. *Words by position*: the same, separately for each position in the n-gram.
4. *Pieces*: runs of 2 and of n − 1 tokens change all n-grams that have them at that position.
5. *Word vectors*: words that public text uses alike have like effects. The effect of a word is the
   product of its vector and a block of β, so it is shared by all words with like vectors.
6. *Word vectors by position*: the same, separately for each position.

The matrix x is never built: products with it are sums over index arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, svds

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.inference.noisy_counts import NoisyCounts, PublicNgrams, per_ngram, per_word
from bayesgram.kernels import kernel

# --- Constants of word vectors ---

# Number of coordinates of a word vector, at most. Chosen by hand; not measured against other
# values.
VECTOR_SIZE = 64

# Vectors that are shorter than this before they are scaled stay shorter than 1. These are rare
# words, whose neighbours say little. No unit. Chosen by hand; not measured against other values.
MIN_VECTOR_NORM = 0.05

# Number of words up to which the singular value decomposition is dense. A dense one takes about as
# long for so few words, and ARPACK is not repeatable on matrices of low rank (see
# `_compute_singular_vectors`).
MAX_DENSE_SVD_WORDS = 256

# --- Constants of the model ---

# τ: standard deviation of the log-ratios that the model leaves unexplained, in `pooling`, `mixing`
# and `chaining`. A value from 0.6 to 1 does about as well; that was noted with the first version,
# and the runs are not recorded.
RESIDUAL_STD = 0.8

# Prior mean of the ridges (1/variance of an effect), for the blocks in the order of the list
# above. The slope has the largest, because noise in it would tilt all n-grams at once. Chosen by
# hand; not measured against other values.
PRIOR_RIDGES = np.array([240.0, 32.0, 32.0, 80.0, 16.0, 16.0])

# Weight of that prior, as a number of effects: with more effects in a block than this, the data
# decide about its ridge. Chosen by hand; not measured against other values.
PRIOR_EFFECT_COUNT = 40.0

# Sources and mixture can have the same shape. Their log-ratios then have a standard deviation of
# about 0, and are divided by this instead: only a guard against 0/0.
MIN_SLOPE_STD = 1e-6

# --- Constants of the fit ---

# Number of n-grams that effects are learnt from, at most: those with the most information. It
# bounds the time; the other n-grams only follow. Chosen by hand; not measured against other
# values.
MAX_INFORMATIVE_NGRAMS = 300_000

# Number of Gauss–Newton steps, at most. Chosen by hand; not measured against other values.
MAX_STEPS = 15

# Rounds that learn the ridges, and Gauss–Newton steps in each of them, at most. Chosen by hand;
# not measured against other values.
RIDGE_ROUNDS = 4
RIDGE_ROUND_STEPS = 8

# Largest change of a log-ratio x_i·β in one Gauss–Newton step. Longer steps are cut, because the
# model is linear only nearby. Chosen by hand; not measured against other values.
MAX_STEP = 2.0

# Largest log-ratio x_i·β: features alone make no n-gram more than e¹² times as frequent as in
# public text, or as rare. A guard against overflow. Chosen by hand; not measured against other
# values.
MAX_LOG_RATIO = 12.0

# Gauss–Newton ends when no log-ratio changes by more than this. Chosen by hand; not measured
# against other values.
STEP_TOLERANCE = 0.02

# Conjugate gradients end at this residual, relative to the right-hand side, or after so many
# iterations. Chosen by hand; not measured against other values.
CG_TOLERANCE = 0.015
MAX_CG_ITERATIONS = 150


# --- Word vectors ---


def compute_word_vectors(public: PublicNgrams) -> Floats:
    """Return a vector for each word, such that words with the same neighbours have like vectors.

    The matrix of positive pointwise mutual information between words and their neighbours, left
    and right at each distance within an n-gram, is reduced by a singular value decomposition.
    Vectors have length 1, so that a ridge means the same for vectors as for words. Vectors of rare
    words, whose neighbours say little, are shorter.

    Returns:
        Words × coordinates. A single coordinate of 0 where there are no neighbours, or where the
        decomposition fails.
    """
    order = public.words.shape[1]
    no_vectors = np.zeros((public.word_total, 1))
    if order == 1:
        return no_vectors
    sides = []
    for distance in range(1, order):
        pair_counts = reduce(
            add,
            (
                _count_pairs(public.words[:, first], public.words[:, first + distance], public)
                for first in range(order - distance)
            ),
        )
        sides += [pair_counts, pair_counts.T]
    counts = sp.hstack(sides, format="coo")
    word_counts = np.asarray(counts.sum(axis=1)).ravel()
    neighbour_counts = np.asarray(counts.sum(axis=0)).ravel()
    information = np.log(
        counts.data * counts.sum() / (word_counts[counts.row] * neighbour_counts[counts.col])
    )
    positive = sp.csr_matrix(
        (np.maximum(information, 0), (counts.row, counts.col)), shape=counts.shape
    )
    size = min(VECTOR_SIZE, public.word_total - 1)
    if size < 1 or not positive.data.any():
        return no_vectors
    try:
        left_vectors, singular_values = _compute_singular_vectors(positive, size)
    except (ArpackError, np.linalg.LinAlgError):
        # Unusual public text must not fail a release whose budget is already spent.
        return no_vectors
    vectors: Floats = left_vectors * np.sqrt(singular_values)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(norms, MIN_VECTOR_NORM))


def _compute_singular_vectors(matrix: sp.csr_matrix, size: int) -> tuple[Floats, Floats]:
    """Return left singular vectors and singular values, the same ones for the same text.

    A matrix of few words can have a low rank. ARPACK then runs out of directions, and draws others
    without a seed. So the decomposition of few words is dense.
    """
    if matrix.shape[0] <= MAX_DENSE_SVD_WORDS:
        left_vectors, singular_values, _ = np.linalg.svd(matrix.toarray(), full_matrices=False)
        return left_vectors[:, :size], singular_values[:size]
    # Any fixed vector that is not orthogonal to the answer starts ARPACK; its default is random.
    start = np.sin(np.arange(1, matrix.shape[0] + 1) ** 2.0)
    left_vectors, singular_values, _ = svds(matrix, k=size, v0=start)
    return left_vectors, singular_values.astype(np.float64)


def _count_pairs(left: Ids, right: Ids, public: PublicNgrams) -> sp.csr_matrix:
    """Return how often each word on the left stands with each on the right, smoothed by 1."""
    return sp.csr_matrix(
        (public.counts + 1, (left, right)), shape=(public.word_total, public.word_total)
    )


# --- Features ---


@dataclass(frozen=True, eq=False)
class Features:
    """The features x of n-grams, with products by x and by its transpose.

    Attributes:
        words: Word numbers, n-grams × positions.
        pieces: Numbers of pieces, n-grams × kinds of piece. All kinds are numbered through; the
            number `piece_count` stands for a piece without an effect.
        slopes: Standardised log-frequencies, slopes × n-grams.
        vectors: Word vectors, words × coordinates.
        piece_count: Number of pieces with an effect.
    """

    words: Ids
    pieces: Integers
    slopes: Floats
    vectors: Floats
    piece_count: int

    @classmethod
    def from_ngrams(
        cls, public: PublicNgrams, vectors: Floats, informative_rows: Integers | None = None
    ) -> "Features":
        """Return the features of all public n-grams.

        Args:
            public: Public n-grams.
            vectors: Word vectors.
            informative_rows: N-grams that effects are learnt from; None: all. Only their pieces
                have effects.
        """
        pieces, piece_count = _number_pieces(public.pieces, informative_rows)
        return cls(public.words, pieces, _standardise_slopes(public), vectors, piece_count)

    def select(self, rows: Integers) -> "Features":
        """Return the features of some of the n-grams, for the same effects."""
        return replace(
            self, words=self.words[rows], pieces=self.pieces[rows], slopes=self.slopes[:, rows]
        )

    @property
    def block_sizes(self) -> list[int]:
        """The number of effects in each block of β, in the order of `PRIOR_RIDGES`."""
        position_count = self.words.shape[1]
        word_count, vector_size = self.vectors.shape
        return [
            len(self.slopes),
            word_count,
            position_count * word_count,
            self.piece_count,
            vector_size,
            position_count * vector_size,
        ]

    def split_blocks(self, beta: Floats) -> list[Floats]:
        """Return the blocks of β, or of any vector of its length."""
        return np.split(beta, np.cumsum(self.block_sizes)[:-1])

    def dot(self, beta: Floats) -> Floats:
        """Return x·β, a value for every n-gram."""
        (
            slope_effects,
            word_effects,
            positional_word_effects,
            piece_effects,
            vector_effects,
            positional_vector_effects,
        ) = self.split_blocks(beta)
        position_count = self.words.shape[1]
        # Positions × words: the effect of each word at each position, also by its vector.
        effects = word_effects + positional_word_effects.reshape(position_count, -1)
        _add_products(
            vector_effects + positional_vector_effects.reshape(position_count, -1),
            self._transposed_vectors,
            effects,
        )
        total: Floats = slope_effects @ self.slopes
        _add_effects(self.words, effects, self.pieces, np.append(piece_effects, 0.0), total)
        return total

    def transposed_dot(self, values: Floats) -> Floats:
        """Return xᵀ·values, a value for every effect."""
        return self._sum_by_effect(values, self.vectors, self.slopes)

    def approximate_diagonal(self, weights: Floats) -> Floats:
        """Return the diagonal of xᵀ diag(weights) x, for a preconditioner.

        It is exact except for words that an n-gram has twice.
        """
        return self._sum_by_effect(weights, self.vectors**2, self.slopes**2)

    @cached_property
    def _transposed_vectors(self) -> Floats:
        return np.ascontiguousarray(self.vectors.T)

    def _sum_by_effect(self, values: Floats, vectors: Floats, slopes: Floats) -> Floats:
        positional_word_sums = np.zeros((self.words.shape[1], len(vectors)))
        piece_sums = np.zeros(self.piece_count + 1)
        _sum_effects(self.words, values, positional_word_sums, self.pieces, piece_sums)
        word_sums = positional_word_sums.sum(axis=0)
        vector_sums = np.zeros((1 + len(positional_word_sums), vectors.shape[1]))
        _add_products(np.concatenate([word_sums[None], positional_word_sums]), vectors, vector_sums)
        return np.concatenate(
            [
                slopes @ values,
                word_sums,
                positional_word_sums.ravel(),
                piece_sums[:-1],
                vector_sums.ravel(),
            ]
        )


def _standardise_slopes(public: PublicNgrams) -> Floats:
    """Return log π and, with several sources, log of each over π, with mean 0 and variance 1.

    Mean and variance are those under π. A source with a small weight has a smaller variance, so
    that a source that is of no use in the mixture has no influence here either.
    """
    logs = np.log(public.prior[None])
    has_sources = len(public.sources) > 1
    if has_sources:
        logs = np.concatenate([logs, np.log(public.sources) - logs])
    centred: Floats = logs - (logs @ public.prior)[:, None]
    slope_std = np.sqrt(centred**2 @ public.prior)
    slopes: Floats = centred / np.maximum(slope_std, MIN_SLOPE_STD)[:, None]
    if has_sources and public.weights is not None:
        slopes[1:] *= np.sqrt(np.minimum(len(public.sources) * public.weights, 1.0))[:, None]
    return slopes


def _number_pieces(pieces: Integers, informative_rows: Integers | None) -> tuple[Integers, int]:
    """Return pieces numbered through all kinds, and the number of those that have an effect.

    Args:
        pieces: Numbers of pieces within each kind, n-grams × kinds.
        informative_rows: N-grams that effects are learnt from; None: all. Pieces of no such n-gram
            get the number after the last.
    """
    columns = []
    piece_count = 0
    for column in pieces.T:
        has_effect = np.zeros(int(column.max(initial=-1)) + 1, bool)
        has_effect[column if informative_rows is None else column[informative_rows]] = True
        numbers = np.where(has_effect, piece_count + np.cumsum(has_effect) - 1, -1)
        columns.append(numbers[column])
        piece_count += int(has_effect.sum())
    numbered = np.array(columns, np.int64).reshape(pieces.shape[1], len(pieces)).T
    return np.ascontiguousarray(np.where(numbered < 0, piece_count, numbered)), piece_count


@kernel
def _add_effects(
    words: Ids, effects: Floats, pieces: Integers, piece_effects: Floats, total: Floats
) -> None:
    """Add the effects of its words and pieces to the total of every n-gram."""
    for row in range(words.shape[0]):
        value = 0.0
        for position in range(words.shape[1]):
            value += effects[position, words[row, position]]
        for kind in range(pieces.shape[1]):
            value += piece_effects[pieces[row, kind]]
        total[row] += value


@kernel
def _sum_effects(
    words: Ids, values: Floats, word_sums: Floats, pieces: Integers, piece_sums: Floats
) -> None:
    """Add the value of every n-gram to the sums of its words, by position, and of its pieces."""
    for row in range(words.shape[0]):
        for position in range(words.shape[1]):
            word_sums[position, words[row, position]] += values[row]
        for kind in range(pieces.shape[1]):
            piece_sums[pieces[row, kind]] += values[row]


@kernel
def _add_products(left: Floats, right: Floats, total: Floats) -> None:
    """Add left @ right to the total.

    The order of the additions does not depend on the number of cores, as it does in BLAS.
    """
    for row in range(left.shape[0]):
        for inner in range(left.shape[1]):
            factor = left[row, inner]
            for column in range(right.shape[1]):
                total[row, column] += factor * right[inner, column]


# --- The fit ---


@dataclass(frozen=True, eq=False)
class Pool:
    """Public n-grams with their features, and the n-grams that effects are learnt from.

    Attributes:
        public: Public n-grams.
        features: The features of all n-grams.
        informative_rows: Numbers of the n-grams that effects are learnt from.
    """

    public: PublicNgrams
    features: Features
    informative_rows: Integers

    @classmethod
    def from_measurements(
        cls, measured: NoisyCounts, public: PublicNgrams, vectors: Floats
    ) -> "Pool":
        """Return the pool for noisy counts, whose noise decides which n-grams are informative."""
        return cls.from_rows(public, vectors, _choose_informative(measured, public.prior))

    @classmethod
    def from_rows(cls, public: PublicNgrams, vectors: Floats, informative_rows: Integers) -> "Pool":
        """Return the pool whose effects are learnt from these n-grams."""
        features = Features.from_ngrams(public, vectors, informative_rows)
        return cls(public, features, informative_rows)

    @cached_property
    def informative_features(self) -> Features:
        """The features of the n-grams that effects are learnt from."""
        return self.features.select(self.informative_rows)


def _choose_informative(measured: NoisyCounts, prior: Floats) -> Integers:
    """Return the n-grams that say most about effects, where there are millions of n-grams."""
    if prior.size <= MAX_INFORMATIVE_NGRAMS:
        return np.arange(prior.size)
    means = max(measured.total, 1.0) * prior
    information = means**2 / (measured.noise**2 + (means * RESIDUAL_STD) ** 2)
    return np.sort(np.argsort(-information, kind="stable")[:MAX_INFORMATIVE_NGRAMS])


def fit_pooled_means(
    measured: NoisyCounts,
    pool: Pool,
    ridges: Floats,
    start: Floats | None = None,
    max_steps: int = MAX_STEPS,
) -> tuple[Floats, Floats]:
    """Fit the effects β, and return the expected counts μ_i = n π_i exp(x_i·β) and β.

    Args:
        measured: Noisy counts.
        pool: Public n-grams and their features.
        ridges: The ridge of each block of β.
        start: β to start from; None: zeros.
        max_steps: Number of Gauss–Newton steps, at most.
    """
    ridge = np.repeat(ridges, pool.features.block_sizes)
    beta = np.zeros(ridge.size) if start is None else start.copy()
    means = _expect_counts(measured, pool, beta, max(measured.total, 1.0) * pool.public.prior)
    for _ in range(max_steps):
        change = _solve_gauss_newton_step(measured, pool, means, beta, ridge)
        max_change = float(np.abs(pool.informative_features.dot(change)).max(initial=0.0))
        # 1e-12 only guards against a division by 0.
        beta += change * min(1.0, MAX_STEP / max(max_change, 1e-12))
        means = _expect_counts(measured, pool, beta, means)
        if max_change < STEP_TOLERANCE:
            break
    return means, beta


def learn_ridges(
    measured: NoisyCounts, pool: Pool, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return ridges under which the effects are as large as they turn out to be, and β.

    The precision of the effects of a block has a Gamma prior, worth `PRIOR_EFFECT_COUNT` effects
    of precision `PRIOR_RIDGES`. MacKay's rule (Bayesian interpolation, 1992) then gives

        ridge = (Σ_j h_j/(h_j + ridge) + a) / (Σ_j β_j² + a / ridge_0),

    with h the diagonal of the information. Where noise hides the effects, the prior decides.
    """
    ridges = PRIOR_RIDGES
    beta = start
    for _ in range(RIDGE_ROUNDS):
        means, beta = fit_pooled_means(measured, pool, ridges, beta, RIDGE_ROUND_STEPS)
        expected = means[pool.informative_rows]
        noise_std = measured.noise[pool.informative_rows]
        information = pool.informative_features.approximate_diagonal(
            expected**2 / (noise_std**2 + (expected * RESIDUAL_STD) ** 2)
        )
        blocks = zip(
            pool.features.split_blocks(information),
            pool.features.split_blocks(beta),
            ridges,
            PRIOR_RIDGES,
            strict=True,
        )
        ridges = np.array(
            [
                (float((h / (h + ridge)).sum()) + PRIOR_EFFECT_COUNT)
                / (float(effects @ effects) + PRIOR_EFFECT_COUNT / prior_ridge)
                for h, effects, ridge, prior_ridge in blocks
            ]
        )
    if beta is None:
        raise AssertionError("at least one round learns ridges")
    return ridges, beta


def _expect_counts(measured: NoisyCounts, pool: Pool, beta: Floats, means: Floats) -> Floats:
    """Return the expected counts for β, given those of the step before."""
    log_ratios = np.clip(pool.features.dot(beta), -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return fit_scale(measured, pool.public.prior * np.exp(log_ratios), means)


def _solve_gauss_newton_step(
    measured: NoisyCounts, pool: Pool, means: Floats, beta: Floats, ridge: Floats
) -> Floats:
    """Return the change Δ of β in one Gauss–Newton step.

    It solves (JᵀWJ + R) Δ = JᵀW(y − μ) − Rβ, with J = diag(μ) x, W the precisions of y and R the
    ridges. The rows are the informative n-grams and, where they were measured, the words.
    """
    public = pool.public
    features = pool.informative_features
    words = features.words
    counts = measured.counts[pool.informative_rows]
    noise_std = measured.noise[pool.informative_rows]
    expected = means[pool.informative_rows]
    weights = 1 / (noise_std**2 + (expected * RESIDUAL_STD) ** 2)
    residual = (counts - expected) * weights
    curvature = expected**2 * weights
    word_weights = np.zeros(public.word_total)
    if measured.word_counts is not None and measured.word_noise is not None:
        unexplained_var = public.per_word((means * RESIDUAL_STD) ** 2)
        word_weights = 1 / (measured.word_noise**2 + unexplained_var)
        word_residual = (measured.word_counts - public.per_word(means)) * word_weights
        residual = residual + per_ngram(words, word_residual)
        curvature = curvature + expected**2 * per_ngram(words, word_weights)

    def multiply_normal_matrix(vector: Floats) -> Floats:
        count_change = expected * features.dot(vector)
        weighted_change = count_change * weights
        if word_weights.any():
            word_change = per_word(words, count_change, public.word_total)
            weighted_change = weighted_change + per_ngram(words, word_change * word_weights)
        return features.transposed_dot(expected * weighted_change) + ridge * vector

    target = features.transposed_dot(expected * residual) - ridge * beta
    diagonal = features.approximate_diagonal(curvature) + ridge
    return solve_by_conjugate_gradients(multiply_normal_matrix, target, 1 / diagonal)


def fit_scale(measured: NoisyCounts, shape: Floats, means: Floats) -> Floats:
    """Return n·shape, with n fitted to the counts and to their total by weighted least squares.

    Args:
        measured: Noisy counts.
        shape: In proportion to the expected counts.
        means: About the expected counts, which set the weights.
    """
    weights = 1 / (measured.noise**2 + (means * RESIDUAL_STD) ** 2)
    shape_sum = float(shape.sum())
    total_weight = 1 / measured.total_noise**2
    product = (
        float((measured.counts * shape * weights).sum()) + measured.total * shape_sum * total_weight
    )
    square = float((shape * shape * weights).sum()) + shape_sum**2 * total_weight
    # The expected total is at least one n-gram.
    return max(product / square, 1.0 / shape_sum) * shape


# --- Conjugate gradients ---


def solve_by_conjugate_gradients(
    multiply: Callable[[Floats], Floats],
    target: Floats,
    inverse_diagonal: Floats,
    *,
    tolerance: float = CG_TOLERANCE,
) -> Floats:
    """Solve a positive definite system A·solution = target.

    Args:
        multiply: Returns the product of A with a vector.
        target: The right-hand side.
        inverse_diagonal: 1 / the diagonal of A, about: the preconditioner.
        tolerance: Norm of the residual, relative to that of the target, at which to end.
    """
    solution = np.zeros_like(target)
    residual = target.copy()
    direction = inverse_diagonal * residual
    preconditioned_square, square = _square_residual(residual, inverse_diagonal)
    square_goal = tolerance**2 * square
    for _ in range(MAX_CG_ITERATIONS):
        if square <= square_goal:
            break
        image = multiply(direction)
        _advance(solution, residual, direction, image, preconditioned_square)
        next_square, square = _square_residual(residual, inverse_diagonal)
        _turn(direction, residual, inverse_diagonal, next_square / preconditioned_square)
        preconditioned_square = next_square
    return solution


# The sums are in kernels so that an answer does not depend on the number of cores, as sums in BLAS
# do.
@kernel
def _square_residual(residual: Floats, inverse_diagonal: Floats) -> tuple[float, float]:
    """Return the square of the residual, preconditioned and plain."""
    preconditioned_square = square = 0.0
    for i in range(residual.size):
        term = residual[i] * residual[i]
        square += term
        preconditioned_square += term * inverse_diagonal[i]
    return preconditioned_square, square


@kernel
def _advance(
    solution: Floats,
    residual: Floats,
    direction: Floats,
    image: Floats,
    preconditioned_square: float,
) -> None:
    """Move the solution along the direction to where the error is smallest."""
    curvature = 0.0
    for i in range(direction.size):
        curvature += direction[i] * image[i]
    length = preconditioned_square / curvature
    for i in range(direction.size):
        solution[i] += length * direction[i]
        residual[i] -= length * image[i]


@kernel
def _turn(direction: Floats, residual: Floats, inverse_diagonal: Floats, factor: float) -> None:
    """Replace the direction by the next one, which is conjugate to it."""
    for i in range(direction.size):
        direction[i] = inverse_diagonal[i] * residual[i] + factor * direction[i]
