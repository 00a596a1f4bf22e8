"""A smaller model: probabilities and back-off weights of n-grams as places in short lists of values.

In:  a `Trie`, and how many bits a probability takes.   Out: a `Trie` that has the same n-grams.
Every order from 2 on has a codebook of log10 p and one of back-off weights, where the squared error is least (Lloyd
1982); single words stay exact, so that all of them add up to one exactly. Back-off weights are computed anew from the
probabilities as they are stored: after a single word they are exact too, and after a longer context what all words add
up to is off by its weight's rounding alone. They get two bits more than probabilities: a quarter of the error, for a
bit or so an n-gram. Does not drop n-grams: see `pruning`.
"""

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers, Singles
from bayesgram.errors import check_int
from bayesgram.lm.packed import EXACT, Level, as_codes
from bayesgram.lm.trie import Trie, from_levels

BITS = 8  # of a probability, as other tools have it
FEWEST_BITS, MOST_BITS = 4, 14
MORE_FOR_BACKOFFS = 2
STEPS = 30  # of Lloyd's algorithm: the error no longer falls by 1%
LEAST_LEFT = 0.5  # of what a context leaves to words that it lacks, rounding must leave so much


def quantised(trie: Trie, bits: int = BITS) -> Trie:
    """The same model with rounded probabilities, in which contexts add up to one again."""
    bits = check_int("bits", bits, FEWEST_BITS, MOST_BITS, "of a probability")
    rounded = 10 ** trie.log_probability.astype(np.float64)
    rounded[1 + trie.special[0]] = 0.0
    backoffs = 10 ** trie.log_backoff.astype(np.float64)
    values, books = [as_codes(trie.log_probability[trie.nodes(1)])], []
    for order in range(2, trie.order + 1):
        book = codebook(trie.log_probability[trie.nodes(order)], 1 << bits)
        values.append(_rounded(trie, order, book, rounded, backoffs).astype(np.uint32))
        books.append(book)
    weights = [as_codes(np.log10(backoffs[trie.nodes(1)]).astype(np.float32))]
    codebooks = []
    for order, book in enumerate(books, start=2):
        codebooks.append(book)
        if order < trie.order:
            logs = np.log10(backoffs[trie.nodes(order)])
            known = _backoff_book(logs[_has_children(trie, order)], 1 << (bits + MORE_FOR_BACKOFFS))
            weights.append(nearest(known, logs).astype(np.uint32))
            codebooks.append(known)
    weights.append(np.zeros(0, np.uint32))
    levels = [
        Level(
            trie.word[trie.nodes(order)],
            values[order - 1],
            weights[order - 1],
            _children(trie, order),
        )
        for order in range(1, trie.order + 1)
    ]
    return from_levels(
        trie.words, levels, np.concatenate(codebooks), (bits, bits + MORE_FOR_BACKOFFS)
    )


def is_exact(trie: Trie) -> bool:
    """Whether a model has its numbers as they were computed."""
    return trie.layout.value_bits == EXACT


def _rounded(trie: Trie, order: int, book: Singles, rounded: Floats, backoffs: Floats) -> Integers:
    """The places in a codebook of all n-grams of an order; and what that makes of p and of their contexts' weights.

    Where rounding to the nearest would leave a context too little for the words that it lacks, all are rounded down.
    """
    nodes, contexts = trie.nodes(order), trie.nodes(order - 1)
    size = contexts.stop - contexts.start
    parents = trie.parents[nodes] - contexts.start
    logs = trie.log_probability[nodes]
    left = 1 - np.bincount(parents, 10 ** logs.astype(np.float64), size)
    codes = nearest(book, logs)
    values = 10 ** book.astype(np.float64)
    short = 1 - np.bincount(parents, values[codes], size) < LEAST_LEFT * left
    codes[short[parents]] = np.searchsorted(book, logs[short[parents]], side="right") - 1
    rounded[nodes] = values[codes]
    remaining = 1 - np.bincount(parents, values[codes], size)
    below = 1 - np.bincount(parents, rounded[trie.suffix[nodes]], size)
    possible = (np.bincount(parents, minlength=size) > 0) & (remaining > 0) & (below > 0)
    backoffs[contexts][possible] = remaining[possible] / below[possible]
    return codes


def _has_children(trie: Trie, order: int) -> Bools:
    nodes = trie.nodes(order)
    found: Bools = trie.first_child[nodes.start + 1 : nodes.stop + 1] > trie.first_child[nodes]
    return found


def _children(trie: Trie, order: int) -> Integers:
    """Where the children of an order begin among the next, and where the last ones end."""
    if order == trie.order:
        return np.zeros(0, np.int64)
    nodes = trie.nodes(order)
    children: Integers = (
        trie.first_child[nodes.start : nodes.stop + 1].astype(np.int64) - nodes.stop
    )
    return children


def codebook(values: Floats | Singles, size: int) -> Singles:
    """As many values, ascending, as all others are near; the least of all is one, so that any can be rounded down.

    >>> codebook(np.array([-3.0, -1.0, -1.0]), 4).tolist()
    [-3.0, -1.0, -1.0, -1.0]
    """
    ordered = np.sort(values.astype(np.float64))
    distinct = np.unique(ordered)
    if distinct.size > size:
        distinct = _lloyd(ordered, size)
    if not distinct.size:
        distinct = np.zeros(1)
    return np.concatenate([distinct, np.repeat(distinct[-1:], size - distinct.size)]).astype(
        np.float32
    )


def _lloyd(ordered: Floats, size: int) -> Floats:
    """Means of runs of ascending values: each value is nearest to the mean of its own run."""
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    even = size // 2
    centres = np.sort(
        np.append(np.linspace(ordered[0], ordered[-1], even), _quantiles(ordered, size - even))
    )
    for _ in range(STEPS):
        cuts = np.searchsorted(ordered, (centres[1:] + centres[:-1]) / 2)
        bounds = np.concatenate([[0], cuts, [ordered.size]])
        counts = np.diff(bounds)
        centres = np.where(counts > 0, np.diff(sums[bounds]) / np.maximum(counts, 1), centres)
    centres[0] = ordered[0]
    return np.sort(centres)


def _quantiles(ordered: Floats, size: int) -> Floats:
    return ordered[(np.arange(size) * 2 + 1) * ordered.size // (2 * size)]


def _backoff_book(logs: Floats, size: int) -> Singles:
    """A codebook in which 0 is exact: the weight of a context that has no n-grams."""
    return np.sort(np.append(codebook(logs, size - 1), np.float32(0)))


def nearest(book: Singles, values: Floats | Singles) -> Integers:
    """Where the nearest value stands in a codebook."""
    exact = book.astype(np.float64)
    return np.searchsorted((exact[1:] + exact[:-1]) / 2, values).astype(np.int64)
