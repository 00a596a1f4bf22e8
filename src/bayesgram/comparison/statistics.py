"""Which n-grams changed between releases: the test, on noisy counts.

In:  noisy counts of one order in two or more releases.   Out: for every n-gram how far the releases are from one rate,
in standard deviations, and how likely chance goes so far. H0: an n-gram has the same rate in all of them. With

    x = y/n,  Var x = noise²/n² + κ·J·p/n + τ²p²/2,   p = Σ x/Var x / Σ 1/Var x

the shares x have the privacy noise, which is known; the chance of who wrote what, where J is the most that one user can
add to a count, so that E g² ≤ J·E g bounds it and κ ≤ 1; and a drift τ that most n-grams have in common. κ and τ are
learnt from the middle of all n-grams, where changes are rare (an empirical null), rather too large than too small. So
are the scales n, which may differ by how frequent n-grams are: clipping takes more of frequent ones. Clip norms that
are not the same distort by more than that, so that τ is at least PER_OCTAVE for each factor of 2 between them. p and
the differences of x are independent under H0, so what p leaves in the noise need not be tested. Noise is independent
from release to release also where one was the prior of the next, as it is the measurements that are compared.
Does not read releases, and knows nothing of strings.

By how much an n-gram changed: the ratio of two noisy shares, drawn to what changes are like among all n-grams.

In:  two noisy shares of every n-gram and their variances.   Out: the posterior of ℓ = log ratio: mean, deviation and
where 95% of it lie. With shares x and their variances v, (x₂ − e^ℓ x₁)² / (v₂ + e^2ℓ v₁) is the square of a
standard normal number whatever the shares are (Fieller, 1940), which is the likelihood, also where a share is hidden
by noise. The prior is a mixture of normal distributions around 0, the narrowest of which is no change, with weights
that make all n-grams together likeliest (as in Stephens, 2017): the largest of many changes are not taken at their
word. The posterior is that of an n-gram which did change: whether it did is for the test to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from bayesgram.arrays import Bools, Floats

MAX_SCORE = 1.5  # deviations: what is beyond counts as so much, so that real changes hardly move κ, τ and scales
CAPPED_SQUARE_MEAN = 0.7784652161744698  # E min(Z², CUT²) of a normal Z: 2 (Φ − ½ − CUT φ + CUT² (1 − Φ)); to import Φ takes 0.5 s
_CAPPED_FOURTH_MOMENT = (
    1.2356775734962444  # E min(Z², CUT²)²: 2 (3 (Φ − ½) − (CUT³ + 3 CUT) φ + CUT⁴ (1 − Φ))
)
CAPPED_SQUARE_STD = float(np.sqrt(_CAPPED_FOURTH_MOMENT - CAPPED_SQUARE_MEAN**2))
MIN_EFFECTIVE_NGRAMS = 30.0  # n-grams that tell of a number; with fewer κ is its bound, there is no drift, and scales are the totals
MIN_POOLED_Z = 2.0  # deviations of p above 0 from which an n-gram is tested
FIT_ROUNDS = 4
MAX_DRIFT, TYPICAL_DRIFT = 2.0, 0.1
DRIFT_PER_OCTAVE = 0.05  # relative deviation of a count by clip norms that differ by a factor of 2, over made-up people
MAX_FREE_SAMPLING = 1e6  # of κ where the most that one user adds is not known, in counts
INITIAL_STEP = 0.1  # that is tried of κ and τ; from there doubled, then halved
BISECTION_STEPS = 12


@dataclass(frozen=True, eq=False)
class ReleaseCounts:
    """Noisy counts of one order in one release."""

    counts: Floats
    noise_std: Floats  # standard deviations
    total: float
    max_user_count: Floats | None = (
        None  # J: the most that one user can add to a count; None: not known
    )
    clip_norm: float | None = None  # Λ; None: not known


@dataclass(frozen=True, eq=False)
class PooledRates:
    """Shares of all releases (R × V), their variances under H0, and what they have in common."""

    shares: Floats
    noise_var: Floats  # variances of the privacy noise
    sampling_var: Floats  # variances of who wrote what, where κ = 1, for p = 1
    sampling_factor: float  # κ
    drift: float  # τ
    pooled: Floats  # p

    @cached_property
    def variances(self) -> Floats:
        """Of every share, under H0."""
        return (
            self.noise_var
            + (self.sampling_factor * self.sampling_var + self.drift**2 / 2 * self.pooled)
            * self.pooled
        )

    @property
    def plugin_variances(self) -> Floats:
        """Of every share, if it is what it seems."""
        seen = np.maximum(self.shares, 0.0)
        return (
            self.noise_var
            + (self.sampling_factor * self.sampling_var + self.drift**2 / 2 * seen) * seen
        )

    @cached_property
    def pooled_std(self) -> Floats:
        """Of p."""
        deviation: Floats = 1 / np.sqrt((1 / self.variances).sum(axis=0))
        return deviation

    @cached_property
    def z_scores(self) -> Floats:
        """Each release against p, in standard deviations: of two releases, both are ± the same."""
        return (self.shares - self.pooled) / np.sqrt(self.variances - self.pooled_std**2)

    @cached_property
    def tested_mask(self) -> Bools:
        """Whether an n-gram is tested: a change of one that no release sees can't be seen."""
        seen: Bools = self.pooled > MIN_POOLED_Z * self.pooled_std
        return seen

    @cached_property
    def p_values(self) -> Floats:
        """How likely chance goes so far: χ² with as many degrees of freedom as there are releases, less one."""
        statistic = ((self.shares - self.pooled) ** 2 / self.variances).sum(axis=0)
        from scipy.special import chdtrc  # noqa: PLC0415 - 0.1 s

        tails: Floats = chdtrc(len(self.shares) - 1, statistic)
        return tails

    def z_between(self, first: int, second: int) -> Floats:
        """Z: by how many standard deviations the second share is above the first."""
        deviation = np.sqrt(self.variances[first] + self.variances[second])
        z: Floats = (self.shares[second] - self.shares[first]) / deviation
        return z

    def with_parameter(self, name: Literal["sampling", "drift"], value: float) -> "PooledRates":
        """With another κ or τ."""
        return (
            replace(self, sampling_factor=value)
            if name == "sampling"
            else replace(self, drift=value)
        )

    def select(self, rows: Bools) -> "PooledRates":
        """Some of the n-grams."""
        shares, noise, chance = (
            values[:, rows] for values in (self.shares, self.noise_var, self.sampling_var)
        )
        return replace(
            self, shares=shares, noise_var=noise, sampling_var=chance, pooled=self.pooled[rows]
        )

    def with_updated_pool(self) -> "PooledRates":
        """With p as the variances have it; it is never below 0."""
        weights = 1 / self.variances
        pooled = np.maximum((weights * self.shares).sum(axis=0) / weights.sum(axis=0), 0.0)
        return replace(self, pooled=pooled)


def fit_rates(releases: Sequence[ReleaseCounts]) -> PooledRates:
    """Shares, and how far they stray by chance, learnt from all n-grams together."""
    frequency = np.mean(
        [np.log(release.noise_std) for release in releases], axis=0
    )  # public: noise follows public text
    frequency -= frequency.mean()
    least = clip_norm_drift([release.clip_norm for release in releases])
    scales = np.zeros(
        (len(releases), 2)
    )  # log of what the total is times, and its slope over frequency
    bound = (
        1.0
        if all(release.max_user_count is not None for release in releases)
        else MAX_FREE_SAMPLING
    )
    found = _rates(releases, scales, frequency, (1.0, least))
    for fitting in [False] * FIT_ROUNDS + [
        True
    ] * FIT_ROUNDS:  # scales first: what they explain is neither chance nor drift
        found = found.with_updated_pool()
        scales[1:] += [_scale_step(found, at, frequency) for at in range(1, len(releases))]
        if fitting:
            found = _with_drift(_with_sampling(found, bound), least)
        spread = found.sampling_factor, found.drift
        found = replace(_rates(releases, scales, frequency, spread), pooled=found.pooled)
    return found.with_updated_pool().with_updated_pool()


def clip_norm_drift(clip_norms: Sequence[float | None]) -> float:
    """The least drift of releases with these clip norms."""
    known = [clip_norm for clip_norm in clip_norms if clip_norm is not None]
    return DRIFT_PER_OCTAVE * float(np.log2(max(known) / min(known))) if known else 0.0


def _rates(
    releases: Sequence[ReleaseCounts],
    scales: Floats,
    frequency: Floats,
    spread: tuple[float, float],
) -> PooledRates:
    """Shares for these scales."""
    totals = np.array([[release.total] for release in releases]) * np.exp(
        scales[:, :1] + scales[:, 1:] * frequency
    )
    shares = np.array([release.counts for release in releases]) / totals
    noise = (np.array([release.noise_std for release in releases]) / totals) ** 2
    most = np.array(
        [
            np.ones_like(each.counts) if each.max_user_count is None else each.max_user_count
            for each in releases
        ]
    )
    return PooledRates(shares, noise, most / totals, *spread, np.maximum(shares.mean(axis=0), 0.0))


def _scale_step(found: PooledRates, at: int, frequency: Floats) -> Floats:
    """By how much to move the scale of a release, so that the middle of all n-grams is where that of the first is.

    Least squares of x − x₀ on p and p·frequency, each difference cut at CUT deviations.
    """
    deviation = np.sqrt(found.variances[0] + found.variances[at])
    regressors = found.pooled / deviation * np.stack([np.ones_like(frequency), frequency])
    weights = regressors[0] ** 2
    if _effective(weights) < MIN_EFFECTIVE_NGRAMS:
        return np.zeros(2)
    information = regressors @ regressors.T + np.diag(
        [0.0, 1e-9 * weights.sum()]
    )  # all may be equally frequent
    step: Floats = np.linalg.solve(
        information, regressors @ np.clip(found.z_between(0, at), -MAX_SCORE, MAX_SCORE)
    )
    return step


def _with_sampling(found: PooledRates, bound: float) -> PooledRates:
    """With κ as the n-grams tell it that have much of it, and little of what may be drift; its bound if few do.

    As if there were no drift: what may be either is chance as far as that goes, also where clip norms differ.
    """
    own = found.sampling_var.mean(axis=0) * found.pooled
    weights = (
        found.tested_mask
        * own
        / (own + found.noise_var.mean(axis=0) + (TYPICAL_DRIFT * found.pooled) ** 2)
    )
    if _effective(weights) < MIN_EFFECTIVE_NGRAMS:
        return replace(found, sampling_factor=1.0)
    parts = replace(found, drift=0.0).select(weights > 0)
    return replace(
        found, sampling_factor=_smallest("sampling", parts, (0.0, bound), weights[weights > 0])
    )


def _with_drift(found: PooledRates, least: float) -> PooledRates:
    """With τ as the n-grams tell it that noise and chance hide least; none where these are too few."""
    own = TYPICAL_DRIFT**2 * found.pooled**2
    rest = (
        found.noise_var.mean(axis=0)
        + found.sampling_factor * found.sampling_var.mean(axis=0) * found.pooled
    )
    weights = found.tested_mask * own / (own + rest)
    if _effective(weights) < MIN_EFFECTIVE_NGRAMS:
        return replace(found, drift=least)
    parts = found.select(weights > 0)
    return replace(found, drift=_smallest("drift", parts, (least, MAX_DRIFT), weights[weights > 0]))


def _smallest(
    name: Literal["sampling", "drift"],
    found: PooledRates,
    ends: tuple[float, float],
    weights: Floats,
) -> float:
    """The smallest κ or τ, between bounds, under which n-grams stray no further than expected."""
    low, most = ends
    high = min(max(low, INITIAL_STEP), most)
    while high < most and not _is_enough(found.with_parameter(name, high), weights):
        low, high = high, min(2 * high, most)
    for _ in range(BISECTION_STEPS):
        part = (low + high) / 2
        low, high = (
            (low, part) if _is_enough(found.with_parameter(name, part), weights) else (part, high)
        )
    return high


def _is_enough(found: PooledRates, weights: Floats) -> bool:
    """Whether n-grams stray no further than expected, less a standard error; what is beyond CUT counts as CUT."""
    strayed = np.minimum(found.z_scores[1:] ** 2, MAX_SCORE**2).mean(axis=0)
    error = CAPPED_SQUARE_STD * float(np.linalg.norm(weights)) / np.sqrt(len(found.shares) - 1)
    return bool((weights * (CAPPED_SQUARE_MEAN - strayed)).sum() >= error)


def _effective(weights: Floats) -> float:
    """How many n-grams of equal weight tell as much."""
    return float(weights.sum()) ** 2 / max(float((weights**2).sum()), 1e-300)


def false_discovery_rates(p_values: Floats) -> Floats:
    """Q: the smallest stated false discovery rate at which each is a discovery (Benjamini and Hochberg, 1995).

    >>> false_discovery_rates(np.array([0.01, 0.5, 0.02])).round(3).tolist()
    [0.03, 0.5, 0.03]
    """
    order = np.argsort(p_values)[::-1]
    ranked = p_values[order] * p_values.size / np.arange(p_values.size, 0, -1)
    found = np.empty_like(p_values)
    found[order] = np.minimum.accumulate(ranked)
    return found


PRIOR_STDS = np.array([1e-9, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])  # of the normal distributions
GRID_CELLS = 160  # of ℓ, for each n-gram
GRID_STDS = 6.0  # standard deviations from the likeliest ℓ to the ends of the cells
MAX_LOG_RATIO = 7.0  # no ratio is beyond e to this
EM_ROUNDS = 200
TAIL_PROBABILITY = 0.025  # on each side of an interval
BATCH_NGRAMS = 1 << 12  # n-grams


@dataclass(frozen=True, eq=False)
class LogRatioPosterior:
    """The posterior of ℓ for every n-gram."""

    mean: Floats
    std: Floats
    low: Floats
    high: Floats


def estimate_log_ratios(shares: Floats, variances: Floats) -> LogRatioPosterior:
    """Of the second share (2 × V) to the first."""
    blocks = [slice(at, at + BATCH_NGRAMS) for at in range(0, shares.shape[1], BATCH_NGRAMS)]
    cells = [_likelihoods(shares[:, block], variances[:, block]) for block in blocks]
    evidence = [
        np.stack([(likely * _masses(edges, width)).sum(axis=1) for width in PRIOR_STDS])
        for edges, likely in cells
    ]
    weights = _mixture(np.concatenate(evidence, axis=1)) if evidence else PRIOR_STDS
    found = [_posterior(edges, likely, weights) for edges, likely in cells]
    return LogRatioPosterior(
        *(np.concatenate([block[at] for block in found] or [np.zeros(0)]) for at in range(4))
    )


def _likelihoods(shares: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Edges of the cells of ℓ around the likeliest (V × CELLS + 1), and the likelihood in the middle of each."""
    lifted = np.maximum(shares, np.sqrt(variances))
    middle = np.clip(np.log(lifted[1] / lifted[0]), -MAX_LOG_RATIO + 1, MAX_LOG_RATIO - 1)
    reach = GRID_STDS * np.sqrt((variances / lifted**2).sum(axis=0))
    low, high = (
        np.maximum(middle - reach, -MAX_LOG_RATIO),
        np.minimum(middle + reach, MAX_LOG_RATIO),
    )
    edges = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, GRID_CELLS + 1)
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
    weights = np.full(PRIOR_STDS.size, 1 / PRIOR_STDS.size)
    for _ in range(EM_ROUNDS):
        parts = weights[:, None] * evidence + 1e-300
        weights = (parts / parts.sum(axis=0)).sum(axis=1) + 1e-3
        weights /= weights.sum()
    return weights


def _posterior(
    edges: Floats, likely: Floats, weights: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean, deviation and the ends of the interval."""
    changed = zip(weights[1:], PRIOR_STDS[1:], strict=True)
    prior = sum(weight * _masses(edges, width) for weight, width in changed)
    chances = likely * prior + 1e-300
    chances /= chances.sum(axis=1, keepdims=True)
    middles = (edges[:, 1:] + edges[:, :-1]) / 2
    mean = (chances * middles).sum(axis=1)
    deviation = np.sqrt((chances * (middles - mean[:, None]) ** 2).sum(axis=1))
    reached = np.concatenate([np.zeros((len(edges), 1)), np.cumsum(chances, axis=1)], axis=1)
    ends = [
        [np.interp(at, row, edge) for row, edge in zip(reached, edges, strict=True)]
        for at in (TAIL_PROBABILITY, 1 - TAIL_PROBABILITY)
    ]
    return mean, deviation, np.array(ends[0]), np.array(ends[1])
