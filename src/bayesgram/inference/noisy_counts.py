"""Noisy counts of one order, and the public n-grams that they are about: the input of inference."""

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.kernels import kernel
from bayesgram.public.vocabulary import Vocabulary, public_distribution, source_distributions


@dataclass(frozen=True, eq=False)
class ClippedMass:
    """The text that clipping removes, by words: y ~ N(λ, noise²) for the words asked about.

    Attributes:
        which: The numbers of these words.
        counts: Their noisy counts.
        noise: Standard deviations.
        total: The noisy number of n-grams that were removed.
        total_noise: Its standard deviation.
    """

    which: Integers
    counts: Floats
    noise: Floats
    total: float
    total_noise: float


# Relative standard deviation of what little is known about: a total that public text extrapolates,
# the sum of what shrinkage expects of hidden n-grams (it was up to 1.45 times the truth), how many
# users the tail of a histogram has and how much they write. Halved or doubled, KL changes by less
# than 0.1%, and what deviations cover by less than a point (benchmarks/sensitivity.py).
VAGUE_REL_STD = 0.5


@dataclass(frozen=True)
class Clipping:
    """What clipping does to all people together, as far as the noisy histogram tells.

    Attributes:
        lost: The share of all text that it removes.
        unevenness: U, the variance of the share that it keeps of an n-gram, over its squared mean.
        bias_rel_std: Relative standard deviation by which clipping moves the share of an n-gram,
            because people who write much write differently. Before anything is known, 0.25: it
            was 0.05 (film reviews) to 0.4 (words of commits).
    """

    lost: float = 0.5
    unevenness: float = 0.5
    bias_rel_std: float = 0.25


UNKNOWN = Clipping()


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy counts of one order: y ~ N(λ, noise²) for every n-gram, word and total.

    Attributes:
        counts: Of the n-grams.
        noise: Their standard deviations.
        total: Σ λ, a coordinate of its own: Σ y would have the noise of all n-grams.
        total_noise: Its standard deviation.
        word_counts: How often each word occurs in the n-grams, where it was measured.
        word_noise: Their standard deviations.
        lost: The text that clipping removes, where it was measured.
        clipping: What clipping does; an assumption where it was not measured.
        left: The share of each n-gram that clipping keeps, by its rarity.
        unlisted: How many n-grams of this order people write that the vocabulary does not list;
            None where the counts do not tell.
        unlisted_noise: Its standard deviation.
    """

    counts: Floats
    noise: Floats
    total: float
    total_noise: float
    word_counts: Floats | None = None
    word_noise: Floats | None = None
    lost: ClippedMass | None = None
    clipping: Clipping = UNKNOWN
    left: Floats | None = None
    unlisted: float | None = None
    unlisted_noise: float = 0.0


# Relative bias of the share of an n-gram, over the share of the text that allowances leave out. As
# for text that clipping removes from users whom noise hides (`design.HIDDEN_BIAS`).
WITHHELD_BIAS = 0.7

# A share is only stated where the text that is kept is so many deviations of its noise, and the
# noise of what is left out at most this part of it. Both follow from public noise and from what is
# kept: chosen by the share itself, the stated shares would be those that noise made large.
MIN_KEPT_Z = 5.0
MAX_WITHHELD_NOISE = 0.2

# The share that is assumed to be left out where noise hides it, for deviations: in the middle of
# what was measured of four kinds of people (docs/results.md).
UNKNOWN_WITHHELD_SHARE = 0.3


@dataclass(frozen=True)
class ActivityShare:
    """What allowances leave out of the text of users who write about equally often.

    Attributes:
        text: The share of all text that these users write; noise may make it negative.
        text_std: Its standard deviation.
        share: The share of it that is left out; noise may make it negative. 0 if noise hides it.
        std: Its standard deviation; infinite if noise hides it.
    """

    text: float
    text_std: float
    share: float
    std: float


@dataclass(frozen=True)
class WithheldShare:
    """The share of the text, counted up to the clip norm, that allowances leave out.

    Attributes:
        share: As measured; noise may make it negative. 0 if noise hides it.
        std: Its standard deviation; infinite if noise hides it.
        by_activity: The same by how often users write, in the order of ACTIVITY_EDGES.
    """

    share: float
    std: float
    by_activity: tuple[ActivityShare, ...] = ()

    @classmethod
    def from_noisy(cls, numbers: Floats, noise: Floats, kept: NoisyCounts) -> "WithheldShare":
        """Return the share, from noisy numbers of n-grams that were left out.

        Args:
            numbers: By class of activity, how much was left out; and then how much was not.
            noise: Their standard deviations.
            kept: Noisy counts of what was not left out.
        """
        withheld, not_withheld = np.split(numbers, 2)
        withheld_noise, not_withheld_noise = np.split(noise, 2)
        everyone = _divide(
            float(withheld.sum()),
            float(np.linalg.norm(withheld_noise)),
            kept.total,
            kept.total_noise,
        )
        written = withheld + not_withheld
        written_noise = np.hypot(withheld_noise, not_withheld_noise)
        total = max(float(written.sum()), float(np.linalg.norm(written_noise)))
        classes = []
        for at in range(written.size):
            share, std = _divide(
                float(withheld[at]),
                float(withheld_noise[at]),
                float(not_withheld[at]),
                float(not_withheld_noise[at]),
            )
            text_std = float(written_noise[at]) / total
            classes.append(ActivityShare(float(written[at]) / total, text_std, share, std))
        return cls(*everyone, tuple(classes))

    @property
    def typical_share(self) -> float:
        """The root of the mean square of the share that is possible, between 0 and 1."""
        if math.isinf(self.std):
            return UNKNOWN_WITHHELD_SHARE
        return min(math.hypot(max(self.share, 0.0), self.std), 1.0)

    def annotate(self, noisy: NoisyCounts) -> NoisyCounts:
        """Return noisy counts whose clipping has all that allowances leave out.

        The norm histogram has users by norms that count with their limits, so that its clipping
        covers what it shows of that text. What was measured beyond it is of people whom noise
        hides: it moves the share of an n-gram as text does that clipping removes from them.
        """
        clipping = noisy.clipping
        hidden = max(self.typical_share - clipping.lost, 0.0)
        combined = Clipping(
            lost=max(clipping.lost, self.share),
            unevenness=(1 + clipping.unevenness) * (1 + hidden) - 1,
            bias_rel_std=math.hypot(clipping.bias_rel_std, WITHHELD_BIAS * hidden),
        )
        return replace(noisy, clipping=combined)

    def to_json(self) -> dict[str, Any]:
        """Return what the card says."""
        values = asdict(self)
        classes = [_round_finite(each) for each in values.pop("by_activity")]
        return {**_round_finite(values), "by_activity": classes}


def _round_finite(values: dict[str, float]) -> dict[str, float | None]:
    """Return rounded numbers, None for an infinite one."""
    return {name: None if math.isinf(value) else round(value, 5) for name, value in values.items()}


def _divide(
    withheld: float, withheld_noise: float, kept: float, kept_noise: float
) -> tuple[float, float]:
    """Return withheld/(withheld + kept) and its standard deviation; (0, ∞) if noise hides it."""
    if kept < MIN_KEPT_Z * kept_noise or withheld_noise > MAX_WITHHELD_NOISE * kept:
        return 0.0, math.inf
    total = kept + withheld
    if total <= 0:
        return 0.0, math.inf
    share = withheld / total
    return share, math.hypot((1 - share) * withheld_noise, share * kept_noise) / total


@dataclass(frozen=True, eq=False)
class PublicNgrams:
    """What inference knows from public text: π of every source and of their mixture, and the words of each n-gram."""

    prior: Floats  # π: the equal mixture of the sources, until weights are learnt
    counts: Floats  # α
    words: Ids  # V × n, a number for each word
    word_total: int
    sources: Floats  # K × V: π of each source
    weights: Floats | None = (
        None  # of the sources in π, from which learnt ones stray; None: all alike
    )
    learnt: bool = False  # whether π was learnt from people: then no answer does without it
    on_one_core: bool = False  # where many are inferred side by side

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "PublicNgrams":
        """The n-grams of a vocabulary of one order."""
        prior, counts = public_distribution(vocabulary.counts), vocabulary.counts.astype(np.float64)
        return cls(
            prior,
            counts,
            *vocabulary.word_ids,
            source_distributions(vocabulary.counts_by_source, vocabulary.counts),
        )

    @property
    def start(self) -> Floats:
        """The weights of the sources in π."""
        number = len(self.sources)
        return np.full(number, 1 / number) if self.weights is None else self.weights

    @cached_property
    def common(self) -> Floats:
        """The geometric mean of the sources, which one that is no use moves least: what noise is shaped for."""
        if len(self.sources) == 1:
            return self.prior
        mean: Floats = np.exp(np.log(self.sources).mean(axis=0))
        return mean / float(mean.sum())

    @cached_property
    def pieces(self) -> Integers:
        """Which piece every n-gram has at each place: runs of 2 and of n − 1 tokens, one column each."""
        order = self.words.shape[1]
        columns = [
            _numbered(self.words[:, start : start + length])
            for length in sorted({2, order - 1} & set(range(2, order)))
            for start in range(order - length + 1)
        ]
        return np.ascontiguousarray(
            np.array(columns, np.int64).reshape(len(columns), len(self.words)).T
        )

    def mixed(self, weights: Floats) -> "PublicNgrams":
        """The same n-grams with other weights of the sources."""
        made = replace(self, prior=weights @ self.sources, weights=weights)
        made.__dict__["pieces"] = self.pieces  # does not depend on the prior
        return made

    def moved(self, lifts: Floats) -> "PublicNgrams":
        """The same n-grams with all log π moved."""
        factors = np.exp(lifts)
        prior, sources = self.prior * factors, self.sources * factors
        made = replace(
            self, prior=prior / prior.sum(), sources=sources / sources.sum(axis=1, keepdims=True)
        )
        made.__dict__["pieces"] = self.pieces
        return made

    def per_word(self, values: Floats) -> Floats:
        """Sum a value of every n-gram over the n-grams of each word, once for each time the word is in it."""
        return per_word(self.words, values, self.word_total)

    def per_ngram(self, values: Floats) -> Floats:
        """Sum a value of every word over the words of each n-gram."""
        return per_ngram(self.words, values)


def _numbered(rows: Ids) -> Integers:
    """A number for each distinct row, column by column: sorting whole numbers is many times faster than rows."""
    numbers: Integers = np.zeros(len(rows), np.int64)
    for column in rows.T:
        _, numbers = np.unique(
            numbers * (int(column.max(initial=0)) + 1) + column, return_inverse=True
        )
    return numbers.ravel()


@kernel
def per_word(words: Ids, values: Floats, size: int) -> Floats:
    """Sum a value of every n-gram over the n-grams of each word."""
    total = np.zeros(size)
    for row in range(words.shape[0]):
        for place in range(words.shape[1]):
            total[words[row, place]] += values[row]
    return total


@kernel
def per_ngram(words: Ids, values: Floats) -> Floats:
    """Sum a value of every word over the words of each n-gram."""
    total = np.zeros(words.shape[0])
    for row in range(words.shape[0]):
        for place in range(words.shape[1]):
            total[row] += values[words[row, place]]
    return total
