"""What n-grams have in common: the features x of log(λ/(nπ)) = x·β + e.

Four kinds of effect, each a block of β with a ridge of its own:
    slopes     the public log-frequency itself: 0 trusts it as it is, −1/spread not at all (a useless prior); and that
               of each source over the mixture: log-linear pooling, which trusts one for what is rare in the others
    words      a word lifts all its n-grams, wherever it stands, and more or less so at each position
    meanings   words that public text uses alike move alike: the same, through vectors of the words (K numbers each)
    pieces     every run of 2 tokens of the n-gram, and of n − 1, lifts all n-grams that have it at that place
The matrix x is never made: its products are sums over index arrays.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, svds

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.inference.measured import PublicNgrams
from bayesgram.kernels import kernel

VECTOR_SIZE = 64
SHORTEST = 0.05
WORD_RIDGE, MEANING_RIDGE, PIECE_RIDGE = 4.0, 2.0, 10.0  # 1/variance of an effect, before it is scaled to the data
SLOPE_RIDGE = 30.0  # one number for all n-grams: noise must not tilt them all


def word_vectors(public: PublicNgrams) -> Floats:
    """Words by the company they keep: positive pointwise mutual information with neighbours, reduced by an SVD.

    Of length 1, so that a ridge means the same for vectors as for words; rare words of uncertain company are shorter.
    """
    order = public.words.shape[1]
    if order == 1:  # no company
        return np.zeros((public.word_total, 1))
    sides = []
    for distance in range(1, order):
        pairs = [(public.words[:, k], public.words[:, k + distance]) for k in range(order - distance)]
        together = reduce(add, (_matrix(left, right, public) for left, right in pairs))
        sides += [together, together.T]
    seen = sp.hstack(sides, format="coo")
    rows, columns = np.asarray(seen.sum(axis=1)).ravel(), np.asarray(seen.sum(axis=0)).ravel()
    information = np.log(seen.data * seen.sum() / (rows[seen.row] * columns[seen.col]))
    positive = sp.csr_matrix((np.maximum(information, 0), (seen.row, seen.col)), shape=seen.shape)
    size = min(VECTOR_SIZE, public.word_total - 1)
    if size < 1 or not positive.data.any():
        return np.zeros((public.word_total, 1))
    start = np.sin(np.arange(1, min(positive.shape) + 1) ** 2.0)  # a fixed start: the same text gives the same vectors
    try:
        left, values, _ = svds(positive, k=size, v0=start)
    except ArpackError:  # odd public text must not fail a release whose budget is spent: do without vectors
        return np.zeros((public.word_total, 1))
    vectors: Floats = left * np.sqrt(values)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(lengths, SHORTEST))


def _matrix(left: Ids, right: Ids, public: PublicNgrams) -> sp.csr_matrix:
    return sp.csr_matrix((public.counts + 1, (left, right)), shape=(public.word_total, public.word_total))


@dataclass(frozen=True, eq=False)
class Features:
    """Products with x and its transpose. β: slopes, words anywhere, by place, pieces, meanings anywhere, by place."""

    public: PublicNgrams
    vectors: Floats

    @cached_property
    def slopes(self) -> Floats:
        """Log π, and where there are several sources log π of each over it; of mean 0 and variance 1 under π."""
        prior, sources = self.public.prior, self.public.sources
        logs = np.log(prior[None])
        if len(sources) > 1:
            logs = np.concatenate([logs, np.log(sources) - logs])
        centred: Floats = logs - (logs @ prior)[:, None]
        scaled: Floats = centred / np.maximum(np.sqrt(centred**2 @ prior), 1e-6)[:, None]
        if len(sources) > 1 and self.public.weights is not None:  # a source that is no use has no say here either
            scaled[1:] *= np.sqrt(np.minimum(len(sources) * self.public.weights, 1.0))[:, None]
        return scaled

    @cached_property
    def sizes(self) -> list[tuple[int, float]]:
        """How long each block of β is, and its ridge."""
        places = self.public.words.shape[1]
        pieces = [int(piece) + 1 for piece in self.public.pieces.max(axis=0, initial=-1)]
        return [
            (len(self.slopes), SLOPE_RIDGE),
            *[(self.public.word_total, WORD_RIDGE)] * (1 + places),
            *[(size, PIECE_RIDGE) for size in pieces],
            *[(self.vectors.shape[1], MEANING_RIDGE)] * (1 + places),
        ]

    @property
    def ridge(self) -> Floats:
        """The ridge of every entry of β."""
        return np.concatenate([np.full(size, ridge) for size, ridge in self.sizes])

    def times(self, beta: Floats) -> Floats:
        """x·β for every n-gram."""
        places = self.public.words.shape[1]
        slopes, *parts = np.split(beta, np.cumsum([size for size, _ in self.sizes])[:-1])
        words, pieces, meanings = parts[: places + 1], parts[places + 1 : -places - 1], parts[-places - 1 :]
        effects = words[0] + np.array(words[1:])  # places × words
        _add_products(meanings[0] + np.array(meanings[1:]), self._transposed_vectors, effects)
        total: Floats = slopes @ self.slopes
        _add_effects(
            self.public.words, effects, self.public.pieces, np.concatenate([*pieces, [0.0]]), self._starts, total
        )
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

    @cached_property
    def _starts(self) -> Integers:
        """Where the pieces of each place begin among all pieces."""
        return np.cumsum([0, *(self.public.pieces.max(axis=0, initial=-1) + 1)])

    def _sums(self, values: Floats, vectors: Floats, slopes: Floats) -> Floats:
        words = np.zeros((self.public.words.shape[1], self.public.word_total))
        pieces = np.zeros(int(self._starts[-1]) + 1)
        _sum_effects(self.public.words, values, words, self.public.pieces, pieces, self._starts)
        anywhere = words.sum(axis=0)
        meanings = np.zeros((1 + len(words), vectors.shape[1]))
        _add_products(np.concatenate([anywhere[None], words]), vectors, meanings)
        return np.concatenate([slopes @ values, anywhere, words.ravel(), pieces[:-1], meanings.ravel()])


@kernel
def _add_effects(
    words: Ids, effects: Floats, pieces: Integers, piece_effects: Floats, starts: Integers, total: Floats
) -> None:
    for row in range(words.shape[0]):
        value = 0.0
        for place in range(words.shape[1]):
            value += effects[place, words[row, place]]
        for kind in range(pieces.shape[1]):
            value += piece_effects[starts[kind] + pieces[row, kind]]
        total[row] += value


@kernel
def _sum_effects(
    words: Ids, values: Floats, sums: Floats, pieces: Integers, piece_sums: Floats, starts: Integers
) -> None:
    for row in range(words.shape[0]):
        for place in range(words.shape[1]):
            sums[place, words[row, place]] += values[row]
        for kind in range(pieces.shape[1]):
            piece_sums[starts[kind] + pieces[row, kind]] += values[row]


@kernel
def _add_products(left: Floats, right: Floats, total: Floats) -> None:
    """Total += left @ right, in an order that does not depend on the machine's cores, as it does in BLAS."""
    for row in range(left.shape[0]):
        for inner in range(left.shape[1]):
            factor = left[row, inner]
            for column in range(right.shape[1]):
                total[row, column] += factor * right[inner, column]
