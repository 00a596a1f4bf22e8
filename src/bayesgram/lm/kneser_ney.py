"""Interpolated modified Kneser–Ney smoothing of a whole text (Chen and Goodman 1998, Section 4.1).

In go `NgramCounts`: how often a text has every n-gram of orders 1 to N, in sentences with <s> and
</s>. Out comes a backoff model, a `Trie`. Text is read elsewhere (`public.public_model`).

The longest n-grams have their counts. A shorter one has as its adjusted count a(g) the number of
words that stand before it, for it is used only where the longer one has no answer; before <s>
nothing stands, so what begins with it keeps its own count. n₁ to n₄ are how many n-grams of an
order have a = 1, 2, 3, 4; then

    D_k = k − (k + 1) Y n_{k+1} / n_k,  Y = n₁ / (n₁ + 2 n₂),  for a = 1, 2 and for 3 or more
    p(w|h) = (a(hw) − D(a(hw))) / Σ_w a(hw) + γ(h) p(w|h′),  γ(h) = Σ_w D(a(hw)) / Σ_w a(hw)

where h′ is h without its first word; below the words, all of them but <s> are equally likely, <unk>
among them. That is what KenLM's lmplz computes. Where the n_k give no discounts, as in tiny or
repeated text, D is ½, 1, 1½, which lmplz takes with --discount_fallback.

A smaller model. Which n-grams go is decided by `pruning`, with a model whose lower orders count
everything: those above lack what longer n-grams explain (Chelba et al. 2010). Then what goes is
explained no more, so a(g) is the number of words before g where that n-gram stays, and the sum of a
where it goes (Siivola, Hirsimäki and Virpioja 2007). What stays has p(w|h) as above, and the
backoff weight of h makes it add up to one again.

How that was chosen: by the perplexity of held-out text of the same source and of another register,
where models of Wikipedia and of reviews kept 100,000 to 1,000,000 of their n-grams. Judged by the
model itself, 0 to 6% worse; with the a of the whole model 0 to 8%; with the mass of what goes
shared by what stays as well, ½ to 3%.

Memory. The counts are on disk, and so is all that is computed of them: each order is read some rows
at a time, and what the order below says of their suffixes is looked up there in parts
(`ngram_counts`). In memory are those rows, such a part, the words, and the model that comes out,
packed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayesgram.arrays import Bools, Bytes, Floats, Integers, Singles
from bayesgram.io.spill import SpillableColumn, spans
from bayesgram.kernels import kernel
from bayesgram.lm import packed
from bayesgram.lm.ngram_counts import NgramCounts
from bayesgram.lm.packed import BLOCK, FLOAT_BITS, Codes, Layout, LevelArrays, Words, float_bits
from bayesgram.lm.trie import LOG_NEVER, Trie

# Discounts of n-grams with the adjusted count 0, 1, 2 and 3 or more, where the counts of counts
# give none: those of KenLM.
FALLBACK_DISCOUNTS = (0.0, 0.5, 1.0, 1.5)

Masks = Sequence[SpillableColumn] | None  # which n-grams of each order stay; None: all


@dataclass(frozen=True, eq=False)
class KneserNeyEstimate:
    """p(w|h) of all n-grams, and the backoff weight of every context: a column for each order."""

    counts: NgramCounts
    probability: list[SpillableColumn]
    backoff: list[SpillableColumn]

    def to_log10(self, order: int, probability: Floats) -> Singles:
        """Return log10 p as a model stores it; of order 1, `probability` is that of all words."""
        if order == 1:
            probability[self.counts.start_word] = 1.0  # <s> is never predicted
        logs = np.minimum(np.log10(probability).astype(np.float32), 0)
        if order == 1:
            logs[self.counts.start_word] = LOG_NEVER
        return logs

    def remove(self) -> None:
        """Remove the columns from disk."""
        for column in (*self.probability, *self.backoff):
            column.remove()


def estimate_kneser_ney(counts: NgramCounts, masks: Masks = None) -> Trie:
    """Estimate the model of a text.

    Args:
        counts: All n-grams of the text.
        masks: Which of them stay, with the context and the suffix of each that does; None for all.
    """
    adjusted = adjust_counts(counts)
    discounts = [estimate_discounts(column.spans(counts.batch_rows)) for column in adjusted]
    if masks is not None:
        _remove_lower_orders(adjusted)
        adjusted = adjust_counts(counts, masks)
    estimate = estimate_probabilities(counts, adjusted, discounts, masks)
    _remove_lower_orders(adjusted)
    trie = pack_estimate(estimate, masks)
    estimate.remove()
    return trie


# --- Adjusted counts and discounts ---


def adjust_counts(counts: NgramCounts, masks: Masks = None) -> list[SpillableColumn]:
    """Return a(g) of all n-grams: how many words stand before g, where these n-grams stay.

    Of an n-gram that goes, its own a is added instead.
    """
    adjusted = [counts.levels[-1].counts]
    for order in range(counts.order, 1, -1):
        batches = adjusted[0].spans(counts.batch_rows)
        contributions = (
            np.where(mask, 1, batch)
            for mask, batch in zip(_mask_batches(counts, masks, order), batches, strict=True)
        )
        sums = counts.reduce_to_suffixes(
            order, contributions, combine=np.add, initial=np.zeros(1, np.int64)
        )
        adjusted.insert(0, _add_sentence_starts(counts, order - 1, sums))
    return adjusted


def _add_sentence_starts(
    counts: NgramCounts, order: int, sums: Iterator[Integers]
) -> SpillableColumn:
    """Return adjusted counts of an order, in which n-grams that begin with <s> have their counts.

    <s> itself has none.
    """
    column = counts.new_column(np.int64)
    low, high = counts.start_ranges[order - 1] if order > 1 else (0, 0)
    batch_start = 0
    for batch in sums:
        first = max(low, batch_start)
        last = min(high, batch_start + batch.size)
        if first < last:
            own_counts = counts.levels[order - 1].counts.read(first, last)
            batch[first - batch_start : last - batch_start] += own_counts
        column.add(batch)
        batch_start += batch.size
    return column


def _remove_lower_orders(adjusted: Sequence[SpillableColumn]) -> None:
    """Remove adjusted counts; those of the longest n-grams are the counts themselves, and stay."""
    for column in adjusted[:-1]:
        column.remove()


def estimate_discounts(adjusted: Iterable[Integers]) -> Floats:
    """Return D for a = 0, 1, 2 and 3 or more; the fallback where the counts of counts give none.

    Args:
        adjusted: The adjusted counts of an order, some at a time.

    >>> estimate_discounts([np.repeat([1, 2, 3, 4], [40, 10, 5, 3])]).round(3).tolist()
    [0.0, 0.667, 1.0, 1.4]
    >>> estimate_discounts([np.array([7, 7]), np.array([7])]).tolist()
    [0.0, 0.5, 1.0, 1.5]
    """
    counts_of_counts = np.zeros(6)
    for batch in adjusted:
        counts_of_counts += np.bincount(np.minimum(batch, 5), minlength=6)
    n = counts_of_counts[1:5]
    if not n[:3].all():
        return np.array(FALLBACK_DISCOUNTS)
    y = n[0] / (n[0] + 2 * n[1])
    k = np.arange(1, 4)
    discounts = k - (k + 1) * y * n[1:] / n[:3]
    return np.array([0.0, *discounts]) if (discounts > 0).all() else np.array(FALLBACK_DISCOUNTS)


def _mask_batches(counts: NgramCounts, masks: Masks, order: int) -> Iterator[Bools]:
    """Yield which n-grams of an order stay, some at a time."""
    size = counts.levels[order - 1].size
    return (_read_mask(masks, order, first, last) for first, last in spans(size, counts.batch_rows))


def _read_mask(masks: Masks, order: int, first: int, last: int) -> Bools:
    return np.ones(last - first, np.bool_) if masks is None else masks[order - 1].read(first, last)


# --- Probabilities ---


def estimate_probabilities(
    counts: NgramCounts,
    adjusted: Sequence[SpillableColumn],
    discounts: Sequence[Floats],
    masks: Masks = None,
) -> KneserNeyEstimate:
    """Interpolate all orders.

    Args:
        counts: All n-grams of the text.
        adjusted: Their adjusted counts, order by order.
        discounts: D of each order.
        masks: Which n-grams stay; None for all.
    """
    words = counts.new_column(np.float64)
    word_counts = adjusted[0].read(0, len(counts.words))
    words.add(_word_probabilities(word_counts, discounts[0], counts.start_word))
    estimate = KneserNeyEstimate(counts, [words], [])
    for order in range(2, counts.order + 1):
        probability_column = counts.new_column(np.float64)
        backoff_column = counts.new_column(np.float64)
        lower_batches = counts.lookup_at_suffixes(order, estimate.probability[-1])
        for block, lower in zip(counts.blocks(order), lower_batches, strict=True):
            block_counts = adjusted[order - 1].read(*block.nodes)
            mask = _read_mask(masks, order, *block.nodes)
            probability = np.empty(block_counts.size)
            backoff = np.ones(block.children.size)
            _interpolate(
                block.children,
                block_counts,
                discounts[order - 1],
                mask,
                lower,
                probability,
                backoff,
            )
            probability_column.add(probability)
            backoff_column.add(backoff)
        estimate.probability.append(probability_column)
        estimate.backoff.append(backoff_column)
    return estimate


def _word_probabilities(adjusted: Integers, discounts: Floats, start_word: int) -> Floats:
    """Return p(w) of every word but <s>: what the discounts leave is shared equally."""
    discount = discounts[np.minimum(adjusted, 3)]
    equal_share = discount.sum() / (adjusted.size - 1)
    probabilities: Floats = (adjusted - discount + equal_share) / adjusted.sum()
    probabilities[start_word] = 0.0
    return probabilities


@kernel
def _interpolate(
    children: Integers,
    adjusted: Integers,
    discounts: Floats,
    mask: Bools,
    lower: Floats,
    probability: Floats,
    backoff: Floats,
) -> None:
    """Compute p(w|h) of all children of some contexts, and the backoff weights of these.

    The weight is γ(h); where n-grams go, it is the probability of all words but those that stay,
    over their probability one order below.

    Args:
        children: How many children each context has.
        adjusted: The adjusted counts of the children.
        discounts: D of the order.
        mask: Which children stay.
        lower: p(w|h′) of the children.
        probability: p(w|h), which is set.
        backoff: The weights, which are set where a context has children.
    """
    last = 0
    for context in range(children.size):
        first = last
        last = first + children[context]
        if first == last:
            continue
        total = 0.0
        discount_sum = 0.0
        below = 1.0
        for node in range(first, last):
            total += adjusted[node]
            discount_sum += discounts[min(adjusted[node], 3)]
            below -= lower[node]
        gamma = discount_sum / total
        below = max(below, 0.0)  # the lower order's mass of words that never follow
        above = gamma * below
        is_pruned = False
        for node in range(first, last):
            discounted = (adjusted[node] - discounts[min(adjusted[node], 3)]) / total
            probability[node] = discounted + gamma * lower[node]
            if not mask[node]:
                above += probability[node]
                below += lower[node]
                is_pruned = True
        backoff[context] = above / below if is_pruned else gamma
        for node in range(first, last):
            if not mask[node]:
                probability[node] = backoff[context] * lower[node]


# --- Packing ---


def full_layout(counts: NgramCounts, probability_bits: int, backoff_bits: int) -> Layout:
    """Return the layout of the model of all n-grams.

    Args:
        counts: All n-grams of the text.
        probability_bits: The width of a probability.
        backoff_bits: The width of a backoff weight.
    """
    first_children = [_find_first_children(counts, None, order) for order in range(1, counts.order)]
    sizes = [level.size for level in counts.levels]
    return _make_layout(counts, sizes, first_children, (probability_bits, backoff_bits))


def pack_estimate(estimate: KneserNeyEstimate, masks: Masks) -> Trie:
    """Return a trie of the n-grams that stay."""
    counts = estimate.counts
    sizes = [
        sum(int(mask.sum()) for mask in _mask_batches(counts, masks, order))
        for order in range(1, counts.order + 1)
    ]
    longest = max(2, int(np.flatnonzero(sizes).max()) + 1)
    first_children = [_find_first_children(counts, masks, order) for order in range(1, longest)]
    layout = _make_layout(counts, sizes[:longest], first_children, (FLOAT_BITS, FLOAT_BITS))
    record_bytes, base_count, _ = layout.array_sizes()
    records = np.zeros(record_bytes, np.uint8)
    bases = np.zeros(base_count, np.uint32)
    for order in range(1, longest + 1):
        order_children = first_children[order - 1] if order < longest else None
        _pack_order(estimate, masks, order, layout, order_children, records, bases)
    for column in first_children:
        column.remove()
    words = Words.from_buffers(counts.words.data, counts.words.ends)
    return Trie(words, layout, records, bases, np.zeros(0, np.float32))


def _make_layout(
    counts: NgramCounts,
    sizes: Sequence[int],
    first_children: Sequence[SpillableColumn],
    bits: tuple[int, int],
) -> Layout:
    probability_bits, backoff_bits = bits
    whole_blocks = -(-counts.batch_rows // BLOCK) * BLOCK
    child_bits = [
        max(packed.child_offset_bits(batch) for batch in column.spans(whole_blocks))
        for column in first_children
    ]
    return Layout(tuple(sizes), probability_bits, backoff_bits, tuple(child_bits))


def _find_first_children(counts: NgramCounts, masks: Masks, order: int) -> SpillableColumn:
    """Return where the children of each n-gram that stays begin, and where the last ones end."""
    column = counts.new_column(np.int64)
    first = 0
    for block in counts.blocks(order + 1):
        child_mask = _read_mask(masks, order + 1, *block.nodes)
        child_counts = np.bincount(block.parents, child_mask, block.children.size).astype(np.int64)
        ends = first + np.cumsum(child_counts)
        column.add((ends - child_counts)[_read_mask(masks, order, *block.contexts)])
        first = int(ends[-1])
    column.add(np.array([first]))
    return column


def _pack_order(
    estimate: KneserNeyEstimate,
    masks: Masks,
    order: int,
    layout: Layout,
    first_children: SpillableColumn | None,
    records: Bytes,
    bases: Codes,
) -> None:
    """Write the records of an order; the longest n-grams have no children."""
    counts = estimate.counts
    level = counts.levels[order - 1]
    row = layout.table()[order]
    place = 0
    # `to_log10` takes all words at once.
    batch_rows = max(counts.batch_rows, len(counts.words) if order == 1 else 0)
    for first, last in spans(level.size, batch_rows):
        mask = _read_mask(masks, order, first, last)
        probability = estimate.probability[order - 1].read(first, last)
        logs = estimate.to_log10(order, probability)[mask]
        next_place = place + logs.size
        if first_children is None:
            log_backoffs = np.zeros(0, np.float32)
            batch_children = np.zeros(0, np.int64)
        else:
            backoff = estimate.backoff[order - 1].read(first, last)[mask]
            log_backoffs = np.log10(backoff).astype(np.float32)
            batch_children = first_children.read(place, next_place + 1)
        batch = LevelArrays(
            word=level.word.read(first, last)[mask],
            probabilities=float_bits(logs),
            backoffs=float_bits(log_backoffs),
            first_child=batch_children,
        )
        packed.pack_rows(row, place, batch, records, bases)
        place = next_place
