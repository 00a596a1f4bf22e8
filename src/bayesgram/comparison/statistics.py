"""Ratios of rates between noisy counts: intervals, tests and a false discovery rate.

In:  noisy counts of the same n-grams in two or more releases.   Out: for every n-gram the ratio of
its rates, a 95% interval, a p-value, and the false discovery rate at which it is a discovery. Knows
nothing of strings, releases or cards.

The model. In release k, n-gram i has the noisy count y and the share x = y/n of the noisy total n.
Its rate p is the expected share of text that is counted up to the clip norm. With E x = p,

    Var x = v(p) = noise²/n² + D·p/n + c·p²                                                    (1)

- noise is the privacy noise, which is known exactly.
- D·p/n is chance: who happened to write what. One user adds g to a count, so Var y ≤ Σ E g² = D·E y
  with D = Σ E g²/Σ E g, the *dispersion*: 1 if everybody writes an n-gram at most once, more if
  people repeat themselves, less if clipping scales them down. Nobody adds more than J = noise/σ, so
  D ≤ J. One number d describes all n-grams of a release: 1/D = 1/d + 1/J (`limit_dispersion`).
- c is a relative variance that all n-grams of a release share: noise of the total, and an allowance
  for clip norms that differ.

The test of one ratio r (Fieller, 1940, with variances under the hypothesis as in a score test). Let
p₁ = p and p₂ = r·p. The variances v_k are those of (1) for the p that fits max(x, 0) best; then p ≥
0 is fitted to x with these variances, and

    S(r) = Σ_k (x_k − p_k)²/v_k − Σ_k min(x_k, 0)²/v_k                                         (2)

is (x₂ − r·x₁)²/(v₂ + r²·v₁) where no share is negative, so that it is χ² with one degree of freedom
for the true r, whatever the rates are. The second sum is the misfit of negative counts that no rate
explains, as rates are not below 0. It lowers S, so that the test stays valid and some r always
fits. The 95% interval is {r : S(r) ≤ 3.84}. It never ends where noise hides the denominator, and
the p-value is that of S(1), so p < 0.05 if and only if the interval excludes 1.

Of more than two releases, the two that differ most are compared. S is then judged by the largest of
all pairs (Tukey's studentized range), so that interval and p-value account for the choice.

Nothing is learnt from how much other n-grams changed, except d where no histogram of norms gives it
(`learn_dispersion`); D is at most J, which is always valid.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers

# Probability that an interval contains the true ratio, before n-grams are chosen by looking at
# them.
CONFIDENCE = 0.95

# Noise deviations by which an n-gram's rate, pooled over all releases, must exceed 0 to be tested.
# The pooled rate is independent of the differences if nothing changed, so this does not disturb the
# p-values. Chosen on one release of each group of commit authors: with 2, a third of the tested
# n-grams are pure noise that was selected for being high, and intervals hold 93 to 96% of the
# ratios; with 3, one in twenty, and 95 to 98%. A change that 3 excludes has p > 0.003, too little
# to be found among thousands.
MIN_POOLED_Z = 3.0

# Relative standard deviation of the ratio of two counts for each factor of 2 between their clip
# norms: clipping at another norm weighs the same people differently. Measured without noise, norms
# 2 to 8, n-grams above 3 noise deviations (rms): Reddit 0.06–0.09, commit authors 0.065–0.08,
# made-up people 0.03–0.10, film reviews below 0.01.
CLIP_NORM_STD_PER_OCTAVE = 0.08

# Rounds of the fit of p that gives the variances in (2). Its error shrinks by a factor of 1.6 or
# more in each round; with 12, S is exact within 0.1% if the noise is at least twice the dispersion,
# as it is for ε up to about 4, and within 1% otherwise (tests/comparison/test_statistics.py).
FIT_ROUNDS = 12

# Halvings of the angle that finds an end of an interval, a precision of 1e-10.
BISECTION_STEPS = 34

# In `learn_dispersion`: a squared z-score counts as at most this one, so that n-grams that did
# change hardly matter.
MAX_SCORE = 1.5

# E min(Z², 1.5²) and the standard deviation of min(Z², 1.5²) for a standard normal Z.
CAPPED_SQUARE_MEAN = 0.7784652161744698
CAPPED_SQUARE_STD = 0.793517158533663

# In `learn_dispersion`: with fewer n-grams that show chance rather than noise, D is its bound J.
MIN_EFFECTIVE_NGRAMS = 30.0


# --- Shares and their variances ---


@dataclass(frozen=True, eq=False)
class ReleaseCounts:
    """Noisy counts of the same n-grams in one release.

    Attributes:
        counts: Noisy counts.
        noise_std: Standard deviations of their noise.
        total: Noisy total of all n-grams that shares refer to.
        total_std: Standard deviation of its noise.
        max_user_count: J, the most that one user can add to each count.
        dispersion: d, from which D of every n-gram follows; None if it is to be learnt, infinite if
            nothing but D ≤ J is known.
        clip_norm: The clip norm, None if it is not known.
    """

    counts: Floats
    noise_std: Floats
    total: float
    total_std: float
    max_user_count: Floats
    dispersion: float | None = None
    clip_norm: float | None = None


@dataclass(frozen=True, eq=False)
class NoisyShares:
    """Shares of V n-grams in R releases, and the parts of their variances: see (1).

    Attributes:
        shares: x, R × V. They can be negative.
        noise_var: noise²/n², R × V.
        sampling_scale: D/n, R × V; times a rate it is the variance by who wrote what.
        relative_var: c, R × 1 or R × V.
    """

    shares: Floats
    noise_var: Floats
    sampling_scale: Floats
    relative_var: Floats

    def variances(self, rates: Floats) -> Floats:
        """Return v(p) of every share, by (1)."""
        variances: Floats = (
            self.noise_var + (self.sampling_scale + self.relative_var * rates) * rates
        )
        return variances

    @property
    def clearest_pairs(self) -> Integers:
        """Indices (2 × V) of the two releases that differ most, in standard deviations."""
        variances = self.variances(np.maximum(self.shares.mean(axis=0), 0.0))
        largest = np.full(self.shares.shape[1], -1.0)
        pairs = np.zeros((2, largest.size), np.int64)
        for first, second in combinations(range(len(self.shares)), 2):
            squares = (self.shares[second] - self.shares[first]) ** 2
            squares = squares / (variances[first] + variances[second])
            is_larger = squares > largest
            largest[is_larger] = squares[is_larger]
            pairs[:, is_larger] = np.array([[first], [second]])
        return pairs

    def select(self, pairs: Integers) -> "NoisyShares":
        """Return the shares of two releases for each n-gram, given their indices (2 × V)."""
        relative_var = np.broadcast_to(self.relative_var, self.shares.shape)
        parts = (self.shares, self.noise_var, self.sampling_scale, relative_var)
        return NoisyShares(*(np.take_along_axis(part, pairs, axis=0) for part in parts))

    @property
    def positive_shares(self) -> Floats:
        """What is shown to people: the mean of each share, given that it is at least 0.

        x + noise·φ(z)/Φ(z) with z = x/noise: the share itself where it is well above noise, and
        about 0.8 noise deviations where nothing was counted. A ratio of two of them is positive,
        finite, and always inside the interval: S is at most 0.64 + 2 there
        (`tests/comparison/test_statistics.py`), below 3.84.
        """
        from scipy.special import log_ndtr  # noqa: PLC0415 - 0.1 s

        std = np.sqrt(self.noise_var)
        z = self.shares / std
        hazard = np.exp(-(z**2) / 2 - math.log(2 * math.pi) / 2 - log_ndtr(z))
        # Far below 0, z + hazard cancels: the mean is 1/|z| − 2/|z|³ there.
        below = np.minimum(z, -20.0)
        mean = np.where(z < -20, -1 / below + 2 / below**3, z + hazard)
        positive: Floats = std * mean
        return positive

    @property
    def tested_mask(self) -> Bools:
        """Which n-grams are tested: their pooled rate exceeds `MIN_POOLED_Z` noise deviations."""
        precision = 1 / self.noise_var
        pooled_z = (precision * self.shares).sum(axis=0) / np.sqrt(precision.sum(axis=0))
        mask: Bools = pooled_z > MIN_POOLED_Z
        return mask


def noisy_shares(releases: Sequence[ReleaseCounts]) -> NoisyShares:
    """Return the shares of two or more releases, with D learnt where it is not given.

    Args:
        releases: Noisy counts of the same n-grams, in the order in which they are compared.
    """
    given = [math.inf if each.dispersion is None else each.dispersion for each in releases]
    shares = _scaled_shares(releases, given)
    is_unknown = [release.dispersion is None for release in releases]
    if not any(is_unknown):
        return shares
    learnt = learn_dispersion(releases, shares)
    known_or_learnt = [
        learnt if unknown else dispersion
        for dispersion, unknown in zip(given, is_unknown, strict=True)
    ]
    return _scaled_shares(releases, known_or_learnt)


def _scaled_shares(releases: Sequence[ReleaseCounts], dispersions: Sequence[float]) -> NoisyShares:
    allowance = clip_norm_std([release.clip_norm for release in releases])
    limited = np.array(
        [
            limit_dispersion(dispersion, release.max_user_count)
            for release, dispersion in zip(releases, dispersions, strict=True)
        ]
    )
    totals = np.array([[release.total] for release in releases])
    total_std = np.array([[release.total_std] for release in releases])
    return NoisyShares(
        shares=np.array([release.counts for release in releases]) / totals,
        noise_var=(np.array([release.noise_std for release in releases]) / totals) ** 2,
        sampling_scale=limited / totals,
        relative_var=(total_std / totals) ** 2 + allowance**2 / 2,
    )


def clip_norm_std(clip_norms: Sequence[float | None]) -> float:
    """Return the relative standard deviation of a ratio that clip norms allow for.

    >>> clip_norm_std([4.0, 4.0]), clip_norm_std([2.0, 8.0]), clip_norm_std([None, 8.0])
    (0.0, 0.16, 0.0)
    """
    known = [clip_norm for clip_norm in clip_norms if clip_norm is not None]
    if not known:
        return 0.0
    return CLIP_NORM_STD_PER_OCTAVE * math.log2(max(known) / min(known))


# --- Dispersion: how much chance there is in a count ---


def limit_dispersion(dispersion: float, max_user_count: Floats) -> Floats:
    """Return D of every n-gram by 1/D = 1/d + 1/J.

    What one user adds is limited to J, so that D is the smaller of d and J, with a smooth
    transition. Measured without noise on Reddit, commit authors, film reviews and made-up people
    who repeat themselves never, half and nine tenths of the time: with d by (3), the median of the
    true D over this one is 0.74 to 1.09 among n-grams of any frequency.

    >>> limit_dispersion(2.0, np.array([2.0, 6.0])).tolist()
    [1.0, 1.5]

    Args:
        dispersion: d; infinite if it is not known, which gives D = J.
        max_user_count: J.
    """
    if math.isinf(dispersion):
        return max_user_count
    limited: Floats = dispersion * max_user_count / (dispersion + max_user_count)
    return limited


def mean_dispersion(dispersion: float, counts: Floats, max_user_count: Floats) -> float:
    """Return the mean of D, weighted by noisy counts over J² as in (3); infinite if noise hides it.

    Args:
        dispersion: d.
        counts: Noisy counts.
        max_user_count: J.
    """
    weights = counts / max_user_count**2
    total = float(weights.sum())
    mean = float(weights @ limit_dispersion(dispersion, max_user_count)) / total if total else 0.0
    return mean if total > 0 and mean > 0 else math.inf


def histogram_dispersion(
    counts: Floats,
    max_user_count: Floats,
    *,
    noise_multiplier: float,
    norm_edges: Floats,
    users: Floats,
    users_std: float,
    clip_norm: float,
) -> float:
    """Return d of a release from its noisy histogram of norms; no other release is used.

    A user whose clipped counts are g has Σ_i (g_i/J_i)² = min(norm/Λ, 1)². Over all users the left
    side is Σ_i D_i·E y_i/J_i², and the right side follows from the histogram. So d solves

        Σ_i D_i(d)·y_i/J_i² = Σ_bins users·E min(norm/Λ, 1)²                               (3)

    Words and totals are part of the norm and left out of the left side, which makes d a little
    larger. One standard error is added on the right and taken off on the left, so that noise makes
    it larger, too.

    Args:
        counts: Noisy counts of all n-grams of a release, of all orders.
        max_user_count: J of each.
        noise_multiplier: σ; the noise of a count has the standard deviation J·σ.
        norm_edges: Edges of the bins of norms.
        users: Noisy numbers of users in the bins, one more than there are edges.
        users_std: Standard deviation of each.
        clip_norm: Λ.

    Returns:
        d in counts; infinite if noise hides it.
    """
    # Norms are even in log between two edges: the mean of norm² from a to b is
    # (b² − a²)/(2·log(b/a)).
    lower, upper = norm_edges[:-1], norm_edges[1:]
    inside = np.clip(clip_norm, lower, upper)
    squares = (inside**2 - lower**2) / (2 * clip_norm**2) + np.log(upper / inside)
    first = min(float(norm_edges[0]) / clip_norm, 1.0) ** 2
    weights = np.concatenate([[first], squares / np.log(upper / lower), [1.0]])
    norm_sum = float(weights @ users) + users_std * float(np.linalg.norm(weights))

    def is_enough(dispersion: float) -> bool:
        parts = limit_dispersion(dispersion, max_user_count) / max_user_count**2
        error = noise_multiplier * float(np.linalg.norm(parts * max_user_count))
        return float(parts @ counts) - error >= norm_sum

    return _smallest_dispersion(is_enough, float(max_user_count.max()))


def learn_dispersion(releases: Sequence[ReleaseCounts], shares: NoisyShares) -> float:
    """Return d from how far most n-grams stray from one release to the next.

    For releases without a histogram of norms: those with a given clip norm, by segment, or by
    `gaussian`. The smallest d under which the squared z-scores of consecutive releases, capped at
    `MAX_SCORE`², are no larger than those of a normal distribution, less one standard error.
    N-grams that really changed make it too large, never too small; D stays at most J.

    Args:
        releases: Noisy counts.
        shares: Their shares, with D = J where it is unknown.

    Returns:
        d in counts; infinite if too few n-grams tell it.
    """
    rates = np.maximum(shares.shares.mean(axis=0), 0.0)
    sampling = (shares.sampling_scale * rates).mean(axis=0)
    weights = shares.tested_mask * sampling / (sampling + shares.noise_var.mean(axis=0))
    effective = float(weights.sum()) ** 2 / max(float((weights**2).sum()), 1e-300)
    if effective < MIN_EFFECTIVE_NGRAMS:
        return math.inf
    margin = CAPPED_SQUARE_STD * float(np.linalg.norm(weights)) / math.sqrt(len(releases) - 1)

    def is_enough(dispersion: float) -> bool:
        # Without c: what may be chance or the effect of clip norms that differ counts as chance.
        variances = np.array(
            [
                noise_var
                + (
                    scale
                    if release.dispersion is not None
                    else limit_dispersion(dispersion, release.max_user_count) / release.total
                )
                * rates
                for release, noise_var, scale in zip(
                    releases, shares.noise_var, shares.sampling_scale, strict=True
                )
            ]
        )
        squares = np.diff(shares.shares, axis=0) ** 2 / (variances[1:] + variances[:-1])
        capped = np.minimum(squares, MAX_SCORE**2).mean(axis=0)
        return bool((weights * (CAPPED_SQUARE_MEAN - capped)).sum() >= margin)

    largest = max(float(each.max_user_count.max()) for each in releases if each.dispersion is None)
    return _smallest_dispersion(is_enough, largest)


def _smallest_dispersion(is_enough: Callable[[float], bool], max_user_count: float) -> float:
    """Return the smallest d that is enough; infinite if 100 J, which is as good as J, is not."""
    low, high = 0.0, 100 * max_user_count
    if not is_enough(high):
        return math.inf
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


# --- One ratio: the test and its inversion ---


def misfit(pair: NoisyShares, ratio: Floats | float) -> Floats:
    """Return S(r) of every n-gram, by (2), for two releases.

    Args:
        pair: Shares in two releases.
        ratio: r ≥ 0 of the second rate to the first, of each n-gram or of all; infinity is allowed.
    """
    ratios = np.broadcast_to(np.asarray(ratio, float), pair.shares.shape[1:])
    first = 1 / np.maximum(ratios, 1.0)
    second = np.minimum(ratios, 1.0)
    return _directed_misfit(pair, np.stack([first, second]))


def _directed_misfit(pair: NoisyShares, direction: Floats) -> Floats:
    """Return S where rates are p = m·direction (2 × V) for the m ≥ 0 that fits best."""
    counted = np.maximum(pair.shares, 0.0)
    variances = pair.variances(counted)
    for _ in range(FIT_ROUNDS):
        rates = _fit_rates(counted, variances, direction)
        variances = pair.variances(rates)
    rates = _fit_rates(pair.shares, variances, direction)
    squares = ((pair.shares - rates) ** 2 - np.minimum(pair.shares, 0.0) ** 2) / variances
    statistic: Floats = np.maximum(squares.sum(axis=0), 0.0)
    return statistic


def _fit_rates(shares: Floats, variances: Floats, direction: Floats) -> Floats:
    """Return m·direction for the m ≥ 0 of least squares weighted by 1/variance."""
    weighted = direction / variances
    size = (weighted * shares).sum(axis=0) / (weighted * direction).sum(axis=0)
    rates: Floats = np.maximum(size, 0.0) * direction
    return rates


@dataclass(frozen=True, eq=False)
class RatioIntervals:
    """Ratios of the rates in two releases, n-gram by n-gram.

    Attributes:
        ratio: The ratio of the shares that are shown; always inside the interval.
        low: Lower end of the interval; 0 if it has none.
        high: Upper end; infinite if it has none.
        misfit: S(1).
    """

    ratio: Floats
    low: Floats
    high: Floats
    misfit: Floats


def ratio_intervals(pair: NoisyShares, critical_value: float) -> RatioIntervals:
    """Return {r : S(r) ≤ critical value} for every n-gram, with S(1).

    Ends are found by bisection between the estimate, where S is small, and 1 or the end of the
    scale. So an interval excludes 1 exactly if S(1) exceeds the critical value, and then lies on
    the side of its estimate.

    Args:
        pair: Shares in two releases.
        critical_value: At least 3.84, as of `critical_misfit`.
    """
    positive = pair.positive_shares
    ratio = positive[1] / positive[0]
    at_one = misfit(pair, 1.0)
    noise_std = np.sqrt(pair.noise_var)

    # φ is the angle of the rates in units of their noise, so that 0, 1 and infinity are all finite:
    # r = noise₂/noise₁ · tan φ.
    def angle(ratios: Floats | float) -> Floats:
        angles: Floats = np.arctan2(ratios * noise_std[0], noise_std[1])
        return angles

    def is_inside(angles: Floats) -> Bools:
        direction = noise_std * np.stack([np.cos(angles), np.sin(angles)])
        inside: Bools = _directed_misfit(pair, direction) <= critical_value
        return inside

    center = angle(ratio)
    one = angle(np.ones_like(ratio))
    is_one_inside = at_one <= critical_value
    ends = []
    for limit, is_low in ((np.zeros_like(ratio), True), (np.full_like(ratio, math.pi / 2), False)):
        # Between the estimate and `limit`, or 1 if it lies between them and is known to be out;
        # beyond 1 if it is in.
        is_one_between = (ratio > 1) if is_low else (ratio < 1)
        inner = np.where(is_one_between & is_one_inside, one, center)
        outer = np.where(is_one_between & ~is_one_inside, one, limit)
        is_unbounded = is_inside(outer) & (outer == limit)
        for _ in range(BISECTION_STEPS):
            middle = (inner + outer) / 2
            inside = is_inside(middle)
            inner = np.where(inside, middle, inner)
            outer = np.where(inside, outer, middle)
        found = np.tan(inner) * noise_std[1] / noise_std[0]
        ends.append(np.where(is_unbounded, 0.0 if is_low else math.inf, found))
    # Rounding of tan and arctan must not push an end past the estimate, or past 1.
    low = np.minimum(ends[0], ratio)
    high = np.maximum(ends[1], ratio)
    low = np.where(is_one_inside, np.minimum(low, 1.0), low)
    high = np.where(is_one_inside, np.maximum(high, 1.0), high)
    return RatioIntervals(ratio, low, high, at_one)


# --- The largest of several pairs ---


def misfit_p_values(misfits: Floats, release_count: int) -> Floats:
    """Return how likely the largest S(1) of all pairs is so large if nothing changed.

    With R = 2 releases it is the tail of χ² with one degree of freedom. In general √(2S) is
    compared with the range of R independent standard normal variables (Tukey; conservative where
    variances differ: Hayter, 1984):

        P = R ∫ φ(u)·{Φ(u)^(R−1) − [Φ(u) − Φ(u − √(2S))]^(R−1)} du

    Args:
        misfits: The largest S(1) of each n-gram.
        release_count: R.
    """
    from scipy.special import erfc  # noqa: PLC0415 - 0.1 s

    if release_count == 2:
        pair_values: Floats = erfc(np.sqrt(misfits / 2))
        return pair_values
    scores, log_tails = _range_tails(release_count)
    z = np.sqrt(misfits)
    pair_count = release_count * (release_count - 1) / 2
    beyond = pair_count * erfc(z / math.sqrt(2))
    values: Floats = np.where(z < scores[-1], np.exp(np.interp(z, scores, log_tails)), beyond)
    return values


def critical_misfit(release_count: int) -> float:
    """Return the S that the largest of all pairs exceeds with probability 5% by chance.

    >>> round(critical_misfit(2), 4)
    3.8415
    """
    low, high = 0.0, 100.0
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if misfit_p_values(np.array([middle]), release_count)[0] > 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=8)
def _range_tails(release_count: int) -> tuple[Floats, Floats]:
    """Return z-scores from 0 to 36 and the logs of their tail probabilities.

    Beyond 36, tails are below what a float holds.
    """
    from scipy.special import ndtr  # noqa: PLC0415 - 0.1 s

    scores = np.linspace(0.0, 36.0, 1801)
    others = release_count - 1
    log_tails = np.zeros_like(scores)
    for place, width in enumerate(math.sqrt(2) * scores[1:], start=1):
        points, step = np.linspace(-9.0, width + 9.0, 600, retstep=True)
        below = ndtr(points)
        beyond = np.minimum(ndtr(points - width) / below, 1.0)
        # A^(R−1) − B^(R−1) without cancellation; where B = 0 it is A^(R−1).
        with np.errstate(divide="ignore"):
            parts = -np.expm1(others * np.log1p(-beyond)) * below**others
        density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
        log_tails[place] = math.log(release_count * float((density * parts).sum()) * step)
    return scores, np.minimum.accumulate(log_tails)


# --- Many n-grams ---


def false_discovery_rates(p_values: Floats, is_eligible: Bools) -> Floats:
    """Return the smallest false discovery rate at which each n-gram is listed; 1 if none is.

    Benjamini and Hochberg's step-up procedure, in which an n-gram that is not eligible is never
    listed: the critical value of rank k of m is min(rate·k/m, 0.05) if those with p < 0.05 are
    eligible. It is never above theirs, so the rate holds as theirs does.

    >>> everything = np.array([True, True, True])
    >>> false_discovery_rates(np.array([0.01, 0.5, 0.02]), everything).round(3).tolist()
    [0.03, 0.5, 0.03]

    Args:
        p_values: Of all n-grams that are tested.
        is_eligible: Which of them may be listed: those whose interval excludes 1.
    """
    values = np.where(is_eligible, p_values, 1.0)
    order = np.argsort(values)[::-1]
    ranked = values[order] * values.size / np.arange(values.size, 0, -1)
    rates = np.empty_like(values)
    rates[order] = np.minimum(np.minimum.accumulate(ranked), 1.0)
    return rates
