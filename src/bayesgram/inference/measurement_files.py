"""Measurements as inference has them, and as a release keeps them for later: the same numbers, to the last bit.

In and out: `Measured` of every order of a vocabulary, and `Measurements`, which n-grams are found in by their text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Floats, Integers
from bayesgram.inference.chaining import Drift, PreviousMeasurements, Usual, combined
from bayesgram.inference.measured import UNKNOWN, Clipping, Lost, Measured, PublicNgrams
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.measurements import LOST_TOTAL, LOST_WORD, NGRAM, TOTAL, WORD, Block, Measurements
from bayesgram.released.release import Release


def kept(
    measured: Sequence[Measured], parts: Sequence[Vocabulary], joined: Sequence[Measured] | None = None
) -> Measurements:
    """What a release keeps of the measurements of each order; `parts` are the n-grams of each.

    `joined` are the same, together with what earlier releases carry over.
    """
    triples = zip(measured, parts, [None] * len(parts) if joined is None else joined, strict=True)
    blocks = [block for noisy, part, both in triples for block in _blocks(noisy, part, both)]
    clipping = measured[-1].clipping
    return Measurements.of_blocks(blocks, None if clipping is UNKNOWN else (clipping.lost, clipping.unevenness))


def _blocks(noisy: Measured, part: Vocabulary, both: Measured | None) -> list[Block]:
    """All that was asked about one order."""
    carried = None if both is None else (both.counts, both.noise)
    found = [Block(NGRAM, part.order, part.ngrams, noisy.counts, noisy.noise, noisy.left, carried)]
    total = Block.single(TOTAL, part.order, noisy.total, noisy.total_noise)
    if both is not None:
        total = replace(total, carried=(np.array([both.total]), np.array([both.total_noise])))
    found.append(total)
    if noisy.word_counts is not None and noisy.word_noise is not None:
        words = Block(WORD, part.order, part.tokens, noisy.word_counts, noisy.word_noise)
        if both is not None and both.word_counts is not None and both.word_noise is not None:
            words = replace(words, carried=(both.word_counts, both.word_noise))
        found.append(words)
    if noisy.lost is not None:
        asked = part.tokens.take(pa.array(noisy.lost.which))
        found.append(Block(LOST_WORD, part.order, asked, noisy.lost.counts, noisy.lost.noise))
        found.append(Block.single(LOST_TOTAL, part.order, noisy.lost.total, noisy.lost.total_noise))
    return found


def measured_again(kept: Measurements, part: Vocabulary) -> Measured:
    """The measurements of one order, for a vocabulary all of whose n-grams were measured.

    With what earlier releases carried over, as inference had it. Of n-grams that were measured and that the vocabulary
    lacks, totals and words are freed, as well as noise allows.
    """
    ngrams = _joined(kept, NGRAM, part.order)
    if ngrams is None:
        raise ValueError("no n-gram of this order was measured")
    at = places(part.ngrams, ngrams.texts)
    left = None if ngrams.left is None else ngrams.left[at]
    clipping = UNKNOWN if kept.clipping is None else Clipping(*kept.clipping)
    others = np.setdiff1d(np.arange(ngrams.counts.size), at)
    total = _total(kept, ngrams, at, others, part.order)
    found = Measured(ngrams.counts[at], ngrams.noise[at], *total, clipping=clipping, left=left)
    words = _joined(kept, WORD, part.order)
    if words is not None:
        counts, noise = _words(words, ngrams, others, part)
        found = replace(found, word_counts=counts, word_noise=noise)
    return replace(found, lost=_lost(kept, part))


def _joined(kept: Measurements, kind: str, order: int) -> Block | None:
    """What was measured, together with what earlier releases carried over."""
    found = kept.block(kind, order)
    if found is None or found.carried is None:
        return found
    return replace(found, counts=found.carried[0], noise=found.carried[1])


def _total(kept: Measurements, ngrams: Block, at: Integers, others: Integers, order: int) -> tuple[float, float]:
    """Of the n-grams at these places, and its noise: what was asked less the others, or added up."""
    asked = _joined(kept, TOTAL, order)
    if asked is None:
        return float(ngrams.counts[at].sum()), float(np.linalg.norm(ngrams.noise[at]))
    total, noise = float(asked.counts[0]), float(asked.noise[0])
    if not others.size:
        return total, noise
    return total - float(ngrams.counts[others].sum()), float(np.hypot(noise, np.linalg.norm(ngrams.noise[others])))


def _words(words: Block, ngrams: Block, others: Integers, part: Vocabulary) -> tuple[Floats, Floats]:
    """Counts of the vocabulary's words without those in other n-grams, and their noise."""
    at = places(part.tokens, words.texts)
    if others.size:
        counts, squares = words.counts.copy(), words.noise**2
        tokens = pc.split_pattern(ngrams.texts.take(pa.array(others)), " ").flatten()
        where, which = places(tokens, words.texts), np.repeat(others, len(tokens) // others.size)
        counts -= np.bincount(where, ngrams.counts[which], counts.size)
        squares = squares + np.bincount(where, ngrams.noise[which] ** 2, counts.size)
        return counts[at], np.sqrt(squares)[at]
    return words.counts[at], words.noise[at]


def join(
    measured: Sequence[Measured],
    parts: Sequence[Vocabulary],
    previous: Release,
    everyone: Mapping[str, Drift] | None = None,
) -> tuple[list[Measured], dict[str, Drift]]:
    """The measurements of every order together with what a release carries over, and how far people have drifted.

    `everyone`: how far all people have drifted, where these are some of them. Where those are others than before, so
    are these, however little noise leaves to be seen of it.
    """
    joined, drifts = [], {}
    for noisy, part in zip(measured, parts, strict=True):
        carried, like = carried_over(previous, part), (everyone or {}).get(str(part.order))
        both = noisy
        if carried is not None and like is not None and like.is_of_others:
            drifts[str(part.order)] = like
        elif carried is not None:
            both, drifts[str(part.order)] = combined(noisy, carried, PublicNgrams.of(part), Usual.like(like))
        joined.append(both)
    return joined, drifts


def carried_over(release: Release, part: Vocabulary) -> PreviousMeasurements | None:
    """What a release and those before it say of n-grams of one order; None where it has none of them."""
    ngrams = None if release.measured is None else release.measured.block(NGRAM, part.order)
    if release.measured is None or ngrams is None:
        return None
    listed = release.ngrams.filter(pa.array(release.orders == part.order))
    at, own = places(part.ngrams, ngrams.texts), places(part.ngrams, listed)
    if not ((at >= 0) & (own >= 0)).any():
        return None
    counts, noise = ngrams.carried or (ngrams.counts, ngrams.noise)
    total = _carried_total(release.measured, part.order)
    expected = only(total * release.probabilities[release.orders == part.order], own, 0.0)
    whole = len(part) == len(ngrams.texts) == len(listed) and bool((at >= 0).all())
    found = PreviousMeasurements(only(counts, at, 0.0), only(noise, at, np.inf), expected, total, whole=whole)
    words = release.measured.block(WORD, part.order)
    if words is None or not whole:  # words of other n-grams are not the same numbers
        return found
    at = places(part.tokens, words.texts)
    counts, noise = words.carried or (words.counts, words.noise)
    return replace(found, word_counts=counts[at], word_noise=noise[at])


def _carried_total(measured: Measurements, order: int) -> float:
    """Of the n-grams of an order, in the units of what is carried."""
    asked = _joined(measured, TOTAL, order)
    return max(measured.total(order)[0] if asked is None else float(asked.counts[0]), 1.0)


def _lost(kept: Measurements, part: Vocabulary) -> Lost | None:
    """What clipping took away, by the words that are still there."""
    words, total = kept.block(LOST_WORD, part.order), kept.block(LOST_TOTAL, part.order)
    if words is None or total is None:
        return None
    which = places(words.texts, part.tokens)
    there = which >= 0
    return Lost(which[there], words.counts[there], words.noise[there], float(total.counts[0]), float(total.noise[0]))


def places(texts: pa.LargeStringArray, among: pa.LargeStringArray) -> Integers:
    """Where each text stands among others; −1: nowhere."""
    found: Integers = pc.index_in(texts, among).fill_null(-1).to_numpy().astype(np.int64)
    return found


def only(values: Floats, at: Integers, missing: float) -> Floats:
    """Values in other places, and another where there is none."""
    return np.where(at >= 0, values[np.maximum(at, 0)], missing)
