"""Scoring with packed n-grams: the loops.

In:  a `Packed` model and word numbers.   Out: log10 probabilities and contexts. Does not suggest: `next_words` does.
A text is scored order by order: which n-grams of order k end at each word depends on those of order k − 1 alone, so
that all words of a block are looked up one after the other, and none waits for the probability of another. A model
holds every prefix and suffix of its n-grams, so where one of order k − 1 is missing, longer ones are too.
A node is a place in an order: `level_starts[order]` + place. Node 0 is the root.
"""

import numpy as np

from bayesgram.arrays import Bytes, Floats, Ids, Integers
from bayesgram.kernels import kernel, signed
from bayesgram.released.packed import (
    WORD_BITS,
    WORDS,
    Packed,
    backoff_at,
    first_child_at,
    mask_of,
    read_bits,
    value_at,
    word_at,
)

SENTENCE_END = -1  # in a stream of word numbers: here </s> is predicted and a new sentence begins
BATCH_SIZE = 512  # words whose n-grams are looked up together
MISSING = -1


@kernel
def normalise_stream(numbers: Ids, offsets: Ids, special: Ids) -> Ids:
    """The stream of tokens that were looked up: an empty one ends a sentence, and what is not known is <unk>.

    So is a <s> or </s> that stands in a text: boundaries are ours to set.
    """
    for at in range(numbers.size):
        if offsets[at] == offsets[at + 1]:
            numbers[at] = SENTENCE_END
        elif numbers[at] < 0 or numbers[at] == special[0] or numbers[at] == special[1]:
            numbers[at] = special[2]
    return numbers


@kernel
def _halved(row: Integers, records: Bytes, first: int, size: int, wanted: int) -> int:
    """Where a word stands among `size` sorted ones if it does; else it would stand there or one further.

    How often it looks depends on `size` alone, and nothing branches on what it sees: nothing is guessed, so that the
    next search begins while this one waits for memory.
    """
    start, bits, mask, word = row[WORDS], row[WORD_BITS], mask_of(row[WORD_BITS]), np.uint64(wanted)
    while size > 1:
        half = size >> 1
        smaller = read_bits(records, start + (first + half - 1) * bits, mask) < word
        first += half & -signed(smaller)
        size -= half
    return first


@kernel
def found_at(row: Integers, records: Bytes, first: int, size: int, wanted: int) -> int:
    """Where a word stands among `size` sorted ones, or MISSING."""
    place = _halved(row, records, first, size, wanted)
    hit = signed(word_at(place, row, records) == wanted) & signed(size > 0)
    return (place + 1) * hit - 1


@kernel
def from_on(row: Integers, records: Bytes, first: int, size: int, wanted: int) -> int:
    """The first of `size` sorted words that is not below this one."""
    place = _halved(row, records, first, size, wanted)
    return place + 1 if size and word_at(place, row, records) < wanted else place


@kernel
def child_of(order: int, place: int, wanted: int, trie: Packed) -> int:
    """The place of the n-gram that a word makes with a context, or MISSING."""
    if order == 0:
        return wanted
    row = trie.layout[order]
    first = first_child_at(place, row, trie.records, trie.bases)
    last = first_child_at(place + 1, row, trie.records, trie.bases)
    return found_at(trie.layout[order + 1], trie.records, first, last - first, wanted)


@kernel
def order_of(node: int, trie: Packed) -> int:
    """How many words a node has."""
    order = 0
    while node >= trie.level_starts[order + 1]:
        order += 1
    return order


@kernel
def _parent(order: int, place: int, trie: Packed) -> int:
    """The context of an n-gram of order 2 or more: the last one whose children do not begin later."""
    row = trie.layout[order - 1]
    low, high = 0, trie.level_starts[order] - trie.level_starts[order - 1] - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if first_child_at(middle, row, trie.records, trie.bases) <= place:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def contexts_of(node: int, trie: Packed) -> Integers:
    """The places of a context and of its suffixes, in row k that of order k; row 0 is the root's."""
    order = order_of(node, trie)
    words, places = np.empty(order, np.int64), np.zeros(order + 1, np.int64)
    place = node - trie.level_starts[order]
    places[order] = place
    for length in range(order, 1, -1):
        words[length - 1] = word_at(place, trie.layout[length], trie.records)
        place = _parent(length, place, trie) if length > 2 else 0
    for length in range(1, order):
        found = words[order - length]
        for at in range(1, length):
            found = child_of(at, found, words[order - length + at], trie)
            if found < 0:
                break
        places[length] = max(found, 0)
    return places


@kernel
def follow(words: Ids, trie: Packed) -> int:
    """The longest context that these words end with: a node."""
    most = trie.layout.shape[0] - 2
    places = np.full(most + 1, MISSING, np.int64)
    for word in words[max(0, words.size - most) :]:
        for order in range(most, 1, -1):
            places[order] = child_of(order - 1, places[order - 1], word, trie) if places[order - 1] >= 0 else MISSING
        places[1] = word
    for order in range(most, 0, -1):
        if places[order] >= 0:
            return signed(trie.level_starts[order] + places[order])
    return 0


@kernel
def _find_children(
    order: int, contexts: Ids, shorter: Ids, wanted: Ids, count: int, trie: Packed, rooms: Ids, found: Ids
) -> None:
    """The n-grams of an order that end at each word, given their contexts and their suffixes; at 0 is what came before.

    First where each is to be looked for, then where it is: so that memory is asked for many at a time.
    """
    asked, firsts, sizes = rooms[0], rooms[1], rooms[2]
    row, asking = trie.layout[order - 1], 0
    for at in range(1, count + 1):
        found[at] = MISSING
        asked[np.uint64(asking)] = at
        asking += (contexts[at - 1] >= 0) & (shorter[at] >= 0)
    for one in range(asking):
        place = signed(contexts[asked[one] - 1])
        firsts[one] = first_child_at(place, row, trie.records, trie.bases)
        sizes[one] = first_child_at(place + 1, row, trie.records, trie.bases) - firsts[one]
    _halve_all(trie.layout[order], trie.records, asking, wanted, rooms)
    for one in range(asking):
        hit = word_at(signed(firsts[one]), trie.layout[order], trie.records) == wanted[np.uint64(asked[one])]
        found[np.uint64(asked[one])] = (firsts[one] + 1) * (signed(hit) & signed(sizes[one] > 0)) - 1


@kernel
def _halve_all(row: Integers, records: Bytes, asking: int, wanted: Ids, rooms: Ids) -> None:
    """Many searches as `_halved` does one, side by side: each looks once, then each of those that are not done again.

    No search waits for what another sees. `rooms` are the words' places in `wanted`, where the searches begin and how
    many n-grams each has, which become where they end and 1; and a row for those that are not done.
    """
    asked, firsts, sizes, active = rooms[0], rooms[1], rooms[2], rooms[3]
    start, bits, mask = row[WORDS], row[WORD_BITS], mask_of(row[WORD_BITS])
    remaining = 0
    for at in range(asking):
        active[np.uint64(remaining)] = at
        remaining += sizes[at] > 1
    while remaining:
        searching, remaining = remaining, 0
        for at in range(searching):
            number = active[at]
            one = np.uint64(number)  # indices without a sign need not be looked at first
            first, size, word = signed(firsts[one]), signed(sizes[one]), np.uint64(wanted[np.uint64(asked[one])])
            half = size >> 1
            smaller = read_bits(records, start + (first + half - 1) * bits, mask) < word
            firsts[one] = first + (half & -signed(smaller))
            sizes[one] = size - half
            active[np.uint64(remaining)] = number
            remaining += size - half > 1


@kernel
def walk(stream: Ids, trie: Packed) -> tuple[Floats, Ids, Ids]:
    """log10 p of everything in a stream of sentences, the order of the n-gram used, and the context before it."""
    scores, orders, states = np.empty(stream.size), np.empty(stream.size, np.int32), np.empty(stream.size, np.int32)
    most = trie.layout.shape[0] - 1
    found = np.full((most + 1, BATCH_SIZE + 1), MISSING, np.int32)  # the n-grams that end here, by order
    contexts = np.full((most, BATCH_SIZE + 1), MISSING, np.int32)  # those that the next word follows
    rooms = np.empty((4, BATCH_SIZE + 1), np.int32)
    contexts[1, 0] = trie.special[0]
    for begin in range(0, stream.size, BATCH_SIZE):
        count = min(BATCH_SIZE, stream.size - begin)
        for at in range(1, count + 1):
            word = stream[begin + at - 1]
            found[1, at] = trie.special[1] if word == SENTENCE_END else word
            contexts[1, at] = trie.special[0] if word == SENTENCE_END else word
        for order in range(2, most + 1):
            _find_children(order, contexts[order - 1], found[order - 1], found[1], count, trie, rooms, found[order])
            if order < most:
                for at in range(1, count + 1):
                    contexts[order, at] = MISSING if stream[begin + at - 1] == SENTENCE_END else found[order, at]
        here = slice(begin, begin + count)
        _add_backoffs(contexts, found, trie, scores[here], states[here])
        _add_values(found, trie, scores[here], orders[here])
        contexts[:, 0] = contexts[:, count]
    return scores, orders, states


@kernel
def _add_backoffs(contexts: Ids, found: Ids, trie: Packed, scores: Floats, states: Ids) -> None:
    """The longest context of each word, and the back-off weights of those that don't have it, the longest first."""
    scores[:], states[:] = 0, MISSING
    for order in range(contexts.shape[0] - 1, 0, -1):
        row, first, before, here = trie.layout[order], trie.level_starts[order], contexts[order], found[order + 1]
        for at in range(scores.size):
            if before[at] < 0:
                continue
            if states[at] < 0:
                states[at] = first + before[at]
            if here[at + 1] < 0:
                scores[at] += backoff_at(signed(before[at]), row, trie.records, trie.codebooks)


@kernel
def _add_values(found: Ids, trie: Packed, scores: Floats, orders: Ids) -> None:
    """The probability of the longest n-gram that ends with each word; one of order 1 always does."""
    orders[:] = 1
    for order in range(2, found.shape[0]):
        here = found[order]
        for at in range(scores.size):
            orders[at] += np.int32(here[at + 1] >= 0)
    for order in range(1, found.shape[0]):
        row, here = trie.layout[order], found[order]
        for at in range(scores.size):
            if orders[at] == order:
                scores[at] += value_at(signed(here[at + 1]), row, trie.records, trie.codebooks)


@kernel
def suffixes(trie: Packed) -> Ids:
    """The node of every n-gram without its first word; its last word, where a forged model lacks that."""
    found = np.zeros(trie.level_starts[-1], np.int32)
    for order in range(2, trie.layout.shape[0]):
        row, below, shorter = trie.layout[order - 1], trie.layout[order], trie.level_starts[order - 1]
        for parent in range(trie.level_starts[order] - shorter):
            context = found[shorter + parent] - trie.level_starts[order - 2]
            for child in range(
                first_child_at(parent, row, trie.records, trie.bases),
                first_child_at(parent + 1, row, trie.records, trie.bases),
            ):
                word = word_at(child, below, trie.records)
                place = child_of(order - 2, context, word, trie) if context >= 0 else MISSING
                found[trie.level_starts[order] + child] = shorter + place if place >= 0 else 1 + word
    return found
