"""γ by leaving out each user, and clip-and-sum: our kernels against what numpy and scipy do best.

    python matrices.py gamma|clip|clip-words ours|numpy|users|scipy CROWD

Loads the matrix, does the work once to warm up and then three times, and prints the best of the
three in seconds, with how many nonzeros it was and a check sum. CROWD: a folder that data.py made.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from data import load
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bayesgram.inference.noisy_counts import PublicNgrams
from bayesgram.mechanisms.posterior import OrderDesign
from bayesgram.paper.algorithm_1 import paper_bounds
from bayesgram.paper.sensitivity import Statistics
from bayesgram.private.clipping import UNITS, ClippedCounts, Coordinates, clip, clipped_sum
from bayesgram.private.counts import UserCounts
from bayesgram.public.vocabulary import Vocabulary

Floats = NDArray[np.float64]
Work = tuple[Callable[[], Floats], int]

SLOPE = 1e-3
CLIP_NORM = 4.0
SAMPLE = 20_000  # users that are left out one by one
TIMES = 3


def gamma(who: str, counts: UserCounts, _: Vocabulary) -> Work:
    """A shift for every user."""
    statistics = Statistics(clip(counts, **_bounds(len(counts.users)), key=7))
    clipped = statistics.clipped
    if not isinstance(clipped, ClippedCounts):
        raise TypeError("the counts are not in memory")
    terms = _terms(statistics)
    if who == "ours":
        return lambda: statistics.user_shifts(SLOPE), clipped.ngrams.size
    if who == "numpy":
        return lambda: shifts_of_all(
            clipped.starts, clipped.ngrams, clipped.counts, *terms
        ), clipped.ngrams.size
    last = min(SAMPLE, clipped.starts.size - 1)
    sample = clipped.starts[: last + 1]
    return lambda: shifts_one_by_one(sample, clipped.ngrams, clipped.counts, *terms), int(
        sample[-1]
    )


def _bounds(users: int) -> dict[str, int]:
    max_count, max_total = paper_bounds(users)
    return {"max_count": max_count, "max_total": max_total}


def _terms(statistics: Statistics) -> tuple[Floats, Floats, Floats, Floats]:
    w, w_less = statistics.weights(SLOPE), statistics.weights_without_one(SLOPE)
    return statistics.clipped.totals + 1.0, (w - w_less) * statistics.x_hat, w_less, w


def shifts_of_all(
    starts: NDArray[np.int64],
    ngrams: NDArray[np.int32],
    counts: NDArray[np.int32],
    raised: Floats,
    gap: Floats,
    w_less: Floats,
    w: Floats,
) -> Floats:
    """Five sums over each user's n-grams, by reduceat; users without one are left out."""
    first = starts[:-1][np.diff(starts) > 0]
    delta = -np.log1p(-counts / raised[ngrams])
    less = w_less[ngrams]
    a = gap[ngrams] + less * delta
    deltas, squares = np.add.reduceat(delta, first), np.add.reduceat(a * a, first)
    products = np.add.reduceat(a * less, first)
    others = np.add.reduceat((w_less * w_less - w * w)[ngrams], first)
    mean = deltas / raised.size
    total = squares - 2 * mean * products + mean * mean * ((w * w).sum() + others)
    return np.sqrt(np.maximum(total, 0.0))


def shifts_one_by_one(
    starts: NDArray[np.int64],
    ngrams: NDArray[np.int32],
    counts: NDArray[np.int32],
    raised: Floats,
    gap: Floats,
    w_less: Floats,
    w: Floats,
) -> Floats:
    """The same sums, user by user."""
    shifts = np.zeros(starts.size - 1)
    all_squares, gone = (w * w).sum(), w_less * w_less - w * w
    for user in range(starts.size - 1):
        rows = slice(starts[user], starts[user + 1])
        i = ngrams[rows]
        delta = -np.log1p(-counts[rows] / raised[i])
        a, mean = gap[i] + w_less[i] * delta, delta.sum() / raised.size
        total = a @ a - 2 * mean * (a @ w_less[i]) + mean * mean * (all_squares + gone[i].sum())
        shifts[user] = np.sqrt(max(total, 0.0))
    return shifts


def clip_ngrams(who: str, counts: UserCounts, vocabulary: Vocabulary) -> Work:
    """Σ of clipped users, n-grams alone, all of one weight."""
    shape, size = np.ones(len(vocabulary)), len(vocabulary)
    measured = Coordinates(shape, np.zeros((size, 0), np.int32))
    if who == "ours":
        return lambda: _in_counts(
            clipped_sum(counts, measured, clip_norm=CLIP_NORM), shape
        ), counts.ngrams.size
    matrix = _csr(counts)
    return lambda: scipy_sum(matrix, shape), counts.ngrams.size


def clip_words(who: str, counts: UserCounts, vocabulary: Vocabulary) -> Work:
    """Σ of clipped users, n-grams and the words they are made of, each with its weight."""
    measured = OrderDesign(PublicNgrams.of(vocabulary)).ngrams
    if who == "ours":
        total = measured.shape
        return lambda: _in_counts(
            clipped_sum(counts, measured, clip_norm=CLIP_NORM), total
        ), counts.ngrams.size
    matrix, size = _csr(counts), len(vocabulary)
    rows = np.repeat(np.arange(size), measured.words.shape[1])
    ones, places = np.ones(measured.words.size), measured.words.ravel() - size
    words = csr_array((ones, (rows, places)), shape=(size, measured.shape.size - size))
    return lambda: scipy_sum_with_words(matrix, words, measured.shape), counts.ngrams.size


def _csr(counts: UserCounts) -> csr_array:
    shape = (len(counts.users), counts.vocabulary_size)
    return csr_array(
        (counts.counts.astype(np.float64), counts.ngrams, counts.starts.astype(np.int32)),
        shape=shape,
    )


def _in_counts(units: NDArray[np.int64], shape: Floats) -> Floats:
    return units * (CLIP_NORM / UNITS) * shape


def _squared(matrix: csr_array) -> csr_array:
    return csr_array((matrix.data * matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _factors(squared_norms: Floats) -> Floats:
    return np.minimum(1.0, CLIP_NORM / np.sqrt(squared_norms))


def scipy_sum(matrix: csr_array, shape: Floats) -> Floats:
    """Two products of a sparse matrix and a vector, one for the norms and one for the sum.

    In floating point.
    """
    summed: Floats = matrix.T @ _factors(_squared(matrix) @ (1 / shape**2))
    return summed


def scipy_sum_with_words(matrix: csr_array, words: csr_array, shape: Floats) -> Floats:
    """The words of each user are a product of two sparse matrices."""
    own, size = matrix @ words, matrix.shape[1]
    squares = _squared(matrix) @ (1 / shape[:size] ** 2) + _squared(own) @ (1 / shape[size:] ** 2)
    factors = _factors(squares)
    return np.concatenate([matrix.T @ factors, own.T @ factors])


def main() -> None:
    """Time one contestant."""
    works = {"gamma": gamma, "clip": clip_ngrams, "clip-words": clip_words}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", choices=works)
    parser.add_argument("who", choices=["ours", "numpy", "users", "scipy"])
    parser.add_argument("crowd", type=Path)
    options = parser.parse_args()
    work, nonzeros = works[options.work](options.who, *load(options.crowd))
    found, times, cpu = work(), [], []
    for _ in range(TIMES):
        start, cpu_start = perf_counter(), process_time()
        work()
        times.append(perf_counter() - start)
        cpu.append(process_time() - cpu_start)
    said = {
        "seconds": min(times),
        "cpu": min(cpu),
        "nonzeros": int(nonzeros),
        "sum": float(found.sum()),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
