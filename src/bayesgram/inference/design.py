"""What clipping would cost: how far the distribution of all text moves when those who write a lot count for less.

In:  noisy numbers of users and n-grams by norm and, where they were asked, with which words people of each norm begin
their n-grams.   Out: the KL to expect of every Λ.
Over posts, blogs, reviews, single sentences, commits and made-up people it was the same multiple of how unevenly text
counts after clipping (unevenness), at every Λ; from people to people the multiple, called the rate, goes from 0.01 to
0.2. Two things make it. Chance: a few people's text stands for less, which amounts alone tell. And manner: those who
write a lot may write differently. First words, in a few groups, show a steady part of that: the KL of all n-grams was
20 to 80 times theirs. The share of a group drifts with the norm, along a line and a random walk; how fast is learnt
from the noisy shares, and is as usual where noise hides it. Does not count or add noise.

How counts are to be measured: the shape of the noise and the clip norms, from public text and noisy numbers alone.

The public half of `posterior`, so that a plan can be made with the very same choices before there is any
private text. Does not count, clip or add noise: `mechanisms.posterior` does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.inference.noisy_counts import Clipping, NoisyCounts, PublicNgrams
from bayesgram.privacy.constants import (
    FIRST_WORD_GROUPS,
    HISTOGRAM_SHARE,
    MAX_CLIPPED_WORDS,
    NORM_BINS,
    NORM_EDGES,
    NORM_GROUPS,
)

MOST_EVEN = (
    1000  # of the most frequent words are shared out evenly; the others, one after the other
)
KL_OF_ALL = {
    1: 20.0,
    2: 42.0,
}  # KL of n-grams, over that of their first words by groups; of longer ones LONGER
LONGER = 60.0
# KL by manner, over unevenness. The squared relative bias of the 200 most frequent n-grams over
# unevenness was 0.01 to 0.13 (commits, film reviews, posts; docs/inference.md); twice this is 0.06.
USUAL_RATE = 0.03
RATE_DEVIATION = 1.0  # of its logarithm, from people to people
TRUST = (
    0.7  # in a rate that first words tell without noise: KL_OF_ALL differs from people to people
)
LEAST_UNEVEN = (
    0.01  # people whose norms differ less than this are taken for people who differ by this
)
LEAST_RATE = 1e-4  # nobody is so much alike
NARROW = (
    0.1  # nobody's manner drifts faster than that of people whose norms differ by this, squared
)
STEPS = 1.0  # variance of the random walk, where the slope of the line has 1
RARITY = 8.0  # KL per squared log norm between those who write one n-gram: a rare one makes its text long by itself
CHANCE = 0.3  # half of the n-grams that are there; fewer are than public text says
SHARE_DEVIATION = 0.22  # of a share from that of public text, times √FIRST_WORD_GROUPS: private text is not public text
RATES = 2.0 ** np.arange(-7, 5)  # of drift, over the usual


@dataclass(frozen=True, eq=False)
class FirstWords:
    """With which words people of each norm begin: noisy sums over users of the share that begins with each group."""

    shares: Floats  # groups of bins × FIRST_WORD_GROUPS
    noise: float  # standard deviation of each
    groups: Ids  # of every bin


def first_word_groups(public: PublicNgrams) -> Ids:
    """The group of each n-gram's first word: groups are about as frequent as one another in public text."""
    first = public.words[:, 0]
    rates, filled = np.bincount(first, public.prior, public.word_total), np.zeros(FIRST_WORD_GROUPS)
    ranked = np.argsort(-rates, kind="stable")
    groups = np.empty(public.word_total, np.int32)
    groups[ranked] = np.arange(public.word_total) % FIRST_WORD_GROUPS
    for word in ranked[:MOST_EVEN]:
        groups[word] = np.argmin(filled)
        filled[groups[word]] += rates[word]
    found: Ids = groups[first]
    return found


@dataclass(frozen=True, eq=False)
class Distortion:
    """KL by clipping, as a function of what it leaves of the text in each bin of norms."""

    written: Floats  # the part of all text
    rate: float  # KL, over unevenness

    def lost(self, left: Floats) -> float:
        """The part of all text that is lost, where these parts are left."""
        return 1 - float(self.written @ left)

    def cost(self, left: Floats) -> float:
        """Of clipping that leaves these parts."""
        return self.rate * _unevenness(self.written, left)


def distortion(
    positions: Floats,
    users: Floats,
    written: Floats,
    public: PublicNgrams,
    first_words: FirstWords | None,
) -> Distortion:
    """For people with so many users and n-grams in bins at these logarithms of norms; some must have written."""
    total, times = float(written.sum()), KL_OF_ALL.get(public.words.shape[1], LONGER)
    weights, lightest = (
        written / total,
        np.exp(-positions),
    )  # what is left, but for a factor, of all but everything
    moved = weights * (1 - lightest / float(weights @ lightest))
    uneven = max(_unevenness(weights, lightest), LEAST_UNEVEN)
    drift, rarity = _drift(positions, weights), _rarity(positions, weights, users, written)
    usual = drift * (2 * USUAL_RATE * uneven / max(float(moved @ drift @ moved), NARROW))

    def rate(moments: Floats) -> float:
        return max(float(moved @ moments @ moved) / 2 / uneven, LEAST_RATE)

    expected = rate(usual + rarity)
    if first_words is not None:
        learnt = rate(_learnt(usual / times, rarity / times, users, first_words) * times)
        expected = learnt**TRUST * expected ** (1 - TRUST)
    there = float((1 - np.exp(-total * public.prior)).sum())
    return Distortion(weights, expected + CHANCE * there / total)


def _unevenness(written: Floats, left: Floats) -> float:
    """Variance over all text of how much it counts after clipping, where its mean is 1."""
    kept = float(written @ left)
    return max(float(written @ left**2) / kept**2 - 1, 0.0)


def _drift(positions: Floats, weights: Floats) -> Floats:
    """Covariance of what bins differ in by manner: a line through the middle of all text, and a random walk from it."""
    away = positions - float(weights @ positions)
    return np.outer(away, away) + STEPS * _walk(away)


def _rarity(positions: Floats, weights: Floats, users: Floats, written: Floats) -> Floats:
    """That of what bins differ in because few n-grams make a text: the rarer they are, the larger its norm."""
    there = written > 0
    amounts = np.maximum(written[there] / np.maximum(users[there], 1.0), 1.0)
    amounts = np.exp(np.interp(positions, positions[there], np.log(amounts)))
    speed = 1 / amounts**2
    way = np.concatenate([[0.0], np.cumsum(np.diff(positions) * (speed[1:] + speed[:-1]) / 2)])
    return 2 * RARITY * _walk(way - float(weights @ way))


def _walk(away: Floats) -> Floats:
    """Covariance of a random walk in both directions from 0."""
    far = np.abs(away)
    walked: Floats = (far[:, None] + far - np.abs(away[:, None] - away)) / 2
    return walked


def _learnt(usual: Floats, rarity: Floats, users: Floats, first_words: FirstWords) -> Floats:
    """Expected squares and products of what bins differ in, Σ over first words, given noisy shares.

    Shares of the G groups are scaled by √G, so that the sum of their squares is the χ² distance from 1/G each. Only
    how they differ from one another counts, which has one dimension less. Drifts of every rate are weighed by how well
    they predict what was measured.
    """
    free = FIRST_WORD_GROUPS - 1
    norm_histogram = math.sqrt(FIRST_WORD_GROUPS) * (
        first_words.shares - first_words.shares.mean(axis=1, keepdims=True)
    )
    people = np.zeros((len(norm_histogram), users.size))
    people[first_words.groups, np.arange(users.size)] = users
    noise = FIRST_WORD_GROUPS * first_words.noise**2 * np.eye(len(norm_histogram))
    found, likely = [], []
    for rate in RATES:
        expected = (rate * usual + rarity) / free + SHARE_DEVIATION**2
        covariance = people @ expected @ people.T + noise
        root = np.linalg.cholesky(covariance)
        misfit = float((np.linalg.solve(root, norm_histogram) ** 2).sum()) / 2 + free * float(
            np.log(np.diag(root)).sum()
        )
        likely.append(-misfit - (math.log(rate) / RATE_DEVIATION + RATE_DEVIATION / 2) ** 2 / 2)
        gain = np.linalg.solve(covariance, people @ expected).T
        means = gain @ norm_histogram
        found.append(means @ means.T + free * (expected - gain @ people @ expected))
    trust = np.exp(np.array(likely) - max(likely))
    learnt: Floats = np.tensordot(trust / trust.sum(), np.array(found), 1)
    return learnt


SHAPE_POWER = 0.25  # a: rare n-grams get less noise, frequent ones more, as KL asks
LEVEL_PART = (
    0.02  # of the shape's π is level: nothing that public text hardly has makes a text long
)
WORD_WEIGHT = 0.01  # of a user's squared norm is spent on words
TOTAL_PART = 0.1  # of the norm of somebody who writes a lot is their total
HEAVY_NORM = 32.0  # the norm of somebody who writes a lot, where it was not measured
NORMS = np.concatenate(
    [[NORM_EDGES[0] / math.sqrt(2)], NORM_EDGES * 2**0.25]
)  # the middle of each bin
CLIP_NORMS = 2.0 ** np.arange(-2, 12.25, 0.25)  # what Λ may be
BESIDE_OTHERS, BY_ITSELF = 3.0, 4.5  # deviations of noise above which there is somebody in a bin
USUAL_PART, PART_DEVIATION = (
    0.4,
    0.3,
)  # of the most that is typical for a norm, before it is measured
DIFFERENCE = 1.0  # τ², variance of log θ/π among n-grams; with it KL by noise was right within a factor of 1.7
NORMAL_POINTS, NORMAL_WEIGHTS = np.polynomial.hermite_e.hermegauss(
    7
)  # for means over a normal variable
NORMAL_WEIGHTS /= math.sqrt(2 * math.pi)
GROUPS_IN_E = 16  # groups of n-grams whose π are alike, for each factor of e
ALIKE = (
    1.001  # costs that are one: where Λ is below everybody's norm, a smaller one changes nothing
)
CLIPPED_MASS_SHARE = 0.03  # of the budget measures what clipping takes away, where that is worth it
RECOVERED_SHARE = 0.3  # of the cost of clipping, when the words of what is lost are known
LOST_WORDS_BIAS = 0.1  # of the cost of noise comes on top, were everything lost: words that are like all others seem to differ
SURE, UNSURE = (
    0.015,
    0.05,
)  # noise over the total of what is lost: as wanted, and more than this is not worth asking


def coordinate_count(
    *, ngrams: int, orders: int, longest_order: int, words: int, sources: int, segments: int = 0
) -> int:
    """Return the number of coordinates of all queries of `posterior` together, whether they are asked or not.

    The discreteness of the noise costs a little of ε for each.

    Args:
        ngrams: Number of n-grams of all orders.
        orders: Number of orders.
        longest_order: The longest order.
        words: Number of distinct words in the n-grams of the longest order.
        sources: Number of public sources.
        segments: Number of segments, 0 if all people are released together.
    """
    word_counts = words if longest_order > 1 else 0
    clipped_mass = max_clipped_words(words) + 1
    source_counts = sources if sources > 1 else 0
    first_words = (int(NORM_GROUPS.max()) + 1) * FIRST_WORD_GROUPS
    histogram = 2 * NORM_BINS + source_counts + first_words
    everyone = ngrams + word_counts + orders + clipped_mass + histogram
    return everyone + segments * (ngrams + orders)


def shape_of(prior: Floats) -> Floats:
    """S = π^a, scaled so that Σ s²π = 1; π with some of a level distribution, for public text may be wrong."""
    shape = ((1 - LEVEL_PART) * prior + LEVEL_PART / prior.size) ** SHAPE_POWER
    scaled: Floats = shape / math.sqrt(float((shape**2 * prior).sum()))
    return scaled


def shapes(parts: Sequence[PublicNgrams]) -> list[Floats]:
    """The shape of every order, and after them that of the words of the longest, which have a small weight.

    Each order has twice the weight of the one below. Where the longest are unigrams, they are the words. Where
    sources have weights, shapes are for the mixture, of a size that leaves norms as they are without.
    """
    longest = parts[-1]
    order = longest.words.shape[1]
    word_weight = WORD_WEIGHT if order > 1 else 0.0
    shares = 2.0 ** np.array([public.words.shape[1] for public in parts])
    shares *= (1 - word_weight) / shares.sum()
    found = [_shape(public) / math.sqrt(share) for public, share in zip(parts, shares, strict=True)]
    if order == 1:
        return [*found, np.zeros(0)]
    words = shape_of(longest.per_word(longest.prior) / order) / math.sqrt(word_weight)
    return [*found, words * _size(longest)]


def _shape(public: PublicNgrams) -> Floats:
    """For what the sources agree on, or for their mixture where its weights are known."""
    return (
        shape_of(public.common)
        if public.weights is None
        else shape_of(public.prior) * _size(public)
    )


def _size(public: PublicNgrams) -> float:
    """Of a shape for the mixture, such that an n-gram has the norm that it has where no weights are known."""
    usual, other = (
        float((public.prior / shape_of(each) ** 2).sum()) for each in (public.common, public.prior)
    )
    return math.sqrt(other / usual)


@dataclass(frozen=True)
class TypicalUser:
    """How norm and amount go together for somebody who writes like public text: norm² = once·m + again·m²."""

    once: float
    again: float

    @classmethod
    def of(cls, rates: Sequence[Floats], scales: Sequence[Floats]) -> "TypicalUser":
        """Of counts that are Poisson: E c² = m p + (m p)²."""
        pairs = [(rate, scale) for rate, scale in zip(rates, scales, strict=False) if scale.size]
        once = sum(float((rate / scale**2).sum()) for rate, scale in pairs)
        return cls(once, sum(float((rate**2 / scale**2).sum()) for rate, scale in pairs))

    def norm(self, amount: Floats) -> Floats:
        """Of somebody who writes so many n-grams."""
        norms: Floats = np.sqrt(self.once * amount + self.again * amount**2)
        return norms

    def amount(self, norm: Floats) -> Floats:
        """How many n-grams somebody of this norm has written."""
        amounts: Floats = (
            2 * norm**2 / (self.once + np.sqrt(self.once**2 + 4 * self.again * norm**2))
        )
        return amounts


def typical(parts: Sequence[PublicNgrams], scales: Sequence[Floats]) -> TypicalUser:
    """Somebody who writes like public text."""
    longest = parts[-1]
    return TypicalUser.of(
        [*(public.prior for public in parts), longest.per_word(longest.prior)], scales
    )


def largest_amounts(someone: TypicalUser) -> Floats:
    """The most n-grams that count of a user in each bin of norms: what is typical at its upper edge, or 1."""
    upper = np.concatenate([NORM_EDGES, NORM_EDGES[-1:] * math.sqrt(2)])
    return np.maximum(someone.amount(upper), 1.0)


def left_of_bins(clip_norm: float) -> Floats:
    """The part min(1, Λ/norm) that clipping leaves of each bin, with norms even in log."""
    lower = NORMS / 2**0.25
    inside = np.clip(
        clip_norm / lower, 1.0, math.sqrt(2)
    )  # up to here, in units of the lower edge, all is left
    left: Floats = (
        np.log(inside) + clip_norm / lower * (1 / inside - 1 / math.sqrt(2))
    ) / math.log(math.sqrt(2))
    return left


def max_clipped_words(words: int) -> int:
    """How many of so many words can be asked about."""
    return min(words, MAX_CLIPPED_WORDS)


def clipped_words(public: PublicNgrams) -> tuple[Integers, Floats]:
    """The words that are asked about in what clipping takes away, most frequent first, and their shape."""
    rates = public.per_word(public.prior)
    which = np.argsort(-rates, kind="stable")[: max_clipped_words(rates.size)]
    return which, shape_of(rates / rates.sum())[which]


@dataclass(frozen=True, eq=False)
class NormHistogram:
    """How much users write, by bins of their norm: noisy numbers of users and of n-grams."""

    users: Floats
    written: Floats
    # What users write whose bins noise hides, extrapolated. The choice of a clip norm does not count
    # on it; the deviations do.
    tail_written: Floats | None = None

    @classmethod
    def from_noisy(
        cls, users: Floats, parts_of_largest: Floats, largest: Floats, noise: float
    ) -> "NormHistogram":
        """Bins that may be noise alone are empty; somebody in one writes USUAL_PART of the largest, or as measured.

        A bin without neighbours must be surer: one that is noise alone would take a whole Λ with it.

        `noise` is the standard deviation of a number of users; that of `parts_of_largest` is ¾ of it.
        """
        noisy_users = users
        norm_histogram = users > BESIDE_OTHERS * noise
        beside = np.append(norm_histogram[1:], False) | np.insert(norm_histogram[:-1], 0, False)
        users = np.where(norm_histogram & (beside | (users > BY_ITSELF * noise)), users, 0.0)
        doubt = 0.75 * noise / np.maximum(users, 1.0)
        measured = np.clip(parts_of_largest / np.maximum(users, 1.0), 0.0, 1.0)
        trust = PART_DEVIATION**2 / (PART_DEVIATION**2 + doubt**2)
        parts = trust * measured + (1 - trust) * USUAL_PART
        tail = np.zeros_like(users)
        visible = np.flatnonzero(users > 0)
        if visible.size >= MIN_VISIBLE_BINS:
            last = int(visible[-1])
            fitted = _fitted_tail(noisy_users, users, noise)
            tail[last + 1 :] = np.minimum(fitted[last + 1 :], BESIDE_OTHERS * noise) * parts[last]
        return cls(users, users * largest * parts, tail * largest)

    def left(self, clip_norm: float, scale: Floats) -> Floats:
        """The part of every n-gram that clipping leaves: less of a rare one, which makes short texts long by itself.

        Somebody with m n-grams and the norm r has an n-gram of this scale, and m − 1 others that are as usual there.
        """
        there = self.users > 0
        amounts = np.maximum(self.written[there] / self.users[there], 1.0)
        others = NORMS[there] ** 2 * (1 - 1 / amounts)
        weights = self.written[there] / self.written.sum()
        left = np.zeros_like(scale)
        for rest, weight in zip(others, weights, strict=True):
            left += weight * np.minimum(1, clip_norm / np.sqrt(1 / scale**2 + rest))
        return left

    def clipping(self, clip_norm: float) -> Clipping:
        """What is left of an n-gram is min(1, Λ/norm) of it: on average over what is written, and how unevenly."""
        left = left_of_bins(clip_norm)
        written = self.written if self.tail_written is None else self.written + self.tail_written
        mean, square = (float(np.average(each, weights=written)) for each in (left, left**2))
        return Clipping(1 - mean, max(square / mean**2 - 1, 0.0))


# The tail of the histogram is fitted if so many bins are above the noise.
MIN_VISIBLE_BINS = 3

# Slopes and curvatures of the logarithm of the number of users, for each bin beyond the mode.
TAIL_SLOPES = np.linspace(0, 1.6, 33)
TAIL_CURVATURES = np.array([0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8])

# Relative standard deviation of the number of users in a bin from such a curve.
TAIL_REL_STD = 0.3

# The curve begins at the mode, or so many bins before the last that is above the noise.
TAIL_FITTED_BINS = 6


def _fitted_tail(noisy_users: Floats, users: Floats, noise_std: float) -> Floats:
    """Return the number of users in every bin, by a curve that is fitted to the bins beyond the mode.

    The logarithm of the number of users is a parabola, as for log-normal amounts. The few users who
    write most are in bins that noise hides one by one; without the curve they would count as nobody.
    Slope and curvature have a flat prior on a grid, and the result is the mean over their posterior.
    """
    visible = np.flatnonzero(users > 0)
    mode = int(min(max(np.argmax(users), visible[-1] - TAIL_FITTED_BINS), visible[-1] - 1))
    beyond = np.arange(users.size - mode)
    slopes, curvatures = (grid.ravel() for grid in np.meshgrid(TAIL_SLOPES, TAIL_CURVATURES))
    shapes = np.exp(-slopes[:, None] * beyond - curvatures[:, None] * beyond**2 / 2)
    observed = noisy_users[mode:]
    heights = np.maximum((shapes @ observed) / (shapes**2).sum(axis=1), 0.0)
    curves = heights[:, None] * shapes
    variances = noise_std**2 + (TAIL_REL_STD * curves) ** 2
    misfit = ((observed - curves) ** 2 / variances + np.log(variances)).sum(axis=1)
    likelihoods = np.exp((misfit.min() - misfit) / 2)
    fitted = np.zeros(users.size)
    fitted[mode:] = likelihoods @ curves / likelihoods.sum()
    return fitted


@dataclass(frozen=True)
class ClippingPlan:
    """How the counts are to be measured."""

    clip_norm: float  # Λ
    heavy_user_norm: float  # the norm of somebody who writes a lot
    clipped_mass_share: float = 0.0  # of the budget measures what clipping takes away, by words
    clipped_mass_norm: float = 1.0  # the clip norm of those words
    norm_histogram: NormHistogram | None = None

    @classmethod
    def fixed(cls, clip_norm: float) -> "ClippingPlan":
        """A Λ that somebody gave: all of the budget goes to the counts."""
        return cls(clip_norm, heavy_user_norm=max(clip_norm, HEAVY_NORM))

    def described(
        self, parts: Sequence[NoisyCounts], scales: Sequence[Floats]
    ) -> list[NoisyCounts]:
        """Measurements of every order, with what is known of the clipping that was chosen."""
        if self.norm_histogram is None:
            return list(parts)
        clipping = self.norm_histogram.clipping(self.clip_norm)
        recovered = RECOVERED_SHARE if self.clipped_mass_share else 0.0
        bias_var = 2 * (1 - recovered) * USUAL_RATE * clipping.unevenness
        clipping = replace(clipping, bias_rel_std=math.sqrt(bias_var))
        if (
            len(parts) > 1
        ):  # a word brings pairs and triples along: none makes a text long by itself
            return [replace(part, clipping=clipping) for part in parts]
        return [
            replace(
                parts[0],
                clipping=clipping,
                left=self.norm_histogram.left(self.clip_norm, scales[0]),
            )
        ]

    def total_shape(self, someone: TypicalUser) -> float:
        """Such that the total is TOTAL_PART of the norm of somebody who writes a lot."""
        return float(someone.amount(np.array(self.heavy_user_norm))) / (
            TOTAL_PART * self.heavy_user_norm
        )

    def total_shapes(self, people: Sequence[TypicalUser]) -> list[float]:
        """Of every order; how many of the longest somebody writes who writes a lot was measured."""
        found = [self.total_shape(someone) for someone in people]
        if self.norm_histogram is not None:
            place = np.searchsorted(NORM_EDGES, self.heavy_user_norm, side="right")
            if self.norm_histogram.users[place] > 0:
                amount = max(
                    self.norm_histogram.written[place] / self.norm_histogram.users[place], 1.0
                )
                found[-1] = min(found[-1], float(amount) / (TOTAL_PART * self.heavy_user_norm))
        return found


@dataclass(frozen=True, eq=False)
class NoiseCost:
    """KL by noise, as a function of how much there is: n-grams of about one π are one group.

    An n-gram is believed as far as its noise is less than what people differ in from public text. If v is the variance
    of its noise over its squared count and θ = π e^(τz − τ²/2) with z normal, that leaves E ½ Σ θ τ²v/(τ² + v).
    """

    sizes: Floats  # groups: how many n-grams
    rates: Floats  # groups × points of z: θ
    shapes: Floats  # groups × 1: s

    @classmethod
    def of(cls, public: PublicNgrams) -> "NoiseCost":
        """For these n-grams."""
        keys = np.round(GROUPS_IN_E * np.log(np.maximum(public.prior, 1e-300)))
        _, group = np.unique(keys, return_inverse=True)
        sizes = np.bincount(group).astype(np.float64)
        rates, shapes = (
            np.bincount(group, each) / sizes for each in (public.prior, shape_of(public.prior))
        )
        differing = np.exp(math.sqrt(DIFFERENCE) * NORMAL_POINTS - DIFFERENCE / 2)
        return cls(sizes, np.outer(rates, differing), shapes[:, None])

    def cost(self, noise: float, total: float) -> float:
        """Where `noise` is Λσ, and `total` what clipping leaves."""
        known = (self.rates * max(total, 1e-9) / (self.shapes * noise)) ** 2  # 1/v
        each = self.rates * DIFFERENCE / (1 + DIFFERENCE * known) / 2
        return float(self.sizes @ each @ NORMAL_WEIGHTS)


def distortion_of(
    norm_histogram: NormHistogram, public: PublicNgrams, first_words: FirstWords | None = None
) -> Distortion:
    """What clipping would cost these people; `public` are the longest n-grams."""
    return distortion(
        np.log(NORMS), norm_histogram.users, norm_histogram.written, public, first_words
    )


def clipping_cost(clipped: Distortion, choice: ClippingPlan, noise: float) -> float:
    """KL by clipping, and by what is believed of the words that it takes away; `noise` is the KL by noise."""
    left = left_of_bins(choice.clip_norm)
    cost = clipped.cost(left)
    return (
        (1 - RECOVERED_SHARE) * cost + LOST_WORDS_BIAS * noise * clipped.lost(left) ** 2
        if choice.clipped_mass_share
        else cost
    )


def choose_clipping(
    norm_histogram: NormHistogram,
    public: PublicNgrams,
    multiplier: float,
    first_words: FirstWords | None = None,
) -> ClippingPlan:
    """The Λ with the smallest predicted cost, with and without a look at what clipping takes away.

    `multiplier` is the σ of the whole budget, `public` the longest n-grams. From noisy answers and public text alone.
    """
    if norm_histogram.written.sum() <= 0:
        return ClippingPlan.fixed(1.0)
    clipped, noisy = distortion_of(norm_histogram, public, first_words), NoiseCost.of(public)

    def cost(choice: ClippingPlan) -> float:
        kept = float((norm_histogram.written * left_of_bins(choice.clip_norm)).sum())
        sigma = multiplier / math.sqrt(1 - HISTOGRAM_SHARE - choice.clipped_mass_share)
        noise = noisy.cost(choice.clip_norm * sigma, kept)
        return noise + (1 - 2 * noise / DIFFERENCE) * clipping_cost(
            clipped, choice, noise
        )  # what noise hides is not distorted

    plain = [ClippingPlan(float(norm), _heavy(norm_histogram, float(norm))) for norm in CLIP_NORMS]
    which, shape = clipped_words(public)
    someone = TypicalUser.of([public.per_word(public.prior)[which]], [shape])
    looking = [
        found
        for choice in plain
        if (found := _with_clipped_mass(choice, norm_histogram, someone, multiplier))
    ]
    costs = [(cost(choice), choice) for choice in [*plain, *looking]]
    least = min(each for each, _ in costs)
    best = max(
        (choice for each, choice in costs if each <= ALIKE * least),
        key=lambda choice: choice.clip_norm,
    )
    return replace(best, norm_histogram=norm_histogram)


def _heavy(norm_histogram: NormHistogram, clip_norm: float) -> float:
    """The norm below which nine tenths are written of what is kept, and no less than Λ."""
    kept = np.cumsum(norm_histogram.written * left_of_bins(clip_norm))
    return max(clip_norm, float(NORMS[np.searchsorted(kept, 0.9 * kept[-1])]))


def _with_clipped_mass(
    choice: ClippingPlan, norm_histogram: NormHistogram, someone: TypicalUser, multiplier: float
) -> ClippingPlan | None:
    """The same Λ with the largest clip norm for lost words that noise allows, if any does."""
    part = 1 - left_of_bins(choice.clip_norm)  # lost, of what people of each norm write
    norms = someone.norm(norm_histogram.written / np.maximum(norm_histogram.users, 1.0)) * part
    sigma = multiplier / math.sqrt(CLIPPED_MASS_SHARE)
    found: list[tuple[float, ClippingPlan]] = []
    for clipped_mass_norm in NORM_EDGES[norms.max() > NORM_EDGES] if norms.max() > 0 else []:
        asked = ClippingPlan(
            choice.clip_norm, choice.heavy_user_norm, CLIPPED_MASS_SHARE, float(clipped_mass_norm)
        )
        total = float(
            (
                norm_histogram.written
                * part
                * np.minimum(1, clipped_mass_norm / np.maximum(norms, 1e-9))
            ).sum()
        )
        noise = (
            ClippingPlan(float(clipped_mass_norm), float(clipped_mass_norm)).total_shape(someone)
            * clipped_mass_norm
            * sigma
        )
        found.append((noise / max(total, 1e-9), asked))
    sure = [asked for doubt, asked in found if doubt <= SURE]
    if sure:
        return sure[-1]
    doubt, asked = min(found, key=lambda each: each[0], default=(math.inf, choice))
    return asked if doubt <= UNSURE else None
