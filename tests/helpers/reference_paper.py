"""The paper, literally: dense matrices, one loop for each sum, nothing shared with the package."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pyarrow as pa

from bayesgram.private.clipping import UNITS, ClippedCounts, Coordinates
from bayesgram.private.counts import UserCounts
from bayesgram.private.norm_histogram import SOURCE_UNITS, TOTAL_UNITS, USER_UNITS
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer


def centred_log(c):
    """Eq. 1 and 2."""
    logs = [math.log(value + 1) for value in c]
    return np.array([value - sum(logs) / len(logs) for value in logs])


def weight(n, slope, max_count):
    """Eq. 5."""
    return min(1.0, slope * n / max_count)


def weighted_centred_log(matrix, slope, max_count):
    """w ⊙ x̂ of a dense matrix of clipped counts, users × 𝒱."""
    c = matrix.sum(axis=0)
    users = (matrix > 0).sum(axis=0)
    return np.array([weight(n, slope, max_count) for n in users]) * centred_log(c)


def removal_shift(matrix, user, slope, max_count):
    """‖w⊙x̂ − w₋ₙ⊙x̂₋ₙ‖₂ by deleting the user for real."""
    return float(
        np.linalg.norm(
            weighted_centred_log(matrix, slope, max_count)
            - weighted_centred_log(np.delete(matrix, user, axis=0), slope, max_count)
        )
    )


def published_bound(matrix, slope, max_count):
    """Claim 1 as printed, with 1/N_j read as 0 where N_j = 0 (it is undefined there)."""
    users = (matrix > 0).sum(axis=0)
    x_hat = centred_log(matrix.sum(axis=0))
    size = len(users)
    inverse = [1 / n if n else 0.0 for n in users]
    terms = []
    for i in range(size):
        lipschitz = (1 - 1 / size) * inverse[i] + sum(
            inverse[j] for j in range(size) if j != i
        ) / size
        indicator = users[i] <= max_count / slope
        terms.append(
            weight(users[i], slope, max_count) * lipschitz * max_count
            + slope / max_count * abs(x_hat[i]) * indicator
        )
    return math.sqrt(sum(term**2 for term in terms))


def printed_brute_force(matrix, slope, max_count):
    """Algorithm 1's γ as printed: w⊙Δx̂ + (S/C)·1(Δc > 0)·x̂₋ₙ."""
    largest = 0.0
    users = (matrix > 0).sum(axis=0)
    w = np.array([weight(n, slope, max_count) for n in users])
    x_hat = centred_log(matrix.sum(axis=0))
    for row in matrix:
        x_less = centred_log(matrix.sum(axis=0) - row)
        change = w * (x_hat - x_less) + slope / max_count * (row > 0) * x_less
        largest = max(largest, float(np.linalg.norm(change)))
    return largest


def kl(counts, theta):
    """KL(p ‖ θ)."""
    total = sum(counts)
    return sum(c / total * math.log(c / total / t) for c, t in zip(counts, theta, strict=True) if c)


def to_csr(matrix):
    """A dense matrix as (starts, ngrams, counts)."""
    starts = np.concatenate([[0], np.cumsum((matrix > 0).sum(axis=1))]).astype(np.int64)
    _, ngrams = np.nonzero(matrix)
    return starts, ngrams.astype(np.int32), matrix[matrix > 0].astype(np.int32)


def make_clipped_counts(matrix, max_count=None, max_total=None):
    """Dense counts that respect the bounds already."""
    largest, total = int(matrix.max(initial=1)), int(matrix.sum(axis=1).max(initial=1))
    return ClippedCounts(*to_csr(matrix), matrix.shape[1], max_count or largest, max_total or total)


def make_user_counts(matrix, names=None, fingerprint=None):
    """Dense counts as the package holds them; users are named u0, u1, … unless told otherwise."""
    names = [f"u{i}" for i in range(len(matrix))] if names is None else names
    users = pa.array([name.encode() for name in names], pa.large_binary())
    return UserCounts(users, *to_csr(matrix), matrix.shape[1], fingerprint)


def make_words(size, order, first):
    """Three words of every n-gram, in turns, as coordinates from `first` on."""
    words = [[(i * (k + 2) + k) % 3 for k in range(order)] for i in range(size)]
    return np.array(words, np.int32).reshape(size, order) + np.int32(first)


def make_coordinates(size, order):
    """Coordinates of n-grams made of three words, or without words."""
    return Coordinates(
        np.linspace(0.5, 2, size + (3 if order else 0)), make_words(size, order, size)
    )


def count_words(matrix, words, size):
    """Dense rows of word counts, for as many coordinates."""
    said = np.zeros((len(matrix), size), np.int64)
    for i, own in enumerate(words):
        for word in own:
            if word >= 0:
                said[:, word] += matrix[:, i]
    return said


def append_word_counts(matrix, measured):
    """Dense rows of n-gram counts, then word counts."""
    full = count_words(matrix, measured.words, measured.shape.size)
    full[:, : matrix.shape[1]] = matrix
    return full


def norm_histogram(matrix, measured, bins):
    """Users by norm, parts of the largest amounts that they write, of which kind: whole
    units, by fractions.
    """
    users, totals, kinds = [0] * len(bins.largest), [0] * len(bins.largest), [0] * bins.source_count
    for row, full in zip(matrix, append_word_counts(matrix, measured), strict=True):
        squares = sum(
            (Fraction(int(n)) / Fraction(s)) ** 2 for n, s in zip(full, measured.shape, strict=True)
        )
        place = sum(squares >= Fraction(edge) ** 2 for edge in bins.edges)
        text = [(int(n), kind) for n, kind in zip(row, bins.sources, strict=True) if kind >= 0]
        written = sum(n for n, _ in text)
        part = min(Fraction(1), Fraction(written) / Fraction(bins.largest[place]))
        users[place] += USER_UNITS
        totals[place] += math.floor(TOTAL_UNITS * part)
        for kind in range(bins.source_count):  # the quotients are rounded as floats are
            kinds[kind] += int(
                SOURCE_UNITS * (sum(n for n, of in text if of == kind) / max(written, 1))
            )
    return users + totals + kinds


def scaled_norm(counts, shape):
    """‖counts/shape‖₂ to fifty digits."""
    return sum(
        (Decimal(int(n)) / Decimal(float(s))) ** 2 for n, s in zip(counts, shape, strict=True)
    ).sqrt()


def clipped_mass(row, measured, words, clip_norm):
    """The words that one user loses, in units but not yet whole, and the part of the text that they
    are.
    """
    with localcontext(prec=50):
        norm = scaled_norm(append_word_counts(row[None], measured)[0], measured.shape)
        part = 1 - Decimal(clip_norm) / norm if norm > Decimal(clip_norm) else Decimal(0)
        said = count_words(row[None], words.words, words.shape.size)[0]
        scale = UNITS * part / max(part * scaled_norm(said, words.shape), Decimal(words.clip_norm))
        return [
            Decimal(int(n)) / Decimal(float(s)) * scale
            for n, s in zip(said, words.shape, strict=True)
        ], part


def make_vocabulary(counts):
    """Public counts of made-up unigrams."""
    ngrams = pa.array([f"w{i}" for i in range(len(counts))], pa.large_string())
    return Vocabulary(ngrams, np.asarray(counts, np.int64), 1, Tokenizer())


def exact_delta(epsilon, mu):
    """δ of the Gaussian mechanism of μ at ε: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), with 60 digits."""
    with mpmath.workdps(60):
        eps, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - eps / m) - mpmath.exp(eps) * mpmath.ncdf(-m / 2 - eps / m)
