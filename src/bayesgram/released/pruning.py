"""Which n-grams a smaller model keeps: those that are missed most (Stolcke 1998: entropy-based pruning).

In:  a `Trie` and how many n-grams may stay.   Out: a mask for each order.
What an n-gram hw is worth is the relative entropy between the model with it and without it, weighted with how often h
occurs; each is judged as if it were the only one to go. An n-gram stays as long as a longer one needs it, and the words
all stay. Does not make the smaller model: `estimate` does, from the counts, so that what a longer n-gram explained
comes back to the shorter one: lower orders as in Kneser–Ney smoothing lack it, and are the worse for pruning as is.
"""

import numpy as np

from bayesgram.arrays import Bools, Floats, Ids, Integers, Singles
from bayesgram.errors import UsageError
from bayesgram.released.trie import Trie


def pruned(trie: Trie, size: int) -> list[Bools]:
    """Which n-grams of each order are among the `size`, of all orders together, that are worth most."""
    words, total = len(trie.words), trie.word.size - 1
    if not words < size:
        raise UsageError(f"prune={size}: a model of {words:,} words keeps {words + 1:,} n-grams or more.")
    worth = _with_needed(trie, worth_of(trie))[1 + words :]
    order = np.argsort(-worth, kind="stable")  # of equal ones the shorter first: no n-gram goes before those it needs
    kept = np.zeros(1 + total, np.bool_)
    kept[: 1 + words] = True
    kept[1 + words + order[: size - words]] = True
    masks = [kept[trie.nodes(order)] for order in range(1, trie.order + 1)]
    return [mask for order, mask in enumerate(masks, start=1) if order <= 2 or mask.any()]


def worth_of(trie: Trie) -> Floats:
    """Relative entropy lost when an n-gram of order 2 or more goes, in nats; 0 for the words."""
    words = len(trie.words)
    probability = 10 ** trie.log_probability.astype(np.float64)
    nodes = np.arange(1 + words, probability.size)
    parents, p, lower = trie.parents[nodes], probability[nodes], probability[trie.suffix[nodes]]
    worth = entropy_lost(parents, p, lower, trie.log_backoff, _how_often(trie, probability)[: trie.contexts])
    return np.concatenate([np.zeros(1 + words), worth])


def entropy_lost(
    parents: Ids | Integers, probability: Floats, lower: Floats, log_backoff: Singles, how_often: Floats
) -> Floats:
    """What each n-gram is worth, of all that some contexts have; `parents` are the numbers of these.

    −p(h) { p(w|h) [log p(w|h′) + log α′ − log p(w|h)] + (1 − Σ p(·|h)) [log α′ − log α] }: Stolcke's Equation 9, where
    α is the back-off weight of h and α′ what it becomes. `lower` is p(w|h′); contexts have log10 α and p(h).
    """
    p, contexts = probability, log_backoff.size
    left = np.maximum(1 - np.bincount(parents, p, contexts), 0)[parents]
    below = np.maximum(1 - np.bincount(parents, lower, contexts), 0)[parents]
    alpha = 10 ** log_backoff[parents].astype(np.float64)
    np.divide(left, below, out=alpha, where=(left > 0) & (below > 0))  # both are 0 where every word follows
    log_alpha, log_later = np.log(alpha), np.log((left + p) / (below + lower))
    change = p * (np.log(lower) + log_later - np.log(p)) + left * (log_later - log_alpha)
    worth: Floats = -how_often[parents] * change
    return worth


def _how_often(trie: Trie, probability: Floats) -> Floats:
    """p(h) by the chain rule; a sentence starts as often as one ends."""
    start, end, _ = trie.special
    joint = probability.copy()
    joint[1 + start] = joint[1 + end]
    for order in range(2, trie.order + 1):
        nodes = trie.nodes(order)
        joint[nodes] *= joint[trie.parents[nodes]]
    return joint


def _with_needed(trie: Trie, worth: Floats) -> Floats:
    """At least what the n-grams are worth that need it as their context or suffix."""
    for order in range(trie.order, 2, -1):
        nodes = trie.nodes(order)
        np.maximum.at(worth, trie.parents[nodes], worth[nodes])
        np.maximum.at(worth, trie.suffix[nodes], worth[nodes])
    return worth
