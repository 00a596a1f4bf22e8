"""Combine noisy counts with those of earlier releases, as far as people have not drifted.

In:  noisy counts of one order, and what earlier releases measured of the same n-grams.
Out: noisy counts of the same n-grams with less noise, for `infer`; and how far people have drifted.

**Drift.** The earlier count m of an n-gram, with noise p, is rescaled to the total of this release.
Since then its frequency has moved by N(0, (λτ)²), where λ is its expected count, and what people
happen to write adds the variance λ. So

    y − m ~ N(0, noise² + λ + p² + (λτ)²).

τ, the *drift*, is the most likely one. So is the share of n-grams that have *changed*, that is
moved by much more than τ. N-grams of words that have changed have a share of their own. Every
n-gram then has a posterior over how far it has moved, from its own y and m, and both are averaged
by their precision under each possibility.

**Forgetting.** Let V be the variance of log-frequencies against public text. An autoregressive
process that keeps V and moves by τ keeps the share

    ρ = 1 − τ²/(2V)

of what sets people apart from public text. So m is used as π + (m − π)/ρ, with noise to match.
Where nothing is in common any more, because ρ is too small or because y strays from public text in
other places than m, y stays as it is.

**Storage.** The second half of the module turns noisy counts into the `Measurements` that a
release stores, and back. These are the same numbers to the last bit. N-grams are found by their
text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.inference.noisy_counts import (
    UNKNOWN,
    ClippedMass,
    Clipping,
    NoisyCounts,
    PublicNgrams,
)
from bayesgram.inference.pooling import RESIDUAL_STD
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.measurements import (
    CLIPPED_TOTAL,
    CLIPPED_WORD,
    NGRAM,
    TOTAL,
    UNLISTED,
    WORD,
    MeasurementBlock,
    Measurements,
)
from bayesgram.releases.release import Release
from bayesgram.text.ngrams import ngram_tokens

# Where a comment says "chosen on chains", the value was chosen while looking at
# `benchmarks/chain.py`: made-up people who drift, and Reddit posts in two halves (docs/results.md,
# "Releases that follow one another"). No comparison with other values is recorded.

# Drifts τ that are tried: standard deviations of log-frequencies from 1% to 2.56, in steps of √2.
# Chosen on chains.
DRIFT_GRID: Floats = np.exp2(np.arange(0, 8.5, 0.5)) / 100

# Prior of τ: log τ is normal around the log of the first, with the second as its standard
# deviation. Chosen on chains.
TYPICAL_DRIFT = 0.1
LOG_DRIFT_STD = 1.5

# Standard deviation of log τ of a segment around that of all people. Chosen by hand; not measured
# against other values.
SEGMENT_LOG_DRIFT_STD = 0.5

# How far an n-gram that has changed may have moved: standard deviations from ½ to 16, relative to
# its expected count. All are equally likely. Chosen on chains.
CHANGE_GRID: Floats = np.exp2(np.arange(-1.0, 5.0))

# Shares of changed n-grams that are tried. Chosen on chains.
CHANGED_SHARE_GRID = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 0.999])

# Prior mean of that share. The prior is worth one n-gram. Chosen on chains.
TYPICAL_CHANGED_SHARE = 0.05

# Share of the expected count that is as in public text, the rest being as in the last release: an
# n-gram that the last release expects nowhere may have come up. Chosen on chains.
PUBLIC_SHARE = 0.1

# Smallest V, the variance of log-frequencies against public text: nobody writes exactly like public
# text, also where noise hides the difference. Chosen on chains.
MIN_LOG_RATIO_VAR = 0.25

# Smallest ρ: if less is kept, the earlier count is not worth its noise. Chosen on chains.
MIN_KEPT_SHARE = 0.4

# Standard deviations from public text at which an n-gram is cut, so that no single one decides
# whether two releases are related. Chosen by hand; not measured against other values.
MAX_OUTLIER_Z = 2.0

# The total of this release counts as at least so many of its standard deviations, so that earlier
# counts can be rescaled to it. Chosen by hand; not measured against other values.
MIN_SCALE_Z = 2.0

# Probability of having changed from which the n-grams of a word have a share of changed n-grams of
# their own: more likely than not.
MIN_CHANGED_PROBABILITY = 0.5

# The combined variance is at least this part of what it would be without any drift. By the formula
# it is never below the whole of that; the guard is against rounding, where a small variance is the
# difference of two large squares.
MIN_VAR_RATIO = 0.25

# Largest logarithm of a likelihood ratio: exp(500) can still be added up.
MAX_LOG_RATIO = 500

# Only a guard against a division by 0, where nothing was measured before.
MIN_WEIGHT_SUM = 1e-9


# --- Drift ---


@dataclass(frozen=True, eq=False)
class PreviousCounts:
    """What earlier releases measured of the n-grams of one order, in units of the last one's total.

    Attributes:
        counts: Noisy counts, combined over all earlier releases.
        noise_std: Their standard deviations; infinite for an n-gram that was not measured.
        expected: Expected counts of the last release; 0 where it does not list the n-gram.
        total: The sum of expected counts over all n-grams of the last release.
        has_same_ngrams: Whether the last release has the same n-grams as this one.
        word_counts: Noisy counts of words, if they were measured of the same n-grams.
        word_noise_std: Their standard deviations.
    """

    counts: Floats
    noise_std: Floats
    expected: Floats
    total: float
    has_same_ngrams: bool
    word_counts: Floats | None = None
    word_noise_std: Floats | None = None


@dataclass(frozen=True)
class Drift:
    """How far people's text has moved since the last release. Cards show these three numbers.

    Attributes:
        drift: τ, the standard deviation of log-frequencies.
        changed: The share of the n-grams that have moved by more.
        information: 1/noise² of the combined counts over that of this release alone, median over
            the n-grams.
    """

    drift: float
    changed: float
    information: float

    @classmethod
    def unrelated(cls, drift: float) -> "Drift":
        """Return the drift of releases that have nothing in common."""
        return cls(drift, 1.0, 1.0)

    @property
    def is_unrelated(self) -> bool:
        """Whether the releases have nothing in common."""
        return self.changed == 1 and self.information == 1


@dataclass(frozen=True)
class DriftPrior:
    """The prior of the drift: log τ ~ N(log typical_drift, log_std²)."""

    typical_drift: float = TYPICAL_DRIFT
    log_std: float = LOG_DRIFT_STD

    @classmethod
    def for_segment(cls, drift_of_all: Drift | None) -> "DriftPrior":
        """Return the prior of a segment: about the drift of all people, where that is known."""
        if drift_of_all is None:
            return cls()
        return cls(drift_of_all.drift, SEGMENT_LOG_DRIFT_STD)

    def compute_log_density(self, drifts: Floats) -> Floats:
        """Return the log-density of each drift, up to a constant."""
        z = np.log(drifts / self.typical_drift) / self.log_std
        log_density: Floats = -0.5 * z**2
        return log_density


DEFAULT_DRIFT_PRIOR = DriftPrior()


@dataclass(frozen=True, eq=False)
class CountPairs:
    """Two measurements of the same n-grams or words, now and earlier, in the same units.

    Attributes:
        counts: Noisy counts of this release.
        noise_std: Their standard deviations.
        previous_counts: Noisy counts of earlier releases, rescaled.
        previous_std: Their standard deviations; infinite where nothing was measured.
        expected: Expected counts λ, mostly by the last release.
        public_expected: Expected counts by public text alone.
        log_ratio_var: V, the variance of log-frequencies against public text.
    """

    counts: Floats
    noise_std: Floats
    previous_counts: Floats
    previous_std: Floats
    expected: Floats
    public_expected: Floats
    log_ratio_var: float

    @property
    def is_known(self) -> Bools:
        """Which n-grams were measured before."""
        return np.isfinite(self.previous_std)

    @property
    def count_var(self) -> Floats:
        """The variance of each count now: noise and, where it was measured before, chance.

        What people happen to write is a Poisson number, so its variance is its mean λ. Without an
        earlier count there is nothing to tell habit from chance, and the count stays as it is.
        """
        chance_var = np.where(self.is_known, self.expected, 0.0)
        variance: Floats = self.noise_std**2 + chance_var
        return variance

    def compute_drifted_var(self, drift: float) -> Floats:
        """Return the variance p² + (λτ)² of the earlier count as an estimate of what is now."""
        variance: Floats = self.previous_std**2 + (self.expected * drift) ** 2
        return variance

    def compute_kept_share(self, drift: float) -> float:
        """Return ρ = 1 − τ²/(2V); 0 if it is below `MIN_KEPT_SHARE`."""
        share = 1 - drift**2 / (2 * self.log_ratio_var)
        return share if share >= MIN_KEPT_SHARE else 0.0

    def predict_from_previous(self, drift: float) -> tuple[Floats, Floats]:
        """Return π + (m − π)/ρ, the earlier count as a measurement of now, and its precision."""
        kept_share = self.compute_kept_share(drift)
        if not kept_share:
            return self.previous_counts, np.zeros_like(self.previous_counts)
        # Variance of log-frequencies that is new since the last release.
        new_var = self.log_ratio_var * (1 - kept_share**2)
        variance = (self.previous_std**2 + self.expected**2 * new_var) / kept_share**2
        difference = self.previous_counts - self.public_expected
        return self.public_expected + difference / kept_share, 1 / variance

    def is_related(self, drift: float) -> bool:
        """Return whether as much is still in common as this drift would leave.

        If not, these are other people, or another language.

        Both measurements stray from public text. The differences are divided by their standard
        deviations, of people and noise together, and cut at `MAX_OUTLIER_Z`. If the share ρ is
        kept, the product of both is expected to be ρ times the variance that noise does not
        explain. The releases are related if the product is more than half of that, less one
        standard error.
        """
        is_known = self.is_known
        kept_share = self.compute_kept_share(drift)
        public_expected = self.public_expected[is_known]
        people_var = self.log_ratio_var * public_expected**2
        count_var = self.count_var[is_known]
        previous_var = self.previous_std[is_known] ** 2
        # Correlation of both differences if nothing has drifted.
        correlation = people_var / np.sqrt((people_var + count_var) * (people_var + previous_var))
        weights = correlation / max(float(correlation.sum()), MIN_WEIGHT_SUM)

        def standardise(counts: Floats, noise_var: Floats) -> tuple[Floats, float]:
            z = (counts[is_known] - public_expected) / np.sqrt(people_var + noise_var)
            z = np.clip(z, -MAX_OUTLIER_Z, MAX_OUTLIER_Z)
            centred = z - float(weights @ z)
            noise_share = noise_var / (people_var + noise_var)
            return centred, float(weights @ (centred**2 - noise_share))

        z, people_share = standardise(self.counts, count_var)
        previous_z, previous_people_share = standardise(self.previous_counts, previous_var)
        product = correlation * z * previous_z
        square_sum = max(float((correlation**2).sum()), MIN_WEIGHT_SUM)
        expected_product = kept_share * max(min(people_share, previous_people_share), 0.0)
        standard_error = float(np.linalg.norm(product))
        return (
            kept_share > 0
            and float(product.sum()) > expected_product * square_sum / 2 - standard_error
        )

    def compute_log_likelihoods(self, drifts: Floats) -> Floats:
        """Return the log-likelihood of y − m, drifts × n-grams; 0 where nothing was measured."""
        is_known = self.is_known
        likelihoods = np.zeros((drifts.size, self.counts.size))
        difference = self.counts[is_known] - self.previous_counts[is_known]
        for row, drift in zip(likelihoods, drifts, strict=True):
            variance = self.count_var[is_known] + self.compute_drifted_var(drift)[is_known]
            row[is_known] = -0.5 * (difference**2 / variance + np.log(variance))
        return likelihoods


@dataclass(frozen=True, eq=False)
class DriftPosterior:
    """How far each n-gram or word may have moved.

    Attributes:
        drifts: Standard deviations: first the drift of all, then `CHANGE_GRID`.
        probabilities: Of each of them, drifts × n-grams.
        drift: The most likely drift τ.
        changed_shares: The most likely share of changed n-grams, by group.
    """

    drifts: Floats
    probabilities: Floats
    drift: float
    changed_shares: list[float]

    @property
    def changed_probability(self) -> Floats:
        """The probability that each n-gram has changed."""
        probability: Floats = 1 - self.probabilities[0]
        return probability


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Expected counts by the last release and by public text; see `CountPairs`."""

    expected: Floats
    public_expected: Floats
    log_ratio_var: float

    def pair(
        self,
        current: tuple[Floats, Floats],
        previous: tuple[Floats, Floats],
        scale: float,
    ) -> CountPairs:
        """Return both measurements in the units of this release.

        Args:
            current: Counts of this release, and their standard deviations.
            previous: The same of earlier releases, in their own units.
            scale: The factor from those units to the units of this release.
        """
        counts, noise_std = current
        previous_counts, previous_std = previous
        return CountPairs(
            counts,
            noise_std,
            scale * np.where(np.isfinite(previous_std), previous_counts, 0.0),
            scale * previous_std,
            self.expected,
            self.public_expected,
            self.log_ratio_var,
        )


def combine_counts(
    measured: NoisyCounts,
    previous: PreviousCounts,
    public: PublicNgrams,
    drift_prior: DriftPrior = DEFAULT_DRIFT_PRIOR,
) -> tuple[NoisyCounts, Drift]:
    """Combine noisy counts of one order with earlier ones, under the most likely drift.

    Args:
        measured: Noisy counts of this release.
        previous: What earlier releases measured.
        public: Public n-grams.
        drift_prior: The prior of the drift.

    Returns:
        Noisy counts with less noise, and the drift. The counts are those of this release alone if
        the releases have nothing in common.
    """
    scale, scale_std = _estimate_scale(measured, previous)
    expected_counts = _expect_counts(previous, public, scale)
    combined = measured
    is_changed = np.zeros(public.prior.size, bool)
    word_pairs = _pair_words(measured, previous, public, expected_counts, scale)
    if word_pairs is not None:
        all_words = np.ones(word_pairs.counts.size, bool)
        word_drift = fit_drift(word_pairs, [all_words], drift_prior)
        is_changed_word = word_drift.changed_probability > MIN_CHANGED_PROBABILITY
        is_changed = public.per_ngram(is_changed_word.astype(np.float64)) > 0
        word_counts, word_std = average_counts(word_pairs, word_drift)
        combined = replace(combined, word_counts=word_counts, word_noise=word_std)
    pairs = expected_counts.pair(
        (measured.counts, measured.noise), (previous.counts, previous.noise_std), scale
    )
    drift = fit_drift(pairs, [~is_changed, is_changed], drift_prior)
    if not pairs.is_related(drift.drift):
        return measured, Drift.unrelated(drift.drift)
    counts, noise_std = average_counts(pairs, drift)
    if previous.has_same_ngrams:
        combined = replace(
            combined, total=scale * previous.total, total_noise=scale_std * previous.total
        )
    combined = replace(combined, counts=counts, noise=noise_std)
    return combined, _summarise_drift(pairs, drift, noise_std)


def _summarise_drift(pairs: CountPairs, drift: DriftPosterior, noise_std: Floats) -> Drift:
    """Return the three numbers for the card, over the n-grams that were measured before."""
    is_known = pairs.is_known
    if not is_known.any():
        return Drift.unrelated(drift.drift)
    information = float(np.median((pairs.noise_std / noise_std)[is_known] ** 2))
    changed = float(drift.changed_probability[is_known].mean())
    return Drift(drift.drift, changed, information)


def _expect_counts(previous: PreviousCounts, public: PublicNgrams, scale: float) -> ExpectedCounts:
    """Return the expected counts of this release's n-grams."""
    public_expected = scale * previous.total * public.prior
    expected = (1 - PUBLIC_SHARE) * scale * previous.expected + PUBLIC_SHARE * public_expected
    log_ratio_var = _estimate_log_ratio_var(previous.expected, public.prior)
    return ExpectedCounts(expected, public_expected, log_ratio_var)


def _pair_words(
    measured: NoisyCounts,
    previous: PreviousCounts,
    public: PublicNgrams,
    expected_counts: ExpectedCounts,
    scale: float,
) -> CountPairs | None:
    """Return both measurements of words; None if one of them has none."""
    if measured.word_counts is None or measured.word_noise is None:
        return None
    if previous.word_counts is None or previous.word_noise_std is None:
        return None
    expected_words = replace(
        expected_counts,
        expected=public.per_word(expected_counts.expected),
        public_expected=public.per_word(expected_counts.public_expected),
    )
    return expected_words.pair(
        (measured.word_counts, measured.word_noise),
        (previous.word_counts, previous.word_noise_std),
        scale,
    )


def _estimate_log_ratio_var(expected: Floats, prior: Floats) -> float:
    """Return V, the variance of log θ/π over what people write, by the last release."""
    is_listed = expected > 0
    if not is_listed.any():
        return MIN_LOG_RATIO_VAR
    log_ratios = np.log(expected[is_listed] / prior[is_listed])
    weights = expected[is_listed] / float(expected[is_listed].sum())
    variance = float(weights @ (log_ratios - weights @ log_ratios) ** 2)
    return max(variance, MIN_LOG_RATIO_VAR)


def _estimate_scale(measured: NoisyCounts, previous: PreviousCounts) -> tuple[float, float]:
    """Return how many times as much was written as before, and its standard deviation.

    By weighted least squares over the n-grams, each of which may have moved by `RESIDUAL_STD`, and
    over the total where both releases have the same n-grams.
    """
    first_guess = max(measured.total, 1.0) / previous.total
    residual_var = (RESIDUAL_STD * first_guess * previous.expected) ** 2
    weights = 1 / (measured.noise**2 + residual_var)
    product = float((weights * measured.counts * previous.expected).sum())
    square = float((weights * previous.expected**2).sum())
    if previous.has_same_ngrams:
        total_weight = (previous.total / measured.total_noise) ** 2
        product = product + total_weight * measured.total / previous.total
        square = square + total_weight
    std = 1 / np.sqrt(square)
    return float(max(product / square, MIN_SCALE_Z * std)), float(std)


def fit_drift(
    pairs: CountPairs, groups: Sequence[Bools], drift_prior: DriftPrior = DEFAULT_DRIFT_PRIOR
) -> DriftPosterior:
    """Fit the drift, and the share of changed n-grams in each group.

    Args:
        pairs: Measurements now and earlier.
        groups: A mask of n-grams for each group; together they are all n-grams.
        drift_prior: The prior of the drift.

    Returns:
        The most likely values, and given these the posterior of each n-gram.
    """
    drifted = pairs.compute_log_likelihoods(DRIFT_GRID)
    changed = _log_mean_exp(pairs.compute_log_likelihoods(CHANGE_GRID))
    group_scores = [_score_changed_shares(drifted[:, group], changed[group]) for group in groups]
    best_scores = sum(scores.max(axis=1) for scores in group_scores)
    drift_index = int(np.argmax(best_scores + drift_prior.compute_log_density(DRIFT_GRID)))
    changed_shares = [
        float(CHANGED_SHARE_GRID[np.argmax(scores[drift_index])]) for scores in group_scores
    ]
    drifts = np.concatenate([DRIFT_GRID[drift_index : drift_index + 1], CHANGE_GRID])
    prior = np.zeros((drifts.size, pairs.counts.size))
    for group, changed_share in zip(groups, changed_shares, strict=True):
        prior[0, group] = 1 - changed_share
        prior[1:, group] = changed_share / CHANGE_GRID.size
    log_posterior = np.log(prior) + pairs.compute_log_likelihoods(drifts)
    posterior = np.exp(log_posterior - log_posterior.max(axis=0))
    probabilities = posterior / posterior.sum(axis=0)
    return DriftPosterior(drifts, probabilities, float(DRIFT_GRID[drift_index]), changed_shares)


def _log_mean_exp(logs: Floats) -> Floats:
    """Return log mean exp over the first axis."""
    largest = logs.max(axis=0)
    mean: Floats = largest + np.log(np.exp(logs - largest).mean(axis=0))
    return mean


def _score_changed_shares(drifted: Floats, changed: Floats) -> Floats:
    """Return the log-posterior of a group, drifts × shares of changed n-grams.

    Args:
        drifted: Log-likelihoods of each n-gram by drift, drifts × n-grams.
        changed: Log-likelihood of each n-gram if it has changed.
    """
    ratios = np.exp(np.minimum(changed - drifted, MAX_LOG_RATIO))
    log_prior = np.log(CHANGED_SHARE_GRID) * TYPICAL_CHANGED_SHARE + np.log(
        1 - CHANGED_SHARE_GRID
    ) * (1 - TYPICAL_CHANGED_SHARE)
    gains = np.stack(
        [np.log(1 - share + share * ratios).sum(axis=1) for share in CHANGED_SHARE_GRID], axis=1
    )
    scores: Floats = drifted.sum(axis=1)[:, None] + gains + log_prior
    return scores


def average_counts(pairs: CountPairs, drift: DriftPosterior) -> tuple[Floats, Floats]:
    """Return the mean of both measurements, and its standard deviation.

    For each drift the two are averaged by their precision. The result is the mixture of these
    normal distributions by the probability of each drift.
    """
    precision = 1 / pairs.count_var
    mean = np.zeros_like(pairs.counts)
    mean_square = np.zeros_like(pairs.counts)
    for value, probabilities in zip(drift.drifts, drift.probabilities, strict=True):
        prediction, prediction_precision = pairs.predict_from_previous(value)
        total_precision = precision + prediction_precision
        average = (precision * pairs.counts + prediction_precision * prediction) / total_precision
        mean += probabilities * average
        mean_square += probabilities * (average**2 + 1 / total_precision)
    var_without_drift = 1 / (1 / pairs.count_var + 1 / pairs.previous_std**2)
    variance = np.maximum(mean_square - mean**2, MIN_VAR_RATIO * var_without_drift)
    return mean, np.sqrt(variance)


def combine_with_previous(
    measured: Sequence[NoisyCounts],
    parts: Sequence[Vocabulary],
    previous: Release,
    drift_of_all: Mapping[str, Drift] | None = None,
) -> tuple[list[NoisyCounts], dict[str, Drift]]:
    """Combine noisy counts of every order with those of an earlier release.

    Args:
        measured: Noisy counts of this release, by order.
        parts: The n-grams of each order.
        previous: The earlier release.
        drift_of_all: For a segment: how far all people have drifted, by order. If all people are
            unrelated to those before, so is the segment, however little noise shows of it.

    Returns:
        Combined noisy counts by order, and the drift of each order that was measured before.
    """
    all_combined = []
    drifts = {}
    for noisy, part in zip(measured, parts, strict=True):
        order = str(part.order)
        previous_counts = extract_previous_counts(previous, part)
        drift_of_order = (drift_of_all or {}).get(order)
        combined = noisy
        if previous_counts is not None:
            if drift_of_order is not None and drift_of_order.is_unrelated:
                drifts[order] = drift_of_order
            else:
                drift_prior = DriftPrior.for_segment(drift_of_order)
                combined, drifts[order] = combine_counts(
                    noisy, previous_counts, PublicNgrams.of(part), drift_prior
                )
        all_combined.append(combined)
    return all_combined, drifts


def extract_previous_counts(release: Release, part: Vocabulary) -> PreviousCounts | None:
    """Return what a release and those before it measured of n-grams of one order.

    Returns:
        None if the release has none of these n-grams.
    """
    measurements = release.measurements
    ngrams = None if measurements is None else measurements.block(NGRAM, part.order)
    if measurements is None or ngrams is None:
        return None
    of_order = release.orders == part.order
    listed = release.ngrams.filter(pa.array(of_order))
    measured_index = find_texts(part.ngrams, ngrams.texts)
    listed_index = find_texts(part.ngrams, listed)
    if not ((measured_index >= 0) & (listed_index >= 0)).any():
        return None
    counts, noise_std = ngrams.carried or (ngrams.counts, ngrams.noise_std)
    total = _extract_previous_total(measurements, part.order)
    has_same_ngrams = len(part) == len(ngrams.texts) == len(listed) and bool(
        (measured_index >= 0).all()
    )
    previous = PreviousCounts(
        take_or_default(counts, measured_index, 0.0),
        take_or_default(noise_std, measured_index, np.inf),
        take_or_default(total * release.probabilities[of_order], listed_index, 0.0),
        total,
        has_same_ngrams,
    )
    words = measurements.block(WORD, part.order)
    # Counts of words in other n-grams are other numbers.
    if words is None or not has_same_ngrams:
        return previous
    word_index = find_texts(part.tokens, words.texts)
    word_counts, word_noise_std = words.carried or (words.counts, words.noise_std)
    return replace(
        previous, word_counts=word_counts[word_index], word_noise_std=word_noise_std[word_index]
    )


def _extract_previous_total(measurements: Measurements, order: int) -> float:
    """Return the total of an order, combined over earlier releases; at least 1."""
    block = _find_combined_block(measurements, TOTAL, order)
    total = measurements.total(order)[0] if block is None else float(block.counts[0])
    return max(total, 1.0)


# --- What a release stores ---


def make_measurements(
    measured: Sequence[NoisyCounts],
    parts: Sequence[Vocabulary],
    combined: Sequence[NoisyCounts] | None = None,
) -> Measurements:
    """Return the measurements that a release stores.

    Args:
        measured: Noisy counts of this release, by order.
        parts: The n-grams of each order.
        combined: The same, combined with earlier releases; None if the release follows none.
    """
    combined_or_none = [None] * len(parts) if combined is None else combined
    blocks = [
        block
        for noisy, part, combined_counts in zip(measured, parts, combined_or_none, strict=True)
        for block in _make_blocks(noisy, part, combined_counts)
    ]
    clipping = {
        part.order: (noisy.clipping.lost, noisy.clipping.unevenness, noisy.clipping.bias_rel_std)
        for noisy, part in zip(measured, parts, strict=True)
        if noisy.clipping is not UNKNOWN
    }
    return Measurements.from_blocks(blocks, clipping)


def _make_blocks(
    noisy: NoisyCounts, part: Vocabulary, combined: NoisyCounts | None
) -> list[MeasurementBlock]:
    """Return everything that was measured of one order: n-grams, total, words, clipped mass."""
    order = part.order
    carried = None if combined is None else (combined.counts, combined.noise)
    blocks = [
        MeasurementBlock(NGRAM, order, part.ngrams, noisy.counts, noisy.noise, noisy.left, carried)
    ]
    total = MeasurementBlock.from_total(TOTAL, order, noisy.total, noisy.total_noise)
    if combined is not None:
        carried_total = (np.array([combined.total]), np.array([combined.total_noise]))
        total = replace(total, carried=carried_total)
    blocks.append(total)
    if noisy.unlisted is not None:
        blocks.append(
            MeasurementBlock.from_total(UNLISTED, order, noisy.unlisted, noisy.unlisted_noise)
        )
    if noisy.word_counts is not None and noisy.word_noise is not None:
        words = MeasurementBlock(WORD, order, part.tokens, noisy.word_counts, noisy.word_noise)
        if (
            combined is not None
            and combined.word_counts is not None
            and combined.word_noise is not None
        ):
            words = replace(words, carried=(combined.word_counts, combined.word_noise))
        blocks.append(words)
    if noisy.lost is not None:
        lost = noisy.lost
        lost_words = part.tokens.take(pa.array(lost.which))
        blocks.append(MeasurementBlock(CLIPPED_WORD, order, lost_words, lost.counts, lost.noise))
        blocks.append(
            MeasurementBlock.from_total(CLIPPED_TOTAL, order, lost.total, lost.total_noise)
        )
    return blocks


def restore_noisy_counts(measurements: Measurements, part: Vocabulary) -> NoisyCounts:
    """Return the noisy counts of one order, as inference had them, from what a release stores.

    They are combined with earlier releases, if the release follows any. N-grams that were measured
    and that are not asked for are subtracted from totals and words, and add their noise.

    Args:
        measurements: What the release stores.
        part: A vocabulary of one order, all of whose n-grams were measured.
    """
    ngrams = _find_combined_block(measurements, NGRAM, part.order)
    if ngrams is None:
        raise ValueError("no n-gram of this order was measured")
    index = find_texts(part.ngrams, ngrams.texts)
    other_index = np.setdiff1d(np.arange(ngrams.counts.size), index)
    total, total_std = _restore_total(measurements, ngrams, index, other_index, part.order)
    clipping = measurements.clipping.get(part.order)
    noisy = NoisyCounts(
        ngrams.counts[index],
        ngrams.noise_std[index],
        total,
        total_std,
        clipping=UNKNOWN if clipping is None else Clipping(*clipping),
        left=None if ngrams.unclipped_share is None else ngrams.unclipped_share[index],
        lost=_restore_clipped_mass(measurements, part),
    )
    unlisted = measurements.block(UNLISTED, part.order)
    if unlisted is not None:
        # Measured n-grams that the vocabulary lacks are unlisted, too.
        other_std = np.linalg.norm(ngrams.noise_std[other_index])
        noisy = replace(
            noisy,
            unlisted=float(unlisted.counts[0] + ngrams.counts[other_index].sum()),
            unlisted_noise=float(np.hypot(unlisted.noise_std[0], other_std)),
        )
    words = _find_combined_block(measurements, WORD, part.order)
    if words is None:
        return noisy
    word_counts, word_std = _restore_word_counts(words, ngrams, other_index, part)
    return replace(noisy, word_counts=word_counts, word_noise=word_std)


def _find_combined_block(
    measurements: Measurements, kind: str, order: int
) -> MeasurementBlock | None:
    """Return one block, combined with earlier releases if there were any."""
    block = measurements.block(kind, order)
    if block is None or block.carried is None:
        return block
    counts, noise_std = block.carried
    return replace(block, counts=counts, noise_std=noise_std)


def _restore_total(
    measurements: Measurements,
    ngrams: MeasurementBlock,
    index: Integers,
    other_index: Integers,
    order: int,
) -> tuple[float, float]:
    """Return the total of some of the measured n-grams, and its standard deviation.

    Args:
        measurements: What the release stores.
        ngrams: The measured n-grams of the order.
        index: Those that are asked for.
        other_index: All others, which are subtracted from the measured total.
        order: The order.
    """
    block = _find_combined_block(measurements, TOTAL, order)
    if block is None:
        return float(ngrams.counts[index].sum()), float(np.linalg.norm(ngrams.noise_std[index]))
    total = float(block.counts[0])
    total_std = float(block.noise_std[0])
    if not other_index.size:
        return total, total_std
    other_std = np.linalg.norm(ngrams.noise_std[other_index])
    return total - float(ngrams.counts[other_index].sum()), float(np.hypot(total_std, other_std))


def _restore_word_counts(
    words: MeasurementBlock, ngrams: MeasurementBlock, other_index: Integers, part: Vocabulary
) -> tuple[Floats, Floats]:
    """Return counts of the vocabulary's words, and their standard deviations.

    Args:
        words: The measured words.
        ngrams: The measured n-grams.
        other_index: N-grams that are not asked for; their words are subtracted.
        part: The vocabulary.
    """
    index = find_texts(part.tokens, words.texts)
    if not other_index.size:
        return words.counts[index], words.noise_std[index]
    tokens = ngram_tokens(ngrams.texts.take(pa.array(other_index)), part.tokenizer)
    token_index = find_texts(tokens, words.texts)
    ngram_of_token = np.repeat(other_index, len(tokens) // other_index.size)
    size = words.counts.size
    counts = words.counts - np.bincount(token_index, ngrams.counts[ngram_of_token], size)
    variances = words.noise_std**2 + np.bincount(
        token_index, ngrams.noise_std[ngram_of_token] ** 2, size
    )
    return counts[index], np.sqrt(variances)[index]


def _restore_clipped_mass(measurements: Measurements, part: Vocabulary) -> ClippedMass | None:
    """Return what clipping removed, by the words that the vocabulary has."""
    words = measurements.block(CLIPPED_WORD, part.order)
    total = measurements.block(CLIPPED_TOTAL, part.order)
    if words is None or total is None:
        return None
    word_index = find_texts(words.texts, part.tokens)
    is_listed = word_index >= 0
    return ClippedMass(
        word_index[is_listed],
        words.counts[is_listed],
        words.noise_std[is_listed],
        float(total.counts[0]),
        float(total.noise_std[0]),
    )


def find_texts(texts: pa.LargeStringArray, among: pa.LargeStringArray) -> Integers:
    """Return the index of each text among others; −1 where it is not there."""
    index: Integers = pc.index_in(texts, among).fill_null(-1).to_numpy().astype(np.int64)
    return index


def take_or_default(values: Floats, index: Integers, default: float) -> Floats:
    """Return values at these indices, and a default where the index is −1."""
    return np.where(index >= 0, values[np.maximum(index, 0)], default)
