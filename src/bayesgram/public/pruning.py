"""Which n-grams of a public model stay when it is to be smaller: those that are missed most (see `pruning`).

In:  the `Counts` of a text, and how many n-grams may stay.   Out: a mask for each order, on disk like the counts.
They are judged in a model whose lower orders count everything (see `kneser_ney`). What each is worth is computed once,
however many sizes are tried. As in `pruning`, an n-gram is worth what any is that needs it, and of equal ones the
shorter stay, then the first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesgram.arrays import Floats, Hashes
from bayesgram.files.scratch import Column
from bayesgram.public.kneser_ney import Estimate, discounts_of, estimated, kneser_ney
from bayesgram.public.ngram_levels import Counts
from bayesgram.released.pruning import entropy_lost
from bayesgram.released.trie import Trie, find_special

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

    def kept(self, size: int) -> list[Column]:
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
    def worth(self) -> list[Column]:
        """What the n-grams of each order from 2 are worth, and what any is that needs them."""
        found = self._alone
        for order in range(self.text.order, 2, -1):
            found[order - 3] = self._with_needed(order, found[order - 3], found[order - 2])
        return found

    @property
    def _alone(self) -> list[Column]:
        """The relative entropy that is lost without each n-gram."""
        text = self.text
        model = self._judging_model
        found: list[Column] = []
        how_often = self._words_joint(model)
        for order in range(2, text.order + 1):
            worth, joint = text.column(np.float64), text.column(np.float64)
            below = text.of_suffixes(order, model.probability[order - 2])
            for block, lower in zip(text.blocks(order), below, strict=True):
                p = _stored(model, order, model.probability[order - 1].read(*block.nodes))
                log_backoff = np.log10(model.weight[order - 2].read(*block.contexts)).astype(np.float32)
                parents, before = block.parents, how_often.read(*block.contexts)
                worth.add(entropy_lost(parents, p, _stored(model, order, lower), log_backoff, before))
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
        estimate = estimated(text, whole, [discounts_of(column.spans(text.rows)) for column in whole])
        words.remove()
        return estimate

    def _words_joint(self, model: Estimate) -> Column:
        """How often each word occurs; a sentence starts as often as one ends."""
        words, column = _stored(model, 1, model.probability[0].read(0, len(self.text.words))), self.text.column(float)
        start, end, _ = find_special(self.text.words)
        words[start] = words[end]
        column.add(words)
        return column

    def _with_needed(self, order: int, shorter: Column, longer: Column) -> Column:
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
        for most in text.to_suffixes(order, longer.spans(text.rows), combine=np.maximum, nothing=nothing):
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
            known = numbers if shift == 64 - DIGIT else numbers[numbers >> np.uint64(shift + DIGIT) == found]
            sizes += np.bincount(
                (known >> np.uint64(shift)).astype(np.int64) & ((1 << DIGIT) - 1), minlength=1 << DIGIT
            )
        reached = np.cumsum(sizes[::-1])[::-1]  # how many have this digit or a higher one
        digit = int(np.count_nonzero(reached >= wanted)) - 1
        wanted -= int(reached[digit] - sizes[digit])
        found = found << np.uint64(DIGIT) | np.uint64(digit)
    return found, wanted
