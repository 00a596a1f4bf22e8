"""Smaller models: probabilities and backoff weights as indices into short lists of values.

Every order from 2 on has a codebook of log10 p and one of backoff weights, for which the squared
error is least (Lloyd 1982). Single words stay exact, so that all of them add up to one exactly.
Backoff weights are computed anew from the probabilities as they are stored: after a single word
they are exact too, and after a longer context the sum over all words is off by the rounding of its
weight alone. They get two bits more than probabilities: a quarter of the error, for a bit or so an
n-gram. No n-gram is dropped here: see `pruning`.
"""

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers, Singles
from bayesgram.errors import check_int
from bayesgram.lm.packed import LevelArrays, float_bits
from bayesgram.lm.trie import Trie, pack_trie

DEFAULT_BITS = 8  # of a probability, as other tools have it
MIN_BITS = 4  # limits of the argument, not measured
MAX_BITS = 14
EXTRA_BACKOFF_BITS = 2  # bits that a backoff weight has more than a probability; not measured
LLOYD_STEPS = 30  # of Lloyd's algorithm: by then the error no longer falls by 1%
# Rounding must leave at least this part of what a context leaves to words that it lacks; not
# measured.
MIN_LEFTOVER_KEPT = 0.5


def quantise(trie: Trie, bits: int = DEFAULT_BITS) -> Trie:
    """Return the same model with rounded probabilities, in which contexts add up to one again.

    Args:
        trie: A model with exact probabilities.
        bits: The width of a probability, 4 to 14.
    """
    bits = check_int("bits", bits, MIN_BITS, MAX_BITS, "of a probability")
    backoff_bits = bits + EXTRA_BACKOFF_BITS
    probabilities = 10 ** trie.log_probability.astype(np.float64)
    probabilities[1 + trie.special.start] = 0.0
    backoffs = 10 ** trie.log_backoff.astype(np.float64)
    probability_codes = [float_bits(trie.log_probability[trie.nodes(1)])]
    probability_codebooks = []
    for order in range(2, trie.order + 1):
        codebook = build_codebook(trie.log_probability[trie.nodes(order)], 1 << bits)
        codes = _round_order(trie, order, codebook, probabilities, backoffs)
        probability_codes.append(codes.astype(np.uint32))
        probability_codebooks.append(codebook)
    backoff_codes = [float_bits(np.log10(backoffs[trie.nodes(1)]).astype(np.float32))]
    codebooks = []
    for order, codebook in enumerate(probability_codebooks, start=2):
        codebooks.append(codebook)
        if order < trie.order:
            logs = np.log10(backoffs[trie.nodes(order)])
            backoff_codebook = _build_backoff_codebook(
                logs[_has_children(trie, order)], 1 << backoff_bits
            )
            backoff_codes.append(find_nearest(backoff_codebook, logs).astype(np.uint32))
            codebooks.append(backoff_codebook)
    backoff_codes.append(np.zeros(0, np.uint32))
    levels = [
        LevelArrays(
            word=trie.word[trie.nodes(order)],
            probabilities=probability_codes[order - 1],
            backoffs=backoff_codes[order - 1],
            first_child=_first_children(trie, order),
        )
        for order in range(1, trie.order + 1)
    ]
    return pack_trie(trie.words, levels, np.concatenate(codebooks), (bits, backoff_bits))


def _round_order(
    trie: Trie, order: int, codebook: Singles, probabilities: Floats, backoffs: Floats
) -> Integers:
    """Round the probabilities of an order.

    Where rounding to the nearest would leave a context too little for the words that it lacks, all
    its probabilities are rounded down.

    Args:
        trie: The exact model.
        order: The order.
        codebook: Its codebook.
        probabilities: Of all nodes; those of the order are set to the rounded ones.
        backoffs: Of all contexts; the weights of the order below are set to what this makes of
            them.

    Returns:
        The codes of all n-grams of the order.
    """
    nodes = trie.nodes(order)
    contexts = trie.nodes(order - 1)
    context_count = contexts.stop - contexts.start
    parents = trie.parents[nodes] - contexts.start
    logs = trie.log_probability[nodes]
    left = 1 - np.bincount(parents, 10 ** logs.astype(np.float64), context_count)
    codes = find_nearest(codebook, logs)
    values = 10 ** codebook.astype(np.float64)
    rounded_left = 1 - np.bincount(parents, values[codes], context_count)
    rounds_down = (rounded_left < MIN_LEFTOVER_KEPT * left)[parents]
    codes[rounds_down] = np.searchsorted(codebook, logs[rounds_down], side="right") - 1
    probabilities[nodes] = values[codes]
    left = 1 - np.bincount(parents, values[codes], context_count)
    left_below = 1 - np.bincount(parents, probabilities[trie.suffix[nodes]], context_count)
    has_children = np.bincount(parents, minlength=context_count) > 0
    has_weight = has_children & (left > 0) & (left_below > 0)
    backoffs[contexts][has_weight] = left[has_weight] / left_below[has_weight]
    return codes


def _has_children(trie: Trie, order: int) -> Bools:
    nodes = trie.nodes(order)
    mask: Bools = trie.first_child[nodes.start + 1 : nodes.stop + 1] > trie.first_child[nodes]
    return mask


def _first_children(trie: Trie, order: int) -> Integers:
    """Return where the children of an order begin in the next, and where the last ones end."""
    if order == trie.order:
        return np.zeros(0, np.int64)
    nodes = trie.nodes(order)
    children: Integers = (
        trie.first_child[nodes.start : nodes.stop + 1].astype(np.int64) - nodes.stop
    )
    return children


# --- Codebooks ---


def build_codebook(values: Floats | Singles, size: int) -> Singles:
    """Return `size` ascending values that all given ones are near.

    The least of all is one of them, so that any value can be rounded down.

    >>> build_codebook(np.array([-3.0, -1.0, -1.0]), 4).tolist()
    [-3.0, -1.0, -1.0, -1.0]
    """
    ordered = np.sort(values.astype(np.float64))
    centres = np.unique(ordered)
    if centres.size > size:
        centres = _run_lloyd(ordered, size)
    if not centres.size:
        centres = np.zeros(1)
    padding = np.repeat(centres[-1:], size - centres.size)
    return np.concatenate([centres, padding]).astype(np.float32)


def _run_lloyd(ordered: Floats, size: int) -> Floats:
    """Return the means of runs of ascending values, each nearest to the mean of its own run."""
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    even_count = size // 2
    evenly_spaced = np.linspace(ordered[0], ordered[-1], even_count)
    centres = np.sort(np.append(evenly_spaced, _quantiles(ordered, size - even_count)))
    for _ in range(LLOYD_STEPS):
        cuts = np.searchsorted(ordered, (centres[1:] + centres[:-1]) / 2)
        bounds = np.concatenate([[0], cuts, [ordered.size]])
        counts = np.diff(bounds)
        centres = np.where(counts > 0, np.diff(sums[bounds]) / np.maximum(counts, 1), centres)
    centres[0] = ordered[0]
    return np.sort(centres)


def _quantiles(ordered: Floats, size: int) -> Floats:
    return ordered[(np.arange(size) * 2 + 1) * ordered.size // (2 * size)]


def _build_backoff_codebook(logs: Floats, size: int) -> Singles:
    """Return a codebook in which 0 is exact: the weight of a context that has no n-grams."""
    return np.sort(np.append(build_codebook(logs, size - 1), np.float32(0)))


def find_nearest(codebook: Singles, values: Floats | Singles) -> Integers:
    """Return the index of the nearest value of a codebook."""
    exact = codebook.astype(np.float64)
    return np.searchsorted((exact[1:] + exact[:-1]) / 2, values).astype(np.int64)
