"""Interpolated modified Kneser–Ney: a back-off model of all n-grams of a text (Chen and Goodman 1998, Section 4.1).

In:  how often a text has every n-gram of orders 1 to N, in sentences with <s> and </s>.   Out: a `Trie`.

The longest n-grams have their counts. A shorter one has as its count a(g) the number of words that stand before it,
for it is asked only where the longer one has no answer; before <s> nothing stands, so what begins with it keeps its
own count. n₁ to n₄ are how many n-grams of an order have a = 1, 2, 3, 4; then

    D_k = k − (k + 1) Y n_{k+1} / n_k, Y = n₁ / (n₁ + 2 n₂)                   D_k for a = 1, 2 and for 3 or more
    p(w|h) = (a(hw) − D(a(hw))) / Σ_w a(hw) + γ(h) p(w|h′),                   γ(h) = Σ_w D(a(hw)) / Σ_w a(hw)

where h′ is h without its first word; below the words, all of them but <s> are equally likely, <unk> among them. That is
what KenLM's lmplz computes. Where the n_k give no discounts, as in tiny or repeated text, D is ½, 1, 1½, which lmplz
takes with --discount_fallback.

A smaller model. Which n-grams go is decided by `pruning`, with a model whose lower orders count everything: those above
lack what longer n-grams explain (Chelba et al. 2010). Then what goes is explained no more, so a(g) is the number of
words before g where that n-gram stays, and the sum of a where it goes (Siivola, Hirsimäki and Virpioja 2007). What
stays has p(w|h) as above, and the back-off weight of h makes it add up to one again.

How that was chosen: by the perplexity of held-out text of the same source and of another register, where models of
Wikipedia and of reviews kept 100,000 to 1,000,000 of their n-grams. Judged by the model itself, 0 to 6% worse; with the
a of the whole model 0 to 8%; with the mass of what goes shared by what stays as well, ½ to 3%.
Does not read text: see `public_model`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bools, Floats, Ids, Integers, Singles
from bayesgram.errors import BayesgramError
from bayesgram.kernels import inlined, kernel
from bayesgram.released.pruning import pruned
from bayesgram.released.trie import MOST_NODES, NEVER, Trie, find_special, from_nodes
from bayesgram.released.words import Words

FALLBACK = (0.0, 0.5, 1.0, 1.5)  # discounts of a = 0, 1, 2 and 3 or more

Part = tuple[Ids, Integers]  # some n-grams of an order as word numbers, and how often each occurs


@dataclass(frozen=True, eq=False)
class Counts:
    """Every n-gram of a text: the nodes of a `Trie` with their counts. All words have a node; the root counts 0."""

    words: Words
    level_starts: Integers
    word: Ids
    first_child: Ids
    suffix: Ids
    counts: Integers

    @classmethod
    def of(cls, words: Words, found: Iterable[Iterable[Part]]) -> "Counts":
        """From the n-grams of each order, from 1, each once and in any order; orders that have none are left out."""
        text = cls.of_words(words)
        for order, parts in enumerate(found, start=1):
            text = text.with_words(parts) if order == 1 else text.with_order(order, parts)
        for array in (text.level_starts, text.word, text.first_child, text.suffix, text.counts):
            array.setflags(write=False)  # as those of a model: kernels are compiled once
        return text

    @classmethod
    def of_words(cls, words: Words) -> "Counts":
        """Before anything is counted."""
        size = 1 + len(words)
        word = np.arange(-1, len(words), dtype=np.int32)
        ends = np.array([1, size], np.int32)
        return cls(words, np.array([0, 1, size]), word, ends, np.zeros(size, np.int32), np.zeros(size, np.int64))

    def with_words(self, parts: Iterable[Part]) -> "Counts":
        """With the counts of the words."""
        for rows, counts in parts:
            self.counts[1 + rows[:, 0]] = counts
        return self

    def with_order(self, order: int, parts: Iterable[Part]) -> "Counts":
        """With the n-grams of the next order, sorted."""
        first, size = self.level_starts[-2:].tolist()
        keys, counts = self._keys(parts, first)
        if not keys.size or order != self.order + 1:
            return self
        if size + keys.size > MOST_NODES:
            raise BayesgramError(
                f"{size + keys.size:,} n-grams: a model holds {MOST_NODES:,}; give less text, or a smaller order."
            )
        places = np.argsort(keys)
        keys = keys[places]
        edges = np.searchsorted(keys, np.arange(size - first + 1) * len(self.words))
        first_child = np.concatenate([self.first_child[:-1], (size + edges).astype(np.int32)])
        word = np.concatenate([self.word, (keys % len(self.words)).astype(np.int32)])
        suffix = np.concatenate([self.suffix, np.zeros(keys.size, np.int32)])
        _set_suffixes(word, first_child, suffix, first, size)
        level_starts = np.append(self.level_starts, size + keys.size)
        return Counts(self.words, level_starts, word, first_child, suffix, np.append(self.counts, counts[places]))

    def _keys(self, parts: Iterable[Part], first: int) -> Part:
        """A number for each n-gram that sorts as it does, and the counts."""
        found = [
            (_keys_of(rows, self.word, self.first_child, first, len(self.words)), counts) for rows, counts in parts
        ]
        keys = np.concatenate([np.zeros(0, np.int64), *(keys for keys, _ in found)])
        return keys, np.concatenate([np.zeros(0, np.int64), *(counts for _, counts in found)])

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return self.level_starts.size - 2

    @property
    def start(self) -> int:
        """The node of <s>."""
        return 1 + find_special(self.words)[0]

    def by_order(self, values: Integers) -> Iterator[Integers]:
        """What the n-grams of each order have, from 1."""
        return (values[first:last] for first, last in zip(self.level_starts[1:], self.level_starts[2:], strict=False))


def kneser_ney(text: Counts, *, keep: int | None = None) -> Trie:
    """The model of a text; `keep` is how many n-grams, of all orders together, may stay."""
    everything = np.ones(text.word.size, np.bool_)
    adjusted = _adjusted(text, everything)
    discounts = _discounts(text, adjusted)
    if keep is None or keep >= text.word.size - 1:
        return _model(text, adjusted, discounts, everything)
    whole = text.counts.copy()
    whole[text.start] = 0  # never predicted
    kept = np.zeros(text.word.size, np.bool_)
    masks = np.concatenate([[True], *pruned(_model(text, whole, _discounts(text, whole), everything), keep)])
    kept[: masks.size] = masks
    return _model(text, _adjusted(text, kept), discounts, kept)


def discounts_of(adjusted: Integers) -> Floats:
    """D for a = 0, 1, 2 and 3 or more; the usual ones where the counts of counts give none.

    >>> discounts_of(np.repeat([1, 2, 3, 4], [40, 10, 5, 3])).round(3).tolist()
    [0.0, 0.667, 1.0, 1.4]
    >>> discounts_of(np.array([7, 7, 7])).tolist()
    [0.0, 0.5, 1.0, 1.5]
    """
    numbers = np.array([np.count_nonzero(adjusted == count) for count in range(1, 5)], np.float64)
    if not numbers[:3].all():
        return np.array(FALLBACK)
    y, k = numbers[0] / (numbers[0] + 2 * numbers[1]), np.arange(1, 4)
    found = k - (k + 1) * y * numbers[1:] / numbers[:3]
    return np.array([0.0, *found]) if (found > 0).all() else np.array(FALLBACK)


def _discounts(text: Counts, adjusted: Integers) -> Floats:
    """A row of discounts for each order, from 0, which has none."""
    return np.stack([np.zeros(4), *map(discounts_of, text.by_order(adjusted))])


def _adjusted(text: Counts, kept: Bools) -> Integers:
    """What `a` is for every n-gram: how much stands before it that stays, and the `a` of what goes."""
    adjusted = text.counts.copy()
    _forget_explained(text.first_child, text.start, adjusted)
    _count_before(text.suffix, kept, 1 + len(text.words), adjusted)
    return adjusted


def _model(text: Counts, adjusted: Integers, discounts: Floats, kept: Bools) -> Trie:
    """The interpolated model of these counts, with the n-grams that stay."""
    words = slice(1, 1 + len(text.words))
    probability, weight = np.zeros(text.word.size), np.ones(text.first_child.size - 1)
    probability[words] = _word_probabilities(adjusted[words], discounts[1], text.start - 1)
    _interpolate(text.first_child, text.suffix, text.level_starts, adjusted, discounts, kept, probability, weight)
    probability[[0, text.start]] = 1.0  # the root has none, and <s> is never predicted
    logs = np.log10(probability, out=probability).astype(np.float32)
    logs[text.start] = NEVER
    return _smaller(text, np.minimum(logs, 0), np.log10(weight, out=weight).astype(np.float32), kept)


def _word_probabilities(adjusted: Integers, discounts: Floats, start: int) -> Floats:
    """p(w) of every word but <s>: what the discounts leave is shared equally."""
    taken = discounts[np.minimum(adjusted, 3)]
    probabilities: Floats = (adjusted - taken + taken.sum() / (adjusted.size - 1)) / adjusted.sum()
    probabilities[start] = 0.0
    return probabilities


def _smaller(text: Counts, log_probability: Singles, log_weight: Singles, kept: Bools) -> Trie:
    """A trie of the n-grams that stay; with each of them stay its context and its suffix."""
    if kept.all():
        return from_nodes(text.words, text.level_starts, text.word, text.first_child, log_probability, log_weight)
    before = np.concatenate([[0], np.cumsum(kept)])  # how many of those that stay come before a node
    level_starts = before[text.level_starts]
    longest = max(2, int(np.flatnonzero(np.diff(level_starts)).max()))
    contexts = np.flatnonzero(kept[: text.level_starts[longest]])
    ends = np.append(text.first_child[contexts], text.first_child[text.level_starts[longest]])
    return from_nodes(
        text.words,
        level_starts[: longest + 2],
        text.word[kept],
        before[ends].astype(np.int32),
        log_probability[kept],
        log_weight[contexts],
    )


@inlined
def _child(node: int, wanted: int, word: Ids, first_child: Ids) -> int:
    """The n-gram that a word makes with a context, which is there."""
    if node == 0:
        return 1 + wanted
    first, last = first_child[node], first_child[node + 1]
    while first < last:
        middle = (first + last) // 2
        if word[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return int(first)


@kernel
def _keys_of(rows: Ids, word: Ids, first_child: Ids, first: int, words: int) -> Integers:
    """The place of each n-gram's context in its order, and the last word, as one number."""
    keys = np.empty(rows.shape[0], np.int64)
    for row in range(rows.shape[0]):
        node = 0
        for at in range(rows.shape[1] - 1):
            node = _child(node, rows[row, at], word, first_child)
        keys[row] = np.int64(node - first) * words + rows[row, rows.shape[1] - 1]
    return keys


@kernel
def _set_suffixes(word: Ids, first_child: Ids, suffix: Ids, first: int, last: int) -> None:
    """The suffixes of all n-grams whose contexts are the nodes from `first` to `last`."""
    for context in range(first, last):
        for node in range(first_child[context], first_child[context + 1]):
            suffix[node] = _child(suffix[context], word[node], word, first_child)


@kernel
def _forget_explained(first_child: Ids, start: int, adjusted: Integers) -> None:
    """Set to 0 what is shorter than the longest n-grams and does not begin with <s>; and <s> itself."""
    begins = np.zeros(first_child.size - 1, np.bool_)  # with <s>
    begins[start] = True
    for context in range(1, begins.size):
        for node in range(first_child[context], min(first_child[context + 1], begins.size)):
            begins[node] = begins[context]
        if context == start or not begins[context]:
            adjusted[context] = 0


@kernel
def _count_before(suffix: Ids, kept: Bools, first: int, adjusted: Integers) -> None:
    """Add to each n-gram what stands before it, the longest first."""
    for node in range(suffix.size - 1, first - 1, -1):
        adjusted[suffix[node]] += 1 if kept[node] else adjusted[node]


@kernel
def _interpolate(
    first_child: Ids,
    suffix: Ids,
    level_starts: Integers,
    adjusted: Integers,
    discounts: Floats,
    kept: Bools,
    probability: Floats,
    weight: Floats,
) -> None:
    """p(w|h) of all n-grams of order 2 and more, and the back-off weight of every context.

    That is γ(h); where n-grams go, what all words but those that stay have, over what they have one order below.
    """
    for order in range(2, level_starts.size - 1):
        discount = discounts[order]
        for context in range(level_starts[order - 1], level_starts[order]):
            first, last = first_child[context], first_child[context + 1]
            if first == last:
                continue
            total, taken, below = 0.0, 0.0, 1.0
            for node in range(first, last):
                total += adjusted[node]
                taken += discount[min(adjusted[node], 3)]
                below -= probability[suffix[node]]
            share = taken / total
            below = max(below, 0.0)  # the lower order's mass of what never follows
            above, goes = share * below, False
            for node in range(first, last):
                own = (adjusted[node] - discount[min(adjusted[node], 3)]) / total
                probability[node] = own + share * probability[suffix[node]]
                if not kept[node]:
                    above, below, goes = above + probability[node], below + probability[suffix[node]], True
            weight[context] = above / below if goes else share
            for node in range(first, last):
                if not kept[node]:
                    probability[node] = weight[context] * probability[suffix[node]]
