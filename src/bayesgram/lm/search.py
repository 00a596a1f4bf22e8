"""The inner loops that search a packed trie: scoring, next words, and the ranks of words.

Scoring (`score_stream`). A text is scored order by order: which n-grams of order k end at each word
depends on those of order k − 1 alone, so that all words of a batch are looked up one after the
other, and none waits for the probability of another. A model holds every prefix and suffix of its
n-grams, so where one of order k − 1 is missing, longer ones are too.

Next words (`predict_words`). Words are offered from the longest context down; what a longer context
has was offered there and is not offered again.

Ranks (`rank_words`). Where a word stands among the suggestions, and how much of it must be typed
until it is one. The better words are counted, not listed, and no further than it matters: many
thousand ranks cost what lists for some hundred words would.

A node is a place in an order: `level_starts[order]` + place. Node 0 is the root.
"""

import numpy as np

from bayesgram.arrays import Bytes, Floats, Ids, Integers, Singles
from bayesgram.kernels import kernel, signed
from bayesgram.lm.packed import (
    END_WORD,
    FLOAT_BITS,
    PROBABILITY_BITS,
    PROBABILITY_CODEBOOK,
    RECORD_BITS,
    RECORDS_START,
    START_WORD,
    UNKNOWN_WORD,
    WORD_BITS,
    WORDS_START,
    Ends,
    PackedTrie,
    bit_mask,
    first_child_at,
    float_from_bits,
    log_backoff_at,
    log_probability_at,
    prefix_range,
    read_bits,
    unpack_children,
    word_at,
)

SENTENCE_END = -1  # in a stream of word ids: here </s> is predicted and a new sentence begins
MISSING = -1  # the place of an n-gram that the model lacks
NEVER_SUGGESTED = -1  # letters of a word that isn't suggested before all of it is typed
SCORE_BATCH = 512  # words whose n-grams are looked up together; not measured
LARGE_CONTEXT = 512  # children from which on the likeliest of a context are kept; not measured
SCAN_LIMIT = 1024  # single words up to which all are looked through one by one; not measured


# --- Finding n-grams ---


@kernel
def _lower_bound_step(row: Integers, records: Bytes, first: int, size: int, word: int) -> int:
    """Return where a word stands in a sorted run, or would stand, there or one place further.

    How often it looks depends on `size` alone, and nothing branches on what it sees: the processor
    guesses nothing, so that the next search begins while this one waits for memory.
    """
    start = row[WORDS_START]
    bits = row[WORD_BITS]
    mask = bit_mask(row[WORD_BITS])
    target = np.uint64(word)
    while size > 1:
        half = size >> 1
        is_smaller = read_bits(records, start + (first + half - 1) * bits, mask) < target
        first += half & -signed(is_smaller)
        size -= half
    return first


@kernel
def find(row: Integers, records: Bytes, first: int, size: int, word: int) -> int:
    """Return where a word stands among the `size` sorted ones from `first` on, or MISSING."""
    place = _lower_bound_step(row, records, first, size, word)
    hit = signed(word_at(place, row, records) == word) & signed(size > 0)
    return (place + 1) * hit - 1


@kernel
def lower_bound(row: Integers, records: Bytes, first: int, size: int, word: int) -> int:
    """Return where the first of `size` sorted words stands that is not below this one."""
    place = _lower_bound_step(row, records, first, size, word)
    return place + 1 if size and word_at(place, row, records) < word else place


@kernel
def find_child(order: int, place: int, word: int, trie: PackedTrie) -> int:
    """Return the place of the n-gram that a word makes with a context, or MISSING."""
    if order == 0:
        return word
    row = trie.layout[order]
    first = first_child_at(place, row, trie.records, trie.bases)
    last = first_child_at(place + 1, row, trie.records, trie.bases)
    return find(trie.layout[order + 1], trie.records, first, last - first, word)


@kernel
def node_order(node: int, trie: PackedTrie) -> int:
    """Return how many words a node has."""
    order = 0
    while node >= trie.level_starts[order + 1]:
        order += 1
    return order


@kernel
def _find_parent(order: int, place: int, trie: PackedTrie) -> int:
    """Return the context of an n-gram of order 2 or more.

    That is the last one whose children do not begin later.
    """
    row = trie.layout[order - 1]
    low = 0
    high = trie.level_starts[order] - trie.level_starts[order - 1] - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if first_child_at(middle, row, trie.records, trie.bases) <= place:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def find_contexts(node: int, trie: PackedTrie) -> Integers:
    """Return the places of a context and of its suffixes: element k is that of order k."""
    order = node_order(node, trie)
    words = np.empty(order, np.int64)
    places = np.zeros(order + 1, np.int64)
    place = node - trie.level_starts[order]
    places[order] = place
    for length in range(order, 1, -1):
        words[length - 1] = word_at(place, trie.layout[length], trie.records)
        place = _find_parent(length, place, trie) if length > 2 else 0
    for length in range(1, order):
        suffix = words[order - length]
        for at in range(1, length):
            suffix = find_child(at, suffix, words[order - length + at], trie)
            if suffix < 0:
                break
        places[length] = max(suffix, 0)
    return places


@kernel
def find_state(words: Ids, trie: PackedTrie) -> int:
    """Return the node of the longest context that these words end with."""
    longest = trie.layout.shape[0] - 2
    places = np.full(longest + 1, MISSING, np.int64)
    for word in words[max(0, words.size - longest) :]:
        for order in range(longest, 1, -1):
            places[order] = (
                find_child(order - 1, places[order - 1], word, trie)
                if places[order - 1] >= 0
                else MISSING
            )
        places[1] = word
    for order in range(longest, 0, -1):
        if places[order] >= 0:
            return signed(trie.level_starts[order] + places[order])
    return 0


@kernel
def find_suffixes(trie: PackedTrie) -> Ids:
    """Return the node of every n-gram without its first word.

    Where a forged model lacks that n-gram, it is the node of the last word.
    """
    suffixes = np.zeros(trie.level_starts[-1], np.int32)
    records = trie.records
    bases = trie.bases
    for order in range(2, trie.layout.shape[0]):
        shorter_row = trie.layout[order - 2]
        context_row = trie.layout[order - 1]
        row = trie.layout[order]
        shorter_start = trie.level_starts[order - 2]
        context_start = trie.level_starts[order - 1]
        start = trie.level_starts[order]
        for parent in range(start - context_start):
            # The children of the shorter context, which all children of this one are searched in.
            first = size = 0
            shorter = suffixes[context_start + parent] - shorter_start
            if order > 2 and shorter >= 0:
                first = first_child_at(shorter, shorter_row, records, bases)
                size = first_child_at(shorter + 1, shorter_row, records, bases) - first
            for child in range(
                first_child_at(parent, context_row, records, bases),
                first_child_at(parent + 1, context_row, records, bases),
            ):
                word = word_at(child, row, records)
                place = word if order == 2 else find(context_row, records, first, size, word)
                suffixes[start + child] = context_start + place if place >= 0 else 1 + word
    return suffixes


# --- Scoring ---


@kernel
def normalise_stream(ids: Ids, offsets: Ids, special: Ids) -> Ids:
    """Turn the ids of tokens that were looked up into a stream, in place.

    An empty token ends a sentence, and an unknown one is <unk>. So is a <s> or </s> that stands in
    a text: boundaries are ours to set.

    Args:
        ids: The ids of the tokens, −1 where the model lacks one; they are changed.
        offsets: Where each token begins, and where the last one ends.
        special: The ids of <s>, </s> and <unk>.
    """
    for at in range(ids.size):
        if offsets[at] == offsets[at + 1]:
            ids[at] = SENTENCE_END
        elif ids[at] < 0 or ids[at] == special[START_WORD] or ids[at] == special[END_WORD]:
            ids[at] = special[UNKNOWN_WORD]
    return ids


@kernel
def score_stream(stream: Ids, trie: PackedTrie) -> tuple[Floats, Ids, Ids]:
    """Score a stream of sentences.

    Returns:
        For everything in the stream: log10 p, the order of the n-gram that was used, and the state
        before it.
    """
    scores = np.empty(stream.size)
    orders = np.empty(stream.size, np.int32)
    states = np.empty(stream.size, np.int32)
    longest = trie.layout.shape[0] - 1
    # Element 0 of both is the word before the batch.
    ending = np.full((longest + 1, SCORE_BATCH + 1), MISSING, np.int32)  # n-grams that end here
    contexts = np.full((longest, SCORE_BATCH + 1), MISSING, np.int32)  # of the word after this one
    searches = np.empty((4, SCORE_BATCH + 1), np.int32)
    contexts[1, 0] = trie.special[START_WORD]
    for begin in range(0, stream.size, SCORE_BATCH):
        count = min(SCORE_BATCH, stream.size - begin)
        for at in range(1, count + 1):
            word = stream[begin + at - 1]
            ending[1, at] = trie.special[END_WORD] if word == SENTENCE_END else word
            contexts[1, at] = trie.special[START_WORD] if word == SENTENCE_END else word
        for order in range(2, longest + 1):
            _find_ending_ngrams(
                order,
                contexts[order - 1],
                ending[order - 1],
                ending[1],
                count,
                trie,
                searches,
                ending[order],
            )
            if order < longest:
                for at in range(1, count + 1):
                    contexts[order, at] = (
                        MISSING if stream[begin + at - 1] == SENTENCE_END else ending[order, at]
                    )
        batch = slice(begin, begin + count)
        _add_backoffs(contexts, ending, trie, scores[batch], states[batch])
        _add_probabilities(ending, trie, scores[batch], orders[batch])
        contexts[:, 0] = contexts[:, count]
    return scores, orders, states


@kernel
def _find_ending_ngrams(
    order: int,
    contexts: Ids,
    suffixes: Ids,
    words: Ids,
    count: int,
    trie: PackedTrie,
    searches: Ids,
    ending: Ids,
) -> None:
    """Find the n-grams of an order that end at each word, given their contexts and suffixes.

    First where each is to be looked for, then where it is: so that memory is asked for many at a
    time. Element 0 of the arrays is the word before the batch. `searches` is working memory.
    """
    positions = searches[0]
    firsts = searches[1]
    sizes = searches[2]
    row = trie.layout[order - 1]
    search_count = 0
    for at in range(1, count + 1):
        ending[at] = MISSING
        positions[np.uint64(search_count)] = at
        search_count += (contexts[at - 1] >= 0) & (suffixes[at] >= 0)
    for number in range(search_count):
        place = signed(contexts[positions[number] - 1])
        firsts[number] = first_child_at(place, row, trie.records, trie.bases)
        sizes[number] = first_child_at(place + 1, row, trie.records, trie.bases) - firsts[number]
    _search_side_by_side(trie.layout[order], trie.records, search_count, words, searches)
    for number in range(search_count):
        position = np.uint64(positions[number])
        word = word_at(signed(firsts[number]), trie.layout[order], trie.records)
        hit = signed(word == words[position]) & signed(sizes[number] > 0)
        ending[position] = (firsts[number] + 1) * hit - 1


@kernel
def _search_side_by_side(
    row: Integers, records: Bytes, search_count: int, words: Ids, searches: Ids
) -> None:
    """Run many searches as `_lower_bound_step` runs one.

    Each search looks once, then each of those that are not done looks again, so that none waits for
    what another sees. The rows of `searches` are: the positions in `words` of the words that are
    searched for; where the runs begin, which becomes where the searches end; the sizes of the runs,
    which become 1; and the searches that are not done.
    """
    positions = searches[0]
    firsts = searches[1]
    sizes = searches[2]
    active = searches[3]
    start = row[WORDS_START]
    bits = row[WORD_BITS]
    mask = bit_mask(row[WORD_BITS])
    remaining = 0
    for at in range(search_count):
        active[np.uint64(remaining)] = at
        remaining += sizes[at] > 1
    while remaining:
        active_count = remaining
        remaining = 0
        for at in range(active_count):
            number = active[at]
            index = np.uint64(number)  # unsigned: Numba need not check for negative indices
            first = signed(firsts[index])
            size = signed(sizes[index])
            word = np.uint64(words[np.uint64(positions[index])])
            half = size >> 1
            is_smaller = read_bits(records, start + (first + half - 1) * bits, mask) < word
            firsts[index] = first + (half & -signed(is_smaller))
            sizes[index] = size - half
            active[np.uint64(remaining)] = number
            remaining += size - half > 1


@kernel
def _add_backoffs(
    contexts: Ids, ending: Ids, trie: PackedTrie, scores: Floats, states: Ids
) -> None:
    """Set the state before each word, and add the backoff weights of contexts that lack the word.

    The longest context comes first.
    """
    scores[:] = 0
    states[:] = MISSING
    for order in range(contexts.shape[0] - 1, 0, -1):
        row = trie.layout[order]
        first = trie.level_starts[order]
        order_contexts = contexts[order]
        longer = ending[order + 1]
        for at in range(scores.size):
            if order_contexts[at] < 0:
                continue
            if states[at] < 0:
                states[at] = first + order_contexts[at]
            if longer[at + 1] < 0:
                place = signed(order_contexts[at])
                scores[at] += log_backoff_at(place, row, trie.records, trie.codebooks)


@kernel
def _add_probabilities(ending: Ids, trie: PackedTrie, scores: Floats, orders: Ids) -> None:
    """Add log10 p of the longest n-gram that ends with each word; one of order 1 always does."""
    orders[:] = 1
    for order in range(2, ending.shape[0]):
        places = ending[order]
        for at in range(scores.size):
            orders[at] += np.int32(places[at + 1] >= 0)
    for order in range(1, ending.shape[0]):
        row = trie.layout[order]
        places = ending[order]
        for at in range(scores.size):
            if orders[at] == order:
                place = signed(places[at + 1])
                scores[at] += log_probability_at(place, row, trie.records, trie.codebooks)


# --- Next words ---


def find_large_contexts(trie: PackedTrie) -> Integers:
    """Return the contexts with many children.

    Returns:
        A row each: order, place, and where the children begin and end in the next order.
    """
    parts = [np.zeros((0, 4), np.int64)]
    for order, size in enumerate(np.diff(trie.level_starts)[1:-1].tolist(), start=1):
        starts = unpack_children(trie.layout[order], size, trie.records, trie.bases)
        places = np.flatnonzero(np.diff(starts) >= LARGE_CONTEXT)
        columns = [np.full_like(places, order), places, starts[places], starts[places + 1]]
        parts.append(np.stack(columns, axis=1))
    return np.concatenate(parts)


@kernel
def predict_words(state: int, k: int, low: int, high: int, trie: PackedTrie) -> tuple[Ids, Floats]:
    """Return the k likeliest words with ids in [low, high) after a context, and their log10 p.

    The likeliest come first, of equal ones the first in byte order; −1 where there are no more.

    Args:
        state: The node of the context.
        k: How many words.
        low: The first word id to choose from.
        high: The end of the word ids to choose from.
        trie: The model.
    """
    words = np.full(k, -1, np.int32)
    scores = np.full(k, -np.inf)
    contexts = find_contexts(state, trie)
    backoff = np.float64(0)
    for order in range(contexts.size - 1, 0, -1):
        _offer_children(contexts, order, low, high, backoff, trie, words, scores)
        backoff += log_backoff_at(contexts[order], trie.layout[order], trie.records, trie.codebooks)
    _offer_single_words(contexts, low, high, backoff, trie, words, scores)
    return words, scores


@kernel
def _is_special(word: int, trie: PackedTrie) -> bool:
    return word in (
        trie.special[START_WORD],
        trie.special[END_WORD],
        trie.special[UNKNOWN_WORD],
    )


@kernel
def _is_in_longer_context(contexts: Integers, order: int, word: int, trie: PackedTrie) -> bool:
    """Whether a longer context than that of this order has the word."""
    for longer in range(contexts.size - 1, order, -1):
        if find_child(longer, contexts[longer], word, trie) >= 0:
            return True
    return False


@kernel
def _offer(
    word: int,
    score: float,
    contexts: Integers,
    order: int,
    trie: PackedTrie,
    words: Ids,
    scores: Floats,
) -> None:
    """Insert a word that is as good as the last one, unless a longer context has it."""
    at = scores.size - 1
    if score == scores[at] and word > words[at] >= 0:
        return
    if _is_special(word, trie) or _is_in_longer_context(contexts, order, word, trie):
        return
    while at > 0 and (score > scores[at - 1] or (score == scores[at - 1] and word < words[at - 1])):
        scores[at] = scores[at - 1]
        words[at] = words[at - 1]
        at -= 1
    scores[at] = score
    words[at] = word


@kernel
def _offer_children(
    contexts: Integers,
    order: int,
    low: int,
    high: int,
    backoff: float,
    trie: PackedTrie,
    words: Ids,
    scores: Floats,
) -> None:
    """Offer the words of a range that stand after the context of an order."""
    row = trie.layout[order]
    child_row = trie.layout[order + 1]
    records = trie.records
    first = first_child_at(contexts[order], row, records, trie.bases)
    size = first_child_at(contexts[order] + 1, row, records, trie.bases) - first
    child = lower_bound(child_row, records, first, size, low)
    last = lower_bound(child_row, records, first, size, high)
    if last - child == size >= LARGE_CONTEXT and _offer_likeliest_children(
        contexts, order, backoff, trie, words, scores
    ):
        return
    while True:
        worst = scores[scores.size - 1]
        child = _skip_worse(child, last, child_row, records, trie.codebooks, backoff, worst)
        if child >= last:
            return
        word = word_at(child, child_row, records)
        if not (words == word).any():
            score = backoff + log_probability_at(child, child_row, records, trie.codebooks)
            _offer(word, score, contexts, order, trie, words, scores)
        child += 1


@kernel
def _offer_likeliest_children(
    contexts: Integers, order: int, backoff: float, trie: PackedTrie, words: Ids, scores: Floats
) -> bool:
    """Offer the likeliest children of a large context until none can be among the best.

    Returns:
        False if those that are kept do not suffice.
    """
    node = trie.level_starts[order] + contexts[order]
    at = np.searchsorted(trie.large_contexts, node)
    if at == trie.large_contexts.size or trie.large_contexts[at] != node:
        return False
    row = trie.layout[order + 1]
    for child in trie.likeliest_children[at]:
        score = backoff + log_probability_at(signed(child), row, trie.records, trie.codebooks)
        if score < scores[scores.size - 1]:
            return True
        word = word_at(signed(child), row, trie.records)
        _offer(word, score, contexts, order, trie, words, scores)
    return False


@kernel
def _skip_worse(
    child: int,
    last: int,
    row: Integers,
    records: Bytes,
    codebooks: Singles,
    backoff: float,
    min_score: float,
) -> int:
    """Return the first n-gram from `child` on whose score is not below `min_score`."""
    start = row[RECORDS_START]
    record_bits = row[RECORD_BITS]
    mask = bit_mask(row[PROBABILITY_BITS])
    codebook = row[PROBABILITY_CODEBOOK]
    is_exact = row[PROBABILITY_BITS] == FLOAT_BITS
    while child < last:
        code = read_bits(records, start + child * record_bits, mask)
        log_probability = float_from_bits(code) if is_exact else codebooks[codebook + signed(code)]
        if backoff + log_probability >= min_score:
            break
        child += 1
    return child


@kernel
def _offer_single_words(
    contexts: Integers,
    low: int,
    high: int,
    backoff: float,
    trie: PackedTrie,
    words: Ids,
    scores: Floats,
) -> None:
    """Offer single words: the likeliest until none can be among the best; if need be, all."""
    row = trie.layout[1]
    if high - low > SCAN_LIMIT:
        for word in trie.likeliest_words:
            score = backoff + log_probability_at(word, row, trie.records, trie.codebooks)
            if score < scores[scores.size - 1]:
                return
            if low <= word < high:
                _offer(word, score, contexts, 0, trie, words, scores)
    for word in range(low, high):
        score = backoff + log_probability_at(word, row, trie.records, trie.codebooks)
        if score >= scores[scores.size - 1] and not (words == word).any():
            _offer(word, score, contexts, 0, trie, words, scores)


# --- Ranks ---


@kernel
def rank_words(
    states: Ids,
    words: Ids,
    max_rank: int,
    data: Bytes,
    ends: Integers | Ends,
    trie: PackedTrie,
) -> tuple[Ids, Ids]:
    """Rank words among the suggestions after their contexts.

    States that stand together are looked up once.

    Args:
        states: The state before each word.
        words: The ids of the words. <unk> is never suggested.
        max_rank: How far better words are counted: as many as are suggested at a time.
        data: The bytes of all words of the model.
        ends: The ends of these words.
        trie: The model.

    Returns:
        For each word: how many words are suggested before it, up to `max_rank`; and the fewest
        letters that leave it among the first `max_rank` words that begin with them, or
        NEVER_SUGGESTED.
    """
    ranks = np.full(words.size, max_rank, np.int32)
    letters = np.full(words.size, NEVER_SUGGESTED, np.int32)
    contexts = np.zeros(1, np.int64)
    state = 0
    for at in range(words.size):
        word = signed(words[at])
        if word == trie.special[UNKNOWN_WORD]:
            continue
        if states[at] != state:
            state = states[at]
            contexts = find_contexts(state, trie)
        score = _score_word(contexts, word, trie)
        low = 0
        high = ends.size - 1
        word_start = signed(ends[word])
        word_end = signed(ends[word + 1])
        typed_end = word_start
        typed = 0
        rank = _count_better(contexts, low, high, word, score, max_rank, trie)
        ranks[at] = rank
        while rank >= max_rank and typed_end < word_end:
            typed += 1
            typed_end += 1
            while typed_end < word_end and data[typed_end] & 0xC0 == 0x80:  # within a character
                typed_end += 1
            if typed_end == word_end:
                break
            low, high = prefix_range(data, word_start, typed_end, data, ends, low, high)
            rank = _count_better(contexts, low, high, word, score, max_rank, trie)
        if rank < max_rank:
            letters[at] = typed
    return ranks, letters


@kernel
def _score_word(contexts: Integers, word: int, trie: PackedTrie) -> float:
    """Return log10 p of a word after a context.

    Added up as `predict_words` does: scores that are equal there must be equal here too.
    """
    backoff = np.float64(0)
    for order in range(contexts.size - 1, 0, -1):
        child = find_child(order, contexts[order], word, trie)
        if child >= 0:
            return backoff + log_probability_at(
                signed(child), trie.layout[order + 1], trie.records, trie.codebooks
            )
        backoff += log_backoff_at(contexts[order], trie.layout[order], trie.records, trie.codebooks)
    return backoff + log_probability_at(word, trie.layout[1], trie.records, trie.codebooks)


@kernel
def _count_better(
    contexts: Integers,
    low: int,
    high: int,
    word: int,
    score: float,
    limit: int,
    trie: PackedTrie,
) -> int:
    """Count the words of a range that are suggested before a word, up to a limit."""
    count = 0
    backoff = np.float64(0)
    for order in range(contexts.size - 1, 0, -1):
        count += _count_better_children(
            contexts, order, low, high, backoff, word, score, limit - count, trie
        )
        if count >= limit:
            return limit
        backoff += log_backoff_at(contexts[order], trie.layout[order], trie.records, trie.codebooks)
    return count + _count_better_single_words(
        contexts, low, high, backoff, word, score, limit - count, trie
    )


@kernel
def _is_better(
    other: int,
    other_score: float,
    contexts: Integers,
    order: int,
    word: int,
    score: float,
    trie: PackedTrie,
) -> bool:
    """Whether another word, which a context of this order has, is suggested before the word."""
    if other_score < score or (other_score == score and other >= word):
        return False
    if _is_special(other, trie):
        return False
    return not _is_in_longer_context(contexts, order, other, trie)


@kernel
def _count_better_children(
    contexts: Integers,
    order: int,
    low: int,
    high: int,
    backoff: float,
    word: int,
    score: float,
    limit: int,
    trie: PackedTrie,
) -> int:
    """Count the better words of a range after the context of an order, up to a limit."""
    row = trie.layout[order]
    child_row = trie.layout[order + 1]
    records = trie.records
    first = first_child_at(contexts[order], row, records, trie.bases)
    size = first_child_at(contexts[order] + 1, row, records, trie.bases) - first
    child = lower_bound(child_row, records, first, size, low)
    last = lower_bound(child_row, records, first, size, high)
    if last - child == size >= LARGE_CONTEXT:
        count = _count_better_likeliest(contexts, order, backoff, word, score, limit, trie)
        if count >= 0:
            return count
    count = 0
    while child < last and count < limit:
        other_score = backoff + log_probability_at(child, child_row, records, trie.codebooks)
        if other_score >= score and _is_better(
            word_at(child, child_row, records), other_score, contexts, order, word, score, trie
        ):
            count += 1
        child += 1
    return count


@kernel
def _count_better_likeliest(
    contexts: Integers,
    order: int,
    backoff: float,
    word: int,
    score: float,
    limit: int,
    trie: PackedTrie,
) -> int:
    """Count the better children of a large context among its likeliest.

    Returns:
        −1 if those that are kept do not suffice.
    """
    node = trie.level_starts[order] + contexts[order]
    at = np.searchsorted(trie.large_contexts, node)
    if at == trie.large_contexts.size or trie.large_contexts[at] != node:
        return -1
    row = trie.layout[order + 1]
    count = 0
    for child in trie.likeliest_children[at]:
        other_score = backoff + log_probability_at(signed(child), row, trie.records, trie.codebooks)
        if other_score < score or count >= limit:
            return count
        other = word_at(signed(child), row, trie.records)
        if _is_better(other, other_score, contexts, order, word, score, trie):
            count += 1
    return -1


@kernel
def _count_better_single_words(
    contexts: Integers,
    low: int,
    high: int,
    backoff: float,
    word: int,
    score: float,
    limit: int,
    trie: PackedTrie,
) -> int:
    """Count the better words of a range that no longer context has, up to a limit."""
    row = trie.layout[1]
    count = 0
    if high - low > SCAN_LIMIT:
        for other in trie.likeliest_words:
            other_score = backoff + log_probability_at(other, row, trie.records, trie.codebooks)
            if other_score < score or count >= limit:
                return count
            if low <= other < high and _is_better(
                other, other_score, contexts, 0, word, score, trie
            ):
                count += 1
        count = 0
    for other in range(low, high):
        other_score = backoff + log_probability_at(other, row, trie.records, trie.codebooks)
        if other_score >= score and _is_better(other, other_score, contexts, 0, word, score, trie):
            count += 1
            if count >= limit:
                break
    return count
