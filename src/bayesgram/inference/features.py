"""What n-grams have in common: the features x of log(λ/(nπ)) = x·β + e.

Four kinds of effect, each a block of β with a ridge of its own:
    slope      the public log-frequency itself: 0 trusts it as it is, −1/spread not at all (a useless prior)
    words      a word lifts all its n-grams, wherever it stands, and more or less so at each position
    meanings   words that public text uses alike move alike: the same, through vectors of the words (K numbers each)
    pieces     every run of 2 tokens of the n-gram, and of n − 1, lifts all n-grams that have it at that place
The matrix x is never made: its products are sums over index arrays.
"""

import math
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, svds

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.inference.measured import PublicNgrams

VECTOR_SIZE = 64
SHORTEST = 0.05
WORD_RIDGE, MEANING_RIDGE, PIECE_RIDGE = 4.0, 2.0, 10.0  # 1/variance of an effect, before it is scaled to the data
SLOPE_RIDGE = 30.0  # one number for all n-grams: noise must not tilt them all


def word_vectors(public: PublicNgrams) -> Floats:
    """Words by the company they keep: positive pointwise mutual information with neighbours, reduced by an SVD.

    Of length 1, so that a ridge means the same for vectors as for words; rare words of uncertain company are shorter.
    """
    order = public.words.shape[1]
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
    """Products with x and its transpose. β is: slope, words anywhere, by place, pieces, meanings anywhere, by place."""

    public: PublicNgrams
    vectors: Floats

    @cached_property
    def slope(self) -> Floats:
        """Log π, of mean 0 and variance 1 under π."""
        logs = np.log(self.public.prior)
        centred: Floats = logs - logs @ self.public.prior
        scaled: Floats = centred / max(math.sqrt(float(centred**2 @ self.public.prior)), 1e-6)
        return scaled

    @cached_property
    def pieces(self) -> list[Integers]:
        """For each piece's length and place: which piece every n-gram has there."""
        order = self.public.words.shape[1]
        return [
            _numbered(self.public.words[:, start : start + length])
            for length in sorted({2, order - 1} & set(range(2, order)))
            for start in range(order - length + 1)
        ]

    @cached_property
    def blocks(self) -> list[tuple[slice, float]]:
        """Where each block of β is, and its ridge."""
        places = self.public.words.shape[1]
        sizes = [(1, SLOPE_RIDGE), *[(self.public.word_total, WORD_RIDGE)] * (1 + places)]
        sizes += [(int(piece.max()) + 1, PIECE_RIDGE) for piece in self.pieces]
        sizes += [(self.vectors.shape[1], MEANING_RIDGE)] * (1 + places)
        ends = np.cumsum([size for size, _ in sizes])
        return [(slice(end - size, end), ridge) for end, (size, ridge) in zip(ends.tolist(), sizes, strict=True)]

    @property
    def ridge(self) -> Floats:
        """The ridge of every entry of β."""
        return np.concatenate([np.full(block.stop - block.start, ridge) for block, ridge in self.blocks])

    def times(self, beta: Floats) -> Floats:
        """x·β for every n-gram."""
        slope, *parts = [beta[block] for block, _ in self.blocks]
        places = self.public.words.shape[1]
        words, pieces, meanings = parts[: places + 1], parts[places + 1 : -places - 1], parts[-places - 1 :]
        total: Floats = slope[0] * self.slope
        for place in range(places):
            effect = words[0] + words[1 + place] + self.vectors @ (meanings[0] + meanings[1 + place])
            total += effect[self.public.words[:, place]]
        for numbers, effect in zip(self.pieces, pieces, strict=True):
            total += effect[numbers]
        return total

    def transposed(self, values: Floats) -> Floats:
        """xᵀ·values."""
        return self._sums(values, self.vectors, self.slope)

    def squared_sums(self, weights: Floats) -> Floats:
        """The diagonal of xᵀ diag(weights) x, but for words that an n-gram has twice: a preconditioner."""
        return self._sums(weights, self.vectors**2, self.slope**2)

    def _sums(self, values: Floats, vectors: Floats, slope: Floats) -> Floats:
        total = self.public.word_total
        words = [np.bincount(column, values, total) for column in self.public.words.T]
        anywhere = np.sum(words, axis=0)
        pieces = [np.bincount(numbers, values) for numbers in self.pieces]
        return np.concatenate(
            [[values @ slope], anywhere, *words, *pieces, vectors.T @ anywhere, *(vectors.T @ place for place in words)]
        )


def _numbered(rows: Ids) -> Integers:
    """A number for each distinct row."""
    _, numbers = np.unique(rows, axis=0, return_inverse=True)
    return numbers.ravel()
