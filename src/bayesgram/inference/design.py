"""How the counts of one order are measured: shapes of the noise, and the choice of the clip norm.

In:  public n-grams of one order, and noisy numbers of users and n-grams by norm (the histogram).
Out: the shape of the noise, and a `ClippingPlan`: the clip norm Λ with the smallest KL to expect.

The KL to expect of a clip norm has two parts.

*Noise* (`NoiseCost`). An n-gram is believed as far as its noise is less than what people differ in
from public text.

*Clipping* (`Distortion`). Those who write a lot count for less, and may write differently. The KL
by clipping is about a constant times the unevenness of what clipping keeps, whatever Λ. The
constant differs from population to population, by a factor of ten; but the best Λ hardly depends
on it. (Asking heavy writers for classes of their first words, to estimate it, was tried and did not
choose better.)

This is the public half of `posterior`, so that a plan makes the very same choices before there is
any private text. It does not count, clip or add noise: `mechanisms.posterior` does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bayesgram.arrays import Floats, Integers
from bayesgram.inference.noisy_counts import (
    UNKNOWN,
    VAGUE_REL_STD,
    Clipping,
    NoisyCounts,
    PublicNgrams,
)
from bayesgram.privacy.constants import (
    HISTOGRAM_SHARE,
    MAX_CLIPPED_WORDS,
    NORM_BINS,
    NORM_EDGES,
    TOTAL_UNITS,
    USER_UNITS,
)

# --- Coordinates and shapes ---

# a: the noise of an n-gram is in proportion to π^a, so that rare n-grams get less. The KL by noise
# is smallest at ¼ if people write like public text.
SHAPE_POWER = 0.25

# Share of a level distribution in the π of the shape: an n-gram that public text hardly has must
# not fill a user's norm. Chosen by hand.
LEVEL_SHARE = 0.02

# Share of a user's squared norm that words take. Chosen by hand.
WORD_SHARE = 0.01

# The total of somebody who writes a lot, as a part of their norm. Chosen by hand.
TOTAL_PART = 0.1

# Shape of the n-grams that the vocabulary does not list, over the shape of the total: where the
# vocabulary covers 10% of what people write, both take the same part of the norm.
UNLISTED_RATIO = 9.0

# Shape of the text that allowances leave out, over the shape of the total: somebody who counts for
# a quarter has the same part of the norm there as in the total. Chosen by hand.
WITHHELD_RATIO = 3.0

# Shape of the text that they do not leave out, by how often its users write, over the shape of the
# total: it takes a quarter of the total's part of the norm. Chosen by hand.
NOT_WITHHELD_RATIO = 2.0

# The norm of somebody who writes a lot, where it was not measured. Chosen by hand.
HEAVY_NORM = 32.0


def coordinate_count(parts: Sequence[PublicNgrams], segments: int = 0) -> int:
    """Return the number of coordinates of all queries of `posterior`, asked or not.

    The discreteness of the noise costs a little of ε for each.

    Args:
        parts: Public n-grams by order.
        segments: Number of segments, 0 if all people are released together.
    """
    return sum(_order_coordinate_count(public, segments) for public in parts)


def _order_coordinate_count(public: PublicNgrams, segments: int) -> int:
    ngrams = int(public.words.shape[0])
    order = int(public.words.shape[1])
    word_counts = public.word_total if order > 1 else 0
    clipped_mass = max_clipped_words(public.word_total) + 1
    source_counts = len(public.sources) if len(public.sources) > 1 else 0
    histogram = 2 * NORM_BINS + source_counts
    unlisted = max(segments, 1)
    everyone = ngrams + word_counts + 1 + clipped_mass + histogram
    return everyone + segments * (ngrams + 1) + unlisted


def noise_shape(prior: Floats) -> Floats:
    """Return s = π^a, scaled so that Σ s²π = 1, with a level part in π: public text may be wrong."""
    shape = ((1 - LEVEL_SHARE) * prior + LEVEL_SHARE / prior.size) ** SHAPE_POWER
    scaled: Floats = shape / math.sqrt(float((shape**2 * prior).sum()))
    return scaled


def order_shapes(public: PublicNgrams) -> tuple[Floats, Floats]:
    """Return the shape of the n-grams of an order, and that of their words.

    Unigrams are words already: they have no words beside them. Where the weights of several sources
    are known, shapes are for the mixture, scaled so that norms stay as they are without weights.
    """
    order = public.words.shape[1]
    word_share = WORD_SHARE if order > 1 else 0.0
    scale = _mixture_scale(public)
    shape = noise_shape(public.common if public.weights is None else public.prior) * scale
    ngram_shape = shape / math.sqrt(1 - word_share)
    if order == 1:
        return ngram_shape, np.zeros(0)
    word_shape = noise_shape(public.per_word(public.prior) / order) / math.sqrt(word_share)
    return ngram_shape, word_shape * scale


def _mixture_scale(public: PublicNgrams) -> float:
    """Return the scale of a shape for the mixture that leaves the norm of a typical n-gram."""
    if public.weights is None:
        return 1.0
    usual = float((public.prior / noise_shape(public.common) ** 2).sum())
    mixture = float((public.prior / noise_shape(public.prior) ** 2).sum())
    return math.sqrt(mixture / usual)


@dataclass(frozen=True)
class TypicalUser:
    """The norm of somebody who writes m n-grams like public text: norm² = linear·m + quadratic·m²."""

    linear: float
    quadratic: float

    @classmethod
    def from_rates(cls, rates: Sequence[Floats], shapes: Sequence[Floats]) -> "TypicalUser":
        """Return the user whose counts are Poisson with these rates: E c² = m p + (m p)²."""
        pairs = [(rate, shape) for rate, shape in zip(rates, shapes, strict=True) if shape.size]
        linear = sum(float((rate / shape**2).sum()) for rate, shape in pairs)
        quadratic = sum(float((rate**2 / shape**2).sum()) for rate, shape in pairs)
        return cls(linear, quadratic)

    def norm(self, amount: Floats) -> Floats:
        """Return the norm of somebody who writes so many n-grams."""
        norms: Floats = np.sqrt(self.linear * amount + self.quadratic * amount**2)
        return norms

    def amount(self, norm: Floats) -> Floats:
        """Return how many n-grams somebody of this norm has written."""
        root = np.sqrt(self.linear**2 + 4 * self.quadratic * norm**2)
        amounts: Floats = 2 * norm**2 / (self.linear + root)
        return amounts


def max_amounts(public: PublicNgrams, shape: Floats) -> Floats:
    """Return the most n-grams that count of a user in each bin: typical at its upper edge, or 1."""
    upper = np.concatenate([NORM_EDGES, NORM_EDGES[-1:] * math.sqrt(2)])
    return np.maximum(TypicalUser.from_rates([public.prior], [shape]).amount(upper), 1.0)


def max_clipped_words(words: int) -> int:
    """Return how many of so many words can be asked about in the text that clipping removes."""
    return min(words, MAX_CLIPPED_WORDS)


def clipped_words(public: PublicNgrams) -> tuple[Integers, Floats]:
    """Return the words to ask about in the text that clipping removes, and their shape.

    They are the most frequent ones of public text.
    """
    rates = public.per_word(public.prior)
    which = np.argsort(-rates, kind="stable")[: max_clipped_words(rates.size)]
    return which, noise_shape(rates / rates.sum())[which]


# --- The norm histogram ---

# The middle of each bin of norms.
NORMS = np.concatenate([[NORM_EDGES[0] / math.sqrt(2)], NORM_EDGES * 2**0.25])

# Noise of what users of a bin write, over `max_amounts`, by the noise of their number.
PART_NOISE_RATIO = USER_UNITS / TOTAL_UNITS

# Noise deviations above which a bin has users, and above which one bin must be of every run of such
# bins: bins that are noise alone, far from the others, would move Λ a lot. Chosen by hand.
MIN_BIN_Z = 3.0
MIN_RUN_PEAK_Z = 4.5

# What users of a bin write, as a part of `max_amounts`, before it is measured: mean and standard
# deviation. Chosen by hand.
PRIOR_PART = 0.4
PRIOR_PART_STD = 0.3

# Squared relative bias of a frequent n-gram by clipping, over the unevenness of the text of users
# whom the histogram shows; and relative bias over the share of text that is removed from users whom
# noise hides. Chosen on commits, reviews, posts and Reddit (docs/inference.md): predicted over
# actual bias of the first 200 was 0.7 to 5, and at most 2.2 from ε = 1 on.
VISIBLE_BIAS = 0.02
HIDDEN_BIAS = 0.7

# The tail of the histogram is extrapolated if so many bins are above the noise.
MIN_VISIBLE_BINS = 3

# Slopes and curvatures of the logarithm of the number of users, for each bin beyond the mode. A
# curvature of 0 is a power law, one above 0 is steeper (log-normal amounts), one below 0 flatter.
TAIL_SLOPES = np.linspace(0, 1.6, 33)
TAIL_CURVATURES = np.array(
    [-0.1, -0.075, -0.05, -0.025, 0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8]
)

# Standard deviation of the curvature around 0, as a prior. Among 0.02, 0.03 and 0.05, it predicted
# the bias by clipping best from ε = 1 on, over commits, reviews, posts and Reddit.
TAIL_CURVATURE_STD = 0.05

# The curve begins at the mode, or so many bins before the last that is above the noise.
TAIL_FITTED_BINS = 6

# Curves of a smaller posterior weight are left out.
MIN_TAIL_WEIGHT = 1e-5


def kept_share_by_bin(clip_norm: float) -> Floats:
    """Return the share min(1, Λ/norm) that clipping keeps in each bin, with norms even in log."""
    lower = NORMS / 2**0.25
    # Below this multiple of the lower edge, everything is kept.
    uncut = np.clip(clip_norm / lower, 1.0, math.sqrt(2))
    cut_part = clip_norm / lower * (1 / uncut - 1 / math.sqrt(2))
    kept: Floats = (np.log(uncut) + cut_part) / math.log(math.sqrt(2))
    return kept


def unevenness(written: Floats, kept_share: Floats) -> float:
    """Return U: the variance over all text of how much it counts, over the square of its mean.

    Args:
        written: The share of all text by bin.
        kept_share: The share that clipping keeps by bin.
    """
    mean = float(written @ kept_share)
    return max(float(written @ kept_share**2) / mean**2 - 1, 0.0)


@dataclass(frozen=True, eq=False)
class NormHistogram:
    """How much users write, by bins of their norm.

    Attributes:
        users: Number of users.
        written: Number of n-grams that they write.
        tails: What users write whose bins noise hides, extrapolated by several curves: curves ×
            bins. The choice of a clip norm does not count on it; deviations do.
        tail_weights: The posterior weights of the curves.
    """

    users: Floats
    written: Floats
    tails: Floats = field(default_factory=lambda: np.zeros((1, NORMS.size)))
    tail_weights: Floats = field(default_factory=lambda: np.ones(1))

    @classmethod
    def from_noisy(
        cls, noisy_users: Floats, noisy_parts: Floats, max_amount: Floats, noise_std: float
    ) -> "NormHistogram":
        """Return the histogram that noisy numbers tell; bins that may be noise alone are empty.

        Args:
            noisy_users: Number of users by bin.
            noisy_parts: What they write, over `max_amount`, with less noise (`PART_NOISE_RATIO`).
            max_amount: The most that counts of one user by bin.
            noise_std: Standard deviation of a number of users.
        """
        is_clear = noisy_users > MIN_BIN_Z * noise_std
        run_number = np.cumsum(~is_clear)  # bins of one run of clear ones have the same number
        run_peak = np.full(noisy_users.size + 1, -np.inf)
        np.maximum.at(run_peak, run_number[is_clear], noisy_users[is_clear])
        is_occupied = is_clear & (run_peak[run_number] > MIN_RUN_PEAK_Z * noise_std)
        users = np.where(is_occupied, noisy_users, 0.0)
        part_std = PART_NOISE_RATIO * noise_std / np.maximum(users, 1.0)
        measured = np.clip(noisy_parts / np.maximum(users, 1.0), 0.0, 1.0)
        trust = PRIOR_PART_STD**2 / (PRIOR_PART_STD**2 + part_std**2)
        parts = trust * measured + (1 - trust) * PRIOR_PART
        histogram = cls(users, users * max_amount * parts)
        visible = np.flatnonzero(users > 0)
        if visible.size < MIN_VISIBLE_BINS:
            return histogram
        tail_parts, weights = _fit_tails(
            noisy_users, noisy_parts, users, float(parts[visible[-1]]), noise_std
        )
        return replace(histogram, tails=tail_parts * max_amount, tail_weights=weights)

    def kept_share_by_rarity(self, clip_norm: float, shape: Floats) -> Floats:
        """Return the share of every n-gram that clipping keeps: less of a rare one.

        A rare n-gram makes a short text long by itself: somebody with m n-grams and the norm r has
        one of this shape, and m − 1 others that are as usual there.
        """
        is_occupied = self.users > 0
        amounts = np.maximum(self.written[is_occupied] / self.users[is_occupied], 1.0)
        other_squares = NORMS[is_occupied] ** 2 * (1 - 1 / amounts)
        weights = self.written[is_occupied] / self.written.sum()
        kept = np.zeros_like(shape)
        for square, weight in zip(other_squares, weights, strict=True):
            kept += weight * np.minimum(1, clip_norm / np.sqrt(1 / shape**2 + square))
        return kept

    def describe_clipping(self, clip_norm: float) -> Clipping:
        """Return how much of all text clipping removes, how unevenly, and the bias that follows.

        The bias has two parts. Users whom the histogram shows move the share of an n-gram by
        √(VISIBLE_BIAS·U), with U the unevenness of their text. A share s of the text is removed
        from users whom noise hides; who they are and how they write nobody knows, and it moves the
        share of an n-gram by HIDDEN_BIAS·s.
        """
        kept = kept_share_by_bin(clip_norm)
        written = self.written + self.tails
        written = written / written.sum(axis=1, keepdims=True)
        mean = written @ kept
        uneven = np.maximum(written @ kept**2 / mean**2 - 1, 0.0)
        hidden = (self.tails @ (1 - kept)) / (self.written + self.tails).sum(axis=1)
        visible_uneven = unevenness(self.written / float(self.written.sum()), kept)
        hidden_var = HIDDEN_BIAS**2 * float(self.tail_weights @ hidden**2)
        if np.count_nonzero(self.users) < MIN_VISIBLE_BINS:
            hidden_var = UNKNOWN.bias_rel_std**2
        return Clipping(
            1 - float(self.tail_weights @ mean),
            float(self.tail_weights @ uneven),
            math.sqrt(VISIBLE_BIAS * visible_uneven + hidden_var),
        )


def _fit_tails(
    noisy_users: Floats, noisy_parts: Floats, users: Floats, part: float, noise_std: float
) -> tuple[Floats, Floats]:
    """Return curves for the bins that noise hides, and their posterior weights.

    The logarithm of the number of users is a parabola beyond the mode. The few users who write most
    are in bins that noise hides one by one; without a curve they would count as nobody. Curves are
    fitted to the noisy users of all bins, and to what is written in the hidden ones.

    Args:
        noisy_users: Noisy numbers of users by bin.
        noisy_parts: What they write, over the most that counts.
        users: Numbers of users above the noise, 0 elsewhere.
        part: What a user writes in the last bin above the noise, over the most that counts.
        noise_std: Standard deviation of a number of users.

    Returns:
        What is written in hidden bins, over the most that counts, curves × bins; and weights.
    """
    visible = np.flatnonzero(users > 0)
    last = int(visible[-1])
    mode = min(max(int(np.argmax(users)), last - TAIL_FITTED_BINS), last - 1)
    beyond = np.arange(users.size - mode)
    slopes, curvatures = (grid.ravel() for grid in np.meshgrid(TAIL_SLOPES, TAIL_CURVATURES))
    exponents = -slopes[:, None] * beyond - curvatures[:, None] * beyond**2 / 2
    curves = np.exp(np.minimum.accumulate(exponents, axis=1))  # no curve rises again
    observed = noisy_users[mode:]
    heights = np.maximum((curves @ observed) / (curves**2).sum(axis=1), 0.0)
    curves = heights[:, None] * curves
    user_var = noise_std**2 + (VAGUE_REL_STD * curves) ** 2
    misfit = ((observed - curves) ** 2 / user_var + np.log(user_var)).sum(axis=1)
    hidden_parts = part * curves[:, last + 1 - mode :]
    rel_var = 2 * VAGUE_REL_STD**2  # of the number of users, and of how much each of them writes
    part_var = (PART_NOISE_RATIO * noise_std) ** 2 + rel_var * hidden_parts**2
    part_misfit = (noisy_parts[last + 1 :] - hidden_parts) ** 2 / part_var + np.log(part_var)
    misfit += part_misfit.sum(axis=1) + (curvatures / TAIL_CURVATURE_STD) ** 2
    weights = np.exp((misfit.min() - misfit) / 2)
    weights /= weights.sum()
    likely = weights > MIN_TAIL_WEIGHT
    tails = np.zeros((int(likely.sum()), users.size))
    tails[:, last + 1 :] = part * np.minimum(
        curves[likely, last + 1 - mode :], MIN_BIN_Z * noise_std
    )
    return tails, weights[likely] / float(weights[likely].sum())


# --- KL by clipping ---

# KL by clipping over the unevenness of what it keeps, by order, and for longer n-grams. Over posts,
# reviews, commits and Reddit it was 0.006 to 0.05 for words, 0.007 to 0.19 for bigrams and 0.014 to
# 0.2 for trigrams. The choice of Λ is not sensitive to it: benchmarks/clip_norms.py.
CLIPPING_RATE = {1: 0.02, 2: 0.03}
CLIPPING_RATE_LONGER = 0.05

# KL by chance for each distinct n-gram over the number of n-grams, as in a likelihood-ratio test: a
# rare n-gram is kept or clipped as its few writers happen to write little or much. It matters for
# long lists: with 300,000 bigrams of 81,000 posts at ε = 8 the KL falls by 10%.
CHANCE_KL = 0.5


@dataclass(frozen=True, eq=False)
class Distortion:
    """KL by clipping, as a function of what it keeps of the text in each bin of norms.

    Attributes:
        written: The share of all text by bin.
        rate: KL over unevenness.
    """

    written: Floats
    rate: float

    @classmethod
    def from_histogram(cls, histogram: NormHistogram, public: PublicNgrams) -> "Distortion":
        """Return what clipping would cost people with this histogram, some of whom have written."""
        rate = CLIPPING_RATE.get(public.words.shape[1], CLIPPING_RATE_LONGER)
        total = float(histogram.written.sum())
        distinct = float((1 - np.exp(-total * public.prior)).sum())
        return cls(histogram.written / total, rate + CHANCE_KL * distinct / total)

    def removed_share(self, kept_share: Floats) -> float:
        """Return the share of all text that clipping removes."""
        return 1 - float(self.written @ kept_share)

    def kl(self, kept_share: Floats) -> float:
        """Return the KL by clipping that keeps these shares of each bin."""
        return self.rate * unevenness(self.written, kept_share)


# --- KL by noise ---

# τ²: variance of log θ/π among n-grams. With 1, the KL by noise was right within a factor of 1.7.
DIFFERENCE_VAR = 1.0

# Points and weights for means over a normal variable.
NORMAL_POINTS, NORMAL_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
NORMAL_WEIGHTS /= math.sqrt(2 * math.pi)

# Groups of n-grams whose π are alike, for each factor of e.
GROUPS_PER_E = 16


@dataclass(frozen=True, eq=False)
class NoiseCost:
    """KL by noise, as a function of how much noise there is. N-grams of about one π are a group.

    If v is the variance of an n-gram's noise over its squared count, and θ = π e^(τz − τ²/2) with z
    normal, the KL that noise leaves is E ½ Σ θ τ²v/(τ² + v).

    Attributes:
        sizes: How many n-grams a group has.
        rates: θ, groups × points of z.
        shapes: s, groups × 1.
    """

    sizes: Floats
    rates: Floats
    shapes: Floats

    @classmethod
    def from_public(cls, public: PublicNgrams) -> "NoiseCost":
        """Return the cost for these n-grams."""
        keys = np.round(GROUPS_PER_E * np.log(np.maximum(public.prior, 1e-300)))
        _, group = np.unique(keys, return_inverse=True)
        sizes = np.bincount(group).astype(np.float64)
        rates = np.bincount(group, public.prior) / sizes
        shapes = np.bincount(group, noise_shape(public.prior)) / sizes
        differing = np.exp(math.sqrt(DIFFERENCE_VAR) * NORMAL_POINTS - DIFFERENCE_VAR / 2)
        return cls(sizes, np.outer(rates, differing), shapes[:, None])

    def kl(self, noise: float, total: float) -> float:
        """Return the KL where `noise` is Λσ and `total` is the number of n-grams kept."""
        precision = (self.rates * max(total, 1e-9) / (self.shapes * noise)) ** 2  # 1/v
        by_group = self.rates * DIFFERENCE_VAR / (1 + DIFFERENCE_VAR * precision) / 2
        return float(self.sizes @ by_group @ NORMAL_WEIGHTS)


# --- The choice of a clip norm ---

# Clip norms that are tried: quarter octaves.
CLIP_NORMS = 2.0 ** np.arange(-2, 12.25, 0.25)

# Costs within this factor of the least are equal, and the largest clip norm of them is taken: where
# Λ is below everybody's norm, a smaller one changes nothing.
EQUAL_COST_FACTOR = 1.001

# Share of the budget that measures the words of the text that clipping removes, if it is asked
# about.
CLIPPED_MASS_SHARE = 0.03

# Share of the KL by clipping that is recovered by those words. Chosen by benchmarks/lost_words.py.
RECOVERED_SHARE = 0.3

# KL that they add, over the KL by noise, if everything were removed: words that are like all others
# seem to differ. Chosen by hand.
CLIPPED_WORDS_KL = 0.1

# Noise of the removed total over the total: as wanted, and the most at which it is worth asking.
# Chosen by hand; halved or doubled, KL changes by 0.5% and by nothing (the second matters where
# there are few users and ε is large).
WANTED_REL_STD = 0.015
MAX_REL_STD = 0.05

# Share of the kept text below whose norm somebody is not one who writes a lot.
HEAVY_TEXT_SHARE = 0.9


@dataclass(frozen=True)
class ClippingPlan:
    """How counts are clipped and measured.

    Attributes:
        clip_norm: Λ.
        heavy_user_norm: The norm of somebody who writes a lot.
        clipped_mass_share: Share of the budget for the words of the text that clipping removes.
        clipped_mass_norm: The clip norm of those words.
        histogram: The norm histogram; None where a clip norm was given.
    """

    clip_norm: float
    heavy_user_norm: float
    clipped_mass_share: float = 0.0
    clipped_mass_norm: float = 1.0
    histogram: NormHistogram | None = None

    @classmethod
    def fixed(cls, clip_norm: float) -> "ClippingPlan":
        """Return the plan for a given Λ: all of the budget goes to the counts."""
        return cls(clip_norm, heavy_user_norm=max(clip_norm, HEAVY_NORM))

    def annotate(self, noisy: NoisyCounts, shape: Floats) -> NoisyCounts:
        """Return noisy counts with what is known of their clipping.

        Args:
            noisy: Noisy counts of all people, or of a segment.
            shape: The shape of the n-grams.
        """
        if self.histogram is None:
            return noisy
        return replace(
            noisy,
            clipping=self.histogram.describe_clipping(self.clip_norm),
            left=self.histogram.kept_share_by_rarity(self.clip_norm, shape),
        )

    def total_shape(self, user: TypicalUser) -> float:
        """Return the shape by which a total is TOTAL_PART of a heavy user's norm.

        How much somebody of that norm writes is typical of public text, or less if that was
        measured.
        """
        amount = float(user.amount(np.array(self.heavy_user_norm)))
        if self.histogram is not None:
            place = np.searchsorted(NORM_EDGES, self.heavy_user_norm, side="right")
            users = float(self.histogram.users[place])
            if users > 0:
                measured = max(float(self.histogram.written[place]) / users, 1.0)
                amount = min(amount, measured)
        return amount / (TOTAL_PART * self.heavy_user_norm)


def clipping_kl(distortion: Distortion, plan: ClippingPlan, noise_kl: float) -> float:
    """Return the KL by clipping, less what the words of the removed text recover.

    Args:
        distortion: What clipping costs these people.
        plan: The plan.
        noise_kl: The KL by noise.
    """
    kept_share = kept_share_by_bin(plan.clip_norm)
    kl = distortion.kl(kept_share)
    if not plan.clipped_mass_share:
        return kl
    added = CLIPPED_WORDS_KL * noise_kl * distortion.removed_share(kept_share) ** 2
    return (1 - RECOVERED_SHARE) * kl + added


@dataclass(frozen=True, eq=False)
class ExpectedKl:
    """The KL to expect of a release, as a function of how its counts are clipped.

    Attributes:
        histogram: How much users write, by norm.
        distortion: What clipping costs these people.
        noise_cost: What noise costs.
        multiplier: σ of the budget of the order.
    """

    histogram: NormHistogram
    distortion: Distortion
    noise_cost: NoiseCost
    multiplier: float

    def of(self, plan: ClippingPlan) -> float:
        """Return the KL to expect with a plan."""
        kept = float((self.histogram.written * kept_share_by_bin(plan.clip_norm)).sum())
        sigma = self.multiplier / math.sqrt(1 - HISTOGRAM_SHARE - plan.clipped_mass_share)
        noise_kl = self.noise_cost.kl(plan.clip_norm * sigma, kept)
        # What noise hides is not distorted.
        seen = 1 - 2 * noise_kl / DIFFERENCE_VAR
        return noise_kl + seen * clipping_kl(self.distortion, plan, noise_kl)


def choose_clipping(
    histogram: NormHistogram, public: PublicNgrams, multiplier: float
) -> ClippingPlan:
    """Return the plan with the smallest KL to expect, from noisy answers and public text alone.

    Every Λ is tried with and without a question about the text that clipping removes.

    Args:
        histogram: How much users write, by norm.
        public: Public n-grams.
        multiplier: σ of the budget of this order.
    """
    if histogram.written.sum() <= 0:
        return ClippingPlan.fixed(1.0)
    distortion = Distortion.from_histogram(histogram, public)
    expected = ExpectedKl(histogram, distortion, NoiseCost.from_public(public), multiplier)
    plans = [
        ClippingPlan(float(norm), _heavy_user_norm(histogram, float(norm))) for norm in CLIP_NORMS
    ]
    word_index, word_shape = clipped_words(public)
    word_rates = public.per_word(public.prior)[word_index]
    user = TypicalUser.from_rates([word_rates], [word_shape])
    with_clipped_mass = [_ask_clipped_mass(plan, histogram, user, multiplier) for plan in plans]
    plans += [plan for plan in with_clipped_mass if plan is not None]
    costs = [expected.of(plan) for plan in plans]
    equal = [
        plan
        for plan, cost in zip(plans, costs, strict=True)
        if cost <= EQUAL_COST_FACTOR * min(costs)
    ]
    best = max(equal, key=lambda plan: plan.clip_norm)
    return replace(best, histogram=histogram)


def _heavy_user_norm(histogram: NormHistogram, clip_norm: float) -> float:
    """Return the norm below which most of the kept text is written, and no less than Λ."""
    kept = np.cumsum(histogram.written * kept_share_by_bin(clip_norm))
    place = np.searchsorted(kept, HEAVY_TEXT_SHARE * kept[-1])
    return max(clip_norm, float(NORMS[place]))


def _ask_clipped_mass(
    plan: ClippingPlan, histogram: NormHistogram, user: TypicalUser, multiplier: float
) -> ClippingPlan | None:
    """Return the plan with a question about the removed text; None if noise would hide it.

    It has the largest clip norm whose relative noise is as wanted, or the one with the least.
    """
    removed_share = 1 - kept_share_by_bin(plan.clip_norm)
    amounts = histogram.written / np.maximum(histogram.users, 1.0)
    norms = user.norm(amounts) * removed_share
    sigma = multiplier / math.sqrt(CLIPPED_MASS_SHARE)
    candidates: list[tuple[float, ClippingPlan]] = []
    for norm in NORM_EDGES[norms.max() > NORM_EDGES] if norms.max() > 0 else []:
        kept = np.minimum(1, norm / np.maximum(norms, 1e-9))
        total = float((histogram.written * removed_share * kept).sum())
        noise_std = ClippingPlan(float(norm), float(norm)).total_shape(user) * norm * sigma
        candidate = replace(
            plan, clipped_mass_share=CLIPPED_MASS_SHARE, clipped_mass_norm=float(norm)
        )
        candidates.append((noise_std / max(total, 1e-9), candidate))
    as_wanted = [candidate for rel_std, candidate in candidates if rel_std <= WANTED_REL_STD]
    if as_wanted:
        return as_wanted[-1]
    if not candidates:
        return None
    rel_std, candidate = min(candidates, key=lambda pair: pair[0])
    return candidate if rel_std <= MAX_REL_STD else None
