"""Measurements as inference has them, and as a release keeps them for later: the same numbers, to the last bit.

In and out: `Measured` of every order of a vocabulary, and `Measurements`, which n-grams are found in by their text.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Floats, Integers
from bayesgram.inference.measured import UNKNOWN, Clipping, Lost, Measured
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.measurements import LOST_TOTAL, LOST_WORD, NGRAM, TOTAL, WORD, Block, Measurements


def kept(measured: Sequence[Measured], parts: Sequence[Vocabulary]) -> Measurements:
    """What a release keeps of the measurements of each order; `parts` are the n-grams of each."""
    blocks = [block for noisy, part in zip(measured, parts, strict=True) for block in _blocks(noisy, part)]
    clipping = measured[-1].clipping
    return Measurements.of_blocks(blocks, None if clipping is UNKNOWN else (clipping.lost, clipping.unevenness))


def _blocks(noisy: Measured, part: Vocabulary) -> list[Block]:
    """All that was asked about one order."""
    found = [Block(NGRAM, part.order, part.ngrams, noisy.counts, noisy.noise, noisy.left)]
    found.append(Block.single(TOTAL, part.order, noisy.total, noisy.total_noise))
    if noisy.word_counts is not None and noisy.word_noise is not None:
        found.append(Block(WORD, part.order, part.tokens, noisy.word_counts, noisy.word_noise))
    if noisy.lost is not None:
        words = part.tokens.take(pa.array(noisy.lost.which))
        found.append(Block(LOST_WORD, part.order, words, noisy.lost.counts, noisy.lost.noise))
        found.append(Block.single(LOST_TOTAL, part.order, noisy.lost.total, noisy.lost.total_noise))
    return found


def measured_again(kept: Measurements, part: Vocabulary) -> Measured:
    """The measurements of one order, for a vocabulary whose n-grams were all measured, and no others."""
    ngrams = kept.block(NGRAM, part.order)
    if ngrams is None:
        raise ValueError("no n-gram of this order was measured")
    at = places(part.ngrams, ngrams.texts)
    left = None if ngrams.left is None else ngrams.left[at]
    clipping = UNKNOWN if kept.clipping is None else Clipping(*kept.clipping)
    found = Measured(ngrams.counts[at], ngrams.noise[at], *kept.total(part.order), clipping=clipping, left=left)
    words = kept.block(WORD, part.order)
    if words is not None:
        at = places(part.tokens, words.texts)
        found = replace(found, word_counts=words.counts[at], word_noise=words.noise[at])
    return replace(found, lost=_lost(kept, part))


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
