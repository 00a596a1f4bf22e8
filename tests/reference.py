"""The paper, literally: dense matrices, one loop for each sum, nothing shared with the package."""

import math

import numpy as np
import pyarrow as pa

from bayesgram.private.clip import ClippedCounts
from bayesgram.private.counts import UserCounts
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokens import Tokenizer


def centred_log(c):
    """Eq. 1 and 2."""
    logs = [math.log(value + 1) for value in c]
    return np.array([value - sum(logs) / len(logs) for value in logs])


def weight(n, slope, max_count):
    """Eq. 5."""
    return min(1.0, slope * n / max_count)


def weighted(matrix, slope, max_count):
    """w ⊙ x̂ of a dense matrix of clipped counts, users × 𝒱."""
    c = matrix.sum(axis=0)
    users = (matrix > 0).sum(axis=0)
    return np.array([weight(n, slope, max_count) for n in users]) * centred_log(c)


def shift(matrix, user, slope, max_count):
    """‖w⊙x̂ − w₋ₙ⊙x̂₋ₙ‖₂ by deleting the user for real."""
    return float(
        np.linalg.norm(weighted(matrix, slope, max_count) - weighted(np.delete(matrix, user, axis=0), slope, max_count))
    )


def published_bound(matrix, slope, max_count):
    """Claim 1 as printed, with 1/N_j read as 0 where N_j = 0 (it is undefined there)."""
    users = (matrix > 0).sum(axis=0)
    x_hat = centred_log(matrix.sum(axis=0))
    size = len(users)
    inverse = [1 / n if n else 0.0 for n in users]
    terms = []
    for i in range(size):
        lipschitz = (1 - 1 / size) * inverse[i] + sum(inverse[j] for j in range(size) if j != i) / size
        indicator = users[i] <= max_count / slope
        terms.append(
            weight(users[i], slope, max_count) * lipschitz * max_count + slope / max_count * abs(x_hat[i]) * indicator
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


def sparse(matrix):
    """A dense matrix as (starts, ngrams, counts)."""
    starts = np.concatenate([[0], np.cumsum((matrix > 0).sum(axis=1))]).astype(np.int64)
    _, ngrams = np.nonzero(matrix)
    return starts, ngrams.astype(np.int32), matrix[matrix > 0].astype(np.int32)


def clipped(matrix, max_count=None, max_total=None):
    """Dense counts that respect the bounds already."""
    largest, total = int(matrix.max(initial=1)), int(matrix.sum(axis=1).max(initial=1))
    return ClippedCounts(*sparse(matrix), matrix.shape[1], max_count or largest, max_total or total)


def user_counts(matrix, names=None, fingerprint=None):
    """Dense counts as the package holds them; users are named u0, u1, … unless told otherwise."""
    names = [f"u{i}" for i in range(len(matrix))] if names is None else names
    users = pa.array([name.encode() for name in names], pa.large_binary())
    return UserCounts(users, *sparse(matrix), matrix.shape[1], fingerprint)


def vocabulary(counts):
    """Public counts of made-up unigrams."""
    ngrams = pa.array([f"w{i}" for i in range(len(counts))], pa.large_string())
    return Vocabulary(ngrams, np.asarray(counts, np.int64), 1, Tokenizer())
