"""Interpolated modified Kneser–Ney: a back-off model of all n-grams of a text (Chen and Goodman 1998, Section 4.1).

In:  `Counts`: how often a text has every n-gram of orders 1 to N, in sentences with <s> and </s>.   Out: a `Trie`.

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
Memory. The counts are on disk, and so is all that is computed of them: each order is gone through some rows at a time,
and what the order below says of their suffixes is looked up there in parts (`ngram_levels`). In memory are those
rows, such a part, the words, and the model that comes out, packed.
Does not read text: see `public_model`. Does not choose what goes: see `keeping`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bools, Bytes, Floats, Integers, Singles
from bayesgram.io.spill import SpillableColumn, spans
from bayesgram.kernels import kernel
from bayesgram.lm import packed
from bayesgram.lm.ngram_counts import Counts
from bayesgram.lm.packed import BLOCK, EXACT, Codes, Layout, Words, as_codes
from bayesgram.lm.trie import NEVER, Trie

FALLBACK = (0.0, 0.5, 1.0, 1.5)  # discounts of a = 0, 1, 2 and 3 or more

Masks = Sequence[SpillableColumn] | None  # which n-grams of each order stay; None: all


@dataclass(frozen=True, eq=False)
class Estimate:
    """p(w|h) of all n-grams, and the back-off weight of every context: a column for each order."""

    text: Counts
    probability: list[SpillableColumn]
    weight: list[SpillableColumn]

    def logs(self, order: int, probability: Floats) -> Singles:
        """What a model keeps of probabilities of an order; those of order 1 are all words."""
        if order == 1:
            probability[self.text.start] = 1.0  # <s> is never predicted
        logs = np.minimum(np.log10(probability).astype(np.float32), 0)
        if order == 1:
            logs[self.text.start] = NEVER
        return logs

    def remove(self) -> None:
        """Take the room on disk back."""
        for column in (*self.probability, *self.weight):
            column.remove()


def kneser_ney(text: Counts, kept: Masks = None) -> Trie:
    """The model of a text, with all n-grams or those that stay: with each of them stay its context and its suffix."""
    adjusted = adjusted_counts(text)
    discounts = [discounts_of(column.spans(text.rows)) for column in adjusted]
    if kept is not None:
        _remove_shorter(adjusted)
        adjusted = adjusted_counts(text, kept)
    estimate = estimated(text, adjusted, discounts, kept)
    _remove_shorter(adjusted)
    made = packed_model(estimate, kept)
    estimate.remove()
    return made


def _remove_shorter(adjusted: Sequence[SpillableColumn]) -> None:
    """Take the room of `a` back; that of the longest n-grams are the counts themselves."""
    for column in adjusted[:-1]:
        column.remove()


def discounts_of(adjusted: Iterable[Integers]) -> Floats:
    """D for a = 0, 1, 2 and 3 or more; the usual ones where the counts of counts give none. `a` comes in parts.

    >>> discounts_of([np.repeat([1, 2, 3, 4], [40, 10, 5, 3])]).round(3).tolist()
    [0.0, 0.667, 1.0, 1.4]
    >>> discounts_of([np.array([7, 7]), np.array([7])]).tolist()
    [0.0, 0.5, 1.0, 1.5]
    """
    numbers = np.zeros(6)
    for part in adjusted:
        numbers += np.bincount(np.minimum(part, 5), minlength=6)
    numbers = numbers[1:5]
    if not numbers[:3].all():
        return np.array(FALLBACK)
    y, k = numbers[0] / (numbers[0] + 2 * numbers[1]), np.arange(1, 4)
    found = k - (k + 1) * y * numbers[1:] / numbers[:3]
    return np.array([0.0, *found]) if (found > 0).all() else np.array(FALLBACK)


def adjusted_counts(text: Counts, kept: Masks = None) -> list[SpillableColumn]:
    """What `a` is for every n-gram: how much stands before it that stays, and the `a` of what goes."""
    found = [text.levels[-1].counts]
    for order in range(text.order, 1, -1):
        brought = (
            np.where(mask, 1, own)
            for mask, own in zip(_masks(text, kept, order), found[0].spans(text.rows), strict=True)
        )
        sums = text.to_suffixes(order, brought, combine=np.add, nothing=np.zeros(1, np.int64))
        found.insert(0, _with_starts(text, order - 1, sums))
    return found


def _with_starts(text: Counts, order: int, sums: Iterator[Integers]) -> SpillableColumn:
    """What stands before n-grams of an order; those that begin with <s> keep their counts, and <s> itself has none."""
    column, first = text.column(np.int64), 0
    low, high = text.begin_with_start[order - 1] if order > 1 else (0, 0)
    for part in sums:
        inside = max(low, first), min(high, first + part.size)
        if inside[0] < inside[1]:
            part[inside[0] - first : inside[1] - first] += text.levels[order - 1].counts.read(
                *inside
            )
        column.add(part)
        first += part.size
    return column


def _masks(text: Counts, kept: Masks, order: int) -> Iterator[Bools]:
    """Which n-grams of an order stay, some at a time."""
    size = text.levels[order - 1].size
    return (_mask(kept, order, *span) for span in spans(size, text.rows))


def _mask(kept: Masks, order: int, first: int, last: int) -> Bools:
    return np.ones(last - first, np.bool_) if kept is None else kept[order - 1].read(first, last)


def estimated(
    text: Counts,
    adjusted: Sequence[SpillableColumn],
    discounts: Sequence[Floats],
    kept: Masks = None,
) -> Estimate:
    """The interpolated model of these counts."""
    words = text.column(np.float64)
    words.add(_word_probabilities(adjusted[0].read(0, len(text.words)), discounts[0], text.start))
    estimate = Estimate(text, [words], [])
    for order in range(2, text.order + 1):
        probability, weight = text.column(np.float64), text.column(np.float64)
        below = text.of_suffixes(order, estimate.probability[-1])
        for block, lower in zip(text.blocks(order), below, strict=True):
            own, mask = adjusted[order - 1].read(*block.nodes), _mask(kept, order, *block.nodes)
            some = np.empty(own.size), np.ones(block.children.size)
            _interpolate(block.children, own, discounts[order - 1], mask, lower, *some)
            probability.add(some[0])
            weight.add(some[1])
        estimate.probability.append(probability)
        estimate.weight.append(weight)
    return estimate


def _word_probabilities(adjusted: Integers, discounts: Floats, start: int) -> Floats:
    """p(w) of every word but <s>: what the discounts leave is shared equally."""
    taken = discounts[np.minimum(adjusted, 3)]
    probabilities: Floats = (adjusted - taken + taken.sum() / (adjusted.size - 1)) / adjusted.sum()
    probabilities[start] = 0.0
    return probabilities


@kernel
def _interpolate(
    children: Integers,
    adjusted: Integers,
    discount: Floats,
    kept: Bools,
    lower: Floats,
    probability: Floats,
    weight: Floats,
) -> None:
    """p(w|h) of all children of some contexts, and the back-off weight of these; `lower` is what the suffixes have.

    That is γ(h); where n-grams go, what all words but those that stay have, over what they have one order below.
    """
    last = 0
    for context in range(children.size):
        first, last = last, last + children[context]
        if first == last:
            continue
        total, taken, below = 0.0, 0.0, 1.0
        for node in range(first, last):
            total += adjusted[node]
            taken += discount[min(adjusted[node], 3)]
            below -= lower[node]
        share = taken / total
        below = max(below, 0.0)  # the lower order's mass of what never follows
        above, goes = share * below, False
        for node in range(first, last):
            own = (adjusted[node] - discount[min(adjusted[node], 3)]) / total
            probability[node] = own + share * lower[node]
            if not kept[node]:
                above, below, goes = above + probability[node], below + lower[node], True
        weight[context] = above / below if goes else share
        for node in range(first, last):
            if not kept[node]:
                probability[node] = weight[context] * lower[node]


def whole_layout(text: Counts, value_bits: int, backoff_bits: int) -> Layout:
    """How wide everything is in the model of all n-grams."""
    children = [_first_children(text, None, order) for order in range(1, text.order)]
    return _layout(
        text, [level.size for level in text.levels], children, (value_bits, backoff_bits)
    )


def packed_model(estimate: Estimate, kept: Masks) -> Trie:
    """A trie of the n-grams that stay."""
    text = estimate.text
    sizes = [
        sum(int(mask.sum()) for mask in _masks(text, kept, order))
        for order in range(1, text.order + 1)
    ]
    longest = max(2, int(np.flatnonzero(sizes).max()) + 1)
    children = [_first_children(text, kept, order) for order in range(1, longest)]
    layout = _layout(text, sizes[:longest], children, (EXACT, EXACT))
    size, bases, _ = layout.array_sizes()
    found = np.zeros(size, np.uint8), np.zeros(bases, np.uint32)
    for order in range(1, longest + 1):
        _pack_level(estimate, kept, order, layout, children[order - 1 : order], found)
    for column in children:
        column.remove()
    return Trie(
        Words.narrow(text.words.data, text.words.ends), layout, *found, np.zeros(0, np.float32)
    )


def _layout(
    text: Counts, sizes: Sequence[int], children: Sequence[SpillableColumn], bits: tuple[int, int]
) -> Layout:
    """How wide everything is, given where the children of each n-gram begin."""
    at_once = -(-text.rows // BLOCK) * BLOCK
    widths = [max(packed.child_bits(part) for part in column.spans(at_once)) for column in children]
    return Layout(tuple(sizes), *bits, tuple(widths))


def _first_children(text: Counts, kept: Masks, order: int) -> SpillableColumn:
    """Where the children of each n-gram that stays begin among those of the next order, and where the last ones end."""
    column, first = text.column(np.int64), 0
    for block in text.blocks(order + 1):
        stay = np.bincount(
            block.parents, _mask(kept, order + 1, *block.nodes), block.children.size
        ).astype(np.int64)
        ends = first + np.cumsum(stay)
        column.add((ends - stay)[_mask(kept, order, *block.contexts)])
        first = int(ends[-1])
    column.add(np.array([first]))
    return column


def _pack_level(
    estimate: Estimate,
    kept: Masks,
    order: int,
    layout: Layout,
    children: Sequence[SpillableColumn],
    found: tuple[Bytes, Codes],
) -> None:
    """Write the records of an order; `children` is none for the longest."""
    text, row, place = estimate.text, layout.rows()[order], 0
    level, at_once = text.levels[order - 1], max(text.rows, len(text.words) if order == 1 else 0)
    for span in spans(level.size, at_once):
        mask = _mask(kept, order, *span)
        logs = estimate.logs(order, estimate.probability[order - 1].read(*span))[mask]
        word, ended = level.word.read(*span)[mask], place + logs.size
        weights, firsts = np.zeros(0, np.float32), np.zeros(0, np.int64)
        if children:
            weights = np.log10(estimate.weight[order - 1].read(*span)[mask]).astype(np.float32)
            firsts = children[0].read(place, ended + 1)
        packed.pack(row, place, word, as_codes(logs), as_codes(weights), firsts, *found)
        place = ended
