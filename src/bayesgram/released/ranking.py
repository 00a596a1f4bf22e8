"""Where a word stands among the suggestions, and how much of it must be typed until it is one: the loops.

In:  a `Packed` model, contexts, and the word that came after each.   Out: its place, and the letters typed before.
The same order as `next_words.best`: the likeliest first, of equal ones the first in byte order. The better words are
counted, not listed, and no further than it matters; so many thousand words take what a list for each of them would
take for some hundred. Does not know about texts: see `audit.text`.
"""

import numpy as np

from bayesgram.arrays import Bytes, Ids, Integers
from bayesgram.kernels import kernel, signed
from bayesgram.released.next_words import FEW, LARGE, is_seen
from bayesgram.released.packed import Packed, backoff_at, first_child_at, value_at, word_at
from bayesgram.released.search import child_of, contexts_of, from_on
from bayesgram.released.words import Ends, prefix_range

NEVER = -1  # letters: it isn't suggested before all of it is typed


@kernel
def _score(places: Integers, wanted: int, trie: Packed) -> float:
    """log10 p of a word after a context, added up as `best` does: equal scores must be equal here too."""
    backoff = np.float64(0)
    for order in range(places.size - 1, 0, -1):
        found = child_of(order, places[order], wanted, trie)
        if found >= 0:
            return backoff + value_at(signed(found), trie.layout[order + 1], trie.records, trie.codebooks)
        backoff += backoff_at(places[order], trie.layout[order], trie.records, trie.codebooks)
    return backoff + value_at(wanted, trie.layout[1], trie.records, trie.codebooks)


@kernel
def _is_better(
    other: int, its_score: float, places: Integers, order: int, wanted: int, score: float, trie: Packed
) -> bool:
    """Whether a word that a context of this order has is suggested before the wanted one."""
    if its_score < score or (its_score == score and other >= wanted):
        return False
    if other in (trie.special[0], trie.special[1], trie.special[2]):
        return False
    return not is_seen(places, order, other, trie)


@kernel
def _better_likeliest(
    places: Integers, order: int, backoff: float, wanted: int, score: float, most: int, trie: Packed
) -> int:
    """The better children of a large context, by those whose rank is kept; −1 if that takes more."""
    node = trie.level_starts[order] + places[order]
    at = np.searchsorted(trie.large, node)
    if at == trie.large.size or trie.large[at] != node:
        return -1
    row, count = trie.layout[order + 1], 0
    for child in trie.likeliest[at]:
        its_score = backoff + value_at(signed(child), row, trie.records, trie.codebooks)
        if its_score < score or count >= most:
            return count
        if _is_better(word_at(signed(child), row, trie.records), its_score, places, order, wanted, score, trie):
            count += 1
    return -1


@kernel
def _better_children(
    places: Integers,
    order: int,
    low: int,
    high: int,
    backoff: float,
    wanted: int,
    score: float,
    most: int,
    trie: Packed,
) -> int:
    """How many better words of a range stand after the context of an order, up to `most`."""
    row, below, records = trie.layout[order], trie.layout[order + 1], trie.records
    first = first_child_at(places[order], row, records, trie.bases)
    size = first_child_at(places[order] + 1, row, records, trie.bases) - first
    child, last = from_on(below, records, first, size, low), from_on(below, records, first, size, high)
    if last - child == size >= LARGE:
        count = _better_likeliest(places, order, backoff, wanted, score, most, trie)
        if count >= 0:
            return count
    count = 0
    while child < last and count < most:
        its_score = backoff + value_at(child, below, records, trie.codebooks)
        if its_score >= score and _is_better(
            word_at(child, below, records), its_score, places, order, wanted, score, trie
        ):
            count += 1
        child += 1
    return count


@kernel
def _better_words(
    places: Integers, low: int, high: int, backoff: float, wanted: int, score: float, most: int, trie: Packed
) -> int:
    """How many better words of a range stand after no longer context, up to `most`."""
    row, count = trie.layout[1], 0
    if high - low > FEW:
        for other in trie.ranked:
            its_score = backoff + value_at(other, row, trie.records, trie.codebooks)
            if its_score < score or count >= most:
                return count
            if low <= other < high and _is_better(other, its_score, places, 0, wanted, score, trie):
                count += 1
        count = 0
    for other in range(low, high):
        its_score = backoff + value_at(other, row, trie.records, trie.codebooks)
        if its_score >= score and _is_better(other, its_score, places, 0, wanted, score, trie):
            count += 1
            if count >= most:
                break
    return count


@kernel
def better(places: Integers, low: int, high: int, wanted: int, score: float, most: int, trie: Packed) -> int:
    """How many words of a range are suggested before a word with this score, counted up to `most`."""
    count, backoff = 0, np.float64(0)
    for order in range(places.size - 1, 0, -1):
        count += _better_children(places, order, low, high, backoff, wanted, score, most - count, trie)
        if count >= most:
            return most
        backoff += backoff_at(places[order], trie.layout[order], trie.records, trie.codebooks)
    return count + _better_words(places, low, high, backoff, wanted, score, most - count, trie)


@kernel
def rank_words(
    states: Ids, wanted: Ids, most: int, data: Bytes, ends: Integers | Ends, trie: Packed
) -> tuple[Ids, Ids]:
    """Of each word after its context: how many are suggested before it (up to `most`), and the letters to be typed.

    The letters are the fewest that leave it among the first `most` words that begin with them, or NEVER. <unk> is
    never suggested. Contexts that stand together are looked up once.
    """
    ranks, letters = np.full(wanted.size, most, np.int32), np.full(wanted.size, NEVER, np.int32)
    places, state = np.zeros(1, np.int64), 0
    for at in range(wanted.size):
        word = signed(wanted[at])
        if word == trie.special[2]:
            continue
        if states[at] != state:
            state = states[at]
            places = contexts_of(state, trie)
        score = _score(places, word, trie)
        low, high, begun, last = 0, ends.size - 1, signed(ends[word]), signed(ends[word + 1])
        end, typed = begun, 0
        rank = better(places, low, high, word, score, most, trie)
        ranks[at] = rank
        while rank >= most and end < last:
            typed, end = typed + 1, end + 1
            while end < last and data[end] & 0xC0 == 0x80:
                end += 1
            if end == last:
                break
            low, high = prefix_range(data, begun, end, data, ends, low, high)
            rank = better(places, low, high, word, score, most, trie)
        if rank < most:
            letters[at] = typed
    return ranks, letters
