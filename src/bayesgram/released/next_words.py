"""The likeliest next words after a context: the loops.

In:  a `Packed` model, a context and a range of words.   Out: the best of them with their log10 probabilities.
Words are offered from the longest context down; what a longer one has was offered there and is not offered again.
"""

import numpy as np

from bayesgram.arrays import Bytes, Floats, Ids, Integers, Singles
from bayesgram.kernels import kernel, signed
from bayesgram.released.packed import (
    EXACT,
    RECORD,
    START,
    VALUE_BITS,
    VALUE_BOOK,
    Packed,
    as_number,
    backoff_at,
    first_child_at,
    mask_of,
    read_bits,
    unpack_children,
    value_at,
    word_at,
)
from bayesgram.released.search import child_of, contexts_of, from_on

LARGE = 512  # children of a context from which the likeliest are kept
FEW = 1024  # words that are looked through one by one


def large_contexts(trie: Packed) -> Integers:
    """Contexts with many children, a row each: order, place, and where the children begin and end in the next order."""
    found = [np.zeros((0, 4), np.int64)]
    for order, size in enumerate(np.diff(trie.level_starts)[1:-1].tolist(), start=1):
        starts = unpack_children(trie.layout[order], size, trie.records, trie.bases)
        places = np.flatnonzero(np.diff(starts) >= LARGE)
        found.append(np.stack([np.full_like(places, order), places, starts[places], starts[places + 1]], axis=1))
    return np.concatenate(found)


@kernel
def is_seen(places: Integers, order: int, wanted: int, trie: Packed) -> bool:
    """Whether a longer context than that of this order has the word."""
    for longer in range(places.size - 1, order, -1):
        if child_of(longer, places[longer], wanted, trie) >= 0:
            return True
    return False


@kernel
def _offer(wanted: int, score: float, places: Integers, order: int, trie: Packed, words: Ids, scores: Floats) -> None:
    """Keep a word that is as good as the last one: in order, and of equal ones the first in byte order.

    What a longer context has was offered there.
    """
    at = scores.size - 1
    if score == scores[at] and wanted > words[at] >= 0:
        return
    if wanted in (trie.special[0], trie.special[1], trie.special[2]) or is_seen(places, order, wanted, trie):
        return
    while at > 0 and (score > scores[at - 1] or (score == scores[at - 1] and wanted < words[at - 1])):
        scores[at], words[at] = scores[at - 1], words[at - 1]
        at -= 1
    scores[at], words[at] = score, wanted


@kernel
def _offer_words(
    places: Integers, low: int, high: int, backoff: float, trie: Packed, words: Ids, scores: Floats
) -> None:
    """Offer single words: the likeliest until none can be among the best; if those that are ranked don't do, all."""
    row = trie.layout[1]
    if high - low > FEW:
        for wanted in trie.ranked:
            score = backoff + value_at(wanted, row, trie.records, trie.codebooks)
            if score < scores[scores.size - 1]:
                return
            if low <= wanted < high:
                _offer(wanted, score, places, 0, trie, words, scores)
    for wanted in range(low, high):
        score = backoff + value_at(wanted, row, trie.records, trie.codebooks)
        if score >= scores[scores.size - 1] and not (words == wanted).any():
            _offer(wanted, score, places, 0, trie, words, scores)


@kernel
def _next_as_good(
    child: int, last: int, row: Integers, records: Bytes, codebooks: Singles, backoff: float, least: float
) -> int:
    """The first of some n-grams whose score is not below `least`: most are not looked at further."""
    start, record, mask, book = row[START], row[RECORD], mask_of(row[VALUE_BITS]), row[VALUE_BOOK]
    exact = row[VALUE_BITS] == EXACT
    while child < last:
        code = read_bits(records, start + child * record, mask)
        if backoff + (as_number(code) if exact else codebooks[book + signed(code)]) >= least:
            break
        child += 1
    return child


@kernel
def _offer_likeliest(places: Integers, order: int, backoff: float, trie: Packed, words: Ids, scores: Floats) -> bool:
    """Offer the likeliest children of a large context until none can be among the best; False if that takes more."""
    node = trie.level_starts[order] + places[order]
    at = np.searchsorted(trie.large, node)
    if at == trie.large.size or trie.large[at] != node:
        return False
    row = trie.layout[order + 1]
    for child in trie.likeliest[at]:
        score = backoff + value_at(signed(child), row, trie.records, trie.codebooks)
        if score < scores[scores.size - 1]:
            return True
        _offer(word_at(signed(child), row, trie.records), score, places, order, trie, words, scores)
    return False


@kernel
def _offer_children(
    places: Integers, order: int, low: int, high: int, backoff: float, trie: Packed, words: Ids, scores: Floats
) -> None:
    """Offer the words of a range that stand after the context of an order."""
    row, below, records = trie.layout[order], trie.layout[order + 1], trie.records
    first = first_child_at(places[order], row, records, trie.bases)
    size = first_child_at(places[order] + 1, row, records, trie.bases) - first
    child, last = from_on(below, records, first, size, low), from_on(below, records, first, size, high)
    if last - child == size >= LARGE and _offer_likeliest(places, order, backoff, trie, words, scores):
        return
    while True:
        child = _next_as_good(child, last, below, records, trie.codebooks, backoff, scores[scores.size - 1])
        if child >= last:
            return
        wanted = word_at(child, below, records)
        if not (words == wanted).any():
            score = backoff + value_at(child, below, records, trie.codebooks)
            _offer(wanted, score, places, order, trie, words, scores)
        child += 1


@kernel
def best(state: int, how_many: int, low: int, high: int, trie: Packed) -> tuple[Ids, Floats]:
    """The likeliest words of a range after a context, and their log10 p; −1 where there are no more."""
    words = np.full(how_many, -1, np.int32)
    scores = np.full(how_many, -np.inf)
    places, backoff = contexts_of(state, trie), np.float64(0)
    for order in range(places.size - 1, 0, -1):
        _offer_children(places, order, low, high, backoff, trie, words, scores)
        backoff += backoff_at(places[order], trie.layout[order], trie.records, trie.codebooks)
    _offer_words(places, low, high, backoff, trie, words, scores)
    return words, scores
