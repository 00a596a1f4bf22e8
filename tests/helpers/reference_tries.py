"""Tries with any values, and the same n-grams in dictionaries and loops: small models for tests of
searching.
"""

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from bayesgram.lm.packed import Words
from bayesgram.lm.search import SENTENCE_END
from bayesgram.lm.trie import build_trie


class ReferenceTrie:
    """N-grams in dictionaries: log10 p and back-off weights by tuples of word numbers."""

    def __init__(self, levels, logs, backoffs):
        self.order = len(levels)
        self.log = {}
        self.backoff = {}
        for rows, values in zip(levels, logs, strict=True):
            self.log |= dict(zip(map(tuple, rows.tolist()), values.tolist(), strict=True))
        for rows, values in zip(levels, backoffs, strict=False):
            self.backoff |= dict(zip(map(tuple, rows.tolist()), values.tolist(), strict=True))

    def context(self, words):
        """The longest n-gram below the highest order that these words end with."""
        words = tuple(words)[-(self.order - 1) :]
        while words and words not in self.log:
            words = words[1:]
        return words

    def score(self, context, word):
        """log10 p and the order of the n-gram used."""
        total = 0.0
        while (*context, word) not in self.log:
            total += self.backoff[context]
            context = context[1:]
        return total + self.log[*context, word], len(context) + 1

    def walk(self, stream, special):
        start, end, _ = special
        context, found = self.context([start]), []
        for number in stream:
            word = end if number == SENTENCE_END else number
            found.append((*self.score(context, word), context))
            context = self.context([start] if number == SENTENCE_END else [*context, word])
        return found

    def best(self, context, words, how_many):
        scores = sorted((-self.score(context, word)[0], word) for word in words)
        return [(word, -score) for score, word in scores[:how_many]]


def make_word_list(size):
    names = sorted({b"<s>", b"</s>", b"<unk>", *(f"w{at:x}".encode() for at in range(size))})
    return Words.from_array(pa.array(names, pa.large_binary()))


def add_prefixes_and_suffixes(rows, words):
    """The levels of a model that has these n-grams: with all prefixes and suffixes."""
    levels = [rows]
    for order in range(rows.shape[1] - 1, 0, -1):
        above = levels[0]
        parts = [above[:, :-1], above[:, 1:]] + (
            [np.arange(words, dtype=np.int32)[:, None]] if order == 1 else []
        )
        levels.insert(0, np.unique(np.concatenate(parts), axis=0).astype(np.int32))
    return levels


def make_trie(seed, order, size, ngrams):
    """A trie with any values, and the same in dictionaries."""
    rng = np.random.default_rng(seed)
    words = make_word_list(size)
    skewed = (len(words) * rng.random((ngrams, order)) ** 3).astype(
        np.int32
    )  # some contexts have many children
    levels = add_prefixes_and_suffixes(np.unique(skewed, axis=0), len(words))
    logs = [
        np.round(-3 * rng.random(len(rows)), 1).astype(np.float32).astype(float) for rows in levels
    ]  # with ties
    backoffs = [
        np.round(rng.normal(size=len(rows)), 2).astype(np.float32).astype(float)
        for rows in levels[:-1]
    ]
    return build_trie(levels, words, logs, backoffs), ReferenceTrie(levels, logs, backoffs), levels


models = st.builds(
    make_trie,
    st.integers(0, 10**6),
    st.integers(2, 6),
    st.sampled_from([2, 20, 300]),
    st.sampled_from([1, 40, 600]),
)
