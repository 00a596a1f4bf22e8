"""Scoring with packed n-grams: the loops.

In:  a `Packed` model and word numbers.   Out: log10 probabilities and contexts. Does not suggest: `next_words` does.
A text is scored order by order: which n-grams of order k end at each word depends on those of order k − 1 alone, so
that all words of a block are looked up one after the other, and none waits for the probability of another. A model
holds every prefix and suffix of its n-grams, so where one of order k − 1 is missing, longer ones are too.
A node is a place in an order: `level_starts[order]` + place. Node 0 is the root.

The likeliest next words after a context: the loops.

In:  a `Packed` model, a context and a range of words.   Out: the best of them with their log10 probabilities.
Words are offered from the longest context down; what a longer one has was offered there and is not offered again.

Where a word stands among the suggestions, and how much of it must be typed until it is one: the loops.

In:  a `Packed` model, contexts, and the word that came after each.   Out: its place, and the letters typed before.
The same order as `next_words.best`: the likeliest first, of equal ones the first in byte order. The better words are
counted, not listed, and no further than it matters; so many thousand words take what a list for each of them would
take for some hundred. Does not know about texts: see `audit.text`.
"""

import numpy as np

from bayesgram.arrays import Bytes, Floats, Ids, Integers, Singles
from bayesgram.kernels import kernel, signed
from bayesgram.lm.packed import (
    EXACT,
    PACKED_START,
    RECORD,
    VALUE_BITS,
    VALUE_BOOK,
    WORD_BITS,
    WORDS,
    Ends,
    Packed,
    as_number,
    backoff_at,
    first_child_at,
    mask_of,
    prefix_range,
    read_bits,
    unpack_children,
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
            places[order] = (
                child_of(order - 1, places[order - 1], word, trie)
                if places[order - 1] >= 0
                else MISSING
            )
        places[1] = word
    for order in range(most, 0, -1):
        if places[order] >= 0:
            return signed(trie.level_starts[order] + places[order])
    return 0


@kernel
def _find_children(
    order: int,
    contexts: Ids,
    shorter: Ids,
    wanted: Ids,
    count: int,
    trie: Packed,
    rooms: Ids,
    found: Ids,
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
        hit = (
            word_at(signed(firsts[one]), trie.layout[order], trie.records)
            == wanted[np.uint64(asked[one])]
        )
        found[np.uint64(asked[one])] = (firsts[one] + 1) * (
            signed(hit) & signed(sizes[one] > 0)
        ) - 1


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
            first, size, word = (
                signed(firsts[one]),
                signed(sizes[one]),
                np.uint64(wanted[np.uint64(asked[one])]),
            )
            half = size >> 1
            smaller = read_bits(records, start + (first + half - 1) * bits, mask) < word
            firsts[one] = first + (half & -signed(smaller))
            sizes[one] = size - half
            active[np.uint64(remaining)] = number
            remaining += size - half > 1


@kernel
def walk(stream: Ids, trie: Packed) -> tuple[Floats, Ids, Ids]:
    """log10 p of everything in a stream of sentences, the order of the n-gram used, and the context before it."""
    scores, orders, states = (
        np.empty(stream.size),
        np.empty(stream.size, np.int32),
        np.empty(stream.size, np.int32),
    )
    most = trie.layout.shape[0] - 1
    found = np.full(
        (most + 1, BATCH_SIZE + 1), MISSING, np.int32
    )  # the n-grams that end here, by order
    contexts = np.full(
        (most, BATCH_SIZE + 1), MISSING, np.int32
    )  # those that the next word follows
    rooms = np.empty((4, BATCH_SIZE + 1), np.int32)
    contexts[1, 0] = trie.special[0]
    for begin in range(0, stream.size, BATCH_SIZE):
        count = min(BATCH_SIZE, stream.size - begin)
        for at in range(1, count + 1):
            word = stream[begin + at - 1]
            found[1, at] = trie.special[1] if word == SENTENCE_END else word
            contexts[1, at] = trie.special[0] if word == SENTENCE_END else word
        for order in range(2, most + 1):
            _find_children(
                order,
                contexts[order - 1],
                found[order - 1],
                found[1],
                count,
                trie,
                rooms,
                found[order],
            )
            if order < most:
                for at in range(1, count + 1):
                    contexts[order, at] = (
                        MISSING if stream[begin + at - 1] == SENTENCE_END else found[order, at]
                    )
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
        row, first, before, here = (
            trie.layout[order],
            trie.level_starts[order],
            contexts[order],
            found[order + 1],
        )
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
        row, below, shorter = (
            trie.layout[order - 1],
            trie.layout[order],
            trie.level_starts[order - 1],
        )
        for parent in range(trie.level_starts[order] - shorter):
            context = found[shorter + parent] - trie.level_starts[order - 2]
            for child in range(
                first_child_at(parent, row, trie.records, trie.bases),
                first_child_at(parent + 1, row, trie.records, trie.bases),
            ):
                word = word_at(child, below, trie.records)
                place = child_of(order - 2, context, word, trie) if context >= 0 else MISSING
                found[trie.level_starts[order] + child] = (
                    shorter + place if place >= 0 else 1 + word
                )
    return found


LARGE = 512  # children of a context from which the likeliest are kept
FEW = 1024  # words that are looked through one by one


def large_contexts(trie: Packed) -> Integers:
    """Contexts with many children, a row each: order, place, and where the children begin and end in the next order."""
    found = [np.zeros((0, 4), np.int64)]
    for order, size in enumerate(np.diff(trie.level_starts)[1:-1].tolist(), start=1):
        starts = unpack_children(trie.layout[order], size, trie.records, trie.bases)
        places = np.flatnonzero(np.diff(starts) >= LARGE)
        found.append(
            np.stack(
                [np.full_like(places, order), places, starts[places], starts[places + 1]], axis=1
            )
        )
    return np.concatenate(found)


@kernel
def is_seen(places: Integers, order: int, wanted: int, trie: Packed) -> bool:
    """Whether a longer context than that of this order has the word."""
    for longer in range(places.size - 1, order, -1):
        if child_of(longer, places[longer], wanted, trie) >= 0:
            return True
    return False


@kernel
def _offer(
    wanted: int,
    score: float,
    places: Integers,
    order: int,
    trie: Packed,
    words: Ids,
    scores: Floats,
) -> None:
    """Keep a word that is as good as the last one: in order, and of equal ones the first in byte order.

    What a longer context has was offered there.
    """
    at = scores.size - 1
    if score == scores[at] and wanted > words[at] >= 0:
        return
    if wanted in (trie.special[0], trie.special[1], trie.special[2]) or is_seen(
        places, order, wanted, trie
    ):
        return
    while at > 0 and (
        score > scores[at - 1] or (score == scores[at - 1] and wanted < words[at - 1])
    ):
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
    child: int,
    last: int,
    row: Integers,
    records: Bytes,
    codebooks: Singles,
    backoff: float,
    least: float,
) -> int:
    """The first of some n-grams whose score is not below `least`: most are not looked at further."""
    start, record, mask, book = (
        row[PACKED_START],
        row[RECORD],
        mask_of(row[VALUE_BITS]),
        row[VALUE_BOOK],
    )
    exact = row[VALUE_BITS] == EXACT
    while child < last:
        code = read_bits(records, start + child * record, mask)
        if backoff + (as_number(code) if exact else codebooks[book + signed(code)]) >= least:
            break
        child += 1
    return child


@kernel
def _offer_likeliest(
    places: Integers, order: int, backoff: float, trie: Packed, words: Ids, scores: Floats
) -> bool:
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
    places: Integers,
    order: int,
    low: int,
    high: int,
    backoff: float,
    trie: Packed,
    words: Ids,
    scores: Floats,
) -> None:
    """Offer the words of a range that stand after the context of an order."""
    row, below, records = trie.layout[order], trie.layout[order + 1], trie.records
    first = first_child_at(places[order], row, records, trie.bases)
    size = first_child_at(places[order] + 1, row, records, trie.bases) - first
    child, last = (
        from_on(below, records, first, size, low),
        from_on(below, records, first, size, high),
    )
    if last - child == size >= LARGE and _offer_likeliest(
        places, order, backoff, trie, words, scores
    ):
        return
    while True:
        child = _next_as_good(
            child, last, below, records, trie.codebooks, backoff, scores[scores.size - 1]
        )
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


NEVER = -1  # letters: it isn't suggested before all of it is typed


@kernel
def _score(places: Integers, wanted: int, trie: Packed) -> float:
    """log10 p of a word after a context, added up as `best` does: equal scores must be equal here too."""
    backoff = np.float64(0)
    for order in range(places.size - 1, 0, -1):
        found = child_of(order, places[order], wanted, trie)
        if found >= 0:
            return backoff + value_at(
                signed(found), trie.layout[order + 1], trie.records, trie.codebooks
            )
        backoff += backoff_at(places[order], trie.layout[order], trie.records, trie.codebooks)
    return backoff + value_at(wanted, trie.layout[1], trie.records, trie.codebooks)


@kernel
def _is_better(
    other: int,
    its_score: float,
    places: Integers,
    order: int,
    wanted: int,
    score: float,
    trie: Packed,
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
        if _is_better(
            word_at(signed(child), row, trie.records), its_score, places, order, wanted, score, trie
        ):
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
    child, last = (
        from_on(below, records, first, size, low),
        from_on(below, records, first, size, high),
    )
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
    places: Integers,
    low: int,
    high: int,
    backoff: float,
    wanted: int,
    score: float,
    most: int,
    trie: Packed,
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
def better(
    places: Integers, low: int, high: int, wanted: int, score: float, most: int, trie: Packed
) -> int:
    """How many words of a range are suggested before a word with this score, counted up to `most`."""
    count, backoff = 0, np.float64(0)
    for order in range(places.size - 1, 0, -1):
        count += _better_children(
            places, order, low, high, backoff, wanted, score, most - count, trie
        )
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
