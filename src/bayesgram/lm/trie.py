"""A back-off model: the words, and a trie of n-grams that is searched, scored and asked for the best.

Node 0 is the root, nodes 1 to V are the words in byte order, then come the n-grams of order 2, 3, ... The children of a
node (its context and one word more) stand together, sorted by word; `suffix` leads from an n-gram to the same one
without its first word, which is where back-off goes. What is kept, in memory and on disk, is `packed`; the arrays that
whoever computes with a model wants (`word`, `log_probability`, `suffix`, ...) are made when they are asked for.
Does not know where the probabilities come from: see `estimate`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesgram.arrays import Bytes, Floats, Ids, Integers, Singles
from bayesgram.errors import BayesgramError
from bayesgram.lm import packed, search
from bayesgram.lm.packed import EXACT, Codes, Layout, Level, Packed, Words, as_codes
from bayesgram.text.ngrams import END, START

UNKNOWN = "<unk>"
TOLERANCE = 1e-4  # of a context's sum: seven digits, as other tools write them, stay well below
NEVER = -99.0  # log10 of what is given, never predicted: <s>
MOST_NODES = 2**31 - 2
LIKELIEST = 64  # children of a large context whose rank is kept
RANKED = 4096  # words whose rank is kept: more than are ever looked through, but for odd models


@dataclass(frozen=True, eq=False)
class Trie:
    """All n-grams of a model, order by order; see the module."""

    words: Words
    layout: Layout
    records: Bytes
    bases: Codes
    codebooks: Singles

    def __post_init__(self) -> None:
        for array in (self.records, self.bases, self.codebooks, self.words.data, self.words.ends):
            array.setflags(
                write=False
            )  # kernels are compiled once, for arrays in memory and mapped ones alike

    def __reduce__(self) -> tuple[type["Trie"], tuple[Any, ...]]:
        """What travels to another process: no more than it is made of, and made there as it is here."""
        return Trie, (self.words, self.layout, self.records, self.bases, self.codebooks)

    @cached_property
    def searched(self) -> Packed:
        """What kernels search."""
        found = Packed(
            self.level_starts,
            self.layout.rows(),
            self.records,
            self.bases,
            self.codebooks,
            np.array(self.special, np.int32),
            self.ranked,
            np.zeros(0, np.int32),
            np.zeros((0, LIKELIEST), np.int32),
        )
        return _read_only(found)

    @cached_property
    def suggested(self) -> Packed:
        """The same with the likeliest words after contexts that have many: found once, some bytes a context."""
        rows = self.layout.rows()
        rows.setflags(write=False)
        large, likeliest = [], [np.zeros((0, LIKELIEST), np.int32)]
        for order, place, first, last in search.large_contexts(self.searched).tolist():
            values = packed.unpack_values(
                rows[order + 1], first, last, self.records, self.codebooks
            )
            large.append(int(self.level_starts[order]) + place)
            likeliest.append(first + _likeliest(values, LIKELIEST)[None])
        found = self.searched._replace(
            large=np.array(large, np.int32), likeliest=np.concatenate(likeliest)
        )
        return _read_only(found)

    @property
    def order(self) -> int:
        """The number of words in the longest n-grams."""
        return self.layout.order

    @property
    def contexts(self) -> int:
        """How many nodes are shorter than the longest n-grams."""
        return int(self.level_starts[-2])

    @cached_property
    def level_starts(self) -> Integers:
        """Nodes of order k: level_starts[k] to level_starts[k + 1]; order 0 is the root."""
        return self.layout.level_starts

    def nodes(self, order: int) -> slice:
        """The nodes of one order."""
        return slice(int(self.level_starts[order]), int(self.level_starts[order + 1]))

    @cached_property
    def special(self) -> tuple[int, int, int]:
        """The numbers of <s>, </s> and <unk>."""
        return find_special(self.words)

    @property
    def start(self) -> int:
        """The context at the beginning of a sentence."""
        return 1 + self.special[0]

    @cached_property
    def word(self) -> Ids:
        """The last word of each n-gram; −1 for the root."""
        longer = [packed.unpack_words(row, size, self.records) for row, size in self._levels()[1:]]
        return np.concatenate([np.arange(-1, len(self.words), dtype=np.int32), *longer])

    @cached_property
    def log_probability(self) -> Singles:
        """log10 p(last word | the words before); 0 for the root."""
        levels = [
            packed.unpack_values(row, 0, size, self.records, self.codebooks)
            for row, size in self._levels()
        ]
        return np.concatenate([np.zeros(1, np.float32), *levels])

    @cached_property
    def log_backoff(self) -> Singles:
        """log10 of the factor on the lower order, of each node that may be a context."""
        levels = [
            packed.unpack_backoffs(row, size, self.records, self.codebooks)
            for row, size in self._levels()[:-1]
        ]
        return np.concatenate([np.zeros(1, np.float32), *levels])

    @cached_property
    def first_child(self) -> Ids:
        """Of each node that may be a context, and where the last one's children end."""
        levels = [
            packed.unpack_children(row, size, self.records, self.bases)
            for row, size in self._levels()[:-1]
        ]
        firsts = [
            level[:-1] + start for level, start in zip(levels, self.level_starts[2:-1], strict=True)
        ]
        return np.concatenate([[1], *firsts, self.level_starts[-1:]]).astype(np.int32)

    @cached_property
    def suffix(self) -> Ids:
        """The n-gram without its first word; the root for single words."""
        found: Ids = search.suffixes(self.searched)
        return found

    @cached_property
    def parents(self) -> Ids:
        """The context of every n-gram; the root is its own."""
        sizes = np.diff(self.first_child)
        return np.concatenate(
            [np.zeros(1, np.int32), np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)]
        )

    @cached_property
    def ranked(self) -> Ids:
        """The likeliest words, best first, of equal ones the first in byte order: some thousand of them."""
        row, size = self._levels()[0]
        return _likeliest(packed.unpack_values(row, 0, size, self.records, self.codebooks), RANKED)

    def _levels(self) -> list[tuple[Integers, int]]:
        """How the n-grams of each order are laid out, and how many there are."""
        rows = self.layout.rows()
        rows.setflags(write=False)
        return list(zip(rows[1:], self.layout.sizes, strict=True))

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
        return int(search.follow(words, self.searched))

    def walk(self, stream: Ids) -> tuple[Floats, Ids, Ids]:
        """log10 p of everything in a stream of sentences, the order of the n-gram used, and the context before it.

        −1 ends a sentence: there </s> is predicted.
        """
        walked: tuple[Floats, Ids, Ids] = search.walk(stream, self.searched)
        return walked

    def best(
        self, state: int, how_many: int, among: tuple[int, int] | None = None
    ) -> tuple[Ids, Floats]:
        """The likeliest next words after a context, of a range of words; <s>, </s> and <unk> are none."""
        low, high = among or (0, len(self.words))
        words, scores = search.best(state, how_many, low, high, self.suggested)
        found = int((words >= 0).sum())
        return words[:found], scores[:found]


def _read_only(arrays: Packed) -> Packed:
    for array in arrays:
        array.setflags(write=False)
    return arrays


def _likeliest(logs: Singles, most: int) -> Ids:
    """Where the greatest stand, the greatest first, of equal ones the first."""
    enough = (
        np.flatnonzero(logs >= np.partition(logs, -most)[-most])
        if logs.size > most
        else np.arange(logs.size)
    )
    return enough[np.argsort(-logs[enough], kind="stable")][:most].astype(np.int32)


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
    start, end, unknown = (words.number(name.encode()) for name in (START, END, UNKNOWN))
    return start, end, unknown


class Index:
    """Finds n-grams among sorted levels of them, and connects the levels into a trie."""

    def __init__(self, levels: list[Ids], words: int) -> None:
        self._words = words
        sizes = [1, words, *(len(rows) for rows in levels[1:])]
        self.level_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if self.level_starts[-1] > MOST_NODES:
            raise BayesgramError(
                f"{self.level_starts[-1]:,} n-grams: a model holds {MOST_NODES:,}; prune it."
            )
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
            known = (
                (keys[places] == wanted) & (nodes >= 0)
                if keys.size
                else np.zeros(len(rows), np.bool_)
            )
            nodes = np.where(known, self.level_starts[level + 1] + places, -1)
        return nodes

    def links(self, rows: Ids) -> tuple[Integers, Integers]:
        """The contexts and the suffixes of all n-grams of one order, counted from the first of the order below."""
        first = self.level_starts[rows.shape[1] - 1]
        return self.parents[rows.shape[1] - 1] - first, self.find(rows[:, 1:]) - first


def connect(
    levels: list[Ids], words: Words, log_probabilities: list[Floats], log_backoffs: list[Floats]
) -> Trie:
    """A trie of n-grams whose levels are sorted, without repeats, and hold every prefix and suffix.

    Level k − 1 holds the n-grams of order k as word numbers; the first is all the words in order. The last level
    has no back-offs.
    """
    index = Index(levels, len(words))
    made = []
    for at, rows in enumerate(levels):
        longest = at == len(levels) - 1
        children = np.zeros(0, np.int64) if longest else _children(index, at + 1, len(rows))
        backoffs = np.zeros(0) if longest else log_backoffs[at]
        made.append(
            Level(
                _column(rows[:, -1]), _singles(log_probabilities[at]), _singles(backoffs), children
            )
        )
    return from_levels(words, made, np.zeros(0, np.float32), (EXACT, EXACT))


def from_levels(
    words: Words, levels: list[Level], codebooks: Singles, bits: tuple[int, int]
) -> Trie:
    """A trie of what is to be packed; `bits` are those of probabilities and back-off weights."""
    children = tuple(packed.child_bits(level.first_child) for level in levels[:-1])
    layout = Layout(tuple(level.word.size for level in levels), *bits, children)
    return Trie(
        Words.narrow(words.data, words.ends),
        layout,
        *packed.packed_arrays(layout, levels),
        codebooks,
    )


def from_nodes(
    words: Words,
    level_starts: Integers,
    word: Ids,
    first_child: Ids,
    log_probability: Singles,
    log_backoff: Singles,
) -> Trie:
    """A trie of what all nodes have, the root first: arrays like those that a `Trie` makes when asked."""
    starts, children = level_starts.tolist(), first_child.astype(np.int64)
    levels = []
    for order in range(1, len(starts) - 1):
        first, last = starts[order : order + 2]
        below = order < len(starts) - 2
        levels.append(
            Level(
                word[first:last],
                as_codes(log_probability[first:last]),
                as_codes(log_backoff[first:last] if below else np.zeros(0, np.float32)),
                children[first : last + 1] - last if below else np.zeros(0, np.int64),
            )
        )
    return from_levels(words, levels, np.zeros(0, np.float32), (EXACT, EXACT))


def _children(index: Index, level: int, size: int) -> Integers:
    """Where the children of each n-gram begin among the next order, and where the last ones end."""
    parents = index.parents[level] - index.level_starts[level]
    return np.searchsorted(parents, np.arange(size + 1)).astype(np.int64)


def _column(words: Ids) -> Ids:
    return np.ascontiguousarray(words, np.int32)


def _singles(values: Floats) -> Codes:
    return as_codes(values.astype(np.float32))
