"""Flat empirical Bayes: how far counts really stray from what is expected, learnt from the noisy counts themselves.

y_i ~ N(μ_i e^{g}, noise_i²), g from a mixture on a grid of log-ratios whose weights are fitted by EM (the
nonparametric maximum likelihood estimate). The posterior mean of λ_i = μ_i e^{g} minimises expected KL.
"""

import numpy as np
from numpy.typing import NDArray

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.kernels import kernel

GRID = np.linspace(-4.0, 4.0, 81)  # log-ratios
RATIOS = np.exp(GRID)
START = 0.6  # standard deviation of the first mixture
ROUNDS = 60
DEVIATIONS_ABOVE_NOISE = 12.0  # noise deviations above 0 where shrinking would change nothing
DEVIATIONS_FROM_PRIOR = (
    5.0  # noise deviations above 0 where a count beyond the grid speaks for itself
)
STRATA = 3  # frequent, middling and rare n-grams stray differently
SMALLEST_STRATUM = 1000
MOST_FITTED = 100_000  # n-grams of a stratum that fit the mixture: enough for 81 numbers


LANES = 16  # rows side by side in a kernel: of a register's size, so that the processor adds them at once


def posterior(
    counts: Floats, noise: Floats, means: Floats, *, on_one_core: bool = False
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of λ given its noisy count, for every n-gram.

    `on_one_core` where many are made side by side: the same to six digits, without the cores that BLAS asks for.
    """
    expected, deviation = counts.copy(), noise.copy()
    hidden = np.flatnonzero(~is_above_noise(counts, noise, means))
    if not hidden.size:
        return expected, deviation
    parts = max(min(STRATA, hidden.size // SMALLEST_STRATUM), 1)
    for rows in np.array_split(hidden[np.argsort(-means[hidden], kind="stable")], parts):
        fitted = _mixture_on_one_core if on_one_core else _mixture
        weights = fitted(counts, noise, means, rows[:: -(-rows.size // MOST_FITTED)])
        _moments(counts, noise, means, rows, weights, expected, deviation)
    return expected, deviation


def is_above_noise(counts: Floats, noise: Floats, means: Floats) -> Bools:
    """Counts that speak for themselves: the grid is coarser than their noise, or does not reach them."""
    beyond = means * RATIOS[-1]
    clear: Bools = (counts > DEVIATIONS_ABOVE_NOISE * noise) | (
        (counts > DEVIATIONS_FROM_PRIOR * noise) & (counts > beyond)
    )
    return clear


def _mixture(counts: Floats, noise: Floats, means: Floats, rows: Integers) -> Floats:
    """The weights of the grid by EM."""
    likelihoods = np.empty((rows.size, GRID.size), np.float32)
    _fill(counts, noise, means, rows, likelihoods)
    weights = _first_weights()
    for _ in range(ROUNDS):
        evidence = likelihoods @ weights.astype(np.float32)
        weights = weights * (likelihoods.T @ (1 / evidence)) / rows.size
        weights /= weights.sum()
    return weights


def _first_weights() -> Floats:
    weights: Floats = np.exp(-0.5 * (GRID / START) ** 2)
    return weights / float(weights.sum())


def _mixture_on_one_core(counts: Floats, noise: Floats, means: Floats, rows: Integers) -> Floats:
    """The same by a kernel: BLAS would start threads in each of the threads that ask for a mixture."""
    likelihoods = np.ones((-(-rows.size // LANES) * LANES, GRID.size), np.float32)
    _fill(counts, noise, means, rows, likelihoods)
    blocks = np.ascontiguousarray(likelihoods.reshape(-1, LANES, GRID.size).transpose(0, 2, 1))
    weights = _first_weights()
    for _ in range(ROUNDS):
        weights = weights * _by_point(blocks, weights.astype(np.float32), rows.size) / rows.size
        weights /= weights.sum()
    return weights


@kernel
def _by_point(blocks: NDArray[np.float32], weights: NDArray[np.float32], number: int) -> Floats:
    """Σ likelihood/evidence over the rows, for each point of the grid; a block is LANES rows, the last maybe fewer."""
    sums = np.zeros((weights.size, LANES), np.float32)
    evidence = np.zeros(LANES, np.float32)
    for block in range(blocks.shape[0]):
        own = blocks[block]
        evidence[:] = 0
        for g in range(weights.size):
            for lane in range(LANES):
                evidence[lane] += weights[g] * own[g, lane]
        for lane in range(LANES):
            evidence[lane] = (
                np.float32(1) / evidence[lane] if block * LANES + lane < number else np.float32(0)
            )
        for g in range(weights.size):
            for lane in range(LANES):
                sums[g, lane] += evidence[lane] * own[g, lane]
    total = np.zeros(weights.size)
    for g in range(weights.size):
        for lane in range(LANES):
            total[g] += sums[g, lane]
    return total


@kernel
def _fill(
    counts: Floats, noise: Floats, means: Floats, rows: Integers, likelihoods: NDArray[np.float32]
) -> None:
    """Likelihoods of every grid point, relative to the best one of the row."""
    for at in range(rows.size):
        i = rows[at]
        best = np.inf
        for g in range(GRID.size):
            z = (counts[i] - means[i] * RATIOS[g]) / noise[i]
            best = min(best, 0.5 * z * z)
        for g in range(GRID.size):
            z = (counts[i] - means[i] * RATIOS[g]) / noise[i]
            likelihoods[at, g] = np.exp(max(best - 0.5 * z * z, -80.0))


@kernel
def _moments(
    counts: Floats,
    noise: Floats,
    means: Floats,
    rows: Integers,
    weights: Floats,
    expected: Floats,
    deviation: Floats,
) -> None:
    """Posterior mean and standard deviation of λ, in double precision."""
    for i in rows:
        best = np.inf
        for g in range(GRID.size):
            z = (counts[i] - means[i] * RATIOS[g]) / noise[i]
            best = min(best, 0.5 * z * z)
        mass = first = second = 0.0
        for g in range(GRID.size):
            value = means[i] * RATIOS[g]
            z = (counts[i] - value) / noise[i]
            part = (weights[g] + 1e-12) * np.exp(best - 0.5 * z * z)
            mass += part
            first += part * value
            second += part * value * value
        expected[i] = first / mass
        deviation[i] = np.sqrt(max(second / mass - (first / mass) ** 2, 0.0))
