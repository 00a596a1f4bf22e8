"""Small language models, and slow, literal ones to compare with: dictionaries and loops, as the
definitions say.
"""

import math

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from bayesgram.lm.estimate import END_PROBABILITY, KAPPA, KAPPA_MEASURED, MIN_LEFTOVER_SHARE
from bayesgram.privacy.budget import Guarantee
from bayesgram.releases.card import Card
from bayesgram.releases.release import Release

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
WORDS = ["a", "b", "c", "é", "x\u2028y", "q\u0085", "𝒱", "-1.5", "\\data\\", "ngram"]


def make_release(table, *, tokenizer="whitespace", totals=True):
    """A release made by hand from n-grams (tuples) with expected counts."""
    sums = {}
    for ngram, count in table.items():
        sums[len(ngram)] = sums.get(len(ngram), 0.0) + count
    orders = sorted(sums)
    rows = sorted(table, key=lambda ngram: (len(ngram), ngram))
    vocabulary = {
        "size": len(rows),
        "order": orders[-1],
        "orders": orders,
        "tokenizer": tokenizer,
        "fingerprint": "0",
        "prior_fingerprint": "0",
    }
    details = {"expected_counts": {str(order): sums[order] for order in orders}} if totals else {}
    card = Card(
        "posterior", Guarantee.PROVED, "by hand", 1.0, 1e-7, {}, details, vocabulary, seeded=False
    )
    probabilities = np.array([table[ngram] / sums[len(ngram)] for ngram in rows])
    return Release(
        pa.array([" ".join(ngram) for ngram in rows], pa.large_string()), probabilities, card
    )


@st.composite
def tables(draw, *, orders=None, boundaries=None):
    """N-grams of one order or several with expected counts, perhaps with sentence boundaries."""
    orders = orders or draw(st.sampled_from([(2,), (3,), (1, 2), (1, 2, 3), (1, 3), (4,), (2, 4)]))
    marked = draw(st.booleans()) if boundaries is None else boundaries
    table = {}
    for order in orders:
        for _ in range(draw(st.integers(1, 8))):
            ngram = [draw(st.sampled_from(WORDS)) for _ in range(order)]
            if marked and draw(st.booleans()) and order > 1:
                ngram[0] = START
            if marked and draw(st.booleans()):
                ngram[-1] = END
            table[tuple(ngram)] = draw(st.sampled_from([1e-9, 0.5, 1.0, 3.0, 20.0, 1e4, 1e9]))
    return table


def plain_arrays(model):
    """Return what a model consists of, as arrays to compare."""
    trie = model.trie
    names = ("level_starts", "word", "first_child", "suffix", "log_probability", "log_backoff")
    arrays = {name: getattr(trie, name) for name in names}
    return {"word_bytes": trie.words.data, "word_ends": trie.words.ends} | arrays


class ReferenceModel:
    """The back-off model that the docstring of `estimate` defines."""

    def __init__(self, table):
        self.order = max(map(len, table))
        measured = {len(ngram) for ngram in table}
        self.words = sorted(
            {word for ngram in table for word in ngram} | {START, END, UNKNOWN}, key=str.encode
        )
        self.expected = expected = {(word,): 0.0 for word in self.words} | dict(table)
        for order in range(self.order - 1, 0, -1):
            longer = [ngram for ngram in expected if len(ngram) == order + 1]
            for side in (slice(None, -1), slice(1, None)):
                sums = {}
                for ngram in longer:
                    sums[ngram[side]] = sums.get(ngram[side], 0.0) + expected[ngram]
                for ngram, count in sums.items():
                    expected[ngram] = max(expected.get(ngram, 0.0), count)
        self.lost = {order: self._lost(order, measured) for order in range(1, self.order + 1)}
        self.p, self.bow = {}, {}
        self._set_words()
        for order in range(2, self.order + 1):
            self._set_order(order)

    def _lost(self, order, measured):
        counts = [
            count for ngram, count in self.expected.items() if len(ngram) == order and count > 0
        ]
        kappa = KAPPA_MEASURED if order == 1 or order - 1 in measured else KAPPA
        return kappa * (sum(map(math.sqrt, counts)) / len(counts)) ** 2

    def unexplained(self, ngram):
        left = [longer for longer in self.expected if longer[1:] == ngram]
        mine = self.expected[ngram]
        if len(ngram) == self.order:
            return mine
        explained = sum(self.expected[longer] for longer in left)
        return min(mine, max(mine - explained, 0) + self.lost[len(ngram) + 1] * len(left))

    def _set_words(self):
        counts = {word: self.unexplained((word,)) for word in self.words if word != START}
        known = sum(counts.values())
        counts[UNKNOWN] = max(
            self.lost[1] * sum(count > 0 for count in counts.values()), MIN_LEFTOVER_SHARE * known
        )
        total = sum(counts.values())
        has_end = counts[END] > 0
        for word, count in counts.items():
            self.p[word,] = count / total * (1 if has_end else 1 - END_PROBABILITY)
        if not has_end:
            self.p[END,] = END_PROBABILITY
        self.p[START,] = 1e-99

    def _set_order(self, order):
        ngrams = [ngram for ngram in self.expected if len(ngram) == order]
        for context in {ngram[:-1] for ngram in ngrams}:
            seen = [ngram for ngram in ngrams if ngram[:-1] == context]
            table = self.expected[context] - sum(self.expected[ngram] for ngram in seen)
            own = sum(self.unexplained(ngram) for ngram in seen)
            leftover = max(table, self.lost[order] * len(seen), MIN_LEFTOVER_SHARE * own)
            for ngram in seen:
                self.p[ngram] = self.unexplained(ngram) / (own + leftover)
            self.bow[context] = (1 - sum(self.p[ngram] for ngram in seen)) / (
                1 - sum(self.p[ngram[1:]] for ngram in seen)
            )

    def probability(self, word, context):
        """P(w|h): the longest n-gram there is, times the back-off weights of the longer contexts."""
        word = word if (word,) in self.p else UNKNOWN
        context = tuple(each if (each,) in self.p else UNKNOWN for each in context)[
            -(self.order - 1) :
        ]
        factor = 1.0
        while context and (*context, word) not in self.p:
            factor *= self.bow.get(context, 1.0)
            context = context[1:]
        return factor * self.p[*context, word]

    def score(self, words):
        """log10 of a sentence."""
        sentence = [START, *words, END]
        return sum(
            math.log10(self.probability(sentence[at], sentence[:at]))
            for at in range(1, len(sentence))
        )


def all_probabilities(model):
    """P(w|h) of all words but <s> after a context of word numbers: by looking through the arrays."""
    trie = model.trie

    def after(context):
        found, factor = {}, 0.0
        node = trie.find_state(np.array(context, np.int32))
        while True:
            first, last = (
                (1, 1 + len(trie.words)) if node == 0 else trie.first_child[node : node + 2]
            )
            for child in range(first, last):
                found.setdefault(
                    int(trie.word[child]),
                    float(10 ** (factor + float(trie.log_probability[child]))),
                )
            if node == 0:
                del found[trie.special[0]]
                return found
            factor += float(trie.log_backoff[node])
            node = int(trie.suffix[node])

    return after
