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

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from bayesgram.arrays import Bools, Floats, Ids, Integers
from bayesgram.released.estimate import logs
from bayesgram.released.pruning import pruned
from bayesgram.released.trie import Index, Trie, Words, connect, find_special

Links = tuple[Integers, Integers]  # of the n-grams of an order: their contexts and suffixes, in the order below

FALLBACK = (0.0, 0.5, 1.0, 1.5)  # discounts of a = 0, 1, 2 and 3 or more
MOST_BITS = 63  # of word numbers side by side in a key


@dataclass(frozen=True, eq=False)
class Counts:
    """Every n-gram of a text. Level k − 1 has those of order k as word numbers, sorted; the first has all the words."""

    words: Words
    levels: list[Ids]
    counts: list[Integers]

    @classmethod
    def of(cls, words: Words, found: Iterable[tuple[Ids, Integers]]) -> "Counts":
        """From the n-grams of each order, from 1, in any order; those of an order that has none are left out."""
        levels, counts = [np.arange(len(words), dtype=np.int32)[:, None]], [np.zeros(len(words), np.int64)]
        for order, (rows, own) in enumerate(found, start=1):
            if order == 1:
                counts[0][rows[:, 0]] = own
            elif own.size:
                places = in_order(rows, len(words))
                levels.append(rows[places])
                counts.append(own[places])
        return cls(words, levels, counts)


def in_order(rows: Ids, words: int) -> Integers:
    """Where the rows stand once they are sorted; some columns at a time are one key."""
    bits = max(words - 1, 1).bit_length()
    together = max(MOST_BITS // bits, 1)
    keys = []
    for first in range(0, rows.shape[1], together):
        columns = rows[:, first : first + together].T.astype(np.int64)
        keys.append(list(accumulate(columns, lambda key, column: key << bits | column))[-1])
    order: Integers = np.lexsort(keys[::-1])
    return order


def kneser_ney(text: Counts, *, keep: int | None = None) -> Trie:
    """The model of a text; `keep` is how many n-grams, of all orders together, may stay."""
    index = Index(text.levels, len(text.words))
    links = [index.links(rows) for rows in text.levels[1:]]
    before_start = [rows[:, 0] == find_special(text.words)[0] for rows in text.levels]
    everything = [np.ones(len(rows), np.bool_) for rows in text.levels]
    adjusted = _adjusted(text.counts, links, before_start, everything)
    discounts = [discounts_of(counts) for counts in adjusted]
    if keep is None or keep >= sum(map(len, text.levels)):
        return _model(text, links, adjusted, discounts, everything)
    whole = _whole(text)
    judge = _model(text, links, whole, [discounts_of(counts) for counts in whole], everything)
    kept = pruned(judge, keep)
    kept += [np.zeros(len(rows), np.bool_) for rows in text.levels[len(kept) :]]
    return _model(text, links, _adjusted(text.counts, links, before_start, kept), discounts, kept)


def discounts_of(adjusted: Integers) -> Floats:
    """D for a = 0, 1, 2 and 3 or more; the usual ones where the counts of counts give none.

    >>> discounts_of(np.repeat([1, 2, 3, 4], [40, 10, 5, 3])).round(3).tolist()
    [0.0, 0.667, 1.0, 1.4]
    >>> discounts_of(np.array([7, 7, 7])).tolist()
    [0.0, 0.5, 1.0, 1.5]
    """
    numbers = np.bincount(np.minimum(adjusted, 5), minlength=6)[:5].astype(np.float64)
    if not numbers[1:4].all():
        return np.array(FALLBACK)
    y, k = numbers[1] / (numbers[1] + 2 * numbers[2]), np.arange(1, 4)
    found = k - (k + 1) * y * numbers[2:5] / numbers[1:4]
    return np.array([0.0, *found]) if (found > 0).all() else np.array(FALLBACK)


def _whole(text: Counts) -> list[Integers]:
    """The counts themselves; <s> is never predicted."""
    words = text.counts[0].copy()
    words[find_special(text.words)[0]] = 0
    return [words, *text.counts[1:]]


def _adjusted(
    counts: list[Integers], links: list[Links], before_start: list[Bools], kept: list[Bools]
) -> list[Integers]:
    """What `a` is for every n-gram: how much stands before it that stays, and the `a` of what goes."""
    adjusted = [counts[-1]]
    for below in range(len(counts) - 2, -1, -1):
        explained = np.where(kept[below + 1], 1, adjusted[0])
        own = np.bincount(links[below][1], explained, counts[below].size).astype(np.int64)
        starts = before_start[below] if below else np.zeros(own.size, np.bool_)  # <s> itself is never predicted
        adjusted.insert(0, np.where(starts, counts[below], own))
    return adjusted


def _model(
    text: Counts,
    links: list[Links],
    adjusted: list[Integers],
    discounts: list[Floats],
    kept: list[Bools],
) -> Trie:
    """The interpolated model of these counts, with the n-grams that stay."""
    probabilities = [_word_probabilities(adjusted[0], discounts[0], find_special(text.words)[0])]
    weights = []
    for level, (parents, suffixes) in enumerate(links, start=1):
        lower, contexts = probabilities[-1][suffixes], len(text.levels[level - 1])
        probability, share = _interpolated(adjusted[level], discounts[level], parents, lower, contexts)
        weight = _weights(probability, share, lower, parents, kept[level])
        probabilities.append(np.where(kept[level], probability, weight[parents] * lower))
        weights.append(weight)
    order = max(order for order, stays in enumerate(kept, start=1) if order <= 2 or stays.any())
    rows = [rows[stays] for rows, stays in zip(text.levels, kept, strict=True)][:order]
    log_probabilities = [logs(each[stays]) for each, stays in zip(probabilities, kept, strict=True)][:order]
    log_backoffs = [np.log10(each[stays]) for each, stays in zip(weights, kept, strict=False)][: order - 1]
    return connect(rows, text.words, log_probabilities, log_backoffs)


def _word_probabilities(adjusted: Integers, discounts: Floats, start: int) -> Floats:
    """p(w) of every word but <s>: what the discounts leave is shared equally."""
    taken = discounts[np.minimum(adjusted, 3)]
    probabilities: Floats = (adjusted - taken + taken.sum() / (adjusted.size - 1)) / adjusted.sum()
    probabilities[start] = 0.0
    return probabilities


def _interpolated(
    adjusted: Integers, discounts: Floats, parents: Integers, lower: Floats, contexts: int
) -> tuple[Floats, Floats]:
    """p(w|h) of all n-grams of an order, and γ(h), which is 1 where nothing follows."""
    taken = discounts[np.minimum(adjusted, 3)]
    totals = np.bincount(parents, adjusted, contexts)
    share = np.ones(contexts)
    np.divide(np.bincount(parents, taken, contexts), totals, out=share, where=totals > 0)
    return (adjusted - taken) / totals[parents] + share[parents] * lower, share


def _weights(probability: Floats, share: Floats, lower: Floats, parents: Integers, kept: Bools) -> Floats:
    """The back-off weights: γ(h); where n-grams go, what all words but those that stay have, over the same below."""
    if kept.all():
        return share
    unseen = np.maximum(
        1 - np.bincount(parents, lower, share.size), 0
    )  # the lower order's mass of what never follows h
    goes = parents[~kept]
    above = share * unseen + np.bincount(goes, probability[~kept], share.size)
    below = unseen + np.bincount(goes, lower[~kept], share.size)
    weights = share.copy()
    np.divide(above, below, out=weights, where=np.bincount(goes, minlength=share.size) > 0)
    return weights
