"""What n-grams have in common: the features x of log(λ/(nπ)) = x·β + e.

Four kinds of effect, each a block of β with a ridge of its own:
    slopes     the public log-frequency itself: 0 trusts it as it is, −1/spread not at all (a useless prior); and that
               of each source over the mixture: log-linear pooling, which trusts one for what is rare in the others
    words      a word lifts all its n-grams, wherever it stands, and more or less so at each position
    meanings   words that public text uses alike move alike: the same, through vectors of the words (K numbers each)
    pieces     every run of 2 tokens of the n-gram, and of n − 1, lifts all n-grams that have it at that place
The matrix x is never made: its products are sums over index arrays.

The pooled model: what a word is worth in private text is learnt from all of its n-grams together.

λ_i = n π_i exp(x_i·β + e_i), e of variance τ²; β is fitted by ridge quasi-likelihood with Var y_i = noise² + (λ_i τ)²,
by Gauss–Newton steps that are solved with conjugate gradients. Words that were measured themselves are fitted too.
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

VECTOR_SIZE = 64
SHORTEST = 0.05
FEW_WORDS = 256  # up to so many, a dense SVD takes about as long
# 1/variance of an effect, before it is learnt: slopes (noise must not tilt all n-grams), words anywhere and by place,
# pieces, meanings anywhere and by place.
RIDGE_PRIOR = np.array([240.0, 32.0, 32.0, 80.0, 16.0, 16.0])
RIDGE_PRIOR_EFFECTS = 40.0  # how many effects that prior is worth


def word_vectors(public: PublicNgrams) -> Floats:
    """Words by the company they keep: positive pointwise mutual information with neighbours, reduced by an SVD.

    Of length 1, so that a ridge means the same for vectors as for words; rare words of uncertain company are shorter.
    """
    order = public.words.shape[1]
    if order == 1:  # no company
        return np.zeros((public.word_total, 1))
    sides = []
    for distance in range(1, order):
        pairs = [
            (public.words[:, k], public.words[:, k + distance]) for k in range(order - distance)
        ]
        together = reduce(add, (_matrix(left, right, public) for left, right in pairs))
        sides += [together, together.T]
    seen = sp.hstack(sides, format="coo")
    rows, columns = np.asarray(seen.sum(axis=1)).ravel(), np.asarray(seen.sum(axis=0)).ravel()
    information = np.log(seen.data * seen.sum() / (rows[seen.row] * columns[seen.col]))
    positive = sp.csr_matrix((np.maximum(information, 0), (seen.row, seen.col)), shape=seen.shape)
    size = min(VECTOR_SIZE, public.word_total - 1)
    if size < 1 or not positive.data.any():
        return np.zeros((public.word_total, 1))
    try:
        left, values = _largest_singular(positive, size)
    except (
        ArpackError,
        np.linalg.LinAlgError,
    ):  # odd public text must not fail a release whose budget is spent
        return np.zeros((public.word_total, 1))
    vectors: Floats = left * np.sqrt(values)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(lengths, SHORTEST))


def _largest_singular(matrix: sp.csr_matrix, size: int) -> tuple[Floats, Floats]:
    """Left vectors and singular values, the same for the same text.

    Of a matrix of low rank, as that of few words may be, ARPACK runs out of directions and draws others without a seed.
    """
    if matrix.shape[0] <= FEW_WORDS:
        left, values, _ = np.linalg.svd(matrix.toarray(), full_matrices=False)
        return left[:, :size], values[:size]
    start = np.sin(np.arange(1, matrix.shape[0] + 1) ** 2.0)
    left, values, _ = svds(matrix, k=size, v0=start)
    return left, values.astype(np.float64)


def _matrix(left: Ids, right: Ids, public: PublicNgrams) -> sp.csr_matrix:
    return sp.csr_matrix(
        (public.counts + 1, (left, right)), shape=(public.word_total, public.word_total)
    )


@dataclass(frozen=True, eq=False)
class Features:
    """Products with x and its transpose. β: slopes, words anywhere, by place, pieces, meanings anywhere, by place."""

    words: Ids  # rows × places
    pieces: (
        Integers  # rows × kinds, numbered one after the other; the last number of all has no effect
    )
    slopes: Floats  # kinds × rows
    vectors: Floats
    piece_total: int

    @classmethod
    def of(
        cls, public: PublicNgrams, vectors: Floats, telling: Integers | None = None
    ) -> "Features":
        """Of all n-grams; with effects of those pieces that an n-gram has which tells something (None: all do)."""
        pieces, total = _with_effects(public.pieces, telling)
        return cls(public.words, pieces, _slopes(public), vectors, total)

    def rows(self, which: Integers) -> "Features":
        """The same effects for some of the n-grams."""
        return replace(
            self, words=self.words[which], pieces=self.pieces[which], slopes=self.slopes[:, which]
        )

    @property
    def sizes(self) -> list[int]:
        """How long each block of β is: those of RIDGES."""
        places, (words, meanings) = self.words.shape[1], self.vectors.shape
        return [
            len(self.slopes),
            words,
            places * words,
            self.piece_total,
            meanings,
            places * meanings,
        ]

    def blocks(self, beta: Floats) -> list[Floats]:
        """The parts of β."""
        return np.split(beta, np.cumsum(self.sizes)[:-1])

    def times(self, beta: Floats) -> Floats:
        """x·β for every n-gram."""
        slopes, words, words_here, pieces, meanings, meanings_here = self.blocks(beta)
        places = self.words.shape[1]
        effects = words + words_here.reshape(places, -1)  # places × words
        _add_products(
            meanings + meanings_here.reshape(places, -1), self._transposed_vectors, effects
        )
        total: Floats = slopes @ self.slopes
        _add_effects(self.words, effects, self.pieces, np.append(pieces, 0.0), total)
        return total

    def transposed(self, values: Floats) -> Floats:
        """xᵀ·values."""
        return self._sums(values, self.vectors, self.slopes)

    def squared_sums(self, weights: Floats) -> Floats:
        """The diagonal of xᵀ diag(weights) x, but for words that an n-gram has twice: a preconditioner."""
        return self._sums(weights, self.vectors**2, self.slopes**2)

    @cached_property
    def _transposed_vectors(self) -> Floats:
        return np.ascontiguousarray(self.vectors.T)

    def _sums(self, values: Floats, vectors: Floats, slopes: Floats) -> Floats:
        words = np.zeros((self.words.shape[1], len(vectors)))
        pieces = np.zeros(self.piece_total + 1)
        _sum_effects(self.words, values, words, self.pieces, pieces)
        anywhere = words.sum(axis=0)
        meanings = np.zeros((1 + len(words), vectors.shape[1]))
        _add_products(np.concatenate([anywhere[None], words]), vectors, meanings)
        return np.concatenate(
            [slopes @ values, anywhere, words.ravel(), pieces[:-1], meanings.ravel()]
        )


def _slopes(public: PublicNgrams) -> Floats:
    """Log π, and where there are several sources log π of each over it; of mean 0 and variance 1 under π."""
    prior, sources = public.prior, public.sources
    logs = np.log(prior[None])
    if len(sources) > 1:
        logs = np.concatenate([logs, np.log(sources) - logs])
    centred: Floats = logs - (logs @ prior)[:, None]
    scaled: Floats = centred / np.maximum(np.sqrt(centred**2 @ prior), 1e-6)[:, None]
    if (
        len(sources) > 1 and public.weights is not None
    ):  # a source that is no use has no say here either
        scaled[1:] *= np.sqrt(np.minimum(len(sources) * public.weights, 1.0))[:, None]
    return scaled


def _with_effects(pieces: Integers, telling: Integers | None) -> tuple[Integers, int]:
    """Pieces numbered through all kinds, and how many have an effect; all others get the number after the last."""
    columns, total = [], 0
    for column in pieces.T:
        there = np.zeros(int(column.max(initial=-1)) + 1, bool)
        there[column if telling is None else column[telling]] = True
        numbers = np.where(there, total + np.cumsum(there) - 1, -1)
        columns.append(numbers[column])
        total += int(there.sum())
    found = np.array(columns, np.int64).reshape(pieces.shape[1], len(pieces)).T
    return np.ascontiguousarray(np.where(found < 0, total, found)), total


@kernel
def _add_effects(
    words: Ids, effects: Floats, pieces: Integers, piece_effects: Floats, total: Floats
) -> None:
    for row in range(words.shape[0]):
        value = 0.0
        for place in range(words.shape[1]):
            value += effects[place, words[row, place]]
        for kind in range(pieces.shape[1]):
            value += piece_effects[pieces[row, kind]]
        total[row] += value


@kernel
def _sum_effects(
    words: Ids, values: Floats, sums: Floats, pieces: Integers, piece_sums: Floats
) -> None:
    for row in range(words.shape[0]):
        for place in range(words.shape[1]):
            sums[place, words[row, place]] += values[row]
        for kind in range(pieces.shape[1]):
            piece_sums[pieces[row, kind]] += values[row]


@kernel
def _add_products(left: Floats, right: Floats, total: Floats) -> None:
    """Total += left @ right, in an order that does not depend on the machine's cores, as it does in BLAS."""
    for row in range(left.shape[0]):
        for inner in range(left.shape[1]):
            factor = left[row, inner]
            for column in range(right.shape[1]):
                total[row, column] += factor * right[inner, column]


SPREAD = 0.8  # τ: of what the features leave unexplained; anything from 0.6 to 1 does
MOST_INFORMATIVE = 300_000  # n-grams that effects are learnt from
STEPS = 15
ROUNDS = 4  # of learning ridges
ROUND_STEPS = 8  # of each of these rounds
LARGEST_STEP = 2.0  # no log-ratio moves further in one step
LARGEST_EFFECT = (
    12.0  # no n-gram is e¹² times as frequent as public text and n say, by its features alone
)


@dataclass(frozen=True, eq=False)
class Pool:
    """What is pooled: n-grams of public text and their features, and which of them tell something of β."""

    public: PublicNgrams
    features: Features  # of all n-grams
    telling: Integers

    @classmethod
    def of(cls, measured: NoisyCounts, public: PublicNgrams, vectors: Floats) -> "Pool":
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


def _informative(measured: NoisyCounts, prior: Floats) -> Integers:
    """The n-grams that tell most of effects, where there are millions: the others only follow."""
    if prior.size <= MOST_INFORMATIVE:
        return np.arange(prior.size)
    means = max(measured.total, 1.0) * prior
    information = means**2 / (measured.noise**2 + (means * SPREAD) ** 2)
    return np.sort(np.argsort(-information, kind="stable")[:MOST_INFORMATIVE])


def pooled_means(
    measured: NoisyCounts,
    pool: Pool,
    ridges: Floats,
    start: Floats | None = None,
    steps: int = STEPS,
) -> tuple[Floats, Floats]:
    """μ_i = n π_i exp(x_i·β): what pooling expects of every count; and β. `ridges` of its blocks."""
    ridge = np.repeat(ridges, pool.features.sizes)
    beta = np.zeros(ridge.size) if start is None else start.copy()
    means = _means(measured, pool, beta, max(measured.total, 1.0) * pool.public.prior)
    for _ in range(steps):
        change = _gauss_newton(measured, pool, means, beta, ridge)
        furthest = float(np.abs(pool.rows.times(change)).max(initial=0.0))
        beta += change * min(1.0, LARGEST_STEP / max(furthest, 1e-12))
        means = _means(measured, pool, beta, means)
        if furthest < 0.02:
            break
    return means, beta


def learnt_ridges(
    measured: NoisyCounts, pool: Pool, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return ridges under which the effects are as large as they turn out to be, and β.

    The precision of the effects of a block has a Gamma prior, worth `RIDGE_PRIOR_EFFECTS` effects
    of precision `RIDGE_PRIOR`; MacKay's rule then gives

        ridge = (Σ_j h_j/(h_j + ridge) + a) / (Σ_j β_j² + a / ridge_0),

    with h the diagonal of the information. Where noise hides the effects, the prior decides.
    """
    ridges = RIDGE_PRIOR
    beta = start
    for _ in range(ROUNDS):
        means, beta = pooled_means(measured, pool, ridges, beta, ROUND_STEPS)
        expected = means[pool.telling]
        noise = measured.noise[pool.telling]
        information = pool.rows.squared_sums(expected**2 / (noise**2 + (expected * SPREAD) ** 2))
        blocks = zip(
            pool.features.blocks(information),
            pool.features.blocks(beta),
            ridges,
            RIDGE_PRIOR,
            strict=True,
        )
        ridges = np.array(
            [
                (float((seen / (seen + ridge)).sum()) + RIDGE_PRIOR_EFFECTS)
                / (float(effects @ effects) + RIDGE_PRIOR_EFFECTS / prior_ridge)
                for seen, effects, ridge, prior_ridge in blocks
            ]
        )
    if beta is None:
        raise AssertionError("at least one round learns ridges")
    return ridges, beta


def _means(measured: NoisyCounts, pool: Pool, beta: Floats, means: Floats) -> Floats:
    ratios = np.exp(np.clip(pool.features.times(beta), -LARGEST_EFFECT, LARGEST_EFFECT))
    return rescaled(measured, pool.public.prior * ratios, means)


def _gauss_newton(
    measured: NoisyCounts, pool: Pool, means: Floats, beta: Floats, ridge: Floats
) -> Floats:
    """One step for β: (JᵀWJ + R) Δ = JᵀW(y − μ) − Rβ, with J = diag(μ) x; rows of n-grams that tell something."""
    public, features, words = pool.public, pool.rows, pool.rows.words
    counts, noise, expected = (
        each[pool.telling] for each in (measured.counts, measured.noise, means)
    )
    weights = 1 / (noise**2 + (expected * SPREAD) ** 2)
    residual = (counts - expected) * weights
    curvature = expected**2 * weights
    word_weights = np.zeros(public.word_total)
    if measured.word_counts is not None and measured.word_noise is not None:
        word_weights = 1 / (measured.word_noise**2 + public.per_word((means * SPREAD) ** 2))
        residual = residual + per_ngram(
            words, (measured.word_counts - public.per_word(means)) * word_weights
        )
        curvature = curvature + expected**2 * per_ngram(words, word_weights)

    def normal(vector: Floats) -> Floats:
        moved = expected * features.times(vector)
        pulled = moved * weights
        if word_weights.any():
            pulled = pulled + per_ngram(
                words, per_word(words, moved, public.word_total) * word_weights
            )
        return features.transposed(expected * pulled) + ridge * vector

    target = features.transposed(expected * residual) - ridge * beta
    return conjugate_gradients(normal, target, 1 / (features.squared_sums(curvature) + ridge))


def rescaled(measured: NoisyCounts, shape: Floats, means: Floats) -> Floats:
    """n·shape, with n fitted to the counts and to their total, which `means` say how much to trust."""
    weights = 1 / (measured.noise**2 + (means * SPREAD) ** 2)
    whole, trust = float(shape.sum()), 1 / measured.total_noise**2
    seen = float((measured.counts * shape * weights).sum()) + measured.total * whole * trust
    scale = seen / (float((shape * shape * weights).sum()) + whole**2 * trust)
    return max(scale, 1.0 / whole) * shape


def conjugate_gradients(
    product: Callable[[Floats], Floats],
    target: Floats,
    inverse_diagonal: Floats,
    *,
    tolerance: float = 0.015,
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
def _advance(
    solution: Floats, residual: Floats, direction: Floats, image: Floats, progress: float
) -> None:
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
