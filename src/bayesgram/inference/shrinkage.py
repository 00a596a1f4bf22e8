"""Shrink noisy counts towards what is expected of them, by nonparametric empirical Bayes.

In:  noisy counts, their noise, and the expected counts μ of a model.
Out: the posterior mean and standard deviation of every true count λ.

The model is

    y_i ~ N(μ_i e^g, noise_i²),

where the log-ratio g has a distribution on a grid. Its weights are fitted to the noisy counts
themselves by EM: the nonparametric maximum likelihood estimate. So how far counts stray from what
is expected is learnt, not assumed. The posterior mean of λ_i = μ_i e^g minimises the expected KL
divergence.
"""

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.kernels import kernel

# Log-ratios g of the grid: from e⁻⁴ to e⁴ times what is expected, in steps of 0.1. Chosen by hand;
# not measured against other values.
LOG_RATIO_GRID = np.linspace(-4.0, 4.0, 81)
RATIO_GRID = np.exp(LOG_RATIO_GRID)

# Standard deviation of the normal distribution of g that EM starts from. Chosen by hand; not
# measured against other values.
START_STD = 0.6

# Number of EM iterations. Chosen by hand; not measured against other values.
EM_ITERATIONS = 60

# A count of more noise standard deviations than this is taken as it is: the grid is coarser than
# its noise. Chosen by hand; not measured against other values.
MIN_CLEAR_Z = 12.0

# A count of more noise standard deviations than this is taken as it is if it is also beyond the
# largest ratio of the grid, which would pull it down. Chosen by hand; not measured against other
# values.
MIN_CLEAR_Z_BEYOND_GRID = 5.0

# Number of strata by expected count, at most, each with a distribution of its own: frequent,
# middling and rare n-grams stray differently. Chosen by hand; not measured against other values.
MAX_STRATA = 3

# Number of n-grams in a stratum, at least. Chosen by hand; not measured against other values.
MIN_STRATUM_SIZE = 1000

# Number of n-grams of a stratum that fit the distribution, at most: enough for 81 weights. Chosen
# by hand; not measured against other values.
MAX_FITTED_NGRAMS = 100_000

# Smallest log-likelihood, relative to the best point of the grid: exp(−80) is still a normal number
# in single precision, and exp(−88) is not.
MIN_LOG_LIKELIHOOD = -80.0

# Added to every weight of the grid when moments are computed, so that an n-gram far from all
# others has a posterior, too. Chosen by hand; not measured against other values.
MIN_GRID_WEIGHT = 1e-12

# Number of n-grams that a kernel adds side by side: 16 numbers in single precision fill a vector
# register. It changes the speed, and the last digits.
LANES = 16

# Number of n-grams of a block: a multiple of LANES. The likelihoods of a block (83 kB) stay in the
# processor's cache between the two loops that read them, and its inner loops are long enough to be
# compiled to vector instructions: half the time of blocks of 16. It does not change the digits.
BLOCK_ROWS = 256


def shrink_counts(
    counts: Floats, noise_std: Floats, means: Floats, *, on_one_core: bool = False
) -> tuple[Floats, Floats]:
    """Return the posterior mean and standard deviation of every true count.

    Args:
        counts: Noisy counts.
        noise_std: The standard deviation of their noise.
        means: Expected counts, towards which noisy ones are shrunk.
        on_one_core: For many calls side by side: the same to six digits, without the threads of
            BLAS.
    """
    expected = counts.copy()
    std = noise_std.copy()
    hidden_rows = np.flatnonzero(~is_above_noise(counts, noise_std, means))
    if not hidden_rows.size:
        return expected, std
    strata = max(min(MAX_STRATA, hidden_rows.size // MIN_STRATUM_SIZE), 1)
    by_mean = hidden_rows[np.argsort(-means[hidden_rows], kind="stable")]
    fit = _fit_weights_on_one_core if on_one_core else _fit_weights
    for rows in np.array_split(by_mean, strata):
        every = -(-rows.size // MAX_FITTED_NGRAMS)
        weights = fit(counts, noise_std, means, rows[::every])
        _fill_moments(counts, noise_std, means, rows, weights, expected, std)
    return expected, std


def is_above_noise(counts: Floats, noise_std: Floats, means: Floats) -> Bools:
    """Return which counts are so clear that they are taken as they are.

    Either the grid is coarser than their noise, or it does not reach them.

    Args:
        counts: Noisy counts.
        noise_std: The standard deviation of their noise.
        means: Expected counts.
    """
    grid_end = means * RATIO_GRID[-1]
    clear: Bools = (counts > MIN_CLEAR_Z * noise_std) | (
        (counts > MIN_CLEAR_Z_BEYOND_GRID * noise_std) & (counts > grid_end)
    )
    return clear


def _fit_weights(counts: Floats, noise_std: Floats, means: Floats, rows: Integers) -> Floats:
    """Return the weights of the grid, fitted by EM to these n-grams."""
    likelihoods = np.empty((rows.size, LOG_RATIO_GRID.size), np.float32)
    _fill_likelihoods(counts, noise_std, means, rows, likelihoods)
    weights = _make_start_weights()
    for _ in range(EM_ITERATIONS):
        evidence = likelihoods @ weights.astype(np.float32)
        weights = weights * (likelihoods.T @ (1 / evidence)) / rows.size
        weights /= weights.sum()
    return weights


def _make_start_weights() -> Floats:
    weights: Floats = np.exp(-0.5 * (LOG_RATIO_GRID / START_STD) ** 2)
    return weights / float(weights.sum())


def _fit_weights_on_one_core(
    counts: Floats, noise_std: Floats, means: Floats, rows: Integers
) -> Floats:
    """Return the same weights by a kernel.

    BLAS would start threads in each of the threads that fit weights.
    """
    padded_size = -(-rows.size // BLOCK_ROWS) * BLOCK_ROWS
    likelihoods = np.ones((padded_size, LOG_RATIO_GRID.size), np.float32)
    _fill_likelihoods(counts, noise_std, means, rows, likelihoods)
    by_block = likelihoods.reshape(-1, BLOCK_ROWS, LOG_RATIO_GRID.size)
    blocks = np.ascontiguousarray(by_block.transpose(0, 2, 1))
    weights = _make_start_weights()
    for _ in range(EM_ITERATIONS):
        ratio_sums = _sum_ratios(blocks, weights.astype(np.float32), rows.size)
        weights = weights * ratio_sums / rows.size
        weights /= weights.sum()
    return weights


@kernel
def _sum_ratios(  # noqa: C901 - loops over an array, each in one line
    blocks: NDArray[np.float32], weights: NDArray[np.float32], row_count: int
) -> Floats:
    """Return Σ likelihood/evidence over the n-grams, for each point of the grid.

    A block has `BLOCK_ROWS` n-grams; the last one may have fewer, and is padded. Every LANES-th
    n-gram is added to the same sum, in order.
    """
    sums = np.zeros((weights.size, LANES), np.float32)
    inverse = np.empty(BLOCK_ROWS, np.float32)  # 1 / evidence
    for b in range(blocks.shape[0]):
        for row in range(BLOCK_ROWS):
            inverse[row] = 0
        for g in range(weights.size):
            weight = weights[g]
            likelihoods = blocks[b, g]
            for row in range(BLOCK_ROWS):
                inverse[row] += weight * likelihoods[row]
        for row in range(BLOCK_ROWS):
            is_row = b * BLOCK_ROWS + row < row_count
            inverse[row] = np.float32(1) / inverse[row] if is_row else np.float32(0)
        for g in range(weights.size):
            likelihoods = blocks[b, g]
            lane_sums = sums[g]
            for first in range(0, BLOCK_ROWS, LANES):
                for lane in range(LANES):
                    lane_sums[lane] += inverse[first + lane] * likelihoods[first + lane]
    total = np.zeros(weights.size)
    for g in range(weights.size):
        for lane in range(LANES):
            total[g] += sums[g, lane]
    return total


@kernel
def _fill_likelihoods(
    counts: Floats,
    noise_std: Floats,
    means: Floats,
    rows: Integers,
    likelihoods: NDArray[np.float32],
) -> None:
    """Write the likelihood of every point of the grid, relative to the best one of the n-gram."""
    for row in range(rows.size):
        i = rows[row]
        best = np.inf
        for g in range(LOG_RATIO_GRID.size):
            z = (counts[i] - means[i] * RATIO_GRID[g]) / noise_std[i]
            best = min(best, 0.5 * z * z)
        for g in range(LOG_RATIO_GRID.size):
            z = (counts[i] - means[i] * RATIO_GRID[g]) / noise_std[i]
            likelihoods[row, g] = np.exp(max(best - 0.5 * z * z, MIN_LOG_LIKELIHOOD))


@kernel
def _fill_moments(
    counts: Floats,
    noise_std: Floats,
    means: Floats,
    rows: Integers,
    weights: Floats,
    expected: Floats,
    std: Floats,
) -> None:
    """Write the posterior mean and standard deviation of λ, in double precision."""
    for i in rows:
        best = np.inf
        for g in range(LOG_RATIO_GRID.size):
            z = (counts[i] - means[i] * RATIO_GRID[g]) / noise_std[i]
            best = min(best, 0.5 * z * z)
        mass = first = second = 0.0
        for g in range(LOG_RATIO_GRID.size):
            value = means[i] * RATIO_GRID[g]
            z = (counts[i] - value) / noise_std[i]
            term = (weights[g] + MIN_GRID_WEIGHT) * np.exp(best - 0.5 * z * z)
            mass += term
            first += term * value
            second += term * value * value
        expected[i] = first / mass
        std[i] = np.sqrt(max(second / mass - (first / mass) ** 2, 0.0))
