"""Which n-grams a smaller model keeps: those that are missed most (Stolcke 1998: entropy-based pruning).

In:  a `Trie` and how many n-grams may stay.   Out: a mask for each order.
What an n-gram hw is worth is the relative entropy between the model with it and without it, weighted with how often h
occurs; each is judged as if it were the only one to go. An n-gram stays as long as a longer one needs it, and the words
all stay. Does not make the smaller model: `estimate` does, from the counts, so that what a longer n-gram explained
comes back to the shorter one: lower orders as in Kneser–Ney smoothing lack it, and are the worse for pruning as is.

Which n-grams of a public model stay when it is to be smaller: those that are missed most (see `pruning`).

In:  the `Counts` of a text, and how many n-grams may stay.   Out: a mask for each order, on disk like the counts.
They are judged in a model whose lower orders count everything (see `kneser_ney`). What each is worth is computed once,
however many sizes are tried. As in `pruning`, an n-gram is worth what any is that needs it, and of equal ones the
shorter stay, then the first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesgram.arrays import Bools, Floats, Hashes, Ids, Integers, Singles
from bayesgram.errors import UsageError
from bayesgram.io.spill import SpillableColumn
from bayesgram.lm.kneser_ney import Estimate, discounts_of, estimated, kneser_ney
from bayesgram.lm.ngram_counts import Counts
from bayesgram.lm.trie import Trie, find_special


def pruned(trie: Trie, size: int) -> list[Bools]:
    """Which n-grams of each order are among the `size`, of all orders together, that are worth most."""
    words, total = len(trie.words), trie.word.size - 1
    if not words < size:
        raise UsageError.for_argument(
            "prune", size, f"a model of {words:,} words keeps {words + 1:,} n-grams or more."
        )
    worth = _with_needed(trie, worth_of(trie))[1 + words :]
    order = np.argsort(
        -worth, kind="stable"
    )  # of equal ones the shorter first: no n-gram goes before those it needs
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
    worth = entropy_lost(
        parents, p, lower, trie.log_backoff, _how_often(trie, probability)[: trie.contexts]
    )
    return np.concatenate([np.zeros(1 + words), worth])


def entropy_lost(
    parents: Ids | Integers,
    probability: Floats,
    lower: Floats,
    log_backoff: Singles,
    how_often: Floats,
) -> Floats:
    """What each n-gram is worth, of all that some contexts have; `parents` are the numbers of these.

    −p(h) { p(w|h) [log p(w|h′) + log α′ − log p(w|h)] + (1 − Σ p(·|h)) [log α′ − log α] }: Stolcke's Equation 9, where
    α is the back-off weight of h and α′ what it becomes. `lower` is p(w|h′); contexts have log10 α and p(h).
    """
    p, contexts = probability, log_backoff.size
    left = np.maximum(1 - np.bincount(parents, p, contexts), 0)[parents]
    below = np.maximum(1 - np.bincount(parents, lower, contexts), 0)[parents]
    alpha = 10 ** log_backoff[parents].astype(np.float64)
    np.divide(
        left, below, out=alpha, where=(left > 0) & (below > 0)
    )  # both are 0 where every word follows
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


DIGIT = 16  # bits of a number that are counted together
HIGHEST = np.uint64(1 << 63)

Numbers = Callable[[], Iterator[Hashes]]  # some at a time, as often as one asks


@dataclass(frozen=True, eq=False)
class Pruning:
    """What the n-grams of a text are worth, and models of those that are worth most."""

    text: Counts

    def model(self, size: int | None) -> Trie:
        """With at most so many n-grams, or with all."""
        if size is None or size >= self.text.size:
            return kneser_ney(self.text)
        masks = self.kept(size)
        made = kneser_ney(self.text, masks)
        for mask in masks:
            mask.remove()
        return made

    def kept(self, size: int) -> list[SpillableColumn]:
        """Which n-grams of each order are among the `size`, of all orders together, that are worth most.

        All words are, and `size` is more than that and less than all.
        """
        text, wanted = self.text, size - len(self.text.words)
        least, of_equal = _least_of_most(self._numbers, wanted)
        words = text.column(np.bool_)
        words.add(np.ones(len(text.words), np.bool_))
        found = [words]
        for column in self.worth:
            mask = text.column(np.bool_)
            for numbers in map(_sortable, column.spans(text.rows)):
                equal = numbers == least
                mask.add((numbers > least) | (equal & (np.cumsum(equal) <= of_equal)))
                of_equal -= min(of_equal, int(equal.sum()))
            found.append(mask)
        return found

    def _numbers(self) -> Iterator[Hashes]:
        """What n-grams are worth, as whole numbers that sort as it does."""
        return (_sortable(part) for column in self.worth for part in column.spans(self.text.rows))

    @cached_property
    def worth(self) -> list[SpillableColumn]:
        """What the n-grams of each order from 2 are worth, and what any is that needs them."""
        found = self._alone
        for order in range(self.text.order, 2, -1):
            found[order - 3] = self._with_needed(order, found[order - 3], found[order - 2])
        return found

    @property
    def _alone(self) -> list[SpillableColumn]:
        """The relative entropy that is lost without each n-gram."""
        text = self.text
        model = self._judging_model
        found: list[SpillableColumn] = []
        how_often = self._words_joint(model)
        for order in range(2, text.order + 1):
            worth, joint = text.column(np.float64), text.column(np.float64)
            below = text.of_suffixes(order, model.probability[order - 2])
            for block, lower in zip(text.blocks(order), below, strict=True):
                p = _stored(model, order, model.probability[order - 1].read(*block.nodes))
                log_backoff = np.log10(model.weight[order - 2].read(*block.contexts)).astype(
                    np.float32
                )
                parents, before = block.parents, how_often.read(*block.contexts)
                worth.add(
                    entropy_lost(parents, p, _stored(model, order, lower), log_backoff, before)
                )
                joint.add(p * before[parents])
            how_often.remove()
            found.append(worth)
            how_often = joint
        how_often.remove()
        model.remove()
        return found

    @property
    def _judging_model(self) -> Estimate:
        """The model of the text whose lower orders count everything."""
        text, words = self.text, self.text.column(np.int64)
        counts = text.levels[0].counts.read(0, len(text.words))
        counts[text.start] = 0  # never predicted
        words.add(counts)
        whole = [words, *(level.counts for level in text.levels[1:])]
        estimate = estimated(
            text, whole, [discounts_of(column.spans(text.rows)) for column in whole]
        )
        words.remove()
        return estimate

    def _words_joint(self, model: Estimate) -> SpillableColumn:
        """How often each word occurs; a sentence starts as often as one ends."""
        words, column = (
            _stored(model, 1, model.probability[0].read(0, len(self.text.words))),
            self.text.column(float),
        )
        start, end, _ = find_special(self.text.words)
        words[start] = words[end]
        column.add(words)
        return column

    def _with_needed(
        self, order: int, shorter: SpillableColumn, longer: SpillableColumn
    ) -> SpillableColumn:
        """At least what the n-grams of the next order are worth, of which these are contexts or suffixes."""
        text = self.text
        by_context = text.column(np.float64)
        for block in text.blocks(order):
            most = shorter.read(*block.contexts)
            np.maximum.at(most, block.parents, longer.read(*block.nodes))
            by_context.add(most)
        shorter.remove()
        found, first = text.column(np.float64), 0
        nothing = np.full(1, -np.inf)
        for most in text.to_suffixes(
            order, longer.spans(text.rows), combine=np.maximum, nothing=nothing
        ):
            found.add(np.maximum(most, by_context.read(first, first + most.size)))
            first += most.size
        by_context.remove()
        return found


def _stored(model: Estimate, order: int, probability: Floats) -> Floats:
    """Probabilities as a model has them, who keeps their logarithms."""
    stored: Floats = 10 ** model.logs(order, probability).astype(np.float64)
    return stored


def _sortable(values: Floats) -> Hashes:
    """Whole numbers that sort as these do.

    >>> _sortable(np.array([-1.0, -0.0, 0.0, 2.5])).argsort(kind="stable").tolist()
    [0, 1, 2, 3]
    >>> len(set(_sortable(np.array([-0.0, 0.0]))))
    1
    """
    bits = (values + 0.0).view(np.uint64)
    sortable: Hashes = np.where(bits & HIGHEST, ~bits, bits | HIGHEST)
    return sortable


def _least_of_most(parts: Numbers, wanted: int) -> tuple[np.uint64, int]:
    """The least of the `wanted` largest numbers, and how many of those that equal it are among them.

    Digit by digit, the highest first: of each, how many numbers have it that agree in those before.
    """
    found = np.uint64(0)
    for shift in range(64 - DIGIT, -1, -DIGIT):
        sizes = np.zeros(1 << DIGIT, np.int64)
        for numbers in parts():
            known = (
                numbers
                if shift == 64 - DIGIT
                else numbers[numbers >> np.uint64(shift + DIGIT) == found]
            )
            sizes += np.bincount(
                (known >> np.uint64(shift)).astype(np.int64) & ((1 << DIGIT) - 1),
                minlength=1 << DIGIT,
            )
        reached = np.cumsum(sizes[::-1])[::-1]  # how many have this digit or a higher one
        digit = int(np.count_nonzero(reached >= wanted)) - 1
        wanted -= int(reached[digit] - sizes[digit])
        found = found << np.uint64(DIGIT) | np.uint64(digit)
    return found, wanted
