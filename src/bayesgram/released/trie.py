"""A back-off model as sorted arrays: the words, and a trie of n-grams that is searched, scored and asked for the best.

Node 0 is the root, nodes 1 to V are the words in byte order, then come the n-grams of order 2, 3, ... The children of a
node (its context and one word more) stand together, sorted by word; `suffix` leads from an n-gram to the same one
without its first word, which is where back-off goes. Every array can be memory-mapped: nothing is built on load.
Does not know where the probabilities come from: see `estimate`.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.arrays import Bytes, Floats, Ids, Integers, Singles
from bayesgram.errors import BayesgramError
from bayesgram.kernels import kernel
from bayesgram.text.ngrams import END, START

UNKNOWN = "<unk>"
SENTENCE_END = -1  # in a stream of word numbers: here </s> is predicted and a new sentence begins
TOLERANCE = 1e-4  # of a context's sum: seven digits, as other tools write them, stay well below
NEVER = -99.0  # log10 of what is given, never predicted: <s>
MOST_NODES = 2**31 - 2
_FEW = 1024  # words that are looked through one by one


@dataclass(frozen=True, eq=False)
class Words:
    """Distinct byte strings in byte order, end to end; number = row."""

    data: Bytes
    ends: Integers  # of row i, at i + 1; the first is 0

    def __len__(self) -> int:
        return self.ends.size - 1

    def __getitem__(self, number: int) -> str:
        return self.data[self.ends[number] : self.ends[number + 1]].tobytes().decode()

    def all(self) -> list[bytes]:
        """Every word."""
        whole, ends = self.data.tobytes(), self.ends.tolist()
        return [whole[start:end] for start, end in pairwise(ends)]

    def are_in_order(self) -> bool:
        """Whether these are distinct texts in byte order, so that each of them is found."""
        buffers = [None, pa.py_buffer(self.ends), pa.py_buffer(self.data)]
        texts = pa.Array.from_buffers(pa.large_string(), len(self), buffers)
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            return False
        return bool(pc.all(pc.less(texts[:-1].cast(pa.large_binary()), texts[1:].cast(pa.large_binary()))).as_py())

    def find(self, data: Bytes, ends: Integers) -> Ids:
        """The numbers of these strings; −1 where they are not known."""
        numbers: Ids = _find_words(data, ends, self.data, self.ends)
        return numbers

    def starting_with(self, prefix: str) -> tuple[int, int]:
        """The words that begin so: a range of numbers."""
        given = np.frombuffer(prefix.encode(), np.uint8)
        return prefix_range(given, 0, given.size, self.data, self.ends, 0, len(self))


class Searched(NamedTuple):
    """The arrays of a trie, as kernels take them."""

    word: Ids
    first_child: Ids
    suffix: Ids
    log_probability: Singles
    log_backoff: Singles
    ranked: Ids
    special: Ids
    contexts: int


@dataclass(frozen=True, eq=False)
class Trie:
    """All n-grams of a model, order by order; see the module."""

    words: Words
    level_starts: Integers  # nodes of order k: level_starts[k] to level_starts[k + 1]; order 0 is the root
    word: Ids  # the last word of each n-gram
    first_child: Ids  # of each node that may be a context, and where the last one's children end
    suffix: Ids
    log_probability: Singles  # log10 p(last word | the words before)
    log_backoff: Singles  # log10 of the factor on the lower order, of each node that may be a context
    ranked: Ids  # the words, most likely first

    @cached_property
    def searched(self) -> "Searched":
        """The arrays that kernels search."""
        return Searched(
            self.word,
            self.first_child,
            self.suffix,
            self.log_probability,
            self.log_backoff,
            self.ranked,
            np.array(self.special, np.int32),
            self.contexts,
        )

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return self.level_starts.size - 2

    @property
    def contexts(self) -> int:
        """How many nodes are shorter than the longest n-grams."""
        return int(self.level_starts[-2])

    def nodes(self, order: int) -> slice:
        """The nodes of one order."""
        return slice(int(self.level_starts[order]), int(self.level_starts[order + 1]))

    @cached_property
    def special(self) -> tuple[int, int, int]:
        """The numbers of <s>, </s> and <unk>."""
        return find_special(self.words)

    @cached_property
    def parents(self) -> Ids:
        """The context of every n-gram; the root is its own."""
        sizes = np.diff(self.first_child)
        return np.concatenate([np.zeros(1, np.int32), np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)])

    def rows(self, order: int) -> Ids:
        """The n-grams of one order as word numbers."""
        nodes = np.arange(self.level_starts[order], self.level_starts[order + 1])
        columns = []
        for _ in range(order):
            columns.append(self.word[nodes])
            nodes = self.parents[nodes]
        return np.stack(columns[::-1], axis=1)

    def state(self, words: Ids) -> int:
        """The longest context that these words end with."""
        return int(_follow(words, self.searched))

    def is_sound(self) -> bool:
        """Whether the arrays lead nowhere outside: a damaged file must not crash a kernel."""
        levels, total, children = self.level_starts, self.word.size, self.first_child
        ends, words = self.words.ends, self.words.ends.size - 1
        return bool(
            levels.size >= 4
            and words >= 3
            and levels[0] == 0
            and levels[1] == 1
            and levels[2] == 1 + words
            and levels[-1] == total == self.suffix.size == self.log_probability.size
            and (np.diff(levels) >= 0).all()
            and children.size == self.contexts + 1 == self.log_backoff.size + 1
            and _ascends(children)
            and children[0] == 1
            and children[-1] == total
            and (children[:-1] > np.arange(self.contexts)).all()
            and self.word[1:].min() >= 0
            and self.word.max() < words
            and self.suffix.min() >= 0
            and (self.suffix[1:] < np.arange(1, total)).all()
            and self.ranked.size == words
            and self.ranked.min() >= 0
            and self.ranked.max() < words
            and _ascends(ends)
            and ends[0] == 0
            and ends[-1] == self.words.data.size
            and min(self.special) >= 0
            and self.words.are_in_order()
            and self._is_searchable()
            and self._is_a_model()
        )

    def _is_searchable(self) -> bool:
        """Whether halving finds what is there: the words after a context ascend, and the likeliest are known."""
        ascends = (np.diff(self.word[1:]) > 0) | (np.diff(self.parents[1:]) != 0)
        ranked = self.log_probability[1 + self.ranked]
        return bool(ascends.all() and _ascends(-ranked) and np.unique(self.ranked).size == self.ranked.size)

    def _is_a_model(self) -> bool:
        """Whether probabilities are such, and those after a context add up to one."""
        logs = self.log_probability
        return bool(
            np.isfinite(logs).all()
            and logs.max() <= 0
            and np.isfinite(self.log_backoff).all()
            and (np.abs(context_sums(self) - 1) <= TOLERANCE).all()
        )

    @property
    def start(self) -> int:
        """The context at the beginning of a sentence."""
        return 1 + self.special[0]

    def walk(self, stream: Ids) -> tuple[Floats, Ids, Ids]:
        """log10 p of everything in a stream of sentences, the order of the n-gram used, and the context before it.

        −1 ends a sentence: there </s> is predicted.
        """
        walked: tuple[Floats, Ids, Ids] = _walk(stream, self.start, self.special[1], self.searched)
        return walked

    def best(self, state: int, how_many: int, among: tuple[int, int] | None = None) -> tuple[Ids, Floats]:
        """The likeliest next words after a context, of a range of words; <s>, </s> and <unk> are none."""
        low, high = among or (0, len(self.words))
        words, scores = best(state, how_many, low, high, self.searched)
        found = int((words >= 0).sum())
        return words[:found], scores[:found]

    def best_after(self, states: Ids, how_many: int) -> Ids:
        """The likeliest next words after each of these contexts, a row each; −1 where there are no more."""
        found: Ids = _best_after(states, how_many, len(self.words), self.searched)
        return found


def context_sums(trie: Trie) -> Floats:
    """Σ_w p(w|h) over all words but <s>, for the root and every other context."""
    with np.errstate(over="ignore", invalid="ignore"):  # numbers of a file that may be damaged
        probability = 10 ** trie.log_probability.astype(np.float64)
        probability[1 + trie.special[0]] = 0.0
        longer = np.arange(1 + len(trie.words), probability.size)
        parents = trie.parents[longer]
        seen = np.bincount(parents, probability[longer], trie.contexts)
        below = np.bincount(parents, probability[trie.suffix[longer]], trie.contexts)
        sums: Floats = seen + 10 ** trie.log_backoff.astype(np.float64) * (1 - below)
        sums[0] = probability[1 : 1 + len(trie.words)].sum()
    return sums


def find_special(words: Words) -> tuple[int, int, int]:
    """The numbers of <s>, </s> and <unk>."""
    names = f"{START}{END}{UNKNOWN}".encode()
    ends = np.cumsum([0, len(START), len(END), len(UNKNOWN)])
    start, end, unknown = words.find(np.frombuffer(names, np.uint8), ends).tolist()
    return start, end, unknown


class Index:
    """Finds n-grams among sorted levels of them, and connects the levels into a trie."""

    def __init__(self, levels: list[Ids], words: int) -> None:
        self._words = words
        sizes = [1, words, *(len(rows) for rows in levels[1:])]
        self.level_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if self.level_starts[-1] > MOST_NODES:
            raise BayesgramError(f"{self.level_starts[-1]:,} n-grams: a model holds {MOST_NODES:,}; prune it.")
        self._keys: list[Integers] = [np.arange(words, dtype=np.int64)]
        self.parents = [np.zeros(words, np.int64)]
        for rows in levels[1:]:
            parents = self.find(rows[:, :-1])
            self.parents.append(parents)
            self._keys.append(parents * words + rows[:, -1])

    def find(self, rows: Ids) -> Integers:
        """The node of each n-gram of one order, −1 where there is none."""
        nodes: Integers = 1 + rows[:, 0].astype(np.int64)
        for level in range(1, rows.shape[1]):
            keys, wanted = self._keys[level], nodes * self._words + rows[:, level]
            places = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
            known = (keys[places] == wanted) & (nodes >= 0) if keys.size else np.zeros(len(rows), np.bool_)
            nodes = np.where(known, self.level_starts[level + 1] + places, -1)
        return nodes

    def links(self, rows: Ids) -> tuple[Integers, Integers]:
        """The contexts and the suffixes of all n-grams of one order, counted from the first of the order below."""
        first = self.level_starts[rows.shape[1] - 1]
        return self.parents[rows.shape[1] - 1] - first, self.find(rows[:, 1:]) - first


def connect(levels: list[Ids], words: Words, log_probabilities: list[Floats], log_backoffs: list[Floats]) -> Trie:
    """A trie of n-grams whose levels are sorted, without repeats, and hold every prefix and suffix.

    Level k − 1 holds the n-grams of order k as word numbers; the first is all the words in order. The last level
    has no back-offs.
    """
    index = Index(levels, len(words))
    parents = np.concatenate(index.parents)
    contexts = int(index.level_starts[-2])
    suffixes = [np.zeros(1 + len(words), np.int64), *(index.find(rows[:, 1:]) for rows in levels[1:])]
    probabilities = np.concatenate([[0.0], *log_probabilities]).astype(np.float32)
    ranked = np.argsort(-probabilities[1 : 1 + len(words)], kind="stable")
    trie = Trie(
        words,
        index.level_starts,
        np.concatenate([[-1], *(rows[:, -1] for rows in levels)]).astype(np.int32),
        (1 + np.searchsorted(parents, np.arange(contexts + 1))).astype(np.int32),
        np.concatenate(suffixes).astype(np.int32),
        probabilities,
        np.concatenate([[0.0], *log_backoffs]).astype(np.float32),
        ranked.astype(np.int32),
    )
    return frozen(trie)


def _ascends(array: Integers | Ids | Singles) -> bool:
    return bool((array[1:] >= array[:-1]).all())


def frozen(trie: Trie) -> Trie:
    """The same trie, read-only: kernels are compiled once, for arrays in memory and mapped ones alike."""
    arrays = (trie.word, trie.first_child, trie.suffix, trie.log_probability, trie.log_backoff, trie.ranked)
    for array in (*arrays, trie.words.data, trie.words.ends):
        array.setflags(write=False)
    return trie


@kernel
def _compare(data: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int) -> int:
    """Byte order: −1, 0 or 1."""
    for at in range(min(end - start, other_end - other_start)):
        if data[start + at] != other[other_start + at]:
            return -1 if data[start + at] < other[other_start + at] else 1
    if end - start == other_end - other_start:
        return 0
    return -1 if end - start < other_end - other_start else 1


@kernel
def _find_words(data: Bytes, ends: Integers, known: Bytes, known_ends: Integers) -> Ids:
    numbers = np.empty(ends.size - 1, np.int32)
    for row in range(numbers.size):
        low, high = 0, known_ends.size - 1
        numbers[row] = -1
        while low < high:
            middle = (low + high) // 2
            order = _compare(data, ends[row], ends[row + 1], known, known_ends[middle], known_ends[middle + 1])
            if order == 0:
                numbers[row] = middle
                break
            if order < 0:
                high = middle
            else:
                low = middle + 1
    return numbers


@kernel
def prefix_range(
    prefix: Bytes, start: int, end: int, known: Bytes, known_ends: Integers, low: int, high: int
) -> tuple[int, int]:
    """The words in [low, high) that begin with prefix[start:end]."""
    found_low, found_high = low, high
    for side in range(2):
        first, last = low, high
        while first < last:
            middle = (first + last) // 2
            cut = min(known_ends[middle + 1], known_ends[middle] + end - start)
            order = _compare(known, known_ends[middle], cut, prefix, start, end)
            if order < 0 or (order == 0 and side == 1):
                first = middle + 1
            else:
                last = middle
        if side == 0:
            found_low = first
        else:
            found_high = first
    return found_low, found_high


@kernel
def _place(word: Ids, first: int, last: int, wanted: int) -> int:
    """Where a word stands among sorted ones, or would."""
    while first < last:
        middle = (first + last) // 2
        if word[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _child(node: int, wanted: int, trie: Searched) -> int:
    """The n-gram that a word makes with a context, or −1."""
    if node == 0:
        return 1 + wanted
    last = trie.first_child[node + 1]
    place = _place(trie.word, trie.first_child[node], last, wanted)
    return place if place < last and trie.word[place] == wanted else -1


@kernel
def _follow(words: Ids, trie: Searched) -> int:
    node = 0
    for at in range(words.size):
        found = _child(node, words[at], trie)
        while found < 0:
            node = trie.suffix[node]
            found = _child(node, words[at], trie)
        node = trie.suffix[found] if found >= trie.contexts else found
    return node


@kernel
def _walk(stream: Ids, start: int, end_word: int, trie: Searched) -> tuple[Floats, Ids, Ids]:
    scores = np.empty(stream.size, np.float64)
    orders = np.empty(stream.size, np.int32)
    states = np.empty(stream.size, np.int32)
    node, depth = start, 1
    for at in range(stream.size):
        wanted = end_word if stream[at] == SENTENCE_END else stream[at]
        states[at] = node
        total = np.float64(0)  # as a Python number it would take the precision of what is added
        found = _child(node, wanted, trie)
        while found < 0:
            total += trie.log_backoff[node]
            node = trie.suffix[node]
            depth -= 1
            found = _child(node, wanted, trie)
        scores[at] = total + trie.log_probability[found]
        orders[at] = depth + 1
        if stream[at] == SENTENCE_END:
            node, depth = start, 1
        elif found >= trie.contexts:
            node = trie.suffix[found]
        else:
            node, depth = found, depth + 1
    return scores, orders, states


@kernel
def _is_seen(state: int, node: int, wanted: int, trie: Searched) -> bool:
    """Whether a longer context than `node` has the word."""
    while state != node:
        if _child(state, wanted, trie) >= 0:
            return True
        state = trie.suffix[state]
    return False


@kernel
def _offer(wanted: int, score: float, state: int, node: int, trie: Searched, words: Ids, scores: Floats) -> None:
    """Keep a word that is as good as the last one: in order, and of equal ones the first in byte order.

    What a longer context has was offered there.
    """
    at = scores.size - 1
    if score == scores[at] and wanted > words[at] >= 0:
        return
    if wanted in (trie.special[0], trie.special[1], trie.special[2]) or _is_seen(state, node, wanted, trie):
        return
    while at > 0 and (score > scores[at - 1] or (score == scores[at - 1] and wanted < words[at - 1])):
        scores[at], words[at] = scores[at - 1], words[at - 1]
        at -= 1
    scores[at], words[at] = score, wanted


@kernel
def _offer_words(state: int, low: int, high: int, backoff: float, trie: Searched, words: Ids, scores: Floats) -> None:
    """Offer single words: all of a small range, else the likeliest until none can be among the best."""
    if high - low <= _FEW:
        for wanted in range(low, high):
            score = backoff + trie.log_probability[1 + wanted]
            if score >= scores[scores.size - 1]:
                _offer(wanted, score, state, 0, trie, words, scores)
        return
    for wanted in trie.ranked:
        score = backoff + trie.log_probability[1 + wanted]
        if score < scores[scores.size - 1]:
            return
        if low <= wanted < high:
            _offer(wanted, score, state, 0, trie, words, scores)


@kernel
def best(state: int, how_many: int, low: int, high: int, trie: Searched) -> tuple[Ids, Floats]:
    """The likeliest words of a range after a context, and their log10 p; −1 where there are no more."""
    words = np.full(how_many, -1, np.int32)
    scores = np.full(how_many, -np.inf)
    node, backoff = state, np.float64(0)
    while node != 0:
        last = trie.first_child[node + 1]
        for child in range(_place(trie.word, trie.first_child[node], last, low), last):
            if trie.word[child] >= high:
                break
            score = backoff + trie.log_probability[child]
            if score >= scores[how_many - 1]:
                _offer(trie.word[child], score, state, node, trie, words, scores)
        backoff += trie.log_backoff[node]
        node = trie.suffix[node]
    _offer_words(state, low, high, backoff, trie, words, scores)
    return words, scores


@kernel
def _best_after(states: Ids, how_many: int, size: int, trie: Searched) -> Ids:
    found = np.empty((states.size, how_many), np.int32)
    for at in range(states.size):
        found[at] = best(states[at], how_many, 0, size, trie)[0]
    return found
