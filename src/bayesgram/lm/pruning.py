"""Entropy-based pruning (Stolcke 1998): which n-grams a smaller model keeps.

What an n-gram hw is worth is the relative entropy between the model with it and without it,
weighted with how often h occurs; each is judged as if it were the only one to go. An n-gram stays
as long as a longer one needs it as its context or suffix, so it is worth at least what that is, and
all words stay. Of equal ones the shorter stay, then the first.

`select_ngrams` judges the n-grams of a `Trie` in memory. `TextPruner` does the same for all n-grams
of a public text, on disk like their counts, and builds the models of those that stay; the worth of
each n-gram is computed once, however many sizes are tried.

The smaller model is estimated again from the counts, so that what a longer n-gram explained comes
back to the shorter one: lower orders as in Kneser–Ney smoothing lack it, and are the worse for
pruning as they are. For the same reason n-grams are judged by a model whose lower orders count
everything (see `kneser_ney`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from bayesgram.arrays import Bools, Floats, Hashes, Ids, Integers, Singles
from bayesgram.errors import UsageError
from bayesgram.io.spill import SpillableColumn
from bayesgram.lm.kneser_ney import (
    KneserNeyEstimate,
    estimate_discounts,
    estimate_kneser_ney,
    estimate_probabilities,
)
from bayesgram.lm.ngram_counts import NgramCounts
from bayesgram.lm.packed import Layout, child_offset_bits
from bayesgram.lm.trie import Trie, find_special

# --- A trie in memory ---


def select_ngrams(trie: Trie, size: int) -> list[Bools]:
    """Return a mask for each order: the n-grams that are worth most.

    Args:
        trie: The model.
        size: How many n-grams, of all orders together, stay.

    Raises:
        UsageError: If not even all words and one n-gram more may stay.
    """
    word_count = len(trie.words)
    total = trie.word.size - 1
    if not word_count < size:
        raise UsageError.for_argument(
            "prune",
            size,
            f"a model of {word_count:,} words keeps {word_count + 1:,} n-grams or more.",
        )
    # Of equal n-grams the shorter stays: no n-gram goes before those that need it.
    is_kept = np.zeros(1 + total, np.bool_)
    is_kept[: 1 + word_count] = True
    is_kept[1 + word_count :] = _largest_mask(_worth_with_dependents(trie), size - word_count)
    masks = [is_kept[trie.nodes(order)] for order in range(1, trie.order + 1)]
    return [mask for order, mask in enumerate(masks, start=1) if order <= 2 or mask.any()]


def pruned_layout(trie: Trie, size: int) -> Layout:
    """Return the layout of the model with the `size` n-grams that are worth most, not built."""
    masks = select_ngrams(trie, size)
    child_bits = []
    for order in range(1, len(masks)):
        children = trie.nodes(order + 1)
        contexts = trie.nodes(order)
        parents = trie.parents[children][masks[order]] - contexts.start
        child_counts = np.bincount(parents, minlength=masks[order - 1].size)[masks[order - 1]]
        child_bits.append(child_offset_bits(np.append(0, np.cumsum(child_counts))))
    return replace(
        trie.layout,
        sizes=tuple(int(mask.sum()) for mask in masks),
        child_bits=tuple(child_bits),
    )


# What `_worth_with_dependents` computed, as long as the model exists: a search for a size asks
# several times.
_computed_worth: WeakKeyDictionary[Trie, Floats] = WeakKeyDictionary()


def _worth_with_dependents(trie: Trie) -> Floats:
    """Return what the n-grams that are not words are worth, with what needs them."""
    worth = _computed_worth.get(trie)
    if worth is None:
        worth = _raise_to_dependents(trie, compute_worth(trie))[1 + len(trie.words) :]
        _computed_worth[trie] = worth
    return worth


def _largest_mask(values: Floats, count: int) -> Bools:
    """Return which are the `count` largest values, of equal ones the first.

    >>> _largest_mask(np.array([1.0, 3.0, 2.0, 2.0]), 2).tolist()
    [False, True, True, False]
    """
    if count >= values.size:
        return np.ones(values.size, np.bool_)
    place = values.size - count
    least = np.partition(values, place)[place]
    mask: Bools = values > least
    equal = np.flatnonzero(values == least)
    mask[equal[: count - np.count_nonzero(mask)]] = True
    return mask


def compute_worth(trie: Trie) -> Floats:
    """Return the relative entropy, in nats, that is lost when a node goes; 0 for the words."""
    word_count = len(trie.words)
    probability = 10 ** trie.log_probability.astype(np.float64)
    nodes = np.arange(1 + word_count, probability.size)
    worth = entropy_loss(
        trie.parents[nodes],
        probability[nodes],
        probability[trie.suffix[nodes]],
        trie.log_backoff,
        _joint_probabilities(trie, probability)[: trie.context_count],
    )
    return np.concatenate([np.zeros(1 + word_count), worth])


def entropy_loss(
    parents: Ids | Integers,
    probability: Floats,
    lower: Floats,
    log_backoff: Singles,
    context_probability: Floats,
) -> Floats:
    """Return the relative entropy that each n-gram of some contexts is worth.

    −p(h) { p(w|h) [log p(w|h′) + log α′ − log p(w|h)] + (1 − Σ p(·|h)) [log α′ − log α] }:
    Stolcke's Equation 9, where α is the backoff weight of h and α′ what it becomes.

    Args:
        parents: The context of each n-gram, as an index into the last two.
        probability: p(w|h).
        lower: p(w|h′).
        log_backoff: log10 α of each context.
        context_probability: p(h) of each context.
    """
    p = probability
    context_count = log_backoff.size
    left = np.maximum(1 - np.bincount(parents, p, context_count), 0)[parents]
    below = np.maximum(1 - np.bincount(parents, lower, context_count), 0)[parents]
    alpha = 10 ** log_backoff[parents].astype(np.float64)
    # Both are 0 where every word follows: there the weight is as it is stored.
    np.divide(left, below, out=alpha, where=(left > 0) & (below > 0))
    log_alpha = np.log(alpha)
    log_new_alpha = np.log((left + p) / (below + lower))
    change = p * (np.log(lower) + log_new_alpha - np.log(p)) + left * (log_new_alpha - log_alpha)
    loss: Floats = -context_probability[parents] * change
    return loss


def _joint_probabilities(trie: Trie, probability: Floats) -> Floats:
    """Return p(h) of all nodes by the chain rule; a sentence starts as often as one ends."""
    joint = probability.copy()
    joint[1 + trie.special.start] = joint[1 + trie.special.end]
    for order in range(2, trie.order + 1):
        nodes = trie.nodes(order)
        joint[nodes] *= joint[trie.parents[nodes]]
    return joint


def _raise_to_dependents(trie: Trie, worth: Floats) -> Floats:
    """Raise each worth to that of the n-grams that need it as their context or suffix, in place."""
    for order in range(trie.order, 2, -1):
        nodes = trie.nodes(order)
        np.maximum.at(worth, trie.parents[nodes], worth[nodes])
        np.maximum.at(worth, trie.suffix[nodes], worth[nodes])
    return worth


# --- All n-grams of a text, on disk ---


@dataclass(frozen=True, eq=False)
class TextPruner:
    """Builds models of a text with the n-grams that are worth most."""

    counts: NgramCounts

    def build_model(self, size: int | None) -> Trie:
        """Return the model with at most so many n-grams, or with all."""
        if size is None or size >= self.counts.size:
            return estimate_kneser_ney(self.counts)
        masks = self.select(size)
        trie = estimate_kneser_ney(self.counts, masks)
        for mask in masks:
            mask.remove()
        return trie

    def select(self, size: int) -> list[SpillableColumn]:
        """Return a mask for each order: the n-grams that are worth most.

        Args:
            size: How many n-grams, of all orders together, stay: more than the words, which all
                do, and fewer than there are.
        """
        counts = self.counts
        threshold, equal_left = _find_threshold(self._sortable_worth, size - len(counts.words))
        word_mask = counts.new_column(np.bool_)
        word_mask.add(np.ones(len(counts.words), np.bool_))
        masks = [word_mask]
        for column in self.worth:
            mask = counts.new_column(np.bool_)
            for batch in map(_to_sortable, column.spans(counts.batch_rows)):
                is_equal = batch == threshold
                mask.add((batch > threshold) | (is_equal & (np.cumsum(is_equal) <= equal_left)))
                equal_left -= min(equal_left, int(is_equal.sum()))
            masks.append(mask)
        return masks

    @cached_property
    def worth(self) -> list[SpillableColumn]:
        """What the n-grams of each order from 2 are worth, or those that need them."""
        columns = self._compute_own_worth()
        for order in range(self.counts.order, 2, -1):
            columns[order - 3] = self._raise_to_longer(
                order, columns[order - 3], columns[order - 2]
            )
        return columns

    def _sortable_worth(self) -> Iterator[Hashes]:
        for column in self.worth:
            yield from map(_to_sortable, column.spans(self.counts.batch_rows))

    def _compute_own_worth(self) -> list[SpillableColumn]:
        """Return the relative entropy that is lost without each n-gram."""
        counts = self.counts
        model = self._estimate_judging_model()
        columns: list[SpillableColumn] = []
        context_joint = self._word_joint(model)
        for order in range(2, counts.order + 1):
            worth = counts.new_column(np.float64)
            joint = counts.new_column(np.float64)
            lower_batches = counts.lookup_at_suffixes(order, model.probability[order - 2])
            for block, lower in zip(counts.blocks(order), lower_batches, strict=True):
                probability = _round_to_stored(
                    model, order, model.probability[order - 1].read(*block.nodes)
                )
                backoff = model.backoff[order - 2].read(*block.contexts)
                context_probability = context_joint.read(*block.contexts)
                parents = block.parents
                worth.add(
                    entropy_loss(
                        parents,
                        probability,
                        _round_to_stored(model, order, lower),
                        np.log10(backoff).astype(np.float32),
                        context_probability,
                    )
                )
                joint.add(probability * context_probability[parents])
            context_joint.remove()
            columns.append(worth)
            context_joint = joint
        context_joint.remove()
        model.remove()
        return columns

    def _estimate_judging_model(self) -> KneserNeyEstimate:
        """Return the model of the text whose lower orders count everything."""
        counts = self.counts
        word_counts = counts.levels[0].counts.read(0, len(counts.words))
        word_counts[counts.start_word] = 0  # never predicted
        words = counts.new_column(np.int64)
        words.add(word_counts)
        columns = [words, *(level.counts for level in counts.levels[1:])]
        discounts = [estimate_discounts(column.spans(counts.batch_rows)) for column in columns]
        estimate = estimate_probabilities(counts, columns, discounts)
        words.remove()
        return estimate

    def _word_joint(self, model: KneserNeyEstimate) -> SpillableColumn:
        """Return how often each word occurs; a sentence starts as often as one ends."""
        word_count = len(self.counts.words)
        words = _round_to_stored(model, 1, model.probability[0].read(0, word_count))
        special = find_special(self.counts.words)
        words[special.start] = words[special.end]
        column = self.counts.new_column(float)
        column.add(words)
        return column

    def _raise_to_longer(
        self, order: int, shorter: SpillableColumn, longer: SpillableColumn
    ) -> SpillableColumn:
        """Raise each worth to that of the n-grams of an order that need it.

        Args:
            order: The order of the longer n-grams.
            shorter: What those of the order below are worth; the column is removed.
            longer: What those of the order are worth.
        """
        counts = self.counts
        by_context = counts.new_column(np.float64)
        for block in counts.blocks(order):
            worth = shorter.read(*block.contexts)
            np.maximum.at(worth, block.parents, longer.read(*block.nodes))
            by_context.add(worth)
        shorter.remove()
        raised = counts.new_column(np.float64)
        first = 0
        by_suffix = counts.reduce_to_suffixes(
            order,
            longer.spans(counts.batch_rows),
            combine=np.maximum,
            initial=np.full(1, -np.inf),
        )
        for batch in by_suffix:
            raised.add(np.maximum(batch, by_context.read(first, first + batch.size)))
            first += batch.size
        by_context.remove()
        return raised


def _round_to_stored(model: KneserNeyEstimate, order: int, probability: Floats) -> Floats:
    """Return the probabilities that a model's stored logarithms stand for."""
    stored: Floats = 10 ** model.to_log10(order, probability).astype(np.float64)
    return stored


# --- The threshold, without sorting all ---

DIGIT_BITS = 16  # bits of an integer that are counted together
SIGN_BIT = np.uint64(1 << 63)

Batches = Callable[[], Iterator[Hashes]]  # all integers, some at a time; may be called again


def _to_sortable(values: Floats) -> Hashes:
    """Return integers that sort as these floats do.

    >>> _to_sortable(np.array([-1.0, -0.0, 0.0, 2.5])).argsort(kind="stable").tolist()
    [0, 1, 2, 3]
    >>> len(set(_to_sortable(np.array([-0.0, 0.0]))))
    1
    """
    bits = (values + 0.0).view(np.uint64)
    sortable: Hashes = np.where(bits & SIGN_BIT, ~bits, bits | SIGN_BIT)
    return sortable


def _find_threshold(batches: Batches, count: int) -> tuple[np.uint64, int]:
    """Return the least of the `count` largest integers, and how many equal to it are among them.

    Digit by digit, the highest first: how many integers have each digit, of those that agree in the
    digits before.
    """
    threshold = np.uint64(0)
    for shift in range(64 - DIGIT_BITS, -1, -DIGIT_BITS):
        sizes = np.zeros(1 << DIGIT_BITS, np.int64)
        for batch in batches():
            if shift < 64 - DIGIT_BITS:
                batch = batch[batch >> np.uint64(shift + DIGIT_BITS) == threshold]  # noqa: PLW2901
            digits = (batch >> np.uint64(shift)).astype(np.int64) & ((1 << DIGIT_BITS) - 1)
            sizes += np.bincount(digits, minlength=1 << DIGIT_BITS)
        at_least = np.cumsum(sizes[::-1])[::-1]  # how many have this digit or a higher one
        digit = int(np.count_nonzero(at_least >= count)) - 1
        count -= int(at_least[digit] - sizes[digit])
        threshold = threshold << np.uint64(DIGIT_BITS) | np.uint64(digit)
    return threshold, count
