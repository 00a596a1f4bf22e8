"""A back-off model with other probabilities, or with fewer n-grams, and the back-off weights that this asks for.

In:  a `Trie`.   Out: another, whose contexts add up to one. Does not estimate: a model that was made from counts
is pruned better by making it again (see `pruning`); this is for one that was not, such as a mixture.
"""

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.released.estimate import as_stored, logs
from bayesgram.released.pruning import pruned
from bayesgram.released.trie import Trie, connect

LEAST_LEFT = 1e-9  # what a context keeps for words that it doesn't list, even if it lists all of them
MOST_BACKOFF = 1000.0  # so much the rounding of stored probabilities may be multiplied by: 1e-7 stays 1e-4


def smaller(trie: Trie, size: int) -> Trie:
    """The model with the `size` n-grams, of all orders together, that are missed most; its words all stay."""
    if size >= trie.word.size - 1:
        return trie
    logs_10 = trie.log_probability.astype(np.float64)
    probabilities: list[Floats] = [10.0 ** logs_10[trie.nodes(order)] for order in range(1, trie.order + 1)]
    return refitted(trie, probabilities, pruned(trie, size))


def refitted(trie: Trie, probabilities: list[Floats], kept: list[Bools] | None = None) -> Trie:
    """The n-grams, or those that are kept, with these probabilities; every prefix and suffix stays too."""
    kept = kept or [np.ones(each.size, np.bool_) for each in probabilities]
    levels, found, factors = [trie.rows(1)], [probabilities[0]], []
    places = np.arange(len(trie.words))
    for order in range(2, len(kept) + 1):
        stays, below = kept[order - 1], trie.nodes(order - 1).start
        nodes = np.arange(trie.nodes(order).start, trie.nodes(order).stop)[stays]
        parents, suffixes = places[trie.parents[nodes] - below], places[trie.suffix[nodes] - below]
        made, factor = fitted(probabilities[order - 1][stays], found[-1][suffixes], parents, len(levels[-1]))
        levels.append(trie.rows(order)[stays])
        found.append(made)
        factors.append(factor)
        places = np.cumsum(stays) - 1
    return connect(levels, trie.words, [logs(each) for each in found], [np.log10(each) for each in factors])


def fitted(probability: Floats, lower: Floats, parents: Integers, contexts: int) -> tuple[Floats, Floats]:
    """The probabilities as stored, and the back-off weights that make each context add up to one with them.

    `lower` are those of the n-grams without their first words, `parents` the contexts, of which there are so many.

    Where a context lists nearly all that its shorter one expects, a back-off weight could only be huge: then what it
    lists makes up for the rest.
    """
    below = np.maximum(1 - np.bincount(parents, lower, contexts), LEAST_LEFT)
    listed = np.bincount(parents, probability, contexts)
    left = np.clip(1 - listed, LEAST_LEFT, MOST_BACKOFF * below)
    factor = np.divide(1 - left, listed, out=np.ones(contexts), where=listed > 0)
    stored = as_stored(probability * factor[parents])
    left = np.maximum(1 - np.bincount(parents, stored, contexts), LEAST_LEFT)
    return stored, np.minimum(left / below, MOST_BACKOFF)
