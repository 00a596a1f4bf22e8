"""By how much an n-gram changed: the ratio of two noisy shares, drawn to what changes are like among all n-grams.

In:  two noisy shares of every n-gram and their variances.   Out: the posterior of ℓ = log ratio: mean, deviation and
where 95% of it lie. With shares x and their variances v, (x₂ − e^ℓ x₁)² / (v₂ + e^2ℓ v₁) is the square of a
standard normal number whatever the shares are (Fieller, 1940), which is the likelihood, also where a share is hidden
by noise. The prior is a mixture of normal distributions around 0, the narrowest of which is no change, with weights
that make all n-grams together likeliest (as in Stephens, 2017): the largest of many changes are not taken at their
word. The posterior is that of an n-gram which did change: whether it did is for the test to say.
"""

from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Floats

WIDTHS = np.array([1e-9, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])  # of the normal distributions
CELLS = 160  # of ℓ, for each n-gram
REACH = 6.0  # standard deviations from the likeliest ℓ to the ends of the cells
FARTHEST = 7.0  # no ratio is beyond e to this
ROUNDS = 200
TAIL = 0.025  # on each side of an interval
BATCH_SIZE = 1 << 12  # n-grams


@dataclass(frozen=True, eq=False)
class Ratios:
    """The posterior of ℓ for every n-gram."""

    mean: Floats
    deviation: Floats
    low: Floats
    high: Floats


def ratios(shares: Floats, variances: Floats) -> Ratios:
    """Of the second share (2 × V) to the first."""
    blocks = [slice(at, at + BATCH_SIZE) for at in range(0, shares.shape[1], BATCH_SIZE)]
    cells = [_likelihoods(shares[:, block], variances[:, block]) for block in blocks]
    evidence = [np.stack([(likely * _masses(edges, width)).sum(axis=1) for width in WIDTHS]) for edges, likely in cells]
    weights = _mixture(np.concatenate(evidence, axis=1)) if evidence else WIDTHS
    found = [_posterior(edges, likely, weights) for edges, likely in cells]
    return Ratios(*(np.concatenate([block[at] for block in found] or [np.zeros(0)]) for at in range(4)))


def _likelihoods(shares: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Edges of the cells of ℓ around the likeliest (V × CELLS + 1), and the likelihood in the middle of each."""
    lifted = np.maximum(shares, np.sqrt(variances))
    middle = np.clip(np.log(lifted[1] / lifted[0]), -FARTHEST + 1, FARTHEST - 1)
    reach = REACH * np.sqrt((variances / lifted**2).sum(axis=0))
    low, high = np.maximum(middle - reach, -FARTHEST), np.minimum(middle + reach, FARTHEST)
    edges = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, CELLS + 1)
    times = np.exp((edges[:, 1:] + edges[:, :-1]) / 2)
    misfit = (shares[1][:, None] - times * shares[0][:, None]) ** 2
    misfit /= variances[1][:, None] + times**2 * variances[0][:, None]
    return edges, np.exp((misfit.min(axis=1, keepdims=True) - misfit) / 2)


def _masses(edges: Floats, width: float) -> Floats:
    """How much of a normal distribution lies in each cell."""
    from scipy.special import ndtr  # noqa: PLC0415 - 0.1 s

    masses: Floats = np.diff(ndtr(edges / width), axis=1)
    return masses


def _mixture(evidence: Floats) -> Floats:
    """Weights of the widths by EM; `evidence` is K × V. A thousandth n-gram more of each keeps all possible."""
    weights = np.full(WIDTHS.size, 1 / WIDTHS.size)
    for _ in range(ROUNDS):
        parts = weights[:, None] * evidence + 1e-300
        weights = (parts / parts.sum(axis=0)).sum(axis=1) + 1e-3
        weights /= weights.sum()
    return weights


def _posterior(edges: Floats, likely: Floats, weights: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean, deviation and the ends of the interval."""
    changed = zip(weights[1:], WIDTHS[1:], strict=True)
    prior = sum(weight * _masses(edges, width) for weight, width in changed)
    chances = likely * prior + 1e-300
    chances /= chances.sum(axis=1, keepdims=True)
    middles = (edges[:, 1:] + edges[:, :-1]) / 2
    mean = (chances * middles).sum(axis=1)
    deviation = np.sqrt((chances * (middles - mean[:, None]) ** 2).sum(axis=1))
    reached = np.concatenate([np.zeros((len(edges), 1)), np.cumsum(chances, axis=1)], axis=1)
    ends = [[np.interp(at, row, edge) for row, edge in zip(reached, edges, strict=True)] for at in (TAIL, 1 - TAIL)]
    return mean, deviation, np.array(ends[0]), np.array(ends[1])
