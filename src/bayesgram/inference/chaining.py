"""The release before as the prior of this one: what was measured then, as far as it still holds, beside what is now.

In:  measurements of one order, and what earlier releases carry over.   Out: measurements of the same n-grams with less
noise, for `infer`, and how far people have drifted.

What was carried, m with noise p, is rescaled to this release's total; since then an n-gram has moved by N(0, (λτ)²), λ
being what is expected of it, and y also varies by chance. So y − m has the variance noise² + λ + p² + (λτ)²: τ, and the
part of the n-grams that have changed by more than that, are the likeliest ones. N-grams of words that have changed have
a part of their own. Every n-gram then weighs how far it may have moved by its own y and m, and the two are averaged by
their precision.

Who drifts forgets: of what set people apart from public text, of variance V in log-frequencies, the part ρ = 1 − τ²/2V
is still there, and m shows that much of what is now. So m counts as π + (m − π)/ρ, with noise to match. Where
nothing is alike any more, ρ being 0 or y straying from public text elsewhere than m, y stays as it is.

Measurements as inference has them, and as a release keeps them for later: the same numbers, to the last bit.

In and out: `Measured` of every order of a vocabulary, and `Measurements`, which n-grams are found in by their text.
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
    WORD,
    MeasurementBlock,
    Measurements,
)
from bayesgram.releases.release import Release

DRIFTS: Floats = np.exp2(np.arange(0, 8.5, 0.5)) / 100  # τ from 1% to a factor of e and more
USUAL_DRIFT, DRIFT_DEVIATION = 0.1, 1.5  # of log τ, before anything is seen
LIKE_ALL = 0.5  # deviation of log τ of a segment from that of all people
CHANGES: Floats = np.exp2(
    np.arange(-1.0, 5.0)
)  # by how much an n-gram moves that has changed, over what is expected of it
PARTS = np.array(
    [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 0.999]
)  # of the n-grams that have changed
USUAL_PART = 0.05  # and the prior weight of one n-gram's worth for each
PUBLIC_PART = 0.1  # of what is expected is as public text has it: something may have come up
SAMPLED = 1.0  # variance over mean of what people happen to write
LEAST_SPREAD = (
    0.25  # V: nobody writes quite like public text, also where noise hides how they differ
)
LEAST_KEPT = 0.4  # of ρ: what shows less is not worth its noise
OUTLIER = 2.0  # deviations that one n-gram may be away
SIGNAL = 2.0  # standard deviations by which this release's total exceeds 0, or is taken to
CHANGED = 0.5  # probability from which a word's n-grams are looked at by themselves


@dataclass(frozen=True, eq=False)
class PreviousMeasurements:
    """What earlier releases say of the n-grams of one order, in the units of the last one's total."""

    counts: Floats
    noise: Floats  # infinite for an n-gram that was not measured
    expected: Floats  # what the last release expects; 0 where it has none
    total: float  # of what it expects, of all of its n-grams
    whole: bool  # whether its n-grams are the same
    word_counts: Floats | None = None
    word_noise: Floats | None = None


@dataclass(frozen=True)
class Drift:
    """What has happened to people's text since the last release."""

    drift: float  # τ: standard deviation of log-frequencies
    changed: float  # the part of the n-grams that have changed by more
    information: float  # 1/noise² of what is known now, over that of this release alone: median over the n-grams

    @classmethod
    def unrelated(cls, drift: float) -> "Drift":
        """Nothing is still there."""
        return cls(drift, 1.0, 1.0)

    @property
    def is_unrelated(self) -> bool:
        """Whether nothing is still there."""
        return self.changed == 1 and self.information == 1


@dataclass(frozen=True)
class DriftPrior:
    """What drift is likely before anything is seen: log τ and its standard deviation."""

    drift: float = USUAL_DRIFT
    deviation: float = DRIFT_DEVIATION

    @classmethod
    def like(cls, everyone: Drift | None) -> "DriftPrior":
        """Of a segment: about as all people have drifted, where that is known."""
        return cls() if everyone is None else cls(everyone.drift, LIKE_ALL)

    def log_prior(self, drifts: Floats) -> Floats:
        """Of each drift."""
        found: Floats = -0.5 * (np.log(drifts / self.drift) / self.deviation) ** 2
        return found


DEFAULT_DRIFT_PRIOR = DriftPrior()


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two measurements of the same things, in the same units: now, and carried over."""

    now: Floats
    noise: Floats
    then: Floats
    doubt: Floats  # infinite where nothing is carried
    expected: Floats
    usual: Floats  # as public text has it
    spread: float  # V: variance of log-frequencies against public text

    def moved(self, drift: float) -> Floats:
        """Variance of what is carried as it is, if log-frequencies have moved by so much."""
        variance: Floats = self.doubt**2 + (self.expected * drift) ** 2
        return variance

    @property
    def own(self) -> Floats:
        """Variance of what is measured now: its noise and, where something is carried, what chance adds to habit."""
        chance = np.where(np.isfinite(self.doubt), SAMPLED * self.expected, 0.0)
        variance: Floats = self.noise**2 + chance
        return variance

    def kept(self, drift: float) -> float:
        """ρ; 0 where it is not worth while."""
        kept = 1 - drift**2 / (2 * self.spread)
        return kept if kept >= LEAST_KEPT else 0.0

    def shown(self, drift: float) -> tuple[Floats, Floats]:
        """What is carried as a measurement of what is now, and the precision of that."""
        kept = self.kept(drift)
        if not kept:
            return self.then, np.zeros_like(self.then)
        new = self.spread * (1 - kept**2)  # variance that has come since
        variance = (self.doubt**2 + self.expected**2 * new) / kept**2
        return self.usual + (self.then - self.usual) / kept, 1 / variance

    def is_related(self, drift: float) -> bool:
        """Whether as much is still there as this drift would leave: else these are other people, or another language.

        By how far both stray from public text, in deviations of what people and noise make of it, and no further than
        OUTLIER: where the part ρ is still there, their product is ρ times what is left of it without noise.
        """
        known, kept = np.isfinite(self.doubt), self.kept(drift)
        apart = self.spread * self.usual[known] ** 2
        noises = self.own[known], self.doubt[known] ** 2
        common = apart / np.sqrt((apart + noises[0]) * (apart + noises[1]))
        weights = common / max(float(common.sum()), 1e-9)
        strayed, straying = [], []
        for measured, noise in zip((self.now, self.then), noises, strict=True):
            off = (measured[known] - self.usual[known]) / np.sqrt(apart + noise)
            off = np.clip(off, -OUTLIER, OUTLIER)
            strayed.append(off - float(weights @ off))
            straying.append(float(weights @ (strayed[-1] ** 2 - noise / (apart + noise))))
        product, size = common * strayed[0] * strayed[1], max(float((common**2).sum()), 1e-9)
        expected = kept * max(min(straying), 0.0)
        return kept > 0 and float(product.sum()) > expected * size / 2 - float(
            np.linalg.norm(product)
        )

    def likelihoods(self, drifts: Floats) -> Floats:
        """Log-likelihood of y − m for each drift (drifts × things); 0 where nothing is carried."""
        known = np.isfinite(self.doubt)
        found = np.zeros((drifts.size, self.now.size))
        off = self.now[known] - self.then[known]
        for row, drift in zip(found, drifts, strict=True):
            variance = self.own[known] + self.moved(drift)[known]
            row[known] = -0.5 * (off**2 / variance + np.log(variance))
        return found


@dataclass(frozen=True, eq=False)
class DriftModel:
    """How far each thing may have moved: probabilities of each drift (drifts × things)."""

    drifts: Floats  # the first is the usual one, the others are changes
    likely: Floats
    drift: float
    parts: list[float]  # that have changed, by group

    @property
    def changed(self) -> Floats:
        """The probability that a thing has changed."""
        changed: Floats = 1 - self.likely[0]
        return changed


@dataclass(frozen=True, eq=False)
class About:
    """What is expected of things, as the last release and as public text have it; V."""

    expected: Floats
    usual: Floats
    spread: float

    def pairs(self, now: tuple[Floats, Floats], then: tuple[Floats, Floats], scale: float) -> Pairs:
        """Counts and noise of now, and of then in other units."""
        counts = scale * np.where(np.isfinite(then[1]), then[0], 0.0)
        return Pairs(*now, counts, scale * then[1], self.expected, self.usual, self.spread)


def combined(
    measured: NoisyCounts,
    carried: PreviousMeasurements,
    public: PublicNgrams,
    usual: DriftPrior = DEFAULT_DRIFT_PRIOR,
) -> tuple[NoisyCounts, Drift]:
    """Both together, by their precision, where people have drifted as far as is likely."""
    scale, doubt = _scale(measured, carried)
    about = _about(carried, public, scale)
    words, changed = (
        _words(measured, carried, public, about, scale),
        np.zeros(public.prior.size, bool),
    )
    made = measured
    if words is not None:
        found = moves(words, [np.ones(words.now.size, bool)], usual)
        changed = public.per_ngram((found.changed > CHANGED).astype(np.float64)) > 0
        counts, noise = averaged(words, found)
        made = replace(made, word_counts=counts, word_noise=noise)
    pairs = about.pairs((measured.counts, measured.noise), (carried.counts, carried.noise), scale)
    found = moves(pairs, [~changed, changed], usual)
    if not pairs.is_related(found.drift):
        return measured, Drift.unrelated(found.drift)
    counts, noise = averaged(pairs, found)
    if carried.whole:
        made = replace(made, total=scale * carried.total, total_noise=doubt * carried.total)
    return replace(made, counts=counts, noise=noise), _told(pairs, found, noise)


def _told(pairs: Pairs, found: DriftModel, noise: Floats) -> Drift:
    """In three numbers, over what is carried."""
    known = np.isfinite(pairs.doubt)
    if not known.any():
        return Drift.unrelated(found.drift)
    gained = float(np.median((pairs.noise / noise)[known] ** 2))
    return Drift(found.drift, float(found.changed[known].mean()), gained)


def _about(carried: PreviousMeasurements, public: PublicNgrams, scale: float) -> About:
    """What is expected of this release's n-grams."""
    usual = scale * carried.total * public.prior
    expected = (1 - PUBLIC_PART) * scale * carried.expected + PUBLIC_PART * usual
    return About(expected, usual, _spread(carried.expected, public.prior))


def _words(
    measured: NoisyCounts,
    carried: PreviousMeasurements,
    public: PublicNgrams,
    about: About,
    scale: float,
) -> Pairs | None:
    """Those that were measured now and then."""
    if measured.word_counts is None or measured.word_noise is None:
        return None
    if carried.word_counts is None or carried.word_noise is None:
        return None
    own = replace(
        about, expected=public.per_word(about.expected), usual=public.per_word(about.usual)
    )
    return own.pairs(
        (measured.word_counts, measured.word_noise),
        (carried.word_counts, carried.word_noise),
        scale,
    )


def _spread(expected: Floats, prior: Floats) -> float:
    """V: variance of log θ/π over what people write, as the last release has it."""
    known = expected > 0
    if not known.any():
        return LEAST_SPREAD
    lifts, weights = (
        np.log(expected[known] / prior[known]),
        expected[known] / float(expected[known].sum()),
    )
    return max(float(weights @ (lifts - weights @ lifts) ** 2), LEAST_SPREAD)


def _scale(measured: NoisyCounts, carried: PreviousMeasurements) -> tuple[float, float]:
    """How many times as much was written as before, and the standard deviation of that.

    By the n-grams, each of which may have moved, and where all are the same also by their total.
    """
    first = max(measured.total, 1.0) / carried.total
    weights = 1 / (measured.noise**2 + (RESIDUAL_STD * first * carried.expected) ** 2)
    seen = float((weights * measured.counts * carried.expected).sum())
    size = float((weights * carried.expected**2).sum())
    if carried.whole:
        trust = (carried.total / measured.total_noise) ** 2
        seen, size = seen + trust * measured.total / carried.total, size + trust
    doubt = 1 / np.sqrt(size)
    return float(max(seen / size, SIGNAL * doubt)), float(doubt)


def moves(
    pairs: Pairs, groups: Sequence[Bools], usual: DriftPrior = DEFAULT_DRIFT_PRIOR
) -> DriftModel:
    """The likeliest drift, and for each group the part that has changed; then how far each thing has moved."""
    drifted, changes = pairs.likelihoods(DRIFTS), _mean(pairs.likelihoods(CHANGES))
    sums = [
        _by_part(drifted[:, group], changes[group]) for group in groups
    ]  # drifts × parts, for each
    best = sum(each.max(axis=1) for each in sums) + usual.log_prior(DRIFTS)
    at = int(np.argmax(best))
    parts = [float(PARTS[np.argmax(each[at])]) for each in sums]
    drifts = np.concatenate([DRIFTS[at : at + 1], CHANGES])
    shares = np.zeros((drifts.size, pairs.now.size))
    for group, part in zip(groups, parts, strict=True):
        shares[0, group], shares[1:, group] = 1 - part, part / CHANGES.size
    likely = np.log(shares) + pairs.likelihoods(drifts)
    likely = np.exp(likely - likely.max(axis=0))
    return DriftModel(drifts, likely / likely.sum(axis=0), float(DRIFTS[at]), parts)


def _mean(logs: Floats) -> Floats:
    """Log of the mean likelihood."""
    most = logs.max(axis=0)
    mean: Floats = most + np.log(np.exp(logs - most).mean(axis=0))
    return mean


def _by_part(usual: Floats, changes: Floats) -> Floats:
    """Log-likelihood of a group for each drift and each part that has changed (drifts × parts)."""
    ratios = np.exp(np.clip(changes - usual, -500, 500))
    prior = np.log(PARTS) * USUAL_PART + np.log(1 - PARTS) * (1 - USUAL_PART)
    gained = np.stack([np.log(1 - part + part * ratios).sum(axis=1) for part in PARTS], axis=1)
    found: Floats = usual.sum(axis=1)[:, None] + gained + prior
    return found


def averaged(pairs: Pairs, found: DriftModel) -> tuple[Floats, Floats]:
    """Mean and standard deviation of both measurements together, over how far each thing may have moved."""
    own = 1 / pairs.own
    mean, square = np.zeros_like(pairs.now), np.zeros_like(pairs.now)
    for drift, likely in zip(found.drifts, found.likely, strict=True):
        then, trust = pairs.shown(drift)
        each = (own * pairs.now + trust * then) / (own + trust)
        mean += likely * each
        square += likely * (each**2 + 1 / (own + trust))
    return mean, np.sqrt(np.maximum(square - mean**2, 0.25 * _least(pairs)))


def _least(pairs: Pairs) -> Floats:
    """The variance, had nothing moved."""
    variance: Floats = 1 / (1 / pairs.own + 1 / pairs.doubt**2)
    return variance


def kept(
    measured: Sequence[NoisyCounts],
    parts: Sequence[Vocabulary],
    joined: Sequence[NoisyCounts] | None = None,
) -> Measurements:
    """What a release keeps of the measurements of each order; `parts` are the n-grams of each.

    `joined` are the same, together with what earlier releases carry over.
    """
    triples = zip(measured, parts, [None] * len(parts) if joined is None else joined, strict=True)
    blocks = [block for noisy, part, both in triples for block in _blocks(noisy, part, both)]
    clipping = measured[-1].clipping
    return Measurements.from_blocks(
        blocks,
        None
        if clipping is UNKNOWN
        else (clipping.lost, clipping.unevenness, clipping.bias_rel_std),
    )


def _blocks(
    noisy: NoisyCounts, part: Vocabulary, both: NoisyCounts | None
) -> list[MeasurementBlock]:
    """All that was asked about one order."""
    carried = None if both is None else (both.counts, both.noise)
    found = [
        MeasurementBlock(
            NGRAM, part.order, part.ngrams, noisy.counts, noisy.noise, noisy.left, carried
        )
    ]
    total = MeasurementBlock.from_total(TOTAL, part.order, noisy.total, noisy.total_noise)
    if both is not None:
        total = replace(total, carried=(np.array([both.total]), np.array([both.total_noise])))
    found.append(total)
    if noisy.word_counts is not None and noisy.word_noise is not None:
        words = MeasurementBlock(WORD, part.order, part.tokens, noisy.word_counts, noisy.word_noise)
        if both is not None and both.word_counts is not None and both.word_noise is not None:
            words = replace(words, carried=(both.word_counts, both.word_noise))
        found.append(words)
    if noisy.lost is not None:
        asked = part.tokens.take(pa.array(noisy.lost.which))
        found.append(
            MeasurementBlock(CLIPPED_WORD, part.order, asked, noisy.lost.counts, noisy.lost.noise)
        )
        found.append(
            MeasurementBlock.from_total(
                CLIPPED_TOTAL, part.order, noisy.lost.total, noisy.lost.total_noise
            )
        )
    return found


def measured_again(kept: Measurements, part: Vocabulary) -> NoisyCounts:
    """The measurements of one order, for a vocabulary all of whose n-grams were measured.

    With what earlier releases carried over, as inference had it. Of n-grams that were measured and that the vocabulary
    lacks, totals and words are freed, as well as noise allows.
    """
    ngrams = _joined(kept, NGRAM, part.order)
    if ngrams is None:
        raise ValueError("no n-gram of this order was measured")
    at = places(part.ngrams, ngrams.texts)
    left = None if ngrams.unclipped_share is None else ngrams.unclipped_share[at]
    clipping = UNKNOWN if kept.clipping is None else Clipping(*kept.clipping)
    others = np.setdiff1d(np.arange(ngrams.counts.size), at)
    total = _total(kept, ngrams, at, others, part.order)
    found = NoisyCounts(
        ngrams.counts[at], ngrams.noise_std[at], *total, clipping=clipping, left=left
    )
    words = _joined(kept, WORD, part.order)
    if words is not None:
        counts, noise = _word_counts(words, ngrams, others, part)
        found = replace(found, word_counts=counts, word_noise=noise)
    return replace(found, lost=_lost(kept, part))


def _joined(kept: Measurements, kind: str, order: int) -> MeasurementBlock | None:
    """What was measured, together with what earlier releases carried over."""
    found = kept.block(kind, order)
    if found is None or found.carried is None:
        return found
    return replace(found, counts=found.carried[0], noise_std=found.carried[1])


def _total(
    kept: Measurements, ngrams: MeasurementBlock, at: Integers, others: Integers, order: int
) -> tuple[float, float]:
    """Of the n-grams at these places, and its noise: what was asked less the others, or added up."""
    asked = _joined(kept, TOTAL, order)
    if asked is None:
        return float(ngrams.counts[at].sum()), float(np.linalg.norm(ngrams.noise_std[at]))
    total, noise = float(asked.counts[0]), float(asked.noise_std[0])
    if not others.size:
        return total, noise
    return total - float(ngrams.counts[others].sum()), float(
        np.hypot(noise, np.linalg.norm(ngrams.noise_std[others]))
    )


def _word_counts(
    words: MeasurementBlock, ngrams: MeasurementBlock, others: Integers, part: Vocabulary
) -> tuple[Floats, Floats]:
    """Counts of the vocabulary's words without those in other n-grams, and their noise."""
    at = places(part.tokens, words.texts)
    if others.size:
        counts, squares = words.counts.copy(), words.noise_std**2
        tokens = pc.split_pattern(ngrams.texts.take(pa.array(others)), " ").flatten()
        where, which = places(tokens, words.texts), np.repeat(others, len(tokens) // others.size)
        counts -= np.bincount(where, ngrams.counts[which], counts.size)
        squares = squares + np.bincount(where, ngrams.noise_std[which] ** 2, counts.size)
        return counts[at], np.sqrt(squares)[at]
    return words.counts[at], words.noise_std[at]


def join(
    measured: Sequence[NoisyCounts],
    parts: Sequence[Vocabulary],
    previous: Release,
    everyone: Mapping[str, Drift] | None = None,
) -> tuple[list[NoisyCounts], dict[str, Drift]]:
    """The measurements of every order together with what a release carries over, and how far people have drifted.

    `everyone`: how far all people have drifted, where these are some of them. Where those are others than before, so
    are these, however little noise leaves to be seen of it.
    """
    joined, drifts = [], {}
    for noisy, part in zip(measured, parts, strict=True):
        carried, like = carried_over(previous, part), (everyone or {}).get(str(part.order))
        both = noisy
        if carried is not None and like is not None and like.is_unrelated:
            drifts[str(part.order)] = like
        elif carried is not None:
            both, drifts[str(part.order)] = combined(
                noisy, carried, PublicNgrams.of(part), DriftPrior.like(like)
            )
        joined.append(both)
    return joined, drifts


def carried_over(release: Release, part: Vocabulary) -> PreviousMeasurements | None:
    """What a release and those before it say of n-grams of one order; None where it has none of them."""
    ngrams = None if release.measurements is None else release.measurements.block(NGRAM, part.order)
    if release.measurements is None or ngrams is None:
        return None
    listed = release.ngrams.filter(pa.array(release.orders == part.order))
    at, own = places(part.ngrams, ngrams.texts), places(part.ngrams, listed)
    if not ((at >= 0) & (own >= 0)).any():
        return None
    counts, noise = ngrams.carried or (ngrams.counts, ngrams.noise_std)
    total = _carried_total(release.measurements, part.order)
    expected = only(total * release.probabilities[release.orders == part.order], own, 0.0)
    whole = len(part) == len(ngrams.texts) == len(listed) and bool((at >= 0).all())
    found = PreviousMeasurements(
        only(counts, at, 0.0), only(noise, at, np.inf), expected, total, whole=whole
    )
    words = release.measurements.block(WORD, part.order)
    if words is None or not whole:  # words of other n-grams are not the same numbers
        return found
    at = places(part.tokens, words.texts)
    counts, noise = words.carried or (words.counts, words.noise_std)
    return replace(found, word_counts=counts[at], word_noise=noise[at])


def _carried_total(measured: Measurements, order: int) -> float:
    """Of the n-grams of an order, in the units of what is carried."""
    asked = _joined(measured, TOTAL, order)
    return max(measured.total(order)[0] if asked is None else float(asked.counts[0]), 1.0)


def _lost(kept: Measurements, part: Vocabulary) -> ClippedMass | None:
    """What clipping took away, by the words that are still there."""
    words, total = kept.block(CLIPPED_WORD, part.order), kept.block(CLIPPED_TOTAL, part.order)
    if words is None or total is None:
        return None
    which = places(words.texts, part.tokens)
    there = which >= 0
    return ClippedMass(
        which[there],
        words.counts[there],
        words.noise_std[there],
        float(total.counts[0]),
        float(total.noise_std[0]),
    )


def places(texts: pa.LargeStringArray, among: pa.LargeStringArray) -> Integers:
    """Where each text stands among others; −1: nowhere."""
    found: Integers = pc.index_in(texts, among).fill_null(-1).to_numpy().astype(np.int64)
    return found


def only(values: Floats, at: Integers, missing: float) -> Floats:
    """Values in other places, and another where there is none."""
    return np.where(at >= 0, values[np.maximum(at, 0)], missing)
